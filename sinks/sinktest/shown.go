package sinktest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
)

// Window is a sealed window without a file that makes its rows, each of which carries the
// number of the revision in Human.
type Window struct {
	Rev   analytics.Revision
	Size  int   // of a path
	Lacks int64 // rows
}

// WindowOf is a revision of the given day of prj_a with n rows.
func WindowOf(day int, number int32, n int64) Window {
	rev := Revision(Key("prj_a", day), number)
	rev.Rows = n
	return Window{Rev: rev, Size: 30}
}

// FirstDay is a revision of the first day of prj_a with n rows.
func FirstDay(number int32, n int64) Window { return WindowOf(0, number, n) }

// Of returns w as a window of another project.
func (w Window) Of(project string) Window {
	w.Rev.Project = project
	return w
}

// For returns w as a window of a report.
func (w Window) For(report analytics.Report) Window {
	rows := w.Rev.Rows
	w.Rev = Revision(Of(report, w.Rev.Key), w.Rev.Number)
	w.Rev.Rows = rows
	return w
}

// Revision returns Rev.
func (w Window) Revision() analytics.Revision { return w.Rev }

// Open fails.
func (w Window) Open() (io.ReadCloser, error) { return nil, errors.New("a window without a file") }

// Rows yields the rows.
func (w Window) Rows() iter.Seq2[analytics.Record, error] {
	if w.Rev.Report.Shape().Site {
		return rowsLike(w.Rev.Report, w.agents())
	}
	return analytics.Records(w.visitors())
}

func (w Window) visitors() iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		tail := strings.Repeat("x", max(w.Size-20, 0))
		for i := range w.Rev.Rows - w.Lacks {
			path := fmt.Sprintf("/docs/page-%08d%s", i, tail)
			if !yield(analytics.Row{Path: path, Totals: analytics.Totals{Human: int64(w.Rev.Number), AI: 7,
				Total: int64(w.Rev.Number) + 3}}, nil) {
				return
			}
		}
	}
}

// agents are the rows of a window of agents: its revision is in Visitors of each, and its number
// of rows in Requests.
func (w Window) agents() iter.Seq2[analytics.AgentRow, error] {
	return func(yield func(analytics.AgentRow, error) bool) {
		site := siteAgents(w.Rev.Number, w.Rev.Rows)
		for _, row := range site {
			if !yield(row, nil) {
				return
			}
		}
		tail := strings.Repeat("x", max(w.Size-20, 0))
		for i := range w.Rev.Rows - w.Lacks {
			row := site[i%2]
			row.Path = fmt.Sprintf("/docs/page-%08d%s", i/2, tail)
			if !yield(row, nil) {
				return
			}
		}
	}
}

// Replace commits windows, which must succeed.
func Replace(t testing.TB, s sinks.Sink, windows ...sinks.Sealed) {
	t.Helper()
	for _, w := range windows {
		Check(t, s.Replace(t.Context(), w))
	}
}

// Shows commits w and expects readers to see it.
func Shows(t testing.TB, s sinks.Sink, r Reader, w Window) {
	t.Helper()
	Replace(t, s, w)
	Sees(t, r, w.Rev.Key, w.Rev.Number)
}

// Sees expects readers to see a revision of a window in both tables, whole; 0 for no revision.
func Sees(t testing.TB, r Reader, key analytics.Key, number int32) {
	t.Helper()
	if got := Shown(t, r, key); got != number {
		t.Errorf("%s: readers see revision %d, want %d", key, got, number)
	}
}

// Whole fails unless readers see at most one revision of the window of [FirstDay] in each
// table, whole and one of revs. It returns their numbers, 0 for none.
func Whole(t *testing.T, r Reader, revs ...analytics.Revision) (visitors, totals int32) {
	t.Helper()
	key := Of(revs[len(revs)-1].Report, Key("prj_a", 0))
	rows, carried, shown := seen(t, r, key)
	for _, all := range [][]analytics.Revision{carried, shown} {
		if len(all) > 1 || len(all) == 1 && !slices.ContainsFunc(revs, all[0].Same) {
			t.Errorf("readers see %+v", all)
		}
	}
	if len(carried) > 0 {
		if visitors = carried[0].Number; max(carried[0].Rows, 0) != rows {
			t.Errorf("%d rows of %+v", rows, carried[0])
		}
	}
	if len(shown) > 0 {
		totals = shown[0].Number
	}
	return visitors, totals
}

