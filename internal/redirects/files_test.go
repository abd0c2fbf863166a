package redirects_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/redirects"
)

var added = []redirects.Rule{{From: "/old/alpha", To: "/new/alpha"}, {From: "/old/a-much-longer-path", To: "/new"}}

// sample is a file and what it must become.
type sample struct{ name, before, after string }

// jsonSamples are files of JSON in all styles: indentation, ends of lines and of the file, elements on one line or on
// four, with and without other members around them.
func jsonSamples(extra string) (out []sample) {
	for _, unit := range []string{"  ", "    ", "\t"} {
		for _, newline := range []string{"\n", "\r\n"} {
			for _, end := range []string{newline, ""} {
				for _, inline := range []bool{false, true} {
					element := func(from, to, extra string) string {
						if inline {
							return unit + unit + `{ "source": "` + from + `", "destination": "` + to + `"` +
								strings.ReplaceAll(extra, ",", ", ") + ` }`
						}
						in := "\n" + unit + unit + unit
						return unit + unit + "{" + in + `"source": "` + from + `",` + in + `"destination": "` + to + `"` +
							strings.ReplaceAll(extra, ",", ","+in) + "\n" + unit + unit + "}"
					}
					text := func(news string) string {
						return strings.ReplaceAll("{\n"+unit+`"name": "Caf\u00e9, \"redirects\": [",`+"\n"+
							unit+`"redirects": [`+"\n"+element("/a", "/b", `,"permanent": false`)+",\n"+
							element("/c/:slug*", "/d/:slug*", "")+news+
							"\n"+unit+"],\n"+unit+`"colors": {"primary":   "#fff"}`+"\n}", "\n", newline) + end
					}
					news := ""
					for _, r := range added {
						news += ",\n" + element(r.From, r.To, extra)
					}
					out = append(out, sample{fmt.Sprintf("%q%q%q%v", unit, newline, end, inline), text(""), text(news)})
				}
			}
		}
	}
	two := func(indent, inner, outer string) string {
		return `{` + inner + `"source": "/old/alpha",` + inner + `"destination": "/new/alpha"` +
			strings.ReplaceAll(extra, ",", ","+inner) + outer + `},` + indent + `{` + inner +
			`"source": "/old/a-much-longer-path",` + inner + `"destination": "/new"` +
			strings.ReplaceAll(extra, ",", ","+inner) + outer + `}`
	}
	lines := two("\n    ", "\n      ", "\n    ")
	compact := strings.ReplaceAll(two("", "", ""), `": `, `":`)
	return append(out,
		sample{"absent", "", "{\n  \"redirects\": [\n    " + lines + "\n  ]\n}\n"},
		sample{"no list", "{\n  \"name\": 1\n}\n",
			"{\n  \"name\": 1,\n  \"redirects\": [\n    " + lines + "\n  ]\n}\n"},
		sample{"empty list", "{\n  \"redirects\": [],\n  \"x\": 1\n}",
			"{\n  \"redirects\": [\n    " + lines + "\n  ],\n  \"x\": 1\n}"},
		sample{"compact", `{"x":1}`, `{"x":1,"redirects":[` + compact + `]}`},
		sample{"compact list", `{"redirects":[{"source":"/a","destination":"/b"}],"x":[ 1]}`,
			`{"redirects":[{"source":"/a","destination":"/b"},` + compact + `],"x":[ 1]}`},
		sample{"marked", "\ufeff" + `{"x":1}`, "\ufeff" + `{"x":1,"redirects":[` + compact + `]}`},
		sample{"a list alone", "[\n  {\n    \"source\": \"/a\",\n    \"destination\": \"/b\"\n  }\n]\n",
			"[\n  {\n    \"source\": \"/a\",\n    \"destination\": \"/b\"\n  },\n  " + two("\n  ", "\n    ", "\n  ") + "\n]\n"},
		sample{"before what takes everything", `{"redirects":[{"source":"/a","destination":"/b"},` +
			`{"source":"/:path*","destination":"/"}]}`, `{"redirects":[{"source":"/a","destination":"/b"},` + compact +
			`,{"source":"/:path*","destination":"/"}]}`},
		sample{"before what cannot be read", `{"redirects":[{"source":"/a","destination":"/b"},` +
			`{"source":"/((?!api/).*)","destination":"/"}]}`, `{"redirects":[{"source":"/a","destination":"/b"},` + compact +
			`,{"source":"/((?!api/).*)","destination":"/"}]}`},
	)
}

