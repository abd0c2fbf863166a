package engines

import "testing"

func TestExpand(t *testing.T) {
	q := Query{Defaults: map[string]string{"project": ".*", "page": "top"}}
	vars := map[string]string{"project": "a/b'", "__from": "1790000000000", "__to": "1790086400000"}
	for expr, want := range map[string]string{
		`x{p=~"$project"}[$__range]`:                  `x{p=~"a/b'"}[86400s]`,
		`'${project:percentencode}' ${project} $page`: `'a%2Fb%27' a/b' top`,
		`$__dateFilter(d)`:                            `d >= toDate('2026-09-21') AND d <= toDate('2026-09-22')`,
		`$__timeFilter(d)`:                            `d BETWEEN '2026-09-21T14:13:20Z' AND '2026-09-22T14:13:20Z'`,
		`label_replace(x, "a", "$1", "b", "(.*)")`:    `label_replace(x, "a", "$1", "b", "(.*)")`,
		`$unknown`: `$unknown`,
	} {
		q.Expr = expr
		if got := q.Expand(vars); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", expr, got, want)
		}
	}
	q.Expr = "$project"
	if got := q.Expand(nil); got != ".*" {
		t.Errorf("%s, want the default", got)
	}
}
