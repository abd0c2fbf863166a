package docsapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestNothingLeaks lets services and transports quote keys and prompt in every kind of failure of a read
// and of a write, and searches logs, errors and printed values for them.
func TestNothingLeaks(t *testing.T) {
	prompt := testPrompt + "\n" + strings.Repeat("Then look at quotas again. ", 3000)
	escaped, _ := json.Marshal(prompt)
	quoted := `{"error":"bad key ` + testKey + `"}`
	for name, answer := range map[string]reply{
		"success":         status(200, onePage),
		"400":             status(400, quoted),
		"401":             status(401, "Bearer "+testKey+" has expired"),
		"403":             status(403, strings.Replace(quoted, "_", "\\u005f", 1)),
		"403, text":       status(403, "mint\\u005f"+strings.TrimPrefix(testKey, "mint_")),
		"302":             status(302, quoted, "Location", "https://example.com/?key="+testKey),
		"429":             status(429, quoted),
		"500":             status(500, `{"message":"`+testKey+testKey+`"}`),
		"500, hidden":     status(500, "mint_s3\x00cret\u200bPart-01\x1b23456789"),
		"500, at the cap": status(500, strings.Repeat("x ", maxMessage/2-10)+testKey),
		"duplicate name":  status(200, `{"`+testKey+`":1,"`+testKey+`":1}`),
		"syntax":          status(200, `{"`+testKey+`":x}`),
		"cut":             status(200, `{"`+testKey+`":{"`),
		"content type":    status(200, "<", "Content-Type", "text/"+testKey),
		"transport":       breaks(fmt.Errorf("malformed HTTP response %q", testKey)),
		"budget":          breaks(fmt.Errorf("%s: %w", testKey, notBefore{time.Now()})),

		"write: success":      status(201, oneJob),
		"write: JSON error":   status(400, `{"error":`+string(escaped)+`}`),
		"write: raw":          status(422, prompt),
		"write: escaped":      status(500, string(escaped)),
		"write: from within":  status(400, "near "+prompt[10:60]+" and "+prompt[2000:2100]),
		"write: no id":        status(201, `{"prompt":`+string(escaped)+`,"key":"`+testWriteKey+`"}`),
		"write: both keys":    status(403, testKey+" "+testWriteKey),
		"write: transport":    breaks(fmt.Errorf("malformed HTTP response %q", testWriteKey+" "+prompt)),
		"write: with its key": breaks(fmt.Errorf("Bearer %s: %s", testWriteKey, testPrompt)),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var log bytes.Buffer
				options := ClientOptions{
					BaseURL: "https://api.example.com", Transport: tripper(answer),
					APIKey: StaticKey(testKey), WriteAPIKey: StaticKey(testWriteKey),
					Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
				}
				writesVia(tripper(answer))(&options)
				c, err := New(options)
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(name, "write") {
					_, err = c.CreateJob(t.Context(), "prj_a", prompt, "")
				} else {
					_, err = c.Page(t.Context(), query())
				}
				if (err == nil) != strings.HasSuffix(name, "success") || log.Len() == 0 {
					t.Fatalf("error %v, log %q", err, log.String())
				}
				for _, v := range []any{c, *c, options, &options, err} {
					options.Logger.Info("value", "v", v)
					slog.New(slog.NewTextHandler(&log, nil)).Info("value", "v", v)
				}
				checkNoSecret(t, log.String()+printed(c, *c, options, &options))
				for e := err; e != nil; e = errors.Unwrap(e) {
					checkNoSecret(t, printed(e))
				}
			})
		})
	}
}