func lineSamples() (out []sample) {
	for _, newline := range []string{"\n", "\r\n"} {
		for _, end := range []string{newline, ""} {
			for name, parts := range map[string][2]string{
				"plain":        {"/a /b\n/c/* /d/:splat", "/old/alpha /new/alpha\n/old/a-much-longer-path /new"},
				"status":       {"/a /b 302\n/c /d 301!", "/old/alpha /new/alpha 301\n/old/a-much-longer-path /new 301"},
				"tabs":         {"# x\n/a\t/b\t301", "/old/alpha\t/new/alpha\t301\n/old/a-much-longer-path\t/new\t301"},
				"comment":      {"# all of it\n\n/a /b # why", "/old/alpha /new/alpha\n/old/a-much-longer-path /new"},
				"fragment":     {"/x /y\n/a /b#c", "/old/alpha /new/alpha\n/old/a-much-longer-path /new"},
				"comment last": {"/a /b\n# the end", "/old/alpha /new/alpha\n/old/a-much-longer-path /new"},
				"columns": {"/a          /b            301\n/abc        /b/c          301",
					"/old/alpha  /new/alpha    301\n/old/a-much-longer-path /new 301"},
			} {
				text := strings.ReplaceAll(parts[0], "\n", newline)
				news := strings.ReplaceAll(parts[1], "\n", newline)
				after := text + newline + news + end
				out = append(out, sample{fmt.Sprintf("%s%q%q", name, newline, end), text + end, after})
			}
		}
	}
	news := "/old/alpha /new/alpha 301\n/old/a-much-longer-path /new 301\n"
	return append(out, sample{"absent", "", news},
		sample{"before a rewrite that takes it", "/a /b 301\n/old/* /old/index.html 200\n",
			"/a /b 301\n" + news + "/old/* /old/index.html 200\n"},
		sample{"to a page that a rewrite shows", "/new/* /new/index.html 200\n",
			"/old/alpha /new/alpha 301\n/old/a-much-longer-path /new 301\n/new/* /new/index.html 200\n"},
		sample{"only a comment", "# none yet\n", "# none yet\n" + news},
		sample{"before what takes everything", "/a /b 301\n\n# the app\n/*  /index.html  200\n",
			"/a /b 301\n\n/old/alpha  /new/alpha  301\n/old/a-much-longer-path  /new  301\n" +
				"# the app\n/*  /index.html  200\n"})
}

func mapSamples() (out []sample) {
	for _, newline := range []string{"\n", "\r\n"} {
		for _, indent := range []string{"    ", "\t"} {
			for name, parts := range map[string][2]string{
				"bare": {"%[1]s/a /b;\n%[1]s~^/c/(.*)$ /d/$1;",
					"%[1]s/old/alpha /new/alpha;\n%[1]s/old/a-much-longer-path /new;"},
				"quoted": {`%[1]s"/a"  "/b"; # why }`,
					"%[1]s\"/old/alpha\"  \"/new/alpha\";\n%[1]s\"/old/a-much-longer-path\"  \"/new\";"},
				"columns": {"%[1]sdefault    \"\";\n%[1]s/a         /b;\n%[1]s/abc       /b/c;",
					"%[1]s/old/alpha /new/alpha;\n%[1]s/old/a-much-longer-path /new;"},
				"empty": {"%[1]s# none yet", "    /old/alpha /new/alpha;\n    /old/a-much-longer-path /new;"},
			} {
				before := fmt.Sprintf("# redirects\nmap $uri $to {\n"+parts[0]+
					"%.0[1]s\n}\nserver {\n  return 301 $to;\n}\n", indent)
				after := strings.Replace(before, "\n}\nserver",
					"\n"+fmt.Sprintf(parts[1]+"%.0[1]s", indent)+"\n}\nserver", 1)
				out = append(out, sample{name + indent + newline, strings.ReplaceAll(before, "\n", newline),
					strings.ReplaceAll(after, "\n", newline)})
			}
		}
	}
	return append(out,
		sample{"absent", "", "map $uri $docgauge_page { # of /old/, /old.html and /old.md it is /old\n" +
			"    ~^(?<docgauge_folded>/.*?)(?:/|(?:/index)?\\.(?:html\\.md|html|mdx?))$ $docgauge_folded;\n    default $uri;\n}\n" +
			"map $docgauge_page $docgauge_redirect {\n    /old/alpha /new/alpha;\n    /old/a-much-longer-path /new;\n}\n"},
		sample{"beside others", "map $a $docgauge_redirect {\n/a /b;\n}\nmap $host $x { /old/alpha 1; }\n",
			"map $a $docgauge_redirect {\n/a /b;\n/old/alpha /new/alpha;\n/old/a-much-longer-path /new;\n}\n" +
				"map $host $x { /old/alpha 1; }\n"},
		sample{"inside of a block", "/a /b;\n", "/a /b;\n/old/alpha /new/alpha;\n/old/a-much-longer-path /new;\n"},
		sample{"inside, no newline", "/a /b;", "/a /b;\n/old/alpha /new/alpha;\n/old/a-much-longer-path /new;"},
		sample{"on one line", "map $uri $to { /a /b; }\n",
			"map $uri $to { /a /b; \n    /old/alpha /new/alpha;\n    /old/a-much-longer-path /new;}\n"})
}

