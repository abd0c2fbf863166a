package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// keysAtOnce bounds the windows that one query names.
const keysAtOnce = 500

// Inspect yields what the views show of each window in scope. The server adds the
// rows up, in one query for each project and granularity; the tables are not made
// or changed.
func (s *Sink) Inspect(ctx context.Context, scope sinks.Scope) iter.Seq2[sinks.Shown, error] {
	return func(yield func(sinks.Shown, error) bool) {
		if err := s.inspect(ctx, scope, yield); err != nil && !errors.Is(err, errEnough) {
			yield(sinks.Shown{}, sinks.NotListed(name, s.explain(err)))
		}
	}
}

// errEnough ends an iteration because whoever ranges over it wants no more.
var errEnough = errors.New("enough")

func (s *Sink) inspect(ctx context.Context, scope sinks.Scope, yield func(sinks.Shown, error) bool) (err error) {
	l, err := s.look(ctx)
	if err != nil || l == nil {
		return err
	}
	defer func() { err = errors.Join(err, l.done()) }()
	conditions, err := l.conditions(ctx, scope)
	if err != nil {
		return err
	}
	for _, condition := range conditions {
		revs, err := l.shown(ctx, condition)
		if err != nil {
			return err
		}
		var sums map[analytics.Key]summed
		if scope.Rows {
			if sums, err = l.sums(ctx, condition); err != nil {
				return err
			}
		}
		for _, rev := range revs {
			sum := sums[rev.Key]
			if scope.Has(rev.Key) && !yield(sinks.Shown{Revision: rev, Sum: sum.Sum}, sum.differs(rev)) {
				return errEnough
			}
		}
	}
	return nil
}

// looker is a session that only reads.
type looker struct {
	*session
	// classic views have the exact time in a column of its own.
	classic bool
	done    func() error
}

// look returns a session for reading, nil where docgauge has made no tables yet.
// Unlike open it makes and changes nothing.
func (s *Sink) look(ctx context.Context) (*looker, error) {
	s.mu.Lock()
	ses, done := s.session, func() error { return nil }
	s.mu.Unlock()
	if ses == nil {
		conn, err := clickhouse.Open(s.options)
		if err != nil {
			return nil, err
		}
		done = conn.Close
		ses = &session{layout: layout{database: s.options.Auth.Database, cluster: s.cluster}, conn: conn}
	}
	l := &looker{session: ses, done: done}
	made, err := l.begin(ctx)
	if err != nil || !made {
		return nil, errors.Join(err, done())
	}
	return l, nil
}

// begin reports whether the tables are made, and how.
func (l *looker) begin(ctx context.Context) (made bool, err error) {
	if err := l.conn.Ping(ctx); err != nil {
		return false, errConnect{err}
	}
	version, how, err := l.migrated(ctx)
	if err != nil || version == 0 {
		return false, err
	}
	l.classic = strings.HasPrefix(how, flavourClassic)
	return true, known(version)
}

// conditions split the scope into queries.
func (l *looker) conditions(ctx context.Context, scope sinks.Scope) (out []string, err error) {
	if scope.Keys != nil {
		keys := slices.SortedFunc(maps.Keys(scope.Keys), func(a, b analytics.Key) int { return strings.Compare(a.String(), b.String()) })
		for chunk := range slices.Chunk(keys, keysAtOnce) {
			tuples := make([]string, len(chunk))
			for i, k := range chunk {
				tuples[i] = fmt.Sprintf("(%s, %s, toDate('%s'), toDate('%s'))", quote(k.Project), quote(string(k.Granularity)), k.From, k.To)
			}
			out = append(out, fmt.Sprintf("(%s) IN (%s)", keyColumns, strings.Join(tuples, ", ")))
		}
		return out, nil
	}
	rows, err := l.conn.Query(ctx, fmt.Sprintf("SELECT project, granularity FROM %s GROUP BY project, granularity ORDER BY project, granularity", l.in(windowsTable)))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	dates := ""
	if w := scope.Within; w != (analytics.Window{}) {
		dates = fmt.Sprintf(" AND window_start >= toDate('%s') AND window_end <= toDate('%s')", w.From, w.To)
	}
	for rows.Next() {
		var project, granularity string
		if err := rows.Scan(&project, &granularity); err != nil {
			return nil, err
		}
		if len(scope.Projects) == 0 || slices.Contains(scope.Projects, project) {
			out = append(out, fmt.Sprintf("project = %s AND granularity = %s%s", quote(project), quote(granularity), dates))
		}
	}
	return out, rows.Err()
}

