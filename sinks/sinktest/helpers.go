package sinktest

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
)

// Refuses expects Check and Replace of a window of a report to fail at once, both in one line that names the place
// and each of the words, without the secret.
func Refuses(t *testing.T, s sinks.Sink, report analytics.Report, secret string, words ...string) {
	t.Helper()
	const longest = 700 // bytes
	w := Seal(t, Revision(Of(report, Key("prj_a", 0)), 9), Pages(3))
	for call, err := range map[string]error{"Check": s.Check(t.Context()), "Replace": s.Replace(t.Context(), w)} {
		if err == nil {
			t.Errorf("%s = nil", call)
			continue
		}
		for _, word := range append(words, s.Location()) {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s = %q, want %q in it", call, err, word)
			}
		}
		if strings.Contains(err.Error(), secret) || len(err.Error()) > longest || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s = %q: not one line, or with the password", call, err)
		}
	}
}

// Shown returns which revision of a window both tables show, whole; 0 if none. Each row
// must carry the number of its revision in Human.
func Shown(t testing.TB, r Reader, key analytics.Key) int32 {
	t.Helper()
	if key.Report.Shape().Site {
		return shownAgents(t, r, key)
	}
	totals, err := r.Totals(key)
	if err != nil || len(totals) > 1 {
		t.Fatalf("readers see totals %v, %v", totals, err)
	}
	rows, revs, err := r.Rows(key)
	if err != nil || len(revs) > 1 {
		t.Fatalf("readers see revisions %v, %v", revs, err)
	}
	if len(totals) == 0 {
		if len(rows) > 0 {
			t.Fatalf("readers see %d rows and no totals", len(rows))
		}
		return 0
	}
	number := totals[0].Number
	if int64(len(rows)) != max(totals[0].Rows, 0) || len(revs) == 1 && revs[0].Number != number {
		t.Fatalf("readers see %d rows of %v, the totals are %v", len(rows), revs, totals[0])
	}
	for _, row := range rows {
		if row.Counts[0] != int64(number) {
			t.Fatalf("readers see %+v in revision %d", row, number)
		}
	}
	return number
}

// shownAgents is Shown of a window of agents as [Window] makes it.
func shownAgents(t testing.TB, r Reader, key analytics.Key) int32 {
	t.Helper()
	rows, revs, err := r.Rows(key)
	if err != nil || len(revs) > 1 {
		t.Fatalf("readers see revisions %v, %v", revs, err)
	}
	if len(rows) == 0 {
		return 0
	}
	number, pages, site := revs[0].Number, int64(0), 0
	for _, row := range rows {
		if row.Path() == "" {
			site++
		} else {
			pages++
		}
	}
	for _, row := range rows {
		visitors, requests := row.Counts[0], row.Counts[1]
		if visitors != int64(number) || site != 2 || pages != max(requests-visitors, 0) {
			t.Fatalf("readers see %d rows of the site, %d others, and %+v in revision %d", site, pages, row, number)
		}
	}
	return number
}

// FileRows returns what [Reader.Rows] does, for a sink of files: each calls its
// argument for each file of a window that readers see.
func FileRows(
	each func(f func(path string, rev analytics.Revision) error) error,
) (rows []analytics.Record, revs []analytics.Revision, err error) {
	err = each(func(path string, rev analytics.Revision) error {
		revs = append(revs, rev)
		file, err := archive.Open(path)
		if err != nil {
			return err
		}
		for row, err := range file.Rows() {
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return nil
	})
	return rows, revs, err
}

// HidesPasswords writes passwords of all characters into DSNs as people do: raw, at each
// place that takes one, and beside other mistakes. Neither an error nor a location shows a
// part of one. In a form S is a scheme, P the password and Q a parameter.
func HidesPasswords(t *testing.T, forms, schemes, parameters []string, open func(dsn string) (sinks.Sink, error)) {
	t.Helper()
	word := rapid.StringMatching(`[a-z]{6}[0-9]{3}`)
	special := rapid.StringMatching("[-@/?#:%&=;,. \\[\\]`'\"\\\\]{0,2}")
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(word, 1, 3).Draw(t, "words")
		password := ""
		for _, w := range words {
			password += special.Draw(t, "special") + w
		}
		dsn := strings.NewReplacer(
			"S", rapid.SampledFrom(schemes).Draw(t, "scheme"),
			"P", password+special.Draw(t, "special"),
			"Q", rapid.SampledFrom(parameters).Draw(t, "parameter"),
		).Replace(rapid.SampledFrom(forms).Draw(t, "form"))
		s, err := open(dsn)
		shown := ""
		if err != nil {
			shown = err.Error()
		} else if strings.Contains(dsn, "@h") {
			shown = s.Location()
		}
		for _, w := range words {
			if strings.Contains(shown, w) {
				t.Fatalf("%q shows %q: %s", dsn, w, shown)
			}
		}
	})
}
