package site
import ("testing";"encoding/json";"time";"fmt")
func TestZZ(t *testing.T){
 r,err:=ParseRules(Settings{LogFormat:"auto",Assets:Assets},time.Now()); if err!=nil{t.Fatal(err)}
 s:=time.Now()
 rep,err:=r.Count(t.Context(),[]string{"/tmp/acc.log"},Options{Now:20800,ByDay:true}); if err!=nil{t.Fatal(err)}
 el:=time.Since(s)
 rep.Pages=rep.Pages[:3]; rep.Days=rep.Days[:3]
 b,_:=json.MarshalIndent(rep,""," "); fmt.Println(string(b), el)
}