// seen returns the number of rows with a path that readers see of a window, the revisions they carry, and the
// revisions of the site: a table of agents has both.
func seen(t *testing.T, r Reader, key analytics.Key) (n int64, carried, totals []analytics.Revision) {
	t.Helper()
	rows, carried, err := r.Rows(key)
	Check(t, err)
	for _, row := range rows {
		if !key.Report.Shape().IsOfSite(row) {
			n++
		}
	}
	if key.Report.Shape().Site {
		return n, carried, carried
	}
	totals, err = r.Totals(key)
	Check(t, err)
	return n, carried, totals
}

// Agreed fails unless List and then Revisions yield just one revision, one of revs, and
// readers then see it in both tables.
func Agreed(t *testing.T, s sinks.Sink, r Reader, revs ...analytics.Revision) {
	t.Helper()
	var yielded []analytics.Revision
	for _, list := range []iter.Seq2[analytics.Revision, error]{sinks.List(t.Context(), s), s.Revisions(t.Context())} {
		for rev, err := range list {
			if err != nil || !slices.ContainsFunc(revs, rev.Same) {
				t.Errorf("a listing yields %+v, %v", rev, err)
			}
			yielded = append(yielded, rev)
		}
	}
	if len(yielded) != 2 || !yielded[0].Same(yielded[1]) {
		t.Fatalf("List and Revisions yield %+v, want the same one revision", yielded)
	}
	want := yielded[0].Number
	visitors, totals := Whole(t, r, revs...)
	if yielded[0].TotalsOnly() && !yielded[0].Report.Shape().Site {
		visitors += want // is 0
	}
	if totals != want || visitors != want {
		t.Errorf("the tables show revisions %d and %d, Revisions says %d", visitors, totals, want)
	}
}

// RevisionOf is the revision of a window, and no revision for nil.
func RevisionOf(w *archive.File) (rev analytics.Revision) {
	if w != nil {
		rev = w.Revision()
	}
	return rev
}

// CutOff commits a second revision of a day by a sink whose connection fails, and a third after
// heal. In between readers must see the first or the second, and the second if Replace said so.
func CutOff(t *testing.T, s sinks.Sink, r Reader, next Window, settled, heal func()) (outcome string) {
	t.Helper()
	err := s.Replace(t.Context(), next)
	settled()
	outcome = map[int32]string{1: "former", 2: "new"}[Shown(t, r, next.Rev.Key)]
	if err == nil && outcome != "new" || outcome == "" {
		t.Errorf("Replace = %v, readers see the %s revision", err, outcome)
	}
	if err != nil {
		outcome += "+error"
	}
	heal()
	next.Rev.Number, next.Rev.Rows = 3, 20
	Shows(t, s, r, next)
	return outcome
}

// Inspected returns what Inspect yields of one window, rows included.
func Inspected(t *testing.T, s sinks.Sink, key analytics.Key) (shown sinks.Shown, fault *sinks.Fault) {
	t.Helper()
	for got, err := range s.Inspect(t.Context(), sinks.Scope{Rows: true}) {
		if f, ok := errors.AsType[sinks.Fault](err); ok {
			fault = &f
		} else if err != nil {
			t.Fatal(err)
		}
		if got.Key == key {
			shown = got
		}
	}
	return shown, fault
}

