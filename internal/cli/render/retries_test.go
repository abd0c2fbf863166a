package render

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestRetries(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(Retries{slog.NewTextHandler(&out, nil), &out, "again"}).With("run", 1)
	log.Warn("again", "project", "prj_a", "attempt", 1, "attempts", 5, "reason", "nx.invalid: no such host")
	log.Warn("other", "attempt", 1)
	got := strings.SplitAfter(out.String(), "\n")
	if got[0] != "nx.invalid: no such host, trying again (2 of 5)\n" || len(got) != 3 ||
		!strings.Contains(got[1], "msg=other run=1 attempt=1") {
		t.Errorf("%q", got)
	}
}
