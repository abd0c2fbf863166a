package analytics

import (
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

func rowsOf(rows []Row, end error) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
		if end != nil {
			yield(Row{}, end)
		}
	}
}

func TestTop(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		rows := make([]Row, random.IntN(40))
		for i := range rows {
			rows[i] = Row{Path: strconv.Itoa(i), Totals: Totals{Total: random.Int64N(6)}}
		}
		n := random.IntN(45)
		want := slices.Clone(rows)
		slices.SortFunc(want, ByVisitors)
		want = want[:min(n, len(want))]
		random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		got, err := Top(rowsOf(rows, nil), n)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("Top(%v, %d) = %v, %v; want %v", rows, n, got, err, want)
		}
	}
	got, err := Top(rowsOf([]Row{{Path: "/b", Totals: Totals{Total: 5}}, {Path: "/c", Totals: Totals{Total: 7}},
		{Path: "/a", Totals: Totals{Total: 5}}}, nil), 2)
	if err != nil || len(got) != 2 || got[0].Path != "/c" || got[1].Path != "/a" {
		t.Errorf("ties: %v, %v", got, err)
	}
	broken := errors.New("broken")
	if got, err := Top(rowsOf([]Row{{Path: "/"}}, broken), 3); !errors.Is(err, broken) || got != nil {
		t.Errorf("an error of the rows: %v, %v", got, err)
	}
}