// VisitorsOnly: a sink without the option Reports, s, makes no table of agents, and neither takes nor shows
// their windows. In the same place, another one with the option makes it for its first window. made reports
// whether there is a table of agents.
func VisitorsOnly(t *testing.T, s, both sinks.Sink, r Reader, visitors, agents sinks.Sealed, made func() bool) {
	t.Helper()
	key := agents.Revision().Key
	Replace(t, s, visitors)
	Check(t, s.Check(t.Context()))
	refusesAgents(t, s, agents)
	for rev, err := range both.Revisions(t.Context()) {
		if err != nil || rev.Key != visitors.Revision().Key {
			t.Errorf("Revisions yields %+v, %v", rev, err)
		}
	}
	_, err := sinks.Collect(t.Context(), both, false)
	Check(t, err)
	if shown, fault := Inspected(t, both, key); shown.Number != 0 || fault != nil || made() {
		t.Errorf("before its first window, agents are %+v, %v; a table of them %t", shown, fault, made())
	}
	Replace(t, both, agents)
	if rows, _, err := r.Rows(key); len(rows) == 0 || err != nil || !made() {
		t.Errorf("readers see %d rows of agents, %v; a table of them %t", len(rows), err, made())
	}
	refusesAgents(t, s, agents)
}

func refusesAgents(t *testing.T, s sinks.Sink, agents sinks.Sealed) {
	t.Helper()
	rev := agents.Revision()
	_, _, given := s.Window(t.Context(), rev, t.TempDir())
	for call, err := range map[string]error{"Replace": s.Replace(t.Context(), agents), "Window": given} {
		if err == nil || !strings.Contains(err.Error(), "DOCGAUGE_REPORTS") {
			t.Errorf("%s = %v", call, err)
		}
	}
	for shown, err := range s.Inspect(t.Context(), sinks.Scope{Rows: true}) {
		if err != nil || shown.Report == rev.Report {
			t.Errorf("Inspect yields %+v, %v", shown, err)
		}
	}
	for listed, err := range s.Revisions(t.Context()) {
		if err != nil || listed.Report == rev.Report {
			t.Errorf("Revisions yields %+v, %v", listed, err)
		}
	}
}

// Seen reports whether damage of a window of ten rows is seen.
type Seen func(before, after sinks.Shown, fault *sinks.Fault) bool

// LeavesRows is damage after which there are so many rows.
func LeavesRows(n int64) Seen {
	return func(_, after sinks.Shown, fault *sinks.Fault) bool {
		return !after.Whole() && after.Sum.Rows == n && fault == nil
	}
}

// ChangesRows is damage to rows whose number stays.
func ChangesRows(before, after sinks.Shown, fault *sinks.Fault) bool {
	return after.Sum.Rows == 10 && after.Sum.Checksum != before.Sum.Checksum && fault == nil
}

// ChangesTotals is damage that makes the total 1.
func ChangesTotals(before, after sinks.Shown, fault *sinks.Fault) bool {
	return after.Totals.Total == 1 && after.Sum == before.Sum && fault == nil
}

// Contradicts is damage after which rows and totals belong to different revisions.
func Contradicts(before, _ sinks.Shown, fault *sinks.Fault) bool {
	return fault != nil && fault.Kind == sinks.Disagree && fault.Key == before.Key
}

// Harmless is something that no reader sees.
func Harmless(before, after sinks.Shown, fault *sinks.Fault) bool {
	return before == after && fault == nil
}

// SeesDamage inspects a window of a report before and after damage, and after it was committed again.
func SeesDamage(t *testing.T, s sinks.Sink, report analytics.Report, do func(), seen Seen) {
	t.Helper()
	window := func(number int32, n int64) Window { return FirstDay(number, n).For(report) }
	key := window(2, 10).Rev.Key
	Replace(t, s, window(1, 4), window(2, 10))
	before, fault := Inspected(t, s, key)
	if !before.Whole() || fault != nil {
		t.Fatalf("before: %+v, %v", before, fault)
	}
	do()
	after, fault := Inspected(t, s, key)
	if !seen(before, after, fault) {
		t.Errorf("before %+v, after %+v, fault %v", before, after, fault)
	}
	Replace(t, s, window(2, 10))
	if again, fault := Inspected(t, s, key); again != before || fault != nil {
		t.Errorf("after Replace: %+v, %v", again, fault)
	}
}

