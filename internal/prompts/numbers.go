package prompts

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
)

// ErrNoNumbers: the numbers that a template asks for do not exist, or not yet.
var ErrNoNumbers = errors.New("no numbers")

// Numbers are a project's own, for templates: of the newest settled window of a
// granularity, and of the one before it, whose end is that one's beginning (of a
// rolling granularity that is not the window that ended a day before). If one of
// the two is not there the error is ErrNoNumbers, and says why.
type Numbers interface {
	Site(ctx context.Context, project string, g analytics.Granularity) (Site, error)
	Pages(ctx context.Context, project string, g analytics.Granularity) (Pages, error)
}

// Site is the totals of two adjacent windows.
type Site struct {
	Window, FormerWindow analytics.Window
	Totals, Former       analytics.Totals
}

// Pages is the rows of two adjacent windows, in any order.
type Pages struct {
	Window, FormerWindow analytics.Window
	Rows, Former         []analytics.Row
}

// Audience is whose visits count.
type Audience string

// The audiences. Everyone is deduplicated: it is not Human and AI together.
const (
	Everyone Audience = "total"
	Human    Audience = "human"
	AI       Audience = "ai"
)

func (a Audience) of(t analytics.Totals) int64 {
	switch a {
	case Human:
		return t.Human
	case AI:
		return t.AI
	}
	return t.Total
}

// Change is one page in two windows. A page that one of them does not have had no
// visitors there.
type Change struct {
	Path        string
	Now, Before analytics.Totals
}

// By returns how many visitors of an audience the page gained, or lost if negative.
func (c Change) By(a Audience) int64 { return a.of(c.Now) - a.of(c.Before) }

// Rising returns the n pages that gained the most visitors of an audience from the
// former window to the next, the most first. It goes by the number gained, not by
// the share: of a page with two visitors a third is no news. Ties are in the order
// of visitors in the next window, the most first, then of paths.
func Rising(former, next []analytics.Row, a Audience, n int) []Change {
	return rank(compare(former, next), n, func(c Change) int64 { return c.By(a) }, a)
}

// Falling returns the n pages that lost the most visitors of an audience, the most
// first, as Rising.
func Falling(former, next []analytics.Row, a Audience, n int) []Change {
	return rank(compare(former, next), n, func(c Change) int64 { return -c.By(a) }, a)
}

// Top returns the n pages with the most visitors of an audience in the next window.
func Top(former, next []analytics.Row, a Audience, n int) []Change {
	return rank(compare(former, next), n, func(c Change) int64 { return a.of(c.Now) }, a)
}

// compare puts the rows of two windows side by side.
func compare(former, next []analytics.Row) []Change {
	changes := make([]Change, 0, len(next))
	index := make(map[string]int, len(next))
	at := func(path string) *Change {
		i, ok := index[path]
		if !ok {
			i = len(changes)
			index[path] = i
			changes = append(changes, Change{Path: path})
		}
		return &changes[i]
	}
	for _, row := range next {
		at(row.Path).Now = analytics.Totals{Human: row.Human, AI: row.AI, Total: row.Total}
	}
	for _, row := range former {
		at(row.Path).Before = analytics.Totals{Human: row.Human, AI: row.AI, Total: row.Total}
	}
	return changes
}

// rank returns the n changes of the highest score, of those above zero.
func rank(changes []Change, n int, score func(Change) int64, a Audience) []Change {
	changes = slices.DeleteFunc(changes, func(c Change) bool { return score(c) <= 0 })
	slices.SortFunc(changes, func(x, y Change) int {
		return cmp.Or(cmp.Compare(score(y), score(x)), cmp.Compare(a.of(y.Now), a.of(x.Now)), cmp.Compare(x.Path, y.Path))
	})
	return changes[:max(0, min(n, len(changes)))]
}
