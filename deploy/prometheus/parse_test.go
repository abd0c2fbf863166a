package prometheus

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for expr, want := range map[string]names{
		`up`: {selectors: []Selector{{Metric: "up", Text: "up"}}},
		`a{x="}", y=~'z="1"'}[5m] offset 1d`: {
			selectors: []Selector{{Metric: "a", Labels: []string{"x", "y"}, Text: `a{x="}", y=~'z="1"'}`}},
		},
		`sum without (x, y) (a:b:c) / on(z) group_left increase(d_total[1d]) > 2 * 3600`: {
			selectors: []Selector{{Metric: "a:b:c", Text: "a:b:c"}, {Metric: "d_total", Text: "d_total"}},
			grouped:   []string{"x", "y", "z"},
			functions: []string{"sum", "increase"},
		},
		"SUM(a) BY (x)\nor time() - b": {
			selectors: []Selector{{Metric: "a", Text: "a"}, {Metric: "b", Text: "b"}},
			grouped:   []string{"x"},
			functions: []string{"sum", "time"},
		},
		`(1.5e3 - a) and ignoring () b unless c == bool 1`: {
			selectors: []Selector{{Metric: "a", Text: "a"}, {Metric: "b", Text: "b"}, {Metric: "c", Text: "c"}},
		},
	} {
		if diff := cmp.Diff(want, parse(expr), cmp.AllowUnexported(names{})); diff != "" {
			t.Errorf("%s: %s", expr, diff)
		}
	}
}