// NotListed expects a sink without a server not to be taken for empty.
func NotListed(t *testing.T, s sinks.Sink) {
	t.Helper()
	n := 0
	for _, err := range s.Inspect(t.Context(), sinks.Scope{Rows: true}) {
		if n++; !errors.Is(err, sinks.ErrNotListed) {
			t.Errorf("Inspect yields %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d errors", n)
	}
}

// InspectMakesNothing: a database that was never written to stays empty, and one that a newer
// release made, as newer does, is not read by another sink.
func InspectMakesNothing(t *testing.T, s, other sinks.Sink, made func() string, newer func()) {
	t.Helper()
	if shown, fault := Inspected(t, s, Key("prj_a", 0)); shown.Number != 0 || fault != nil {
		t.Errorf("an empty database shows %+v, %v", shown, fault)
	}
	if _, _, err := s.Window(t.Context(), Revision(Key("prj_a", 0), 1), t.TempDir()); err == nil {
		t.Error("an empty database gives a window")
	}
	if tables := made(); tables != "" {
		t.Errorf("tables %s were made", tables)
	}
	Replace(t, s, FirstDay(1, 3))
	newer()
	for _, err := range other.Inspect(t.Context(), sinks.Scope{}) {
		if !errors.Is(err, sinks.ErrNotListed) || !strings.Contains(err.Error(), "schema version 99") {
			t.Errorf("a newer schema: %v", err)
		}
	}
}

// MigrationsAtOnce has eight sinks come to an empty database.
func MigrationsAtOnce(t *testing.T, open func() sinks.Sink, r Reader) {
	t.Helper()
	var wait sync.WaitGroup
	for day := range 8 {
		s := open()
		wait.Go(func() {
			err := s.Check(t.Context())
			if err == nil {
				err = s.Replace(t.Context(), WindowOf(day, 1, 10))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for day := range 8 {
		Sees(t, r, WindowOf(day, 1, 0).Rev.Key, 1)
	}
}

// WrongDSNs expects an error with these words for each DSN, that begins with the product and
// does not show the secret.
func WrongDSNs(
	t *testing.T, product, secret string, open func(dsn string) (sinks.Sink, error), wrong map[string]string,
) {
	t.Helper()
	for dsn, want := range wrong {
		_, err := open(dsn)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), product+" DSN: ") {
			t.Errorf("%q: %v, want %q", dsn, err, want)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v shows the password", dsn, err)
		}
	}
}

// Locations expects each DSN to be taken, and to be shown so.
func Locations(t *testing.T, open func(dsn string) (sinks.Sink, error), forms map[string]string) {
	t.Helper()
	for dsn, want := range forms {
		s, err := open(dsn)
		if err != nil || s.Location() != want {
			t.Errorf("%q: %v, %v; want %s", dsn, s, err, want)
		}
	}
}

// DocumentedGrants returns the first groups of pattern in the grants of a document, and as it says in words the same as
// for agents for each further report.
func DocumentedGrants(t *testing.T, document, pattern string) (grants []string) {
	t.Helper()
	text, err := os.ReadFile(document)
	Check(t, err)
	_, part, _ := strings.Cut(string(text), "<!-- grants to export -->")
	part, _, _ = strings.Cut(part, "<!-- end -->")
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(part, -1) {
		grants = append(grants, m[1])
	}
	if len(grants) < 3 {
		t.Fatalf("the documentation names %q", grants)
	}
	for _, grant := range slices.Clone(grants) {
		for _, report := range analytics.OtherReports {
			name := "docgauge_" + report.String()
			if other := strings.ReplaceAll(grant, "docgauge_agents", name); other != grant {
				if totals := report.Shape().TotalsTable; totals != "" {
					other = strings.ReplaceAll(other, name+"_windows", "docgauge_"+totals)
				}
				grants = append(grants, other)
			}
		}
	}
	return grants
}

// Certificate writes a certificate for 127.0.0.1 that only itself signed, and its key.
func Certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Check(t, err)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	signed, err := x509.CreateCertificate(rand.Reader, about, about, &private.PublicKey, private)
	Check(t, err)
	secret, err := x509.MarshalECPrivateKey(private)
	Check(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "EC PRIVATE KEY", Bytes: secret},
	} {
		Check(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	return cert, key
}
