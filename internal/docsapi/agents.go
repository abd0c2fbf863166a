package docsapi

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/docgauge/docgauge/internal/analytics"
)

// maxName is the longest agent or class, in bytes, after escaping.
const maxName = 200

// decodeAgentsPage is [decodePage] for the report of agents. No path is empty: that is the site.
func decodeAgentsPage(body []byte, maxRows int) (page analytics.AgentsPage, err error) {
	d := &agentsDecoder{newPageDecoder(body, maxRows), map[string]string{}}
	page.Rows = make([]analytics.AgentRow, 0, maxRows)
	err = d.page.decode(body, agents, func() error {
		return d.page.array(func() error {
			total, err := d.row(agentFields)
			if err != nil {
				return err
			}
			total.Found = true
			for _, other := range page.Totals {
				if total.Compare(other) == 0 {
					return d.page.broken(fmt.Sprintf("agent %q comes twice with audience %s", total.Agent, total.Audience))
				}
			}
			page.Totals = append(page.Totals, total)
			return nil
		})
	}, func() error {
		before := len(d.page.paths)
		row, err := d.row(agentFields | path | found)
		if err == nil && len(d.page.paths) == before {
			err = d.page.broken("an empty path")
		}
		page.Rows = append(page.Rows, row)
		return err
	})
	if err != nil {
		return analytics.AgentsPage{}, err
	}
	d.page.givePaths(func(i int, path string) { page.Rows[i].Path = path })
	page.HasMore = d.page.hasMore
	return page, nil
}

type agentsDecoder struct {
	page  *pageDecoder
	names map[string]string // those that have come: few names are in many rows
}

// row reads an agent: of the site or, with path in want, of a path.
func (d *agentsDecoder) row(want field) (row analytics.AgentRow, err error) {
	err = d.page.object(want, func(f field) (err error) {
		switch f {
		case agent:
			row.Agent, err = d.name()
		case class:
			row.Class, err = d.name()
		case audience:
			var name string
			name, err = d.name()
			row.Audience = analytics.Audience(name)
			if err == nil && name != "human" && name != "ai" && name != "neither" {
				err = d.page.broken("want human, ai or neither")
			}
		case visitors:
			row.Visitors, err = d.page.count()
		case requests:
			row.Requests, err = d.page.count()
		case found:
			row.Found, err = d.page.truth()
		case path:
			err = d.page.path()
		}
		return err
	})
	return row, err
}

// name reads a short text that is not empty and has no NUL, which PostgreSQL's text cannot hold.
func (d *agentsDecoder) name() (string, error) {
	raw, err := d.page.tokens.ReadValue()
	if err != nil {
		return "", err
	}
	if raw.Kind() != jsontext.KindString {
		return "", d.page.broken("want a string")
	}
	if known, ok := d.names[string(raw)]; ok {
		return known, nil
	}
	if len(raw) > len(`""`)+len(`\u0000`)*maxName {
		return "", d.page.broken(fmt.Sprintf("a name over %d bytes", maxName))
	}
	key, name := string(raw), analytics.EscapePath(units(raw))
	if name == "" || len(name) > maxName {
		return "", d.page.broken(fmt.Sprintf("want 1 to %d bytes", maxName))
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", d.page.broken("want no NUL")
	}
	d.names[key] = name
	return name, nil
}
