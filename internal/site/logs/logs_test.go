package logs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// words are the parts of a line as text.
type words struct {
	Time                                                                              string
	Client, Peer, Forwarded, Host, Method, Target, UserAgent, Accept, Kind, Reader, E string
	Status                                                                            int
	// Rest is the referrer, bytes and mode; a dash for none. A test that has it empty does not ask for it.
	Rest string
}

func wordsOf(l Line) words {
	w := words{
		time.Unix(l.Time, 0).UTC().Format(time.DateTime), string(l.Client), string(l.Peer),
		string(l.Forwarded), string(l.Host),
		string(l.Method), string(l.Target), string(l.UserAgent), string(l.Accept), string(l.Kind), string(l.Reader),
		string(l.Event), l.Status, string(l.Referrer),
	}
	if l.HasBytes {
		w.Rest += fmt.Sprint(" ", l.Bytes)
	}
	if len(l.FetchMode) > 0 {
		w.Rest += " " + string(l.FetchMode)
	}
	if l.Shown {
		w.Rest += " shown"
	}
	w.Rest = or(w.Rest)
	return w
}

const cloudFrontHead = "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) " +
	"cs-uri-stem " +
	"sc-status cs(Referer) cs(User-Agent) cs-uri-query x-host-header x-forwarded-for\n"