// printed returns values in every format of fmt and json.
func printed(values ...any) string {
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintf(&b, "%v %+v %#v %s %q\n", v, v, v, v, v)
		text, err := json.Marshal(v)
		fmt.Fprintln(&b, string(text), err)
	}
	return b.String()
}

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"":                                 "",
		"no secret here":                   "no secret here",
		"a\r\n\t b\x00\x1b[1mc\u202ed\xff": "a b[1mcd",
		"key " + testKey + "!":             "key [redacted]!",
		"s3cretPart-0123456789":            "[redacted]",
		"other_0123456789abcdef-x":         "[redacted]",
		"short_word, under_score":          "short_word, under_score",
		`{"Authorization":"bearer abc"}`:   `{"Authorization":"[redacted]"}`,
		strings.Repeat("é", 300):           strings.Repeat("é", 300),
		strings.Repeat("é", 301):           strings.Repeat("é", 299) + "…",
	} {
		if got := (call{}).redact(in, testKey); got != want {
			t.Errorf("redact(%q) = %q, want %q", in, got, want)
		}
	}
	if got := (call{}).redact("a b", "x_b"); got != "a b" {
		t.Errorf("a secret of one letter: %q", got)
	}
}

func TestLogLines(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var log bytes.Buffer
		read := &scripted{answers: script(status(500, `{"error":"oh"}`), status(200, onePage))}
		archived := tripper(status(409, `{"error":"archived"}`))
		c := agentClient(t, "https://api.example.com", writesVia(archived), func(cfg *ClientOptions) {
			cfg.Transport = read
			cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		q := query()
		q.Offset = 250
		if _, err := c.Page(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		_, _ = c.SendMessage(t.Context(), "prj_a", "job_1", testPrompt)
		_, _ = c.CreateJob(t.Context(), "prj_a", testPrompt, "")
		noise := regexp.MustCompile(`_seconds=[0-9.]*[.][0-9]{4,}|_seconds=[0-9.]*e`).FindString(log.String())
		if noise != "" {
			t.Errorf("more than milliseconds: %s", noise)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		for i, want := range []string{
			`level=DEBUG msg="api request" method=GET project=prj_a offset=250 status=500 took_seconds=0 ` +
				`reason="the service says: oh"`,
			`level=WARN msg="api request will be retried" project=prj_a offset=250 attempt=1 wait_seconds=`,
			`level=DEBUG msg="api request" method=GET project=prj_a offset=250 status=200 took_seconds=0`,
			`level=DEBUG msg="api request" method=POST project=prj_a id=job_1 status=409 `,
			`level=DEBUG msg="api request" method=POST project=prj_a status=409 `,
		} {
			if len(lines) != 5 || !strings.Contains(lines[i], want) {
				t.Errorf("line %d of %q: want %q", i, lines, want)
			}
		}
	})
}

func TestWithoutPrompt(t *testing.T) {
	for _, tc := range []struct{ text, prompt, want string }{
		{"no: fix the page", "", "no: fix the page"},
		{"no: fix", "fix", "no: fix"},
		{"no: fix the page", "fix the page", "no: [prompt]"},
		{"fix the page fix the page.", "fix the page", "[prompt] [prompt]."},
		{"fix the pagefix the page", "fix the page", "[prompt]"},
		{"short", "a prompt that is longer than the text", "short"},
		{"at 'a prompt that is longer than' …", "this is a prompt that is longer than the text", "at '[prompt]' …"},
		{"a prompt that is one thing", "a prompt that is another thing", "a prompt that is one thing"},
		{"\u0169" + strings.Repeat("é", 20), strings.Repeat("é", 21), "[prompt]"}, // ends in the byte that é ends in
		{"\u00ea" + strings.Repeat("é", 20), "\u00e9" + strings.Repeat("é", 20), "ê[prompt]"},
	} {
		if got := withoutPrompt(tc.text, tc.prompt); got != tc.want {
			t.Errorf("%q without %q: %q, want %q", tc.text, tc.prompt, got, tc.want)
		}
	}
}

func checkNoSecret(t *testing.T, text string) {
	t.Helper()
	for _, hidden := range []string{"s3cretPart", "0123456789", "wr1tePart", testPrompt, "quotas", "table of limits"} {
		if strings.Contains(text, hidden) {
			t.Errorf("%q is in %q", hidden, text)
		}
	}
}
