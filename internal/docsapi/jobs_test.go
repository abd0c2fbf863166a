package docsapi

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var oneJobWant = Job{
	ID: "job_1", Status: StatusActive, Repository: "o/r", Ref: "main", Model: "m",
	CreatedAt: time.Date(2026, 10, 1, 8, 0, 0, 0, time.UTC),
}

func TestJobReads(t *testing.T) {
	other := strings.Replace(oneJob, "job_1", "job_2", 1)
	for name, tc := range map[string]struct {
		answers  []reply
		attempts int
		outcome  Outcome
		says     string
	}{
		"job": {script(status(200, oneJob)), 1, succeeded, ""},
		"after an outage": {
			script(status(502, ""), breaks(io.EOF), status(200, oneJob[:30]), status(200, oneJob)), 4, succeeded, ""},
		"an outage":        {script(status(503, "")), 5, Transient, "HTTP 503"},
		"429":              {script(status(429, "", "Retry-After", "9")), 1, Transient, "request limit"},
		"404 of the API":   {script(status(404, ` {"error":"no job"}`)), 1, Permanent, "DOCGAUGE_JOB_PATH"},
		"404 of a proxy":   {script(status(404, `<html>`)), 1, Permanent, "DOCGAUGE_JOB_PATH"},
		"404, text":        {script(status(404, `{no`)), 1, Permanent, "DOCGAUGE_JOB_PATH"},
		"another's":        {script(status(200, other)), 1, Permanent, "another job's, job_2"},
		"no id":            {script(status(200, `{"status":"active"}`)), 1, Permanent, "specification"},
		"201":              {script(status(201, oneJob)), 1, Permanent, "HTTP 201"},
		"HTML":             {script(status(200, "<p>", "Content-Type", "text/html")), 1, Permanent, "type text/html"},
		"a refused budget": {script(breaks(notBefore{time.Now()})), 1, Transient, "budget used up"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &scripted{answers: tc.answers}
				c := agentClient(t, "https://api.example.com")
				c.jobTransport = s
				job, err := c.Job(t.Context(), "prj_a", "job_1")
				isMissing := name == "404 of the API"
				if outcomeOf(err) != tc.outcome || len(s.at) != tc.attempts || IsNotFound(err) != isMissing {
					t.Errorf("%v after %d attempts, not found %t", err, len(s.at), IsNotFound(err))
				}
				if err == nil && !cmp.Equal(job, oneJobWant) ||
					err != nil && (job != (Job{}) || !strings.Contains(err.Error(), tc.says)) {
					t.Errorf("%+v, %v; want %q", job, err, tc.says)
				}
			})
		})
	}
}

