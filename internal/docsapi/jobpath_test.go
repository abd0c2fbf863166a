package docsapi

import (
	"strings"
	"testing"
)

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
