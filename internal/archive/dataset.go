package archive

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/docgauge/docgauge/internal/analytics"
)

// dataset is how the rows of a report are written and read: one more report is one more dataset.
type dataset[R any] struct {
	schema func() *schema.GroupNode
	// compare orders rows; rows that are equal are the same.
	compare func(a, b R) int
	// name is a row in an error, invalid what of it is no text; empty if all is.
	name    func(R) string
	invalid func(R) string
	sum     func(*analytics.Checksum, R)
	// groups keeps the memory of the last file's group, a rowGroup[R], for the next file.
	groups  sync.Pool
	columns func() columns[R]
}

// rowGroup is the rows of one group, column by column.
type rowGroup[R any] interface {
	add(row R)
	size() (rows, bytes int)
	fills() []fill // of the report's own columns
	clear()
}

// columns reads the report's own columns of a row group: some rows at once, and at least one.
type columns[R any] interface {
	enter(g *file.RowGroupReader) error
	read(into []R) (int, error)
}

// stored is a column of texts, one after the other, and where each of them ends.
type stored struct {
	data []byte
	ends []int
}

func (s *stored) add(text string) {
	s.data = append(s.data, text...)
	s.ends = append(s.ends, len(s.data))
}

func (s *stored) clear()     { s.data, s.ends = s.data[:0], s.ends[:0] }
func (s *stored) fill() fill { return texts(s.data, s.ends) }

var visitors = &dataset[analytics.Row]{
	schema:  visitorsSchema,
	compare: func(a, b analytics.Row) int { return strings.Compare(a.Path, b.Path) },
	name:    func(r analytics.Row) string { return fmt.Sprintf("path %q", r.Path) },
	invalid: func(r analytics.Row) string {
		if utf8.ValidString(r.Path) {
			return ""
		}
		return fmt.Sprintf("path %q", r.Path)
	},
	sum:     (*analytics.Checksum).Add,
	groups:  sync.Pool{New: func() any { return rowGroup[analytics.Row](new(visitorsGroup)) }},
	columns: func() columns[analytics.Row] { return new(visitorsColumns) },
}

type visitorsGroup struct {
	paths            stored
	human, ai, total []int64
}

func (g *visitorsGroup) add(row analytics.Row) {
	g.paths.add(row.Path)
	g.human = append(g.human, row.Human)
	g.ai = append(g.ai, row.AI)
	g.total = append(g.total, row.Total)
}

func (g *visitorsGroup) size() (rows, bytes int) { return len(g.paths.ends), len(g.paths.data) }

func (g *visitorsGroup) fills() []fill {
	return []fill{g.paths.fill(), values(g.human), values(g.ai), values(g.total)}
}

func (g *visitorsGroup) clear() {
	g.paths.clear()
	g.human, g.ai, g.total = g.human[:0], g.ai[:0], g.total[:0]
}

type visitorsColumns struct {
	path   *file.ByteArrayColumnChunkReader
	count  [3]*file.Int64ColumnChunkReader
	paths  [batchRows]parquet.ByteArray
	counts [3][batchRows]int64
}

func (c *visitorsColumns) enter(g *file.RowGroupReader) error {
	err := enterColumn(g, pathIndex, &c.path)
	for i, index := range countIndexes {
		if err == nil {
			err = enterColumn(g, index, &c.count[i])
		}
	}
	return err
}

func (c *visitorsColumns) read(into []analytics.Row) (int, error) {
	n, err := readPaths(c.path, c.paths[:len(into)])
	for i := range c.count {
		if err == nil {
			err = readAll(c.count[i], c.counts[i][:n])
		}
	}
	if err != nil {
		return 0, err
	}
	for i := range n {
		into[i] = analytics.Row{Path: string(c.paths[i]), Human: c.counts[0][i], AI: c.counts[1][i], Total: c.counts[2][i]}
	}
	return n, nil
}

var agents = &dataset[analytics.AgentRow]{
	schema:  agentsSchema,
	compare: analytics.AgentRow.Compare,
	name: func(r analytics.AgentRow) string {
		return fmt.Sprintf("path %q with agent %q, audience %q and found %t", r.Path, r.Agent, r.Audience, r.Found)
	},
	invalid: func(r analytics.AgentRow) string {
		for _, f := range [...][2]string{{"path", r.Path}, {"agent", r.Agent}, {"class", r.Class},
			{"audience", string(r.Audience)}} {
			if !utf8.ValidString(f[1]) {
				return fmt.Sprintf("%s %q", f[0], f[1])
			}
		}
		return ""
	},
	sum:     (*analytics.Checksum).AddAgent,
	groups:  sync.Pool{New: func() any { return rowGroup[analytics.AgentRow](new(agentsGroup)) }},
	columns: func() columns[analytics.AgentRow] { return new(agentsColumns) },
}

// agentTexts are the columns of texts of an agents file, in their order.
const agentTexts = 4

type agentsGroup struct {
	texts              [agentTexts]stored
	found              []bool
	visitors, requests []int64
}

func (g *agentsGroup) add(row analytics.AgentRow) {
	for i, text := range [agentTexts]string{row.Path, row.Agent, row.Class, string(row.Audience)} {
		g.texts[i].add(text)
	}
	g.found = append(g.found, row.Found)
	g.visitors = append(g.visitors, row.Visitors)
	g.requests = append(g.requests, row.Requests)
}

func (g *agentsGroup) size() (rows, bytes int) {
	for i := range g.texts {
		bytes += len(g.texts[i].data)
	}
	return len(g.found), bytes
}

func (g *agentsGroup) fills() (all []fill) {
	for i := range g.texts {
		all = append(all, g.texts[i].fill())
	}
	return append(all, values(g.found), values(g.visitors), values(g.requests))
}

func (g *agentsGroup) clear() {
	for i := range g.texts {
		g.texts[i].clear()
	}
	g.found, g.visitors, g.requests = g.found[:0], g.visitors[:0], g.requests[:0]
}

type agentsColumns struct {
	text   [agentTexts]*file.ByteArrayColumnChunkReader
	found  *file.BooleanColumnChunkReader
	count  [2]*file.Int64ColumnChunkReader
	texts  [agentTexts][batchRows]parquet.ByteArray
	founds [batchRows]bool
	counts [2][batchRows]int64
}

func (c *agentsColumns) enter(g *file.RowGroupReader) (err error) {
	for i := range c.text {
		if err == nil {
			err = enterColumn(g, pathIndex+i, &c.text[i])
		}
	}
	if err == nil {
		err = enterColumn(g, pathIndex+agentTexts, &c.found)
	}
	for i := range c.count {
		if err == nil {
			err = enterColumn(g, pathIndex+agentTexts+1+i, &c.count[i])
		}
	}
	return err
}

func (c *agentsColumns) read(into []analytics.AgentRow) (int, error) {
	n, err := readPaths(c.text[0], c.texts[0][:len(into)])
	for i := 1; i < agentTexts && err == nil; i++ {
		err = readAll(c.text[i], c.texts[i][:n])
	}
	if err == nil {
		err = readAll(c.found, c.founds[:n])
	}
	for i := range c.count {
		if err == nil {
			err = readAll(c.count[i], c.counts[i][:n])
		}
	}
	if err != nil {
		return 0, err
	}
	for i := range n {
		into[i] = analytics.AgentRow{Path: string(c.texts[0][i]), Agent: string(c.texts[1][i]),
			Class: string(c.texts[2][i]), Audience: analytics.Audience(c.texts[3][i]), Found: c.founds[i],
			Visitors: c.counts[0][i], Requests: c.counts[1][i]}
	}
	return n, nil
}
