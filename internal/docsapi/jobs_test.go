package docsapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var oneJobWant = Job{
	ID: "job_1", Status: StatusActive, Repository: "o/r", Ref: "main", Model: "m",
	CreatedAt: time.Date(2026, 10, 1, 8, 0, 0, 0, time.UTC),
}

func TestJobReads(t *testing.T) {
	other := strings.Replace(oneJob, "job_1", "job_2", 1)
	for name, tc := range map[string]struct {
		answers  []func(*http.Request) (*http.Response, error)
		attempts int
		outcome  Outcome
		missing  bool
		says     string
	}{
		"job":              {tell(status(200, oneJob)), 1, OK, false, ""},
		"after an outage":  {tell(status(502, ""), breaks(io.EOF), status(200, oneJob[:30]), status(200, oneJob)), 4, OK, false, ""},
		"an outage":        {tell(status(503, "")), 5, Transient, false, "HTTP 503"},
		"429":              {tell(status(429, "", "Retry-After", "9")), 1, Transient, false, "request limit"},
		"404 of the API":   {tell(status(404, ` {"error":"no job"}`)), 1, Permanent, true, "DOCGAUGE_JOB_PATH"},
		"404 of a proxy":   {tell(status(404, `<html>`)), 1, Permanent, false, "DOCGAUGE_JOB_PATH"},
		"404, text":        {tell(status(404, `{no`)), 1, Permanent, false, "DOCGAUGE_JOB_PATH"},
		"another's":        {tell(status(200, other)), 1, Permanent, false, "another job's, job_2"},
		"no id":            {tell(status(200, `{"status":"active"}`)), 1, Permanent, false, "not that of the service's specification"},
		"201":              {tell(status(201, oneJob)), 1, Permanent, false, "HTTP 201"},
		"a page of HTML":   {tell(status(200, "<html>", "Content-Type", "text/html")), 1, Permanent, false, "content type text/html"},
		"a refused budget": {tell(breaks(notBefore{time.Now()})), 1, Transient, false, "budget used up"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &scripted{answers: tc.answers}
				c := agentClient(t, "https://api.example.com")
				c.jobTransport = s
				job, err := c.Job(t.Context(), "prj_a", "job_1")
				if outcomeOf(err) != tc.outcome || len(s.at) != tc.attempts || IsNotFound(err) != tc.missing {
					t.Errorf("%v after %d attempts, not found %t", err, len(s.at), IsNotFound(err))
				}
				if err == nil && !cmp.Equal(job, oneJobWant) || err != nil && (job != (Job{}) || !strings.Contains(err.Error(), tc.says)) {
					t.Errorf("%+v, %v; want %q", job, err, tc.says)
				}
			})
		})
	}
}

func TestDecodeJob(t *testing.T) {
	only := Job{ID: "j"}
	day := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	with := func(change func(*Job)) Job { j := only; change(&j); return j }
	for name, tc := range map[string]struct {
		body string
		want Job
	}{
		"plain": {oneJob, oneJobWant},
		"ended": {`{"id":"j","status":"completed","prLink":"https://host/o/r/pull/7","archivedAt":"2026-10-01T02:00:00.5+02:00"}`,
			with(func(j *Job) {
				j.Status, j.PRLink, j.ArchivedAt = StatusCompleted, "https://host/o/r/pull/7", day.Add(time.Second/2)
			})},
		"id alone":             {` {"id":"j"} ` + "\n", only},
		"nulls":                {`{"id":"j","status":null,"source":null,"model":null,"prLink":null,"createdAt":null,"archivedAt":null}`, only},
		"other types":          {`{"id":"j","status":1,"source":[],"model":{},"prLink":true,"createdAt":1790812800,"archivedAt":[]}`, only},
		"source of odd fields": {`{"id":"j","source":{"repository":{},"ref":"dev","x":1}}`, with(func(j *Job) { j.Ref = "dev" })},
		"unknown fields":       {`{"x":[{"id":"k"}],"id":"j","ID":"k","Status":"failed"}`, only},
		"unknown status":       {`{"id":"j","status":"in_review"}`, with(func(j *Job) { j.Status = "in_review" })},
		"zone without colon":   {`{"id":"j","createdAt":"2026-10-01T02:00:00+0200"}`, with(func(j *Job) { j.CreatedAt = day })},
		"odd times":            {`{"id":"j","createdAt":"yesterday","archivedAt":"0000-01-01T00:00:00Z"}`, only},
		"a day, no zone":       {`{"id":"j","createdAt":"2026-10-01","archivedAt":"2026-10-01T00:00:00"}`, only},
		"control characters":   {`{"id":"j","status":"\u001b[31mact\nive\u202e","model":" m\u0000 "}`, with(func(j *Job) { j.Status, j.Model = "[31mact ive", "m" })},
		"invalid UTF-8":        {"{\"id\":\"j\",\"model\":\"m\xff\"}", with(func(j *Job) { j.Model = "m" })},
		"long text":            {`{"id":"j","model":"a` + strings.Repeat("é", maxText) + `"}`, with(func(j *Job) { j.Model = "a" + strings.Repeat("é", maxText/2-1) })},
		"odd id":               {`{"id":"a b/../é?"}`, Job{ID: "a b/../é?"}},
		"longest id":           {`{"id":"` + strings.Repeat("i", maxID) + `"}`, Job{ID: strings.Repeat("i", maxID)}},
	} {
		got, err := decodeJob([]byte(tc.body), "")
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Error(name, err, diff)
		}
		if _, err := decodeJob([]byte(tc.body), tc.want.ID); err != nil {
			t.Errorf("%s, asked for by its id: %v", name, err)
		}
	}
}

func TestDecodeJobRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ body, says string }{
		"no id":          {`{"status":"active"}`, "no usable id"},
		"id null":        {`{"id":null}`, "no usable id"},
		"id a number":    {`{"id":7}`, "no usable id"},
		"id empty":       {`{"id":""}`, "no usable id"},
		"id of spaces":   {`{"id":"  "}`, "no usable id"},
		"id with a line": {`{"id":"a\nb"}`, "no usable id"},
		"id of dots":     {`{"id":".."}`, "no usable id"},
		"id too long":    {`{"id":"` + strings.Repeat("i", maxID+1) + `"}`, "no usable id"},
		"id not UTF-8":   {"{\"id\":\"a\xff\"}", "no usable id"},
		"another's":      {`{"id":"k"}`, "it is another job's, k"},
		"null":           {`null`, "no usable id"},
		"array":          {`[{"id":"j"}]`, "want an object"},
		"string":         {`"j"`, "want an object"},
		"two":            {`{"id":"j"}{"id":"j"}`, "more data after the job"},
		"garbage after":  {`{"id":"j"}x`, "more data after the job"},
		"HTML":           {`<html>`, "invalid character"},
		"too deep":       {`{"x":` + strings.Repeat("[", 20000), "exceeded max depth"},
	} {
		job, err := decodeJob([]byte(tc.body), "j")
		if !errors.Is(err, errShape) || errors.Is(err, errCut) || !strings.Contains(err.Error(), tc.says) || job != (Job{}) {
			t.Errorf("%s: %+v, %v; want errShape with %q", name, job, err, tc.says)
		}
	}
	for n := range len(oneJob) {
		if _, err := decodeJob([]byte(oneJob[:n]), ""); !errors.Is(err, errCut) {
			t.Errorf("first %d bytes: %v", n, err)
		}
	}
}

// TestDecodeJobRoundTrip: every field of a job arrives as it was sent.
func TestDecodeJobRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-zA-Z0-9_/:.é😀-]{1,60}`)
		at := rapid.Map(rapid.Int64Range(1, 4e9), func(s int64) time.Time { return time.Unix(s, s%1000*1e6).UTC() })
		want := Job{
			ID: word.Filter(func(s string) bool { return checkID(s) == nil }).Draw(t, "id"), Status: word.Draw(t, "status"),
			Repository: word.Draw(t, "repository"), Ref: word.Draw(t, "ref"), Model: word.Draw(t, "model"),
			PRLink: word.Draw(t, "prLink"), CreatedAt: at.Draw(t, "createdAt"), ArchivedAt: at.Draw(t, "archivedAt"),
		}
		body, err := json.Marshal(map[string]any{
			"id": want.ID, "status": want.Status, "model": want.Model, "prLink": want.PRLink,
			"source":    map[string]any{"repository": want.Repository, "ref": want.Ref},
			"createdAt": want.CreatedAt, "archivedAt": want.ArchivedAt,
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeJob(body, want.ID)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
	})
}

func TestJobEnded(t *testing.T) {
	for status, want := range map[string]bool{
		StatusActive: false, StatusCompleted: true, StatusArchived: true, StatusFailed: true, "": false, "in_review": false, "Completed": false,
	} {
		if (Job{Status: status}).Ended() != want {
			t.Errorf("%q: ended is not %t", status, want)
		}
	}
}

func FuzzDecodeJob(f *testing.F) {
	for _, body := range []string{oneJob, `{"id":"j"}`, `null`, `[]`, `{"id":"j","source":{"ref":null},"createdAt":"2026-10-01T02:00:00+0200"}`, "{\"id\":\"\xff\"}", `{"id":"j"} {`, `{"id":"j","id":"k"}`} {
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
			if len(s) > maxText || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) }) {
				t.Fatalf("text %q", s)
			}
		}
		for _, at := range []time.Time{job.CreatedAt, job.ArchivedAt} {
			if at != (time.Time{}) && (at.Unix() <= 0 || at.Location() != time.UTC) {
				t.Fatalf("time %v", at)
			}
		}
	})
}

func TestCheckJobPath(t *testing.T) {
	for _, path := range []string{DefaultJobPath, "/{projectId}/{id}", "/a/{id}.json/of-{projectId}", "/%7Eme/{projectId}:{id}/"} {
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
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "DOCGAUGE_JOB_PATH: ") {
			t.Errorf("%q: %v; want %q", path, err, says)
		}
	}
	if got := fillJobPath("/{id}/{projectId}", "{id}", "a/../b {projectId}"); got != "/a%2F..%2Fb%20%7BprojectId%7D/%7Bid%7D" {
		t.Error(got)
	}
}