func TestDecodeJob(t *testing.T) {
	const badCost, badUnit = "cost: want a number from 0 to 1000000",
		"cost_unit: want 1 to 16 printable bytes without spaces, like USD"
	const badTokens = "tokens: want a whole number from 0 to 1000000000000"
	day := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	long, link := strings.Repeat("é", maxText), "https://h/o/r/pull/7"
	for _, tc := range []struct {
		members string
		want    Job
	}{
		{`"status":"completed","prLink":"` + link + `"`, Job{Status: StatusCompleted, PRLink: link}},
		{`"createdAt":"2026-10-01T02:00:00.5+02:00"`, Job{CreatedAt: day.Add(time.Second / 2)}},
		{`"status":null,"source":null,"model":null,"prLink":null,"createdAt":null`, Job{}},
		{`"status":1,"source":[],"model":{},"prLink":true,"createdAt":1790812800`, Job{}},
		{`"createdAt":[],"failure":7`, Job{}},
		{`"failure":"no\u001b[31m credit"`, Job{Failure: "no[31m credit"}},
		{`"source":{"repository":{},"ref":"dev","x":1}`, Job{Ref: "dev"}},
		{`"x":[{"id":"k"}],"ID":"k","Status":"failed"`, Job{}},
		{`"status":"in_review"`, Job{Status: "in_review"}},
		{`"createdAt":"2026-10-01T02:00:00+0200"`, Job{CreatedAt: day}},
		{`"createdAt":"yesterday"`, Job{}},
		{`"createdAt":"0000-01-01T00:00:00Z"`, Job{}},
		{`"createdAt":"2026-10-01","archivedAt":"2026-10-01T00:00:00"`, Job{}},
		{`"status":"\u001b[31mact\nive\u202e","model":" m\u0000 "`, Job{Status: "[31mact ive", Model: "m"}},
		{"\"model\":\"m\xff\"", Job{Model: "m"}},
		{`"model":"a` + long + `"`, Job{Model: "a" + long[:maxText-2]}},
		{`"id":"a b/../é?"`, Job{ID: "a b/../é?"}},
		{`"id":"` + strings.Repeat("i", maxID) + `"`, Job{ID: strings.Repeat("i", maxID)}},
		{strings.Trim(oneJob, "{}"), oneJobWant},
		{`"cost":1.2345678,"cost_unit":"USD","tokens":123456`,
			Job{Cost: JobCost{Amount: new(1.234568), Unit: "USD", Tokens: new(int64(123456))}}},
		{`"cost":-0,"tokens":0`, Job{Cost: JobCost{Amount: new(0.0), Tokens: new(int64(0))}}},
		{`"cost":1e6,"cost_unit":"€"`, Job{Cost: JobCost{Amount: new(1e6), Unit: "€"}}},
		{`"cost":null,"cost_unit":null,"tokens":null`, Job{}},
		{`"cost_unit":"USD"`, Job{}},
		{`"cost":-0.01,"cost_unit":"USD","tokens":5`, Job{Cost: JobCost{Tokens: new(int64(5)), Problem: badCost}}},
		{`"cost":1000000.1`, Job{Cost: JobCost{Problem: badCost}}},
		{`"cost":1e999`, Job{Cost: JobCost{Problem: badCost}}},
		{`"cost":"NaN"`, Job{Cost: JobCost{Problem: badCost}}},
		{`"cost":{},"tokens":-1`, Job{Cost: JobCost{Problem: badCost}}},
		{`"cost":1,"cost_unit":""`, Job{Cost: JobCost{Problem: badUnit}}},
		{`"cost":1,"cost_unit":7`, Job{Cost: JobCost{Problem: badUnit}}},
		{`"cost":1,"cost_unit":"U D"`, Job{Cost: JobCost{Problem: badUnit}}},
		{`"cost":1,"cost_unit":"U\u202eD"`, Job{Cost: JobCost{Problem: badUnit}}},
		{`"cost":1,"cost_unit":"` + long + `"`, Job{Cost: JobCost{Problem: badUnit}}},
		{`"cost":1,"tokens":1.5`, Job{Cost: JobCost{Amount: new(1.0), Problem: badTokens}}},
		{`"tokens":1e13`, Job{Cost: JobCost{Problem: badTokens}}},
	} {
		members, want := tc.members, tc.want
		if want.ID == "" {
			want.ID, members = "j", `"id":"j",`+members
		}
		for _, id := range []string{"", want.ID} {
			got, err := decodeJob([]byte(" {"+members+"} \n"), id)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%.60s asked for by %q: %v %s", members, id, err, diff)
			}
		}
	}
}

func TestDecodeJobRefuses(t *testing.T) {
	for body, says := range map[string]string{
		`{"status":"active"}`: "no usable id",
		`{"id":null}`:         "no usable id",
		`{"id":7}`:            "no usable id",
		`{"id":""}`:           "no usable id",
		`{"id":"  "}`:         "no usable id",
		`{"id":"a\nb"}`:       "no usable id",
		`{"id":".."}`:         "no usable id",
		`{"id":"` + strings.Repeat("i", maxID+1) + `"}`: "no usable id",
		"{\"id\":\"a\xff\"}":                            "no usable id",
		`null`:                                          "no usable id",
		`{"id":"k"}`:                                    "it is another job's, k",
		`[{"id":"j"}]`:                                  "want an object",
		`"j"`:                                           "want an object",
		`{"id":"j"}{"id":"j"}`:                          "more data after the job",
		`{"id":"j"}x`:                                   "more data after the job",
		`<html>`:                                        "invalid character",
		`{"x":` + strings.Repeat("[", 20000):            "exceeded max depth",
	} {
		job, err := decodeJob([]byte(body), "j")
		isShape := errors.Is(err, errShape) && !errors.Is(err, errCut)
		if !isShape || job != (Job{}) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %+v, %v; want errShape with %q", body, job, err, says)
		}
	}
	for n := range len(oneJob) {
		if _, err := decodeJob([]byte(oneJob[:n]), ""); !errors.Is(err, errCut) {
			t.Errorf("first %d bytes: %v", n, err)
		}
	}
}