// TestAdd: a file has the new rules in its own style, no other byte changes, and a second time nothing does.
func TestAdd(t *testing.T) {
	for format, samples := range map[redirects.Format][]sample{"mintlify": jsonSamples(""),
		"vercel": jsonSamples(`,"permanent": true`), "netlify": lineSamples(), "nginx": mapSamples()} {
		if len(samples) < 20 {
			t.Errorf("%s: %d samples", format, len(samples))
		}
		for _, s := range samples {
			f, err := redirects.Parse(format, s.before)
			if err != nil {
				t.Errorf("%s %s: %v", format, s.name, err)
				continue
			}
			text, news, refused := f.Add(added)
			if text != s.after || len(news) != len(added) || len(refused) > 0 {
				t.Errorf("%s %s:\n%q\nwant\n%q\nrefused %v", format, s.name, text, s.after, refused)
				continue
			}
			if strings.HasPrefix(string(format), "m") && !json.Valid([]byte(strings.TrimPrefix(text, "\ufeff"))) {
				t.Errorf("%s %s: not JSON", format, s.name)
			}
			again, err := redirects.Parse(format, text)
			if err != nil {
				t.Errorf("%s %s: again: %v", format, s.name, err)
				continue
			}
			if text, news, refused := again.Add(added); text != s.after || news != nil || refused != nil {
				t.Errorf("%s %s: a second time: %v, %v, %q", format, s.name, news, refused, text)
			}
		}
	}
}

// TestRefused: what would be a loop, a chain or never met is not written, and targets are followed to their end.
func TestRefused(t *testing.T) {
	for format, text := range map[redirects.Format]string{
		"netlify": "/a /b\n/b /c\n/x/* /y/:splat\n/z /dead#end\n/round /trip\n/en /z2 302 Language=en\n/new id=:id /else\n",
		"mintlify": `[{"source":"/a","destination":"/b"},{"source":"/b","destination":"/c"},
{"source":"/x/:s*","destination":"/y/:s*"},{"source":"/z","destination":"/dead?from=z"},
{"source":"/round","destination":"/trip"}]`,
		"vercel": `{"redirects":[{"source":"/a","destination":"/b"},{"source":"/b","destination":"/c"},
{"source":"/x/(.*)","destination":"/y/$1"},{"source":"/z","destination":"/dead?from=z"},
{"source":"/round","destination":"/trip"},
{"source":"/new","destination":"/else","has":[{"type":"host","value":"x"}]}]}`,
		"nginx": "/a /b; /b /c; ~^/x/ /y; /z /dead#end; /round /trip;",
	} {
		f, err := redirects.Parse(format, text)
		if err != nil {
			t.Fatal(format, err)
		}
		for _, tc := range []struct{ from, to, want, refused string }{
			{"/new", "/page", "/page", ""},
			{"/new", "/a", "/c", ""}, // two rules lead on
			{"/new/", "/page/", "/page", ""},
			{"/a", "/b", "", ""}, {"/z", "/dead", "", ""}, // they exist
			{"/a", "/other", "", "already"},
			{"/A", "/other", "", "already"},
			{"/dead", "/page", "", "chain"},
			{"/trip", "/round", "", "loop"},
			{"/page", "/Page", "", "loop"},
			{"/new", "/x/page", "", "chain"},
			{"/", "/page", "", "form"},
			{"/n/../ew", "/page", "", "form"},
			{"/new", "//evil.example", "", "form"},
			{"/x/" + strings.Repeat("long/", 9) + "lost", "/page", "", "takes it before"},
		} {
			_, news, refused := f.Add([]redirects.Rule{{From: tc.from, To: tc.to}})
			switch {
			case tc.refused != "" && (len(refused) != 1 || !strings.Contains(refused[0].Reason, tc.refused)):
				t.Errorf("%s %s %s: refused %v, want %s", format, tc.from, tc.to, refused, tc.refused)
			case tc.refused == "" && len(refused) > 0:
				t.Errorf("%s %s %s: refused %v", format, tc.from, tc.to, refused)
			case tc.want != "" && (len(news) != 1 || news[0].To != tc.want), tc.want == "" && len(news) > 0:
				t.Errorf("%s %s %s: added %v, want %q", format, tc.from, tc.to, news, tc.want)
			}
		}
		_, news, refused := f.Add([]redirects.Rule{{From: "/x/lost", To: "/page"}})
		if shadowed := format != "nginx"; shadowed != (len(refused) == 1) || shadowed == (len(news) == 1) {
			t.Errorf("%s: below a pattern: added %v, refused %v", format, news, refused) // nginx asks names first
		}
		_, news, refused = f.Add([]redirects.Rule{
			{From: "/p", To: "/q"}, {From: "/q", To: "/r"}, {From: "/r", To: "/p"},
		})
		if len(news) != 2 || news[1].To != "/q" || len(refused) != 1 {
			t.Errorf("%s: rules among themselves: added %v, refused %v", format, news, refused)
		}
	}
}

