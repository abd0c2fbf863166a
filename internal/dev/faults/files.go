package faults

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

var check = sinktest.Check

// Files describes a sink of files to [RunFiles].
type Files struct {
	// Report is the report of the windows. For reports other than visitors, RunFiles leaves out what does not depend on
	// the tables of a report.
	Report analytics.Report
	// Open returns a sink with this store.
	Open func(store filestore.Store) sinks.Sink
	// Reader sees the files of a sink, which are below root.
	Reader func(t *testing.T, s sinks.Sink, root string) sinktest.Reader
	// Requests are the requests of Replace to a bucket: a method and a part of the path.
	Requests []string
	// Resolves is the part of a path for which a lost answer is not an error: the sink reads
	// the file.
	Resolves string
	// Steps are those at which TestCrashChild can die: it must come to so many of them with so
	// many Rows, and with totals only.
	Steps                      []string
	Rows, WithRows, TotalsOnly int
	// Healed is after how many of the steps a listing heals by new log entries.
	Healed int
}

// FileStore returns a store that waits between its tries as little as a test wants to.
func FileStore(t *testing.T, url string) filestore.Store {
	t.Helper()
	store, err := filestore.NewWithin(url, filestore.Limits{
		Transfer: 3 * engines.AtOnce, Call: 3 * engines.AtOnce, Answer: 2 * engines.AtOnce,
		Credentials: 2 * engines.AtOnce, Backoff: time.Millisecond,
	})
	check(t, err)
	t.Cleanup(func() { check(t, store.Close()) })
	return store
}

// Bucket returns the URL of a new bucket, and the directory in which the server keeps its
// objects.
func Bucket(t *testing.T) (url, root string) {
	t.Helper()
	name := engines.S3Bucket(t)
	return engines.S3URL(t, name, ""), filepath.Join(engines.S3Dir(name), "docs", "gauge")
}

// BehindProxy returns a store on a new bucket that is reached through a proxy, another on the
// same bucket that is not, and where the objects are.
func BehindProxy(t *testing.T) (far, direct filestore.Store, root string, p *engines.S3Proxy) {
	t.Helper()
	p = engines.NewS3Proxy(t)
	name := engines.S3Bucket(t)
	return FileStore(t, engines.S3URL(t, name, p.URL)), FileStore(t, engines.S3URL(t, name, "")),
		filepath.Join(engines.S3Dir(name), "docs", "gauge"), p
}

// Stepping is a store that says which step a sink has come to: before and after each file,
// entry and removal of a table.
type Stepping struct {
	filestore.Store
	At func(step string)
}

func (s Stepping) step(what, name string, do func() error) error {
	table, _, _ := strings.Cut(name, "/")
	s.At("before " + table + " " + what)
	err := do()
	s.At("after " + table + " " + what)
	return err
}

// Publish says its steps.
func (s Stepping) Publish(ctx context.Context, staged, name string) error {
	return s.step("file", name, func() error { return s.Store.Publish(ctx, staged, name) })
}

// Create says its steps.
func (s Stepping) Create(ctx context.Context, name string, data []byte) error {
	return s.step("entry", name, func() error { return s.Store.Create(ctx, name, data) })
}

// Remove says its steps.
func (s Stepping) Remove(ctx context.Context, name string) error {
	return s.step("removal", name, func() error { return s.Store.Remove(ctx, name) })
}

// Published lists the files below root whose names end in .parquet, except the files of a log.
func Published(root string) (paths []string) {
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && e.Name() == "_delta_log" {
			return filepath.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".parquet") {
			paths = append(paths, path)
		}
		return nil
	})
	return paths
}

// MountSmall returns a new file system of 1 MiB.
func MountSmall(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	Mount(t, dir, "1m")
	return dir
}

// Window is a revision of the first day of prj_a with n rows.
func Window(t *testing.T, number int32, n int) *archive.File {
	t.Helper()
	return sinktest.Seal(t, sinktest.Revision(sinktest.Key("prj_a", 0), number), sinktest.Pages(n))
}