func TestJobEnded(t *testing.T) {
	ended := []string{StatusCompleted, StatusArchived, StatusFailed}
	for _, status := range append(ended, StatusActive, "", "in_review", "Completed") {
		if got := (Job{Status: status}).Ended(); got != slices.Contains(ended, status) {
			t.Errorf("%q: ended is %t", status, got)
		}
	}
}

func FuzzDecodeJob(f *testing.F) {
	for _, body := range []string{
		oneJob, `{"id":"j"}`, `null`, `[]`, `{"id":"j","source":{"ref":null},"createdAt":"2026-10-01T02:00:00+0200"}`,
		`{"id":"j","cost":0.25,"cost_unit":"USD","tokens":1200}`, "{\"id\":\"\xff\"}", `{"id":"j"} {`, `{"id":"j","id":"k"}`,
	} {
		f.Add([]byte(body), "j")
		f.Add([]byte(body), "")
	}
	f.Fuzz(func(t *testing.T, body []byte, id string) {
		job, err := decodeJob(body, id)
		if err != nil {
			if job != (Job{}) || errors.Is(err, errCut) == errors.Is(err, errShape) {
				t.Fatalf("%+v with %v: want no job, and cut or not as specified", job, err)
			}
			return
		}
		if checkID(job.ID) != nil || id != "" && job.ID != id {
			t.Fatalf("id %q, asked for %q", job.ID, id)
		}
		for _, s := range []string{job.Status, job.Repository, job.Ref, job.Model, job.PRLink} {
			isOdd := func(r rune) bool { return !unicode.IsGraphic(r) }
			if len(s) > maxText || !utf8.ValidString(s) || strings.ContainsFunc(s, isOdd) {
				t.Fatalf("text %q", s)
			}
		}
		if c := job.Cost; c.Amount != nil && !(*c.Amount >= 0 && *c.Amount <= maxCost) ||
			c.Amount == nil && c.Unit != "" || len(c.Unit) > maxUnit || !utf8.ValidString(c.Unit) {
			t.Fatalf("%+v", c)
		}
		if n := job.Cost.Tokens; n != nil && (*n < 0 || *n > maxTokens) {
			t.Fatalf("%d tokens", *n)
		}
		if at := job.CreatedAt; at != (time.Time{}) && (at.Unix() <= 0 || at.Location() != time.UTC) {
			t.Fatalf("time %v", at)
		}
	})
}

func TestCheckJobPath(t *testing.T) {
	for _, path := range []string{
		defaultJobPath, "/{projectId}/{id}", "/a/{id}.json/of-{projectId}", "/%7Eme/{projectId}:{id}/",
	} {
		if err := CheckJobPath(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, says := range map[string]string{
		"":                             "once each",
		"/v2/agent/{projectId}/job":    "once each",
		"/{projectId}/{id}/{id}":       "once each",
		"/{projectid}/{id}":            "once each",
		"/{projectId}/{id}?x={x}":      "query",
		"/{projectId}/{id}#":           "query or a fragment",
		"{projectId}/{id}":             "begins with one /",
		"https://x/{projectId}/{id}":   "begins with one /",
		"//example.com{projectId}{id}": "begins with one /",
		"/{projectId}/../{id}":         "begins with one /",
		"/./{projectId}/{id}":          "begins with one /",
		"/{projectId}/{id}/{other}":    "no other braces",
		"/{projectId}/{id}/ x":         "no spaces",
		"/{projectId}/{id}\n":          "no spaces",
		"/{projectId}/{id}/%zz":        "begins with one /",
		"/{projectId}/{id}/é":          "begins with one /",
	} {
		err := CheckJobPath(path)
		const variable = "DOCGAUGE_JOB_PATH: "
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), variable) {
			t.Errorf("%q: %v; want %q", path, err, says)
		}
	}
	got := fillJobPath("/{id}/{projectId}", "{id}", "a/../b {projectId}")
	if got != "/a%2F..%2Fb%20%7BprojectId%7D/%7Bid%7D" {
		t.Error(got)
	}
}
