package analytics

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"
)

// Top returns the n rows with the most visitors: by Total, largest first, ties
// by path. It holds no more than n rows at a time. An error of rows ends it.
func Top(rows iter.Seq2[Row, error], n int) ([]Row, error) {
	var top least
	for row, err := range rows {
		switch {
		case err != nil:
			return nil, err
		case len(top) < n:
			heap.Push(&top, row)
		case n > 0 && byVisitors(row, top[0]) < 0:
			top[0] = row
			heap.Fix(&top, 0)
		}
	}
	slices.SortFunc(top, byVisitors)
	return top, nil
}

// byVisitors orders rows with the most visitors first.
func byVisitors(a, b Row) int {
	return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Path, b.Path))
}

// least is a heap whose first row is the one that goes next.
type least []Row

func (l least) Len() int           { return len(l) }
func (l least) Less(i, j int) bool { return byVisitors(l[i], l[j]) > 0 }
func (l least) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *least) Push(x any)        { *l = append(*l, x.(Row)) }
func (l *least) Pop() any {
	last := len(*l) - 1
	row := (*l)[last]
	*l = (*l)[:last]
	return row
}