// Totals is a revision of the same day, with totals only.
func Totals(t *testing.T, number int32) *archive.File {
	t.Helper()
	return sinktest.Seal(t, sinktest.TotalsOnly(sinktest.Revision(sinktest.Key("prj_a", 0), number)), nil)
}

func (f Files) window(t *testing.T, number int32, n int) *archive.File {
	t.Helper()
	return sinktest.Seal(t, sinktest.Revision(f.key(), number), sinktest.Pages(n))
}

func (f Files) key() analytics.Key { return sinktest.Of(f.Report, sinktest.Key("prj_a", 0)) }

// replacement is a window, and the one that it replaces, which may be nil.
type replacement struct{ former, next *archive.File }

// replacements have n rows, or totals only.
func (f Files) replacements(t *testing.T, n int) map[string]replacement {
	t.Helper()
	totals := func(number int32) *archive.File {
		return sinktest.Seal(t, sinktest.TotalsOnly(sinktest.Revision(f.key(), number)), nil)
	}
	all := map[string]replacement{
		"first":                 {nil, f.window(t, 2, n)},
		"over rows":             {f.window(t, 1, 50), f.window(t, 2, n)},
		"over totals only":      {totals(1), f.window(t, 2, n)},
		"totals only over rows": {f.window(t, 1, 50), totals(2)},
	}
	if f.Report == analytics.AgentsReport { // one file each, whatever is in it
		all = map[string]replacement{"over rows": all["over rows"]}
	}
	return all
}

// other is a sealed window whose file belongs to another revision.
type other struct {
	sinks.Sealed
	Rev analytics.Revision
}

// Revision returns Rev.
func (o other) Revision() analytics.Revision { return o.Rev }

// RunFiles has disk, server and process fail in each way while a sink of files replaces a
// window. It expects readers to see a whole revision, and the sink to heal the rest later.
func RunFiles(t *testing.T, f Files) {
	t.Run("crash in a directory", func(t *testing.T) {
		f.crashes(t, func(t *testing.T) (url, root string) {
			root = filepath.Join(t.TempDir(), "data")
			return root, root
		})
	})
	t.Run("bucket", f.bucketFaults)
	t.Run("sealed file of another revision", f.otherRevision)
	if f.Report == analytics.AgentsReport {
		return
	}
	t.Run("crash at a bucket", func(t *testing.T) {
		engines.SharedS3(t)
		t.Setenv("TMPDIR", t.TempDir()) // killed processes leave their staging files there
		f.crashes(t, Bucket)
	})
	t.Run("disk full", f.diskFull)
	t.Run("directory", f.directoryFaults)
	t.Run("removed in the middle", f.removed)
}

func (f Files) openAt(t *testing.T, root string) (s sinks.Sink, r sinktest.Reader) {
	t.Helper()
	s = f.Open(FileStore(t, root))
	return s, f.Reader(t, s, root)
}