// TestFormats: what each format says, found out from the line itself unless it is named.
func TestFormats(t *testing.T) {
	const when = "2026-10-10 13:55:36"
	for _, test := range []struct {
		format, head, line string
		want               words
	}{
		{"auto", "", `192.0.2.1 - frank [10/Oct/2026:13:55:36 +0000] "GET /a?b=c HTTP/1.1" 200 2326 "-" ` +
			`"Mozilla/5.0 (X)"`,
			words{Time: when, Client: "192.0.2.1", Method: "GET", Target: "/a?b=c",
				UserAgent: "Mozilla/5.0 (X)", Status: 200}},
		{"combined", "", `2001:db8::1 - - [10/Oct/2026:15:55:36 +0200] "GET / HTTP/2.0" 304 - "-" "-" 0.001 "extra"`,
			words{Time: when, Client: "2001:db8::1", Method: "GET", Target: "/", Status: 304}},
		{"auto", "", `10.0.0.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "a \x22b\x22 \\" ` +
			`"192.0.2.9, 10.0.0.2"`,
			words{Time: when, Client: "10.0.0.1", Forwarded: "192.0.2.9, 10.0.0.2", Method: "GET", Target: "/",
				UserAgent: `a "b" \`, Status: 200}},
		{"auto", "", `192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET /old" 200 1`,
			words{Time: when, Client: "192.0.2.1", Method: "GET", Target: "/old", Status: 200}},
		{"auto", "", `192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "\x16\x03\x01" 400 0 "-" "-"`,
			words{Time: when, Client: "192.0.2.1", Method: "\x16\x03\x01", Status: 400}},
		{"auto", "", `docs.example.com:443 192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "x"`,
			words{Time: when, Client: "192.0.2.1", Host: "docs.example.com", Method: "GET", Target: "/", UserAgent: "x",
				Status: 200}},
		{`nginx:[$time_iso8601] $host $remote_addr "$request_method $request_uri" $status "$http_user_agent" ` +
			`"$http_accept"`, "",
			`[2026-10-10T13:55:36+00:00] h 192.0.2.1 "GET /a" 200 "x" "text/markdown, */*"`,
			words{Time: when, Host: "h", Client: "192.0.2.1", Method: "GET", Target: "/a", UserAgent: "x",
				Accept: "text/markdown, */*", Status: 200}},
		{"auto", "", `{"level":"info","ts":1791640536.123,"logger":"http.log.access","request":{"remote_ip":"192.0.2.1",` +
			`"proto":"HTTP/2.0","method":"GET","host":"h","uri":"/a\u0026b","headers":{"User-Agent":["x \"y\"","z"],` +
			`"Accept":["text/markdown"],"X-Forwarded-For":["192.0.2.7"]}},"status":200,"resp_headers":{"Server":["Caddy"]}}`,
			words{Time: when, Peer: "192.0.2.1", Forwarded: "192.0.2.7", Host: "h", Method: "GET", Target: "/a&b",
				UserAgent: `x "y"`, Accept: "text/markdown", Status: 200}},
		{"json", "", `{"ClientHost":"192.0.2.1","RequestMethod":"GET","RequestPath":"/a","RequestHost":"h",` +
			`"DownstreamStatus":200,"time":"2026-10-10T13:55:36Z","request_User-Agent":"x"}`,
			words{Time: when, Client: "192.0.2.1", Host: "h", Method: "GET", Target: "/a", UserAgent: "x",
				Status: 200}},
		{"auto", "", `{"ClientIP":"192.0.2.1","ClientRequestMethod":"GET","ClientRequestURI":"/a","ClientRequestHost":"h",` +
			`"EdgeResponseStatus":200,"EdgeStartTimestamp":1791640536000000000,"ClientRequestUserAgent":"x",` +
			`"RequestHeaders":{"accept":"text/html"}}`,
			words{Time: when, Client: "192.0.2.1", Host: "h", Method: "GET", Target: "/a", UserAgent: "x",
				Accept: "text/html", Status: 200}},
		{"auto", "", `{"time_local":"10/Oct/2026:13:55:36 +0000","remote_addr":"192.0.2.1","request":"GET /a HTTP/1.1",` +
			`"status":"200","http_user_agent":"x"}`,
			words{Time: when, Client: "192.0.2.1", Method: "GET", Target: "/a", UserAgent: "x", Status: 200}},
		{"json:time=t,client=c.ip,path=p", "", `{"t":"2026-10-10T13:55:36Z","c":{"ip":"192.0.2.1"},"p":"/a"}`,
			words{Time: when, Client: "192.0.2.1", Method: "GET", Target: "/a", Status: 200}},
		{"auto", cloudFrontHead, "2026-10-10\t13:55:36\tFRA56\t100\t192.0.2.1\tGET\td.cloudfront.net\t/a\t200\t-\t" +
			"Mozilla/5.0%20(X)\t-\th\t-",
			words{Time: when, Client: "192.0.2.1", Host: "h", Method: "GET", Target: "/a", UserAgent: "Mozilla/5.0 (X)",
				Status: 200}},
		// CloudFront encodes the path as it came, and in some years the user agent twice.
		{"auto", cloudFrontHead, "2026-10-10\t13:55:36\tFRA56\t100\t192.0.2.1\tGET\td.cloudfront.net\t" +
			"/caf%25C3%25A9/100%2525/%2F\t200\t-\tMozilla/5.0%2520(X;%2520+https://openai.com/bot%2529\t-\th\t-",
			words{Time: when, Client: "192.0.2.1", Host: "h", Method: "GET", Target: "/caf%C3%A9/100%25/%2F",
				UserAgent: "Mozilla/5.0 (X; +https://openai.com/bot)", Status: 200}},
		{"auto", cloudFrontHead, "2026-10-10\t13:55:36\tFRA56\t100\t192.0.2.1\tGET\td.cloudfront.net\t/a\t200\t-\t" +
			"My%2520App/1%20CFNetwork\t-\th\t-",
			words{Time: when, Client: "192.0.2.1", Host: "h", Method: "GET", Target: "/a", UserAgent: "My%20App/1 CFNetwork",
				Status: 200}},
		{"auto", strings.Replace(cloudFrontHead, "x-edge-location", "s-ip", 1), "2026-10-10\t13:55:36\t10.0.0.1\t100\t" +
			"192.0.2.1\tGET\td\t/100%25\t200\t-\tMy%2520App\t-\th\t-",
			words{Time: when, Client: "192.0.2.1", Host: "h", Method: "GET", Target: "/100%25", UserAgent: "My%20App",
				Status: 200}},
		{"mintlify", "", `{"event_id":"1","subdomain":"acme","created_at":"2026-10-10T13:55:36.000Z",` +
			`"event":"docs.content.md.view","path":"/a","user_agent":"x","ip":"192.0.2.1"}`,
			words{Time: when, Client: "192.0.2.1", Host: "acme", Method: "GET", Target: "/a", UserAgent: "x",
				E: "docs.content.md.view", Status: 200}},
		{"auto", "", `{"timestamp":"2026-10-10T13:55:36Z","client_ip":"192.0.2.1","request_method":"GET","url":"/a",` +
			`"response_status":200,"fastly_is_edge":"true"}`,
			words{Time: when, Client: "192.0.2.1", Method: "GET", Target: "/a", Status: 200}},
		{"auto", "", `{"time":"2026-10-10T13:55:36Z","properties":{"httpMethod":"GET","requestUri":"/a","httpStatusCode":"200",` +
			`"socketIp":"192.0.2.1","isReceivedFromClient":"True"}}`,
			words{Time: when, Client: "192.0.2.1", Method: "GET", Target: "/a", Status: 200}},
		{"auto", "", `{"time":"2026-10-10T13:55:36Z","visitor":"v1","kind":"ai","path":"/a"}`,
			words{Time: when, Method: "GET", Target: "/a", Kind: "ai", Reader: "v1", Status: 200}},
		{"auto", "", `{"time":"2026-10-10T13:55:36Z","visitor":"v1","kind":"human","path":"/a","evidence":true,"bytes":0,` +
			`"referrer":"https://chatgpt.com/"}`,
			words{Time: when, Method: "GET", Target: "/a", Kind: "human", Reader: "v1", Status: 200,
				Rest: "https://chatgpt.com/ 0 shown"}},
		// Sizes that are none, and what a map of headers and another format say of them.
		{"auto", "", `192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 0.005 "https://x/\"b" "x"`,
			words{Time: when, Client: "192.0.2.1", Method: "GET", Target: "/a", UserAgent: "x", Status: 200,
				Rest: `https://x/"b`}},
		{`nginx:$remote_addr [$time_local] "$request" $status $bytes_sent $body_bytes_sent "$http_sec_fetch_mode"`, "",
			`192.0.2.1 [10/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 1300 1000 "navigate"`,
			words{Time: when, Client: "192.0.2.1", Method: "GET", Target: "/a", Status: 200, Rest: " 1300 navigate"}},
		{"json:time=t,client=c,path=p,referrer=r,mode=m,bytes=b", "", `{"t":"2026-10-10T13:55:36Z","c":"192.0.2.1","p":"/a",` +
			`"r":"https://x/","m":"navigate","b":1.5e3}`,
			words{Time: when, Client: "192.0.2.1", Method: "GET", Target: "/a", Status: 200, Rest: "https://x/ navigate"}},
		// A time that cannot be read, beside one that can.
		{"auto", "", `{"log":"{\"time\":\"Sat, 10 Oct 2026\",\"remote_addr\":\"192.0.2.1\",\"request\":\"GET /a HTTP/1.1\",` +
			`\"status\":200,\"http_user_agent\":\"x\"}\n","stream":"stdout","time":"2026-10-10T13:55:36Z"}`,
			words{Time: when, Client: "192.0.2.1", Method: "GET", Target: "/a", UserAgent: "x", Status: 200}},
		{"auto", "", `{"time_local":"2026-10-10 13:55:36 CEST","remote_addr":"192.0.2.1","request":"GET /a HTTP/1.1",` +
			`"msec":1791640536.5,"status":200,"http_user_agent":"x"}`,
			words{Time: when, Client: "192.0.2.1", Method: "GET", Target: "/a", UserAgent: "x", Status: 200}},
		{"auto", "", `{"ts":1791640536,"request":{"remote_ip":"192.0.2.1","method":"GET","uri":"/a","headers":{` +
			`"Content-Length":["7"]}},"status":200,"size":99999999999999999999}`,
			words{Time: when, Peer: "192.0.2.1", Method: "GET", Target: "/a", Status: 200, Rest: "-"}},
	} {
		f, err := ParseFormat(test.format)
		if err != nil {
			t.Fatal(err)
		}
		p := f.Parser()
		var l Line
		for line := range strings.Lines(test.head) {
			if ok, err := p.Parse([]byte(strings.TrimSpace(line)), &l); ok || err != nil {
				t.Errorf("%s: %t, %v", line, ok, err)
			}
		}
		if ok, err := p.Parse([]byte(test.line), &l); err != nil || !ok {
			t.Errorf("%s: %t, %v", test.line, ok, err)
		}
		got := wordsOf(l)
		if test.want.Rest == "" {
			got.Rest = ""
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s:\n%s", test.line, diff)
		}
	}
}

// TestPasted: nginx's directive is read as it is in its configuration.
func TestPasted(t *testing.T) {
	const format = `$remote_addr [$time_local] "$request" $status`
	for _, text := range []string{format, " " + format + "\n", `'` + format + `'`, `'$remote_addr [$time_local] '` +
		"\r\n\t\t" + `'"$request" $status';`, `log_format docs '` + format + `';`,
		`log_format  docs escape=json '` + format + `'`, `escape=none "$remote_addr [$time_local] \"$request\" $status"`} {
		if got := pasted(text); got != format {
			t.Errorf("%q is %q", text, got)
		}
	}
	if f, err := ParseFormat(`nginx:"$msec" "$remote_addr" "$request" "$status"`); err != nil ||
		string(f.pattern.begin) != `"` {
		t.Errorf("quotes of the format itself: %v", err)
	}
	for _, text := range []string{`"$request" $status "$http_user_agent"`, `'$request' $remote_addr '$status'`} {
		if got := pasted(text); got != text {
			t.Errorf("%q is %q", text, got)
		}
	}
}

// TestNoRequests: what no client has asked for is left out, and no line in the log.
func TestNoRequests(t *testing.T) {
	for line, want := range map[string]error{
		`{"ClientIP":"192.0.2.1","ClientRequestMethod":"GET","ClientRequestURI":"/a","EdgeResponseStatus":200,` +
			`"EdgeStartTimestamp":1791640536000000000,"ClientRequestSource":"edgeWorkerFetch"}`: nil,
		`{"timestamp":"2026-10-10T12:00:00+0000","client_ip":"192.0.2.1","request_method":"GET","url":"/a",` +
			`"response_status":200,"fastly_is_edge":false}`: nil,
		`{"time":"2026-10-10T12:00:00Z","properties":{"httpMethod":"GET","requestUri":"https://h/a","httpStatusCode":"200",` +
			`"socketIp":"192.0.2.1","isReceivedFromClient":false}}`: nil,
		"_PID=77":    nil,
		"# a remark": nil,
		`{"level":"info","ts":1791640536.5,"msg":"serving initial configuration"}`:        errRequest,
		`{"time":"2026-10-10T12:00:00Z","visitor":"v","path":"/a"}`:                       errRequest,
		`2026-10-10T12:00:00Z stdout P 192.0.2.1 - - [10/Oct/2026:12:00:00 +0000] "GET /`: nil,
		strings.Repeat("a | ", 9) + "b":                                                   errForm,
	} {
		if ok, err := (Format{}).Parser().Parse([]byte(line), new(Line)); ok || !errors.Is(err, want) {
			t.Errorf("%s: %t, %v, want %v", line, ok, err, want)
		}
	}
	f, err := ParseFormat("json:time=t,client=c,path=absent")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Parser().Parse([]byte(`{"t":1791640536,"c":"192.0.2.1"}`), new(Line)); !errors.Is(err, errRequest) {
		t.Errorf("a line without a path: %v", err)
	}
}

// TestWrongLines: what does not follow the format is an error that names the part.
func TestWrongLines(t *testing.T) {
	for line, want := range map[string]error{
		`192.0.2.1 - - [32/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "x"`:  errTime,
		`192.0.2.1 - - [10/Okt/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "x"`:  errTime,
		`192.0.2.1 - - [10/anF/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "x"`:  errTime,
		`192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 20 1 "-" "x"`:   errStatus,
		`192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" -20 1 "-" "x"`:  errStatus,
		`192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "x`:   errForm,
		`192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "x"y`: errForm,
		`192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1\" 200 1 "-" "x"`: errForm,
		"":     errForm,
		"\x00": errForm,
	} {
		if _, err := (Format{}).Parser().Parse([]byte(line), new(Line)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", line, err, want)
		}
	}
	p := (Format{}).Parser()
	p.SetFields(strings.TrimSpace(strings.SplitAfter(cloudFrontHead, "\n")[1]))
	for line, want := range map[string]error{"2026-1x-10\tb": errTime, "2026-10-10\t13:55:36\tFRA\t1": errColumns} {
		if _, err := p.Parse([]byte(line), new(Line)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", line, err, want)
		}
	}
}

// TestWrongFormats: a format that cannot work is said before anything is read.
func TestWrongFormats(t *testing.T) {
	for format, want := range map[string]string{
		"apache":                                   "want auto, combined",
		"haproxy:Berlin":                           "want a time zone",
		"nginx:plain text":                         "want nginx's log_format",
		"nginx:$remote_addr$status":                "$remote_addr: a value follows at once",
		"nginx:$remote_addr $request $status":      "no time",
		"nginx:$remote_addr $msec $status":         "no path",
		"nginx:$msec $request $status":             "no client",
		"nginx:$msec $request $remote_addr":        "no status",
		"json:time=t,client=c":                     "no key for path",
		"json:time=t,client=c,path=p,colour=green": "want name=key",
		"json:time=t,client=c,path=p,peer=x":       "want name=key",
	} {
		if _, err := ParseFormat(format); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want …%s…", format, err, want)
		}
	}
	for _, format := range []string{"auto", "combined", "json", "w3c", "cloudfront", "alb", "elb", "s3", "haproxy",
		"haproxy:Europe/Berlin", "envoy", "bunny", "mintlify", "events"} {
		if _, err := ParseFormat(format); err != nil {
			t.Errorf("%s: %v", format, err)
		}
	}
}

