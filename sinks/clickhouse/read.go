package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// keysAtOnce bounds the windows that one query names.
const keysAtOnce = 500

// Inspect yields what the views show of each window in scope. The server adds up the
// rows, in one query for each project and granularity. Before docgauge has made its tables,
// Inspect yields nothing.
func (s *Sink) Inspect(ctx context.Context, scope sinks.Scope) iter.Seq2[sinks.Shown, error] {
	return sinks.Inspection(sinkName, slices.Values(s.datasets), s.explain,
		func(d *dataset, yield func(sinks.Shown, error) bool) error {
			return s.reading(ctx, d, func(ses *session) error { return ses.inspect(ctx, scope, yield) })
		})
}

func (ses *session) inspect(ctx context.Context, scope sinks.Scope, yield func(sinks.Shown, error) bool) error {
	conditions, err := ses.conditions(ctx, scope)
	if err != nil {
		return err
	}
	for _, condition := range conditions {
		revs, err := ses.shown(ctx, condition)
		if err != nil {
			return err
		}
		var sums map[analytics.Key]summed
		if scope.Rows {
			if sums, err = ses.sums(ctx, condition); err != nil {
				return err
			}
		}
		for _, rev := range revs {
			if !scope.Has(rev.Key) {
				continue
			}
			sum := sums[rev.Key]
			if sum.Implausible > 0 && ses.data.Site { // the server says only that it is
				if sum, err = ses.sum(ctx, rev.Key); err != nil {
					return err
				}
			}
			if !yield(sinks.Shown{Revision: rev, Sum: sum.Sum}, sum.differs(ses.data, rev)) {
				return sinks.ErrStop
			}
		}
	}
	return nil
}

// Revisions yields what the views show, after it has brought the tables of visitors up to date. Check and Replace
// make the tables of another report: they are created with the first window.
func (s *Sink) Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	return sinks.Listing(ctx, s, func() error {
		_, err := s.open(ctx, analytics.VisitorsReport)
		return s.explain(err)
	})
}

// Window writes what the views show of rev's window to a window file in dir. Rows that do not make up one whole
// revision are an error.
func (s *Sink) Window(
	ctx context.Context, rev analytics.Revision, dir string,
) (w sinks.Sealed, done func() error, err error) {
	d, err := s.dataset(rev.Report)
	if err != nil {
		return nil, nil, err
	}
	err = s.reading(ctx, d, func(ses *session) error {
		revs, err := ses.shown(ctx, is(rev.Key))
		if err != nil {
			return err
		}
		if len(revs) != 1 {
			return fmt.Errorf("%s shows %d revisions: %w", d.windows, len(revs), fs.ErrNotExist)
		}
		w, done, err = ses.file(ctx, revs[0], dir)
		return err
	})
	return w, done, s.explain(err)
}

// reading calls do with a session of a dataset for reading. Unlike open it makes and changes
// nothing; where docgauge has made no tables for it yet its error is fs.ErrNotExist.
func (s *Sink) reading(ctx context.Context, d *dataset, do func(*session) error) (err error) {
	ses := session{layout: layout{data: d, database: s.options.Auth.Database, cluster: s.cluster}}
	s.mu.Lock()
	if open := s.sessions[d.report]; open != nil {
		ses = *open
	}
	s.mu.Unlock()
	if ses.conn == nil {
		if ses.conn, err = clickhouse.Open(s.options); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ses.conn.Close()) }()
	}
	if err := ses.conn.Ping(ctx); err != nil {
		return errConnect{err}
	}
	version, made, err := ses.migrated(ctx)
	if err == nil && version == 0 {
		err = fmt.Errorf("docgauge has made no tables of %s yet: %w", d.report, fs.ErrNotExist)
	}
	if err == nil {
		err = checkVersion(version)
	}
	if err != nil {
		return err
	}
	ses.classic = strings.HasPrefix(made, flavourClassic)
	return do(&ses)
}

