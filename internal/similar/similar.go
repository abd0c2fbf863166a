// Package similar finds the paths that are most like another path.
package similar

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/format"
)

const (
	// maxNear is the number of pages that are near a path, at most.
	maxNear = 3
	// leastNear is how like a path a page must be, from 0 to 1.
	leastNear = 0.45
	// maxCompared is the most pages that a path is compared with letter by letter.
	maxCompared = 20
	// maxLooked is the most features of a path that are looked up. The rarest are.
	maxLooked = 16
)

// Index finds the pages whose paths are most like another path. The features of a path are its words,
// and the groups of three letters of these, which mistyped words share; rare ones count for more. The time
// for a path is bounded: features that very many pages have are not looked up.
type Index struct {
	paths []string
	// pages are those that have a feature, by number; totals the sums of the weights of all features of a page.
	pages  map[string][]int32
	totals []float64
	// likeness has, for each page, how like the path that is asked for it is.
	likeness []float64
}

// New returns an index of paths. It is used by one goroutine at a time.
func New(paths []string) *Index {
	x := &Index{paths: paths, pages: map[string][]int32{}, totals: make([]float64, len(paths)),
		likeness: make([]float64, len(paths))}
	all := make([][]string, len(paths))
	for i, path := range paths {
		all[i] = features(path)
		for _, f := range all[i] {
			x.pages[f] = append(x.pages[f], int32(i))
		}
	}
	for i, list := range all {
		x.totals[i] = x.total(list)
	}
	return x
}

// features returns the features of a path, sorted, each once.
func features(path string) (out []string) {
	for _, word := range strings.FieldsFunc(strings.ToLower(path), func(r rune) bool {
		return strings.ContainsRune("/-_. ", r)
	}) {
		out = append(out, " "+word)
		letters := []rune("^" + word + "$")
		for i := range len(letters) - 2 {
			out = append(out, string(letters[i:i+3]))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// weight is how much a feature counts. A word counts as three groups.
func (x *Index) weight(feature string) float64 {
	w := math.Log(1 + float64(len(x.paths))/float64(max(1, len(x.pages[feature]))))
	if feature[0] == ' ' {
		return 3 * w
	}
	return w
}

func (x *Index) total(list []string) (sum float64) {
	for _, f := range list {
		sum += x.weight(f)
	}
	return sum
}

// Match is a page that is like a path. Likeness is from 0 to 1.
type Match struct {
	Path     string
	Likeness float64
}

// Near returns the pages that are most like a path, the nearest first; ties by path.
func (x *Index) Near(path string) []Match {
	own := features(path)
	whole := x.total(own)
	looked := slices.Clone(own)
	slices.SortStableFunc(looked, func(a, b string) int { return cmp.Compare(len(x.pages[a]), len(x.pages[b])) })
	var met []int32
	for _, f := range looked[:min(maxLooked, len(looked))] {
		if len(x.pages[f]) > max(200, len(x.paths)/8) {
			break
		}
		w := x.weight(f)
		for _, page := range x.pages[f] {
			if x.likeness[page] == 0 {
				met = append(met, page)
			}
			x.likeness[page] += w
		}
	}
	order := func(a, b Match) int {
		return cmp.Or(cmp.Compare(b.Likeness, a.Likeness), strings.Compare(a.Path, b.Path))
	}
	var best []Match
	add := func(c Match, most int) {
		if len(best) == most && order(best[most-1], c) <= 0 {
			return
		}
		i, _ := slices.BinarySearchFunc(best, c, order)
		best = slices.Insert(best, i, c)
		best = best[:min(most, len(best))]
	}
	for _, page := range met {
		add(Match{x.paths[page], 2 * x.likeness[page] / (whole + x.totals[page])}, maxCompared)
		x.likeness[page] = 0
	}
	compared := best
	best = nil
	for _, c := range compared {
		if c.Likeness = x.compare(path, c.Path, own, whole); c.Likeness >= leastNear {
			add(c, maxNear)
		}
	}
	return best
}

// compare returns how like a path a page is: the mean of what they share of both, and of the path alone. One
// that differs by a letter or two is very like it.
func (x *Index) compare(path, page string, own []string, whole float64) float64 {
	if path == page {
		return 1
	}
	plain := func(path string) string { return strings.ToLower(strings.Trim(path, "/")) }
	a, b := plain(path), plain(page)
	if len(b) > 4 && len(b) <= 200 && max(len(a)-len(b), len(b)-len(a)) <= 2 && format.Edits(a, b) <= 2 {
		return 0.95
	}
	shared, theirs := 0.0, features(page)
	for _, f := range theirs {
		if _, ok := slices.BinarySearch(own, f); ok {
			shared += x.weight(f)
		}
	}
	return (2*shared/(whole+x.total(theirs)) + shared/whole) / 2
}