// bucketFaults does each harm to each request of Replace, a few times and for ever. A few are
// survived. If they stay, readers see whole files, and Revisions and the next Replace heal.
func (f Files) bucketFaults(t *testing.T) {
	const fewTries = 4 // less often than a store sends one request
	windows := f.replacements(t, 80)
	harms := map[string]engines.Meddler{
		"reset before the body": engines.ResetBefore, "reset in the body": engines.ResetMiddle,
		"answer lost":  engines.LoseAnswer,
		"slow down":    engines.S3Says(503, "SlowDown", "Please reduce your request rate."),
		"500":          engines.S3Says(500, "InternalError", "We failed."),
		"flipped byte": engines.FlipUpload, "denied": engines.S3Says(403, "AccessDenied", "Access Denied"),
	}
	for _, request := range f.Requests {
		method, in, _ := strings.Cut(request, " ")
		for i, harm := range slices.Sorted(maps.Keys(harms)) {
			m := harms[harm]
			for j, name := range slices.Sorted(maps.Keys(windows)) {
				if harm == "flipped byte" && method == "DELETE" {
					continue // it has no body
				}
				if harm != "answer lost" && harm != "denied" && (i+j)%len(windows) > 0 {
					continue // these end like denied, after the tries of the store: one window of each will do
				}
				w := windows[name]
				t.Run(request+"/"+harm+"/"+name, func(t *testing.T) {
					former, next := sinktest.RevisionOf(w.former), w.next.Revision()
					for _, by := range []string{"retries", "Revisions", "Replace"} {
						store, near, root, p := BehindProxy(t)
						far, direct := f.Open(store), f.Open(near)
						r := f.Reader(t, direct, root)
						if w.former != nil {
							sinktest.Replace(t, direct, w.former)
						}
						if by == "retries" {
							times := fewTries
							if harm == "denied" {
								times = 0
							}
							p.Set(engines.When(method, in, times, m))
							sinktest.Replace(t, far, w.next)
							sinktest.Agreed(t, direct, r, next)
							if requests, _ := p.Seen(); !slices.ContainsFunc(requests, func(r string) bool {
								return strings.HasPrefix(r, method) && strings.Contains(r, in)
							}) {
								return // the sink does not send this request
							}
							continue
						}
						p.Set(engines.When(method, in, -1, m))
						err := far.Replace(t.Context(), w.next)
						if harmless := harm == "answer lost" && f.Resolves != "" &&
							strings.Contains(in, f.Resolves); (err == nil) != harmless {
							t.Fatalf("Replace = %v", err)
						}
						if err != nil {
							engines.S3Clean(t, err.Error())
						}
						p.Set(nil)
						visitors, totals := sinktest.Whole(t, r, former, next)
						if by == "Replace" {
							sinktest.Replace(t, far, w.next)
							sinktest.Agreed(t, direct, r, next)
						} else if visitors+totals > 0 {
							sinktest.Agreed(t, direct, r, former, next)
						}
					}
				})
			}
		}
	}
}

// diskFull fills the file system, and frees a little at a time: a window that does not fit is an
// error that says so, and each table shows a whole revision.
func (f Files) diskFull(t *testing.T) {
	root := MountSmall(t)
	s, r := f.openAt(t, root)
	former, next := Window(t, 1, 3), Window(t, 2, 20_000)
	sinktest.Replace(t, s, former)
	sinktest.DiskFull(t, root, func() error { return s.Replace(t.Context(), next) }, func(first bool) {
		sinktest.Whole(t, r, former.Revision(), next.Revision())
		if there := Published(root); len(there) > 4 {
			t.Fatalf("there are %q: what is tried again keeps the disk full", there)
		}
		if first && s.Check(t.Context()) == nil {
			t.Error("Check of a full disk = nil")
		}
	})
	sinktest.Agreed(t, s, r, next.Revision())
}

// directoryFaults: Replace and Check of a directory that cannot be used say why, and publish
// nothing.
func (f Files) directoryFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, root string) error
		want  string
	}{
		"a file": {func(_ *testing.T, root string) error {
			return errors.Join(os.RemoveAll(root), os.WriteFile(root, nil, 0o600))
		}, "is a file"},
		"no parent": {nil, "parent does not exist"},
		"gone": {func(_ *testing.T, root string) error { return os.RemoveAll(root) },
			"gone since it was first used"},
		"read-only": {func(_ *testing.T, root string) error { // permissions do not bind root
			return exec.Command("mount", "-o", "remount,ro", root).Run()
		}, "read-only"},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "data")
			switch name {
			case "read-only":
				root = MountSmall(t)
			case "no parent":
				root = filepath.Join(root, "no", "data")
			}
			s, _ := f.openAt(t, root)
			if tc.spoil != nil {
				sinktest.Replace(t, s, Window(t, 1, 3))
				check(t, tc.spoil(t, root))
			}
			before := Published(root)
			for call, err := range map[string]error{
				"Replace": s.Replace(t.Context(), Window(t, 9, 3)), "Check": s.Check(t.Context()),
			} {
				if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), root) {
					t.Errorf("%s = %v, want %q", call, err, tc.want)
				}
			}
			if after := Published(root); !slices.Equal(before, after) {
				t.Errorf("files before %q and after %q", before, after)
			}
			if _, err := os.Stat(root); tc.want != "read-only" && name != "a file" && err == nil {
				t.Error("the directory came back by itself")
			}
		})
	}
}