// conditions split the scope into queries.
func (ses *session) conditions(ctx context.Context, scope sinks.Scope) (out []string, err error) {
	if scope.Keys != nil {
		keys := slices.SortedFunc(maps.Keys(scope.Keys), func(a, b analytics.Key) int {
			return strings.Compare(a.String(), b.String())
		})
		keys = slices.DeleteFunc(keys, func(k analytics.Key) bool { return k.Report != ses.data.report })
		for chunk := range slices.Chunk(keys, keysAtOnce) {
			tuples := make([]string, len(chunk))
			for i, k := range chunk {
				tuples[i] = "(" + tuple(k) + ")"
			}
			out = append(out, fmt.Sprintf("(%s) IN (%s)", keyColumns, strings.Join(tuples, ", ")))
		}
		return out, nil
	}
	dates := ""
	if w := scope.Within; w != (analytics.Window{}) {
		dates = fmt.Sprintf(" AND window_start >= toDate('%s') AND window_end <= toDate('%s')", w.From, w.To)
	}
	series := sinks.Scope{Projects: scope.Projects, Except: scope.Except, Granularities: scope.Granularities}
	query := fmt.Sprintf("SELECT project, granularity FROM %s GROUP BY project, granularity ORDER BY project, "+
		"granularity", ses.in(ses.data.markers))
	err = ses.query(ctx, query, func(rows driver.Rows) error {
		var project, granularity string
		err := rows.Scan(&project, &granularity)
		key := analytics.Key{Report: ses.data.report, Project: project, Granularity: analytics.Granularity(granularity)}
		if err == nil && series.Has(key) {
			out = append(out, fmt.Sprintf("project = %s AND granularity = %s%s",
				quote(project), quote(granularity), dates))
		}
		return err
	})
	return out, err
}

// identifying are the columns of a view that identify a revision. The exact time is the last.
func (ses *session) identifying() []string {
	exported := "toUnixTimestamp64Micro(exported_at)"
	if ses.classic {
		exported = "exported_at_us"
	}
	return []string{"revision", "settled = 1", "verified = 1", exported}
}

func (ses *session) revision() string { return strings.Join(ses.identifying(), ", ") }

// shown returns what the view of windows shows.
func (ses *session) shown(ctx context.Context, condition string) (out []analytics.Revision, err error) {
	query := fmt.Sprintf("SELECT %s, %s, %s FROM %s WHERE %s ORDER BY %[1]s",
		keyColumns, names(ses.data.shown()), ses.revision(), ses.in(ses.data.windows),
		condition)
	err = ses.query(ctx, query, func(rows driver.Rows) error {
		var rev analytics.Revision
		key := sinks.ScannedKey{Report: ses.data.report}
		var settled, verified uint8
		var exported int64
		var into []any
		if !ses.data.Site {
			into = rev.Totals.Pointers()
		}
		into = append(into, (*string)(&rev.Humans), &rev.Rows, &rev.Number, &settled, &verified, &exported)
		err := rows.Scan(key.Into(into...)...)
		rev.Key, rev.Settled, rev.Verified, rev.ExportedAt = key.Key(), settled == 1, verified == 1,
			time.UnixMicro(exported).UTC()
		out = append(out, rev)
		return err
	})
	return out, err
}

// each calls do for each row that the view shows of a window, in the order; more are columns after the
// report's own, which are scanned into the given places.
func (ses *session) each(
	ctx context.Context, condition, order, more string, into []any, do func(analytics.Record) error,
) error {
	var row analytics.Record
	into = append(ses.data.Fields(&row).All(), into...)
	columns := []string{"path"}
	for _, c := range ses.data.ownColumns {
		columns = append(columns, c.name)
		if c.kind == truth {
			columns[len(columns)-1] += " = 1"
		}
	}
	query := fmt.Sprintf("SELECT %s%s FROM %s WHERE %s ORDER BY %s", strings.Join(columns, ", "), more,
		ses.in(ses.data.view), condition, order)
	return ses.query(ctx, query, func(rows driver.Rows) error {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		return do(row)
	})
}

