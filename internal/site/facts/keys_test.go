package facts

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// TestAPIKeys: a key is valid and revoked at once for another process beside, and its secret is in
// no file.
func TestAPIKeys(t *testing.T) {
	dir, ctx, now := t.TempDir(), t.Context(), time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	serving, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer serving.Close()
	beside, err := Attach(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	one, secret, err := beside.AddAPIKey(ctx, "prj_a", "read", "", now)
	if err != nil {
		t.Fatal(err)
	}
	two, other, err := beside.AddAPIKey(ctx, "prj_b", "admin", "", now.Add(time.Second))
	if err != nil || secret == other || !strings.HasPrefix(secret, keyPrefix) || len(secret) < 40 {
		t.Errorf("%q, %q, %v", secret, other, err)
	}
	find := func(secret string) (APIKey, bool) {
		k, found, err := serving.FindAPIKey(ctx, sha256.Sum256([]byte(secret)))
		if err != nil {
			t.Fatal(err)
		}
		return k, found
	}
	if got, found := find(secret); !found || got != one || got.Project != "prj_a" || got.Scope != "read" {
		t.Errorf("%+v, %v, want %+v", got, found, one)
	}
	if all, err := serving.APIKeys(ctx); err != nil || len(all) != 2 || all[0] != one || all[1] != two {
		t.Errorf("%+v, %v", all, err)
	}
	for _, want := range []bool{true, false} {
		if found, err := beside.RevokeAPIKey(ctx, one.ID); err != nil || found != want {
			t.Errorf("revoked %v, %v, want %v", found, err, want)
		}
	}
	if _, found := find(secret); found {
		t.Error("a revoked key is valid")
	}
	if _, found := find(other); !found {
		t.Error("another key was revoked")
	}
	files, _ := filepath.Glob(filepath.Join(dir, fileName+"*"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || strings.Contains(string(text), other[len(keyPrefix):]) {
			t.Errorf("%s has the secret, or %v", file, err)
		}
	}
}

// TestTemporary: a temporary site counts as others do, and none of its files has a key.
func TestTemporary(t *testing.T) {
	s, err := OpenTemporary(t.TempDir())
	check(t, err)
	day := analytics.NewDate(2026, 1, 10)
	readers := s.NewIdentifier([]string{project}, time.Now)
	for i := range 2 {
		b := Batch{Projects: []string{project}, Views: make([]View, 2)}
		for k := range b.Views {
			b.Views[k] = View{Day: day, Agent: Browser, Referral: NoReferral}
			if open, err := readers.Identify(&b.Views[k], []byte{byte(k)}); err != nil || !open {
				t.Fatalf("open %v, %v", open, err)
			}
		}
		if i == 0 {
			b.Pages = []Page{{Project: project, Path: "/a"}}
		}
		check(t, s.Commit(t.Context(), b))
		readers.Forget()
	}
	got, err := s.CountVisitors(t.Context(), project, day, day+1, analytics.Claimed)
	check(t, err)
	if want := (analytics.Totals{Human: 2, Total: 2}); got.Totals != want {
		t.Errorf("%v, want %v", got.Totals, want)
	}
	var keys int
	check(t, s.sql.QueryRow("SELECT count(*) FROM epochs WHERE length(key) > 0").Scan(&keys))
	if keys > 0 {
		t.Errorf("%d keys are in the database", keys)
	}
	check(t, s.Close())
}