// TestInjection: no path of a stranger changes what a file means.
func TestInjection(t *testing.T) {
	for _, format := range redirects.Formats {
		for _, evil := range []string{"/a\n/* https://evil.example", "/a;} server {",
			`/a","destination":"https://evil.example"},{"source":"/b`,
			"/a https://evil.example 301!", "/:path*", "/*", "~.*", "~*x", "/a$request_uri", `/a\`, "/a#b", "/a?b=c", "/a{b}",
			"/(.*)", "/a'b", `/a"b`, "/a\tb", "/a\rb", "/a\x00b", "/a%0ab", "default", "include", "hostnames", "//evil.example",
			"/../etc", "/a/./b", "https://evil.example/", "/\u202e", "/a b"} {
			for _, r := range []redirects.Rule{{From: evil, To: "/page"}, {From: "/old", To: evil}} {
				f, err := redirects.Parse(format, "")
				if err != nil {
					t.Fatal(err)
				}
				text, news, refused := f.Add([]redirects.Rule{r})
				if text != "" && text != "{}\n" || news != nil || len(refused) != 1 {
					t.Errorf("%s: %+v: %q, refused %v", format, r, text, refused)
				}
			}
		}
	}
}

func TestAudit(t *testing.T) {
	for format, text := range map[redirects.Format]string{
		"netlify": "/a/* /b/:splat\n/a/x /page\n/c /gone\n/d /e\n/e /page#part\n" +
			"/f /F\n/ok https://other.example/x\n/g /moved\n/h /g\n/own /moved-too/\n/i /i2\n/i2 /i\n" +
			"/app/* /app/index.html 200!\n/j /app/x\n/k /l 404\n/* /index.html 200",
		"vercel": `{"redirects":[{"source":"/a/:p*","destination":"/b/:p*"},
{"source":"/a/x","destination":"/page"},
{"source":"/c","destination":"/gone"},
{"source":"/d","destination":"/e"},
{"source":"/e","destination":"/page#part"},
{"source":"/f","destination":"/F"},
{"source":"/ok","destination":"https://other.example/x"},
{"source":"/g","destination":"/moved"},
{"source":"/h","destination":"/g"},
{"source":"/own","destination":"/moved-too/"},
{"source":"/i","destination":"/i2"},
{"source":"/i2","destination":"/i"}]}`,
	} {
		f, err := redirects.Parse(format, text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		history, err := redirects.ReadHistory(strings.NewReader("2026-11-03\n\nR090\tdocs/moved.md\tdocs/page.md\n"+
			"R090\tdocs/moved-too.md\tdocs/own.md\n"), []string{"docs/page.md", "docs/own.md"})
		if err != nil {
			t.Fatal(err)
		}
		for _, finding := range f.Audit(redirects.Site{Pages: []string{"/page", "/own", "/"}, History: history}) {
			got = append(got, fmt.Sprint(finding.Line, finding.Kind, finding.Target))
			if renamed := strings.HasSuffix(finding.Reason, ": renamed 2026-11-03: docs/moved.md is docs/page.md now"); renamed !=
				(finding.To == "/moved") {
				t.Errorf("%s: %+v", format, finding)
			}
		}
		if want := []string{"2shadowed", "3dead", "4chained/page", "6loop", "8dead/page", "9chained/page", "10dead", "11chained",
			"12chained"}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", format, got, want)
		}
	}
}

// TestParseRefuses: a file that is not understood is not written to.
func TestParseRefuses(t *testing.T) {
	for text, format := range map[string]redirects.Format{
		`{"redirects": {"$ref": "./redirects.json"}}`: "mintlify", `{"redirects": []`: "vercel", `7`: "vercel",
		`{"redirects": [], "redirects": []}`: "mintlify", `{"redirects": ["/a"]}`: "vercel", "// no comments\n{}": "vercel",
		"map $uri $a { }\nmap $host $b { }":                                 "nginx",
		"map $uri $docgauge_redirect { }\nmap $host $docgauge_redirect { }": "nginx",
		"server { listen 80; }":                                             "nginx", "map $uri $to { /a /b;": "nginx",
		"/a /b": "nginx", "/a /b;": "apache", "/a /b;\nrewrite ^/x$ /y permanent;": "nginx", "root /srv/docs;": "nginx",
	} {
		if f, err := redirects.Parse(format, text); err == nil {
			t.Errorf("%s: %q is read as %+v", format, text, f)
		}
	}
}