// removed takes the directory away at each step of Replace: it does not come back by itself.
func (f Files) removed(t *testing.T) {
	for _, step := range f.Steps {
		if !strings.HasPrefix(step, "before ") {
			continue
		}
		root := filepath.Join(t.TempDir(), "data")
		store, reached := FileStore(t, root), false
		sinktest.Replace(t, f.Open(store), Window(t, 1, 3))
		s := f.Open(Stepping{store, func(now string) {
			if now == step {
				reached = true
				check(t, os.RemoveAll(root))
			}
		}})
		if err := s.Replace(t.Context(), Window(t, 2, 3)); reached && (!errors.Is(err, fs.ErrNotExist) ||
			!strings.Contains(err.Error(), root)) {
			t.Errorf("gone %s: Replace = %v", step, err)
		}
		if _, err := os.Stat(root); reached && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("gone %s: the directory came back by itself: %v", step, err)
		}
	}
}

// otherRevision: a window whose file holds another revision is refused, and leaves nothing.
func (f Files) otherRevision(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	s, r := f.openAt(t, root)
	former := f.window(t, 1, 3)
	sinktest.Replace(t, s, former)
	before := Published(root)
	err := s.Replace(t.Context(), other{f.window(t, 2, 3), f.window(t, 3, 3).Revision()})
	if err == nil || !strings.Contains(err.Error(), "revision 2") {
		t.Errorf("Replace = %v", err)
	}
	sinktest.Agreed(t, s, r, former.Revision())
	if there := Published(root); !slices.Equal(there, before) {
		t.Errorf("there are %q", there)
	}
	if left, err := os.ReadDir(filepath.Join(root, filestore.StagingDir)); len(left) > 0 || err != nil {
		t.Errorf("staging holds %v, %v", left, err)
	}
}

// crashes kills a process at each step of Replace. Then each table shows one whole revision,
// and Revisions, or else the next Replace, heals.
func (f Files) crashes(t *testing.T, newRoot func(t *testing.T) (url, root string)) {
	for name, tc := range f.replacements(t, f.Rows) {
		t.Run(name, func(t *testing.T) {
			reached, healed := 0, 0
			for _, step := range f.Steps {
				url, root := newRoot(t)
				s := f.Open(FileStore(t, url))
				r := f.Reader(t, s, root)
				if tc.former != nil {
					sinktest.Replace(t, s, tc.former)
				}
				if !sinktest.Killed(t, sinktest.Child(url, step, tc.next)) {
					continue
				}
				reached++
				t.Run(step, func(t *testing.T) {
					former, next := sinktest.RevisionOf(tc.former), tc.next.Revision()
					visitors, totals := sinktest.Whole(t, r, former, next)
					want := former
					if visitors == next.Number || totals == next.Number {
						want = next
					}
					if visitors+totals > 0 {
						before := entries(root)
						sinktest.Agreed(t, s, r, want)
						if entries(root) != before {
							healed++
						}
					}
					sinktest.Replace(t, s, tc.next)
					sinktest.Agreed(t, s, r, next)
				})
			}
			want := f.WithRows
			if tc.next.Revision().TotalsOnly() {
				want = f.TotalsOnly
			}
			if reached != want || healed != f.Healed {
				t.Errorf("died at %d steps, healed after %d of them; want %d and %d", reached, healed, want, f.Healed)
			}
		})
	}
}

// entries counts the log entries below root.
func entries(root string) int {
	found, _ := filepath.Glob(filepath.Join(root, "*", "_delta_log", "*.json"))
	return len(found)
}