// exported is the exact time in a view.
func (l *looker) exported() string {
	if l.classic {
		return "exported_at_us"
	}
	return "toUnixTimestamp64Micro(exported_at)"
}

// shown returns what the view of totals shows.
func (l *looker) shown(ctx context.Context, condition string) (out []analytics.Revision, err error) {
	rows, err := l.conn.Query(ctx, fmt.Sprintf("SELECT %s, toUInt64(0), human, ai, total, page_count, revision, settled = 1, verified = 1, %s FROM %s WHERE %s ORDER BY %s",
		keyColumns, l.exported(), l.in(totalsView), condition, keyColumns))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		rev, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, rev)
	}
	return out, rows.Err()
}

// summed is what the rows of a window come to, and what they say of the reading.
type summed struct {
	analytics.Sum
	least, most reading
}

// reading is what the columns of a row tell of the reading.
type reading struct {
	number            int32
	settled, verified uint8
	exported          int64
}

// differs returns a fault where the rows are not of rev.
func (s summed) differs(rev analytics.Revision) error {
	want := reading{rev.Number, asUInt8(rev.Settled), asUInt8(rev.Verified), rev.ExportedAt.UnixMicro()}
	if s.Rows == 0 || s.least == want && s.most == want {
		return nil
	}
	at := func(r reading) string {
		return fmt.Sprintf("revision %d of %s", r.number, time.UnixMicro(r.exported).UTC().Format(time.DateTime))
	}
	err := fmt.Errorf("%s shows rows from %s to %s, %s shows %s", visitorsView, at(s.least), at(s.most), totalsView, at(want))
	return sinks.Fault{Sink: name, Key: rev.Key, Kind: sinks.Disagree, Err: err}
}

// contradicts is the condition of rows that are not plausible (see
// [analytics.Totals.Plausible]).
const contradicts = "(human < 0 OR ai < 0 OR total < greatest(human, ai) OR total - human > ai)"

// sums adds up the rows that the view of visitors shows.
func (l *looker) sums(ctx context.Context, condition string) (map[analytics.Key]summed, error) {
	least, most := make([]string, 0, 4), make([]string, 0, 4)
	for _, column := range []string{"revision", "settled = 1", "verified = 1", l.exported()} {
		least, most = append(least, "min("+column+")"), append(most, "max("+column+")")
	}
	rows, err := l.conn.Query(ctx, fmt.Sprintf(`
SELECT %[1]s, toInt64(count()), sum(sipHash64(concat(path, '\0', toString(human), '\0', toString(ai), '\0', toString(total)))),
       max(human), max(ai), max(total), toInt64(countIf(%[2]s)), minIf(path, %[2]s), %[3]s, %[4]s
FROM %[5]s WHERE %[6]s GROUP BY %[1]s`,
		keyColumns, contradicts, strings.Join(least, ", "), strings.Join(most, ", "), l.in(visitorsView), condition))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[analytics.Key]summed{}
	for rows.Next() {
		var k analytics.Key
		var granularity string
		var from, to time.Time
		var checksum uint64
		var s summed
		if err := rows.Scan(&k.Project, &granularity, &from, &to, &s.Rows, &checksum,
			&s.Largest.Human, &s.Largest.AI, &s.Largest.Total, &s.Implausible, &s.Example,
			&s.least.number, &s.least.settled, &s.least.verified, &s.least.exported,
			&s.most.number, &s.most.settled, &s.most.verified, &s.most.exported); err != nil {
			return nil, err
		}
		k.Granularity = analytics.Granularity(granularity)
		k.From, k.To = analytics.NewDate(from.Date()), analytics.NewDate(to.Date())
		s.Checksum = analytics.Checksum(checksum)
		for _, n := range []*int64{&s.Largest.Human, &s.Largest.AI, &s.Largest.Total} {
			*n = max(*n, 0)
		}
		out[k] = s
	}
	return out, rows.Err()
}