// file writes the rows of a revision, as readers see them, to a file in dir.
func (ses *session) file(
	ctx context.Context, rev analytics.Revision, dir string,
) (sinks.Sealed, func() error, error) {
	condition := fmt.Sprintf("%s AND revision = %d", is(rev.Key), rev.Number)
	order := strings.Join(append([]string{"path"}, ses.data.Order...), ", ")
	return sinks.WindowFile(dir, rev, func(yield func(analytics.Record, error) bool) {
		err := ses.each(ctx, condition, order, "", nil, func(row analytics.Record) error {
			if !yield(row, nil) {
				return sinks.ErrStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, sinks.ErrStop) {
			yield(analytics.Record{}, err)
		}
	})
}

// sum reads the rows of a window, those without a path first.
func (ses *session) sum(ctx context.Context, key analytics.Key) (s summed, err error) {
	add, sum := ses.data.Sum()
	var revision columns
	first := true
	err = ses.each(ctx, is(key), "path != ''", ", "+ses.revision(),
		[]any{&revision.number, &revision.settled, &revision.verified, &revision.exported}, func(row analytics.Record) error {
			add(row)
			if first {
				s.least, s.most, first = revision, revision, false
			}
			if revision != s.least {
				s.most = revision
			}
			return nil
		})
	s.Sum, s.found = *sum, !first
	return s, err
}

// summed is the sum of the rows of a window, and the range of their revision columns.
type summed struct {
	analytics.Sum
	found       bool // there are rows
	least, most columns
}

// columns are the columns of a row that identify its revision.
type columns struct {
	number            int32
	settled, verified uint8
	exported          int64
}

// differs returns a fault where the rows are not of rev.
func (s summed) differs(d *dataset, rev analytics.Revision) error {
	want := columns{rev.Number, asUInt8(rev.Settled), asUInt8(rev.Verified), rev.ExportedAt.UnixMicro()}
	if !s.found || s.least == want && s.most == want {
		return nil
	}
	describe := func(c columns) string {
		return fmt.Sprintf("revision %d of %s", c.number, time.UnixMicro(c.exported).UTC().Format(time.DateTime))
	}
	err := fmt.Errorf("%s shows rows from %s to %s, %s shows %s", d.view, describe(s.least), describe(s.most),
		d.windows, describe(want))
	return sinks.Fault{Sink: sinkName, Key: rev.Key, Kind: sinks.Disagree, Err: err}
}

// contradicts is the condition of rows that are not plausible (see
// [analytics.Shape.Plausible]).
func (d *dataset) contradicts() string {
	largest := "greatest(human, ai)"
	if d.Additive {
		largest = "human + ai"
	}
	return "(human < 0 OR ai < 0 OR total < " + largest + " OR total - human > ai)"
}

// sums has the server add up the rows that the view shows of the windows that meet a condition. Where the
// report has rows of the site, Implausible is not 0 if a row is not plausible, and not their number.
func (ses *session) sums(ctx context.Context, condition string) (map[analytics.Key]summed, error) {
	out := map[analytics.Key]summed{}
	err := ses.query(ctx, ses.data.sums(ses, condition), func(rows driver.Rows) error {
		key := sinks.ScannedKey{Report: ses.data.report}
		var checksum, people uint64
		s := summed{found: true}
		err := rows.Scan(key.Into(slices.Concat([]any{&s.Rows, &checksum, &people, &s.Confirmed}, s.Largest.Pointers(),
			[]any{&s.Implausible, &s.Example,
				&s.least.number, &s.least.settled, &s.least.verified, &s.least.exported,
				&s.most.number, &s.most.settled, &s.most.verified, &s.most.exported},
			s.Added.Pointers())...)...)
		s.Checksum, s.People, s.Confirmed = analytics.Checksum(checksum), analytics.Checksum(people), max(s.Confirmed, 0)
		for _, n := range s.Largest.Fields() {
			*n = max(*n, 0)
		}
		out[key.Key()] = s
		return err
	})
	return out, err
}

// checksum is the checksum of the rows of a report (see [analytics.Checksum]).
func (d *dataset) checksum() string {
	var values []string
	for _, c := range d.Columns {
		values = append(values, map[analytics.Kind]string{analytics.Text: c.Name, analytics.Truth: "toString(" + c.Name +
			" = 1)", analytics.Count: "toString(" + c.Name + ")"}[c.Kind])
	}
	return `sum(sipHash64(concat(` + strings.Join(values, `, '\0', `) + `)))`
}

// people is [analytics.Sum.People] of rows with so many people each.
func people(count string) string {
	return "sum(sipHash64(path) * toUInt64(greatest(" + count + ", 0)))"
}

// added is the sum of counts that are not negative. A sum of Int64 that is too large becomes negative.
func added(counts string) string {
	return fmt.Sprintf("if(sum(toFloat64(%[1]s)) < 9e18, sum(%[1]s), toInt64(%[2]d))", counts, math.MaxInt64)
}

// sumsOfCounts adds up rows whose counts are [analytics.Totals].
func sumsOfCounts(ses *session, condition string) string {
	var least, most, largest, sums []string
	for _, name := range analytics.TotalsNames() {
		largest, sums = append(largest, "max("+name+")"), append(sums, added("greatest("+name+", 0)"))
	}
	for _, column := range ses.identifying() {
		least, most = append(least, "min("+column+")"), append(most, "max("+column+")")
	}
	return fmt.Sprintf(`
SELECT %[1]s, toInt64(count()), %[8]s, %[10]s, toInt64(0), %[9]s,
       toInt64(countIf(%[2]s)), minIf(path, %[2]s), %[3]s, %[4]s, %[7]s
FROM %[5]s WHERE %[6]s GROUP BY %[1]s`,
		keyColumns, ses.data.contradicts(), strings.Join(least, ", "), strings.Join(most, ", "), ses.in(ses.data.view),
		condition, strings.Join(sums, ", "), ses.data.checksum(), strings.Join(largest, ", "),
		people(analytics.TotalsNames()[0]))
}

// sumsOfSite first adds up the rows of each key, where those with a path are compared with the row of the site.
func sumsOfSite(ses *session, condition string) string {
	data := ses.data
	var inner, least, most []string
	for i, column := range ses.identifying() {
		inner = append(inner, fmt.Sprintf("min(%s) AS least_%[2]d, max(%[1]s) AS most_%[2]d", column, i))
		least, most = append(least, fmt.Sprintf("min(least_%d)", i)), append(most, fmt.Sprintf("max(most_%d)", i))
	}
	odd, found := data.Rank()+" < 0", ""
	if data.Has("requests") {
		odd += " OR requests < " + data.Rank()
	}
	if data.Has("found") {
		found = " AND found = 1"
	}
	// The totals follow the bounds, in their order.
	var largest, sums []string
	for i := range analytics.TotalsNames() {
		count := "toInt64(0)"
		if i < len(data.Bounds) {
			if count = "of_site"; data.Bounds[i].Text != "" {
				count = fmt.Sprintf("if(%s = %s, of_site, toInt64(0))", data.Bounds[i].Text, quote(data.Bounds[i].Value))
			}
		}
		largest, sums = append(largest, "max("+count+")"), append(sums, added(count))
	}
	confirmed, read := "toInt64(0)", "toInt64(0)"
	if data.Has("audience") {
		isHuman := "audience = " + quote(string(analytics.Human))
		read = fmt.Sprintf("if(path != ''%s AND %s, %s, toInt64(0))", found, isHuman, data.Rank())
		if data.Has("agent") {
			confirmed = fmt.Sprintf("max(if(agent = %s AND %s, of_site, toInt64(0)))", quote(analytics.BrowserAgent), isHuman)
		}
	}
	key := strings.Join(append([]string{keyColumns}, data.TextKey()...), ", ")
	return fmt.Sprintf(`
SELECT %[1]s, toInt64(sum(with_path)), sum(hashes), sum(people), %[14]s, %[2]s,
       toInt64(sum(odd) + countIf(of_a_page > of_site)), '', %[3]s, %[4]s, %[5]s
FROM (SELECT %[6]s, countIf(path != '') AS with_path, %[7]s AS hashes, %[15]s AS people, countIf(%[8]s) AS odd,
             max(if(path = '', %[9]s, toInt64(0))) AS of_site,
             max(if(path != ''%[10]s, %[9]s, toInt64(0))) AS of_a_page, %[11]s
      FROM %[12]s WHERE %[13]s GROUP BY %[6]s)
GROUP BY %[1]s`,
		keyColumns, strings.Join(largest, ", "), strings.Join(least, ", "), strings.Join(most, ", "),
		strings.Join(sums, ", "), key, data.checksum(), odd, data.Rank(), found, strings.Join(inner, ", "),
		ses.in(data.view), condition, confirmed, people(read))
}

// query runs a query and calls do for each row of its answer.
func (ses *session) query(ctx context.Context, query string, do func(driver.Rows) error) error {
	rows, err := ses.conn.Query(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// number runs a query whose answer is one UInt64.
func (ses *session) number(ctx context.Context, query string) (uint64, error) {
	var n uint64
	err := ses.conn.QueryRow(ctx, query).Scan(&n)
	return n, err
}

// tuple writes key as the values of keyColumns.
func tuple(key analytics.Key) string {
	return fmt.Sprintf("%s, %s, toDate('%s'), toDate('%s')", quote(key.Project), quote(string(key.Granularity)),
		key.From, key.To)
}

// attemptTuple writes an attempt as the values of attemptColumns.
func attemptTuple(key analytics.Key, attempt uint64) string {
	return fmt.Sprintf("(%s, toUInt64(%d))", tuple(key), attempt)
}