// caddyLine is a line of Caddy's as encoding/json reads it.
func caddyLine(line []byte) (w words, ok bool) {
	var l struct {
		TS      json.RawMessage `json:"ts"`
		Status  json.RawMessage `json:"status"`
		Request json.RawMessage `json:"request"`
	}
	// Maps, because a struct would take "TS" for "ts".
	top, request := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if json.Unmarshal(line, &top) != nil {
		return w, false
	}
	l.TS, l.Status, l.Request = top["ts"], top["status"], top["request"]
	text := func(raw json.RawMessage) (s string) {
		_ = json.Unmarshal(raw, &s)
		return s
	}
	_ = json.Unmarshal(l.Request, &request)
	w.Client, w.Method, w.Target = text(request["remote_ip"]), text(request["method"]), text(request["uri"])
	w.Status, _ = strconv.Atoi(string(l.Status))
	if seconds, err := strconv.ParseFloat(string(l.TS), 64); err == nil && seconds < math.MaxInt32 {
		w.Time = time.Unix(int64(seconds), 0).UTC().Format(time.DateTime)
	}
	return w, true
}

// FuzzJSON: the scanner accepts no line that encoding/json does not, and reads the same in those
// that both accept.
func FuzzJSON(f *testing.F) {
	for _, line := range []string{
		`{"ts":1791640536.5,"status":200,"request":{"remote_ip":"192.0.2.1","method":"GET","uri":"/a"}}`,
		`{"ts":1,"status":200,"request":{"uri":"/\u00e9\ud83d\ude00\ud800\n","x":[1,-0.5e+3,true,false,null,{"a":[]}]}} `,
		`{"ts":1,"status":200,"request":{"uri":"/\u00e9\u004A\u00aF\ud83d\ude00\ud83d\u0041\ud83d\ue000\ud83d\n"}}`,
		`{"ts":1,"status":200,"request":{"uri":"/a","uri":"/b"},"request":{"uri":"/c"}}`,
		`{"ts":1,"ts":2,"status":200,"request":{}}`, `{}`, `{"ts":01}`, `{"ts":1,}`, `{"ts":1}{}`,
		"{\"ts\":1,\"a\":\"\t\"}",
		`{"ts":1,"a":1,"b":[{"c":[1]}],"request":{"d":true,"uri":"/a","method":"GET"}}`,
		`{"ts":1,"a":12,"b":[{"c":[1]}],"request":{"d":true,"uri":"/b","remote_ip":"192.0.2.1"}}`,
		`{"ts":1,"request":{"uri":"/a","method":"GET"}}`, `{"ts":1,"other":{"uri":"/b","method":"GET"}}`,
		`{"ts":1,"request":{"remote_ip":"192.0.2.1","uri":"/b","x":,"y":1}}`, `{"ts":1,"request":{"d":truer,"uri":"/b"}}`,
		`{"ts":1,"a":1,"request":{"x":{"uri":"/c"},"uri":{"uri":"/d"}},"b":[{"c":[1]}],"uri":"/a"}`,
		`{"ts":1,"a":"\x41"}`, `[]`, `{"ts":1,"request":{"uri":"` + "\xff" + `"}}`, `{"ts":1.}`, `{"t\u0073":7}`,
	} {
		f.Add([]byte(line))
	}
	scanner := &object{root: keysOf("caddy")}
	f.Fuzz(func(t *testing.T, line []byte) {
		var l Line
		err := scanner.parse(line, &l)
		var alone Line
		if other := (&object{root: scanner.root}).parse(line, &alone); !errors.Is(err, other) || !reflect.DeepEqual(l, alone) {
			t.Fatalf("%q: %v, %+v; without the lines before %v, %+v", line, err, l, other, alone)
		}
		if err != nil && !errors.Is(err, errJSON) && !errors.Is(err, errTime) && !errors.Is(err, errStatus) &&
			!errors.Is(err, errForm) && !errors.Is(err, errRequest) {
			t.Fatalf("%q: %v", line, err)
		}
		want, ok := caddyLine(line)
		if err == nil && !ok {
			t.Fatalf("%q: accepted, but it is not JSON", line)
		}
		if errors.Is(err, errJSON) && ok && bytes.HasPrefix(bytes.TrimLeft(line, " \t\r\n"), []byte("{")) &&
			bytes.Count(line, []byte("{"))+bytes.Count(line, []byte("[")) <= deepest {
			t.Fatalf("%q: refused, but it is JSON", line)
		}
		if err != nil || bytes.Count(line, []byte(`"request"`)) != 1 || bytes.ContainsAny(line, "[") ||
			!bytes.HasPrefix(bytes.TrimSpace(bytes.SplitN(line, []byte(`"request"`), 2)[1]), []byte(":")) {
			return // a list stands for its first text; a second object adds to the first
		}
		got := wordsOf(l)
		for _, pair := range [][2]string{
			{string(l.Peer), want.Client}, {got.Method, want.Method}, {got.Target, want.Target},
		} {
			if valid := string([]rune(pair[0])); valid != pair[1] && pair[1] != "" {
				t.Fatalf("%q: %q, want %q", line, valid, pair[1])
			}
		}
		if want.Time != "" && got.Time != want.Time && l.Time < math.MaxInt32 {
			t.Fatalf("%q: %s, want %s", line, got.Time, want.Time)
		}
	})
}

