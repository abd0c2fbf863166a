package sinks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
)

// This file has the code that the SQL sinks share.

// SumOf adds up the rows of w.
func SumOf(w Sealed) (analytics.Sum, error) {
	add, sum := w.Revision().Report.Shape().Sum()
	for row, err := range w.Rows() {
		if err != nil {
			return *sum, err
		}
		add(row)
	}
	return *sum, nil
}

// CheckDSN refuses what a driver would misunderstand in the part of a DSN after "://": a
// password with a raw / ? or # would end the host too early, and the rest of it would be shown
// as database or parameter. It returns host and parameters. Errors show no part of the DSN.
func CheckDSN(rest string) (host string, parameters url.Values, err error) {
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		if strings.ContainsAny(rest[end:], "@#") {
			return "", nil, errors.New("write special characters of user, password and parameters as %40 for @, %2F " +
				"for /, %3F for ?, %23 for #")
		}
		authority = rest[:end]
	}
	_, query, _ := strings.Cut(rest, "?")
	if parameters, err = url.ParseQuery(query); err != nil {
		return "", nil, errors.New("the parameters after ? are not name=value&name=value, with special characters " +
			"written as %…")
	}
	host = authority[strings.LastIndex(authority, "@")+1:]
	if host != "" && strings.ContainsRune(":,", rune(host[0])) {
		host = ""
	}
	return host, parameters, nil
}

// Explain is an error of a server: where it happened, a hint or "", and the first
// line of the server's message; without both, err's own text.
func Explain(server, hint, said string, err error) error {
	const maxSaid = 300 // bytes
	if hint == "" && said == "" {
		return fmt.Errorf("%s: %w", server, err)
	}
	said, _, _ = strings.Cut(said, "\n")
	if len(said) > maxSaid {
		said = strings.ToValidUTF8(said[:maxSaid], "") + "…"
	}
	if hint != "" {
		said = fmt.Sprintf("%s (%s)", hint, said)
	}
	return explained{server + ": " + said, err}
}

type explained struct {
	text string
	err  error
}

func (e explained) Error() string { return e.text }
func (e explained) Unwrap() error { return e.err }

// IsBroken reports whether a connection failed.
func IsBroken(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return !errors.Is(err, context.Canceled) && (network || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed))
}

// ErrStop ends an inspection because its caller wants no more.
var ErrStop = errors.New("stop")

// Inspection yields what inspect yields of each dataset, and its error as explain has it. It ignores ErrStop,
// and errors that say that the tables of a dataset do not exist yet (fs.ErrNotExist).
func Inspection[D any](sink string, datasets iter.Seq[D], explain func(error) error,
	inspect func(of D, yield func(Shown, error) bool) error) iter.Seq2[Shown, error] {
	return func(yield func(Shown, error) bool) {
		for d := range datasets {
			err := inspect(d, yield)
			if errors.Is(err, ErrStop) {
				return
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				yield(Shown{}, NotListed(sink, explain(err)))
				return
			}
		}
	}
}

// Listing yields what [List] yields after open, which brings the schema up to date.
func Listing(ctx context.Context, s Sink, open func() error) iter.Seq2[analytics.Revision, error] {
	return func(yield func(analytics.Revision, error) bool) {
		if err := open(); err != nil {
			yield(analytics.Revision{}, NotListed(s.Name(), err))
			return
		}
		List(ctx, s)(yield)
	}
}

// WindowFile writes a window to a new file in dir, which done removes. Rows that are not as
// many as rev says are an error.
func WindowFile(dir string, rev analytics.Revision, rows iter.Seq2[analytics.Record, error]) (
	w Sealed, done func() error, err error) {
	path := filepath.Join(dir, rand.Text())
	done = func() error { return os.Remove(path) }
	wrote, err := archive.Write(path, rev, rows)
	if err != nil {
		return nil, nil, err
	}
	if wrote.Rows != rev.Rows {
		return nil, nil, errors.Join(fmt.Errorf("the %s have %d rows, the totals say %d", rev.Report, wrote.Rows,
			rev.Rows), done())
	}
	file, err := archive.Open(path)
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return file, done, nil
}

// ScannedKey is a window as the columns project, granularity, window_start and window_end.
type ScannedKey struct {
	Report               analytics.Report // of the table
	project, granularity string
	from, until          time.Time
}

// Into is where a row is scanned to: the key and the columns after it.
func (k *ScannedKey) Into(more ...any) []any {
	return append([]any{&k.project, &k.granularity, &k.from, &k.until}, more...)
}

// Key returns the window. A date comes as midnight in the server's zone.
func (k *ScannedKey) Key() analytics.Key {
	return analytics.Key{
		Report: k.Report, Project: k.project, Granularity: analytics.Granularity(k.granularity),
		Window: analytics.Window{From: analytics.NewDate(k.from.Date()), To: analytics.NewDate(k.until.Date())},
	}
}
