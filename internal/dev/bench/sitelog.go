package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/dev/must"
)

// siteLog is an access log of a month that the bench makes up: half of its lines are requests for assets.
type siteLog struct {
	Lines, Readers int
	Format         string // a constant below
	Path           string // empty: its writer pipes it
}

const (
	combinedLog = "combined"
	gzipLog     = "combined, gzip"
	caddyLog    = "Caddy JSON"
	pushedLog   = "Caddy JSON, pushed, one core"
)

const (
	// linesABody is the number of lines in a body that is pushed, and pushers how many are sent at once.
	linesABody = 500
	pushers    = 16
)

// siteMonth is when the lines of every log begin.
var siteMonth = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

const monthLong = 31 * 24 * time.Hour

// siteAgents are user agents that are no browsers: three have a page read, three never count, and the tools count
// as AI where they read Markdown.
var siteAgents = [...]string{
	"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot",
	"Claude-User (claude-code/2.1.86; +https://support.anthropic.com/)",
	"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Perplexity-User/1.0; " +
		"+https://perplexity.ai/perplexity-user)",
	"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
	"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; +https://openai.com/gptbot",
	"SomebodysBot/3.1 (+https://example.com/bot)",
	"curl/8.5.0", "python-requests/2.32.3", "curl/8.5.0",
}

// userAgent is the user agent of reader i: seven of ten readers are people.
func userAgent(i int) (text string, isPerson bool) {
	if kind := i%10 - 7; kind >= 0 {
		return siteAgents[3*kind+i/10%3], false
	}
	system := []string{"Windows NT 10.0; Win64; x64", "Macintosh; Intel Mac OS X 10_15_7", "X11; Linux x86_64"}[i/10%3]
	return fmt.Sprintf("Mozilla/5.0 (%s) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.%d.0 Safari/537.36",
		system, 110+i/30%40, 7000+i/7%9), true
}

// writeSiteLog prints the lines of a log in the order of their times. The same order makes the same.
func writeSiteLog(o order) any {
	w, r := bufio.NewWriterSize(os.Stdout, 1<<20), rand.New(rand.NewPCG(29, uint64(o.Log.Lines)))
	for i := range o.Log.Lines {
		writeSiteLine(w, r, o.Log, i)
	}
	must.Do(w.Flush())
	return nil
}

// pushSiteLog pushes the lines of a log to a source, and fails unless each body is taken at once.
func pushSiteLog(o order) any {
	bodies, r := make(chan []byte, pushers), rand.New(rand.NewPCG(29, uint64(o.Log.Lines)))
	var sending errgroup.Group
	for range pushers {
		sending.Go(func() error {
			for body := range bodies {
				request := must.Get(http.NewRequest(http.MethodPost, o.Base, bytes.NewReader(body)))
				request.Header.Set("Authorization", "Bearer "+o.Key)
				answer, err := http.DefaultClient.Do(request)
				if err != nil {
					return err
				}
				text := must.Get(io.ReadAll(answer.Body))
				if must.Do(answer.Body.Close()); answer.StatusCode != http.StatusOK {
					return fmt.Errorf("status %d: %s", answer.StatusCode, text)
				}
			}
			return nil
		})
	}
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = pushers
	var body bytes.Buffer
	for i := range o.Log.Lines {
		writeSiteLine(&body, r, o.Log, i)
		if (i+1)%linesABody == 0 || i+1 == o.Log.Lines {
			bodies <- bytes.Clone(body.Bytes())
			body.Reset()
		}
	}
	close(bodies)
	must.Do(sending.Wait())
	return nil
}

// writeSiteLine writes line i. Of six lines, one goes to the readers in turn, so that each comes, two to readers
// some of whom come often, and three request assets.
func writeSiteLine(w io.Writer, r *rand.Rand, log siteLog, i int) {
	often := r.Float64()
	reader := int(often * often * often * float64(log.Readers))
	if i%6 == 0 {
		reader = i / 6 * 7 % log.Readers
	}
	agent, isPerson := userAgent(reader)
	address := fmt.Sprintf("%d.%d.%d.%d", 11+reader>>16&63, reader>>8&255, reader&255, 1+reader%7)
	popular := r.Float64()
	page := int(popular * popular * popular * popular * 5000)
	path, method, status := fmt.Sprintf("/docs/section-%d/page-%d", page%50, page), "GET", 200
	switch n := r.IntN(40); {
	case i%2 == 1 && n < 13:
		path = fmt.Sprintf("/assets/img/figure-%d.png", r.IntN(500))
	case i%2 == 1:
		path = fmt.Sprintf("/assets/js/chunk-%04x.js", r.IntN(300)*7)
	case n < 6 && !isPerson, n == 0:
		path += ".md"
	case n < 10:
		path += "/"
	case n < 13:
		path += "?utm_source=mail&utm_campaign=" + strconv.Itoa(n)
	case n < 15:
		path += ".html"
	}
	switch n := r.IntN(60); {
	case n < 6:
		status = 304
	case n < 8:
		status = 404
	case n == 8:
		method = "HEAD"
	case n == 9:
		status = 301
	}
	size := r.IntN(200_000)
	at := siteMonth.Add(monthLong / time.Duration(log.Lines) * time.Duration(i))
	if log.Format != caddyLog && log.Format != pushedLog {
		_, _ = fmt.Fprintf(w, "%s - - [%s] \"%s %s HTTP/1.1\" %d %d \"https://docs.example.com/docs/\" \"%s\"\n", address,
			at.Format("02/Jan/2006:15:04:05 -0700"), method, path, status, size, agent) // Flush has the error
		return
	}
	_, _ = fmt.Fprintf(w, `{"level":"info","ts":%d.%06d,"logger":"http.log.access.log0","msg":"handled request",`+
		`"request":{"remote_ip":"%s","remote_port":"%d","client_ip":"%s","proto":"HTTP/2.0","method":"%s",`+
		`"host":"docs.example.com","uri":"%s","headers":{"User-Agent":["%s"],"Accept":["*/*"],`+
		`"Accept-Encoding":["gzip, deflate, br"],"Referer":["https://docs.example.com/docs/"]},"tls":{"resumed":false,`+
		`"version":772,"cipher_suite":4865,"proto":"h2","server_name":"docs.example.com"}},"bytes_read":0,"user_id":"",`+
		`"duration":0.000231,"size":%d,"status":%d,"resp_headers":{"Server":["Caddy"],"Vary":["Accept-Encoding"],`+
		`"Etag":["\"d7x%x\""],"Content-Type":["text/html; charset=utf-8"]}}`+"\n",
		at.Unix(), i%1_000_000, address, 1024+i%60_000, address, method, path, agent, size, status, size)
}