// FuzzLines: no line makes a parser panic, and none needs memory beyond its size.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET /\x41\" HTTP/1.1" 200 1 "-" "\x"`))
	f.Add([]byte(cloudFrontHead))
	f.Fuzz(func(t *testing.T, text []byte) {
		p := (Format{}).Parser()
		for line := range bytes.Lines(text) {
			var l Line
			if ok, err := p.Parse(bytes.TrimRight(line, "\r\n"), &l); ok && err == nil &&
				len(l.Target)+len(l.UserAgent)+len(l.Method) > 4*len(text)+len("GET") {
				t.Fatal("a line became longer")
			}
		}
	})
}

// TestReadLines: every line comes once with its number, whatever the sizes; lines that are too long
// are counted.
func TestReadLines(t *testing.T) {
	long := strings.Repeat("x", chunkSize)
	for name, text := range map[string]string{
		"nothing": "", "one": "a", "two": "a\nb\n", "empty lines": "\n\n\na",
		"many":              strings.Repeat(strings.Repeat("y", 999)+"\n", 5000),
		"a chunk":           long[:chunkSize-1] + "\nb\n",
		"too long":          "a\n" + long + "y\nb\n",
		"twice":             long + long + "\n" + long + "z\nb",
		"too long at last":  "a\n" + long + long,
		"too long, alone":   long + long,
		"exactly, no end":   long,
		"too long, then no": long + "y\n",
	} {
		got, tooLong := map[int]string{}, 0
		err := ReadLines(strings.NewReader(text), Part{First: 1}, func(c Lines) error {
			tooLong += c.TooLong
			number := c.First
			for line := range bytes.Lines(c.Text) {
				got[number] = string(bytes.TrimRight(line, "\n"))
				number++
			}
			clear(c.Text) // nobody reads it again
			c.Free()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want, wantLong := map[int]string{}, 0
		number := 1
		for line := range strings.Lines(text) {
			if line = strings.TrimRight(line, "\n"); len(line) < chunkSize || len(got[number]) == chunkSize {
				want[number] = line
			} else {
				wantLong++
			}
			number++
		}
		if diff := cmp.Diff(want, got); diff != "" || tooLong != wantLong {
			t.Errorf("%s: %d too long, want %d; %.300s", name, tooLong, wantLong, diff)
		}
	}
}

// TestDecompress: plain, gzip and zstd read the same, also several members one after the other, and after a frame of
// zstd that says only something of the next; a file that ends early is an error. What follows gzip, as after gzip's
// own program, is no reason to lose what is before it.
func TestDecompress(t *testing.T) {
	text := strings.Repeat("a line\n", 10_000)
	compressed := func(make func(io.Writer) io.WriteCloser) []byte {
		var b bytes.Buffer
		for _, half := range []string{text[:len(text)/2], text[len(text)/2:]} {
			w := make(&b)
			_, _ = io.WriteString(w, half)
			_ = w.Close()
		}
		return b.Bytes()
	}
	gz := compressed(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	zst := compressed(func(w io.Writer) io.WriteCloser {
		e, err := zstd.NewWriter(w)
		if err != nil {
			t.Fatal(err)
		}
		return e
	})
	bz2, err := base64.StdEncoding.DecodeString("QlpoOTFBWSZTWamAKIwAOpfRAAAQQAAiJSAAUIYAKVA04EKjgQqNhCowIVGBCo8" +
		"EKjAhUfF3JFOFCQqYAojA") // by Python's bz2.compress
	if err != nil {
		t.Fatal(err)
	}
	skippable := append([]byte("\x5f\x2a\x4d\x18\x04\x00\x00\x00size"), zst...) // as pzstd writes
	for after, want := range map[string]string{"\x00\x00": "\x00\x00", "one more\n": "one more\n", "\x1f": ""} {
		got := ""
		r, err := Decompress(io.MultiReader(bytes.NewReader(gz), strings.NewReader(after)))
		if err == nil {
			var all []byte
			all, err = io.ReadAll(r)
			got = string(all)
		}
		if got != text+want || (err == nil) != (want != "") {
			t.Errorf("%q after gzip: %d bytes, %v", after, len(got), err)
		}
	}
	for name, data := range map[string][]byte{"plain": []byte(text), "gzip": gz, "zstd": zst, "skippable": skippable,
		"bzip2": bz2} {
		r, err := Decompress(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != text {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if name == "plain" {
			continue
		}
		if r, err = Decompress(bytes.NewReader(data[:len(data)-9])); err == nil {
			_, err = io.ReadAll(r)
		}
		if err == nil {
			t.Errorf("%s: half a file is no error", name)
		}
	}
	if _, err := Decompress(strings.NewReader("\x1f\x8b")); err == nil {
		t.Error("two bytes of gzip are no error")
	}
}

// TestArrays: each object of a JSON array is a line, wherever a read ends, also in a compressed log and after another
// array. A line beside the arrays is a line, and text that begins with no array is not changed.
func TestArrays(t *testing.T) {
	for text, want := range map[string]string{
		`[{"a":1},{"b":"}]\"{"}]`:                            `{"a":1}` + "\n" + `{"b":"}]\"{"}` + "\n",
		"[\n {\n\"a\": {\"b\": [{}]}\n},\n{}\n]\n[{}]":       `{ "a": {"b": [{}]} }` + "\n{}\n{}\n",
		"\ufeff\x1f\x8b x":                                   "\ufeff\x1f\x8b x",
		"\ufeff[{}]\n":                                       "{}\n",
		"[{},\n5, {}]\n1.2.3.4 - - [x] \"a\"\n,\n {}\n[2026": "{}\n5, {}]\n1.2.3.4 - - [x] \"a\"\n{}\n2026",
		"[2026-11-01T00:03:48.123Z] \"GET":                   "[2026-11-01T00:03:48.123Z] \"GET",
		"[{":                                                 "{", "[": "[", "[]": "[]",
		// No array: a client may have written what is before the address.
		"[{ - - [x] \"GET\n{}\n":      "[{ - - [x] \"GET\n{}\n",
		"[{\"a\":\"\n1.2.3.4 - \n\"}": "[{\"a\":\"\n1.2.3.4 - \n\"}",
		"[{}] - [x]\n{\"\n":           "[{}] - [x]\n{\"\n",
		"[{},{ - [x]\n{\"\n":          "[{},{ - [x]\n{\"\n",
	} {
		for _, in := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)),
			strings.NewReader(zipped(text))} {
			r, err := Decompress(in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(iotest.HalfReader(r))
			if err != nil || string(got) != want {
				t.Errorf("%q: %q, %v; want %q", text, got, err, want)
			}
		}
		for size := 1; size < 6; size++ { // a reader that gives nothing would be read for ever
			r, err := Decompress(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			var got []byte
			for i := 0; err == nil && i < 1000; i++ {
				n, buf := 0, make([]byte, size)
				n, err = r.Read(buf)
				got = append(got, buf[:n]...)
			}
			if !errors.Is(err, io.EOF) || string(got) != want {
				t.Errorf("%d bytes of %q: %q, %v; want %q", size, text, got, err, want)
			}
		}
	}
}

// TestDayOf: every day is the one of package time, and no other is a day.
func TestDayOf(t *testing.T) {
	for month := range 2500 * 12 {
		for day := range 34 {
			want := time.Date(1+month/12, time.Month(1+month%12), day, 0, 0, 0, 0, time.UTC)
			got, ok := dayOf(1+month/12, 1+month%12, day)
			if ok != (want.Day() == day) || ok && got*24*60*60 != want.Unix() {
				t.Fatalf("%d of month %d is day %d, %t; want %v", day, month, got, ok, want)
			}
		}
	}
}
