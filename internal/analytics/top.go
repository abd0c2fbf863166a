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
	top := best[Row]{n: n, order: ByVisitors}
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		top.add(row)
	}
	return top.sorted(), nil
}

// ByVisitors orders rows with the most visitors first.
func ByVisitors(a, b Row) int {
	return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Path, b.Path))
}

// best keeps the first n elements of an order. It is a heap of those kept, with
// the last of them at its root.
type best[T any] struct {
	n     int
	order func(a, b T) int
	kept  []T
	count int64 // of all elements, kept or not
}

func (b *best[T]) add(v T) {
	b.count++
	switch {
	case len(b.kept) < b.n:
		heap.Push(b, v)
	case b.n > 0 && b.order(v, b.kept[0]) < 0:
		b.kept[0] = v
		heap.Fix(b, 0)
	}
}

// sorted returns the elements in order. Nothing can be added afterwards.
func (b *best[T]) sorted() []T {
	slices.SortFunc(b.kept, b.order)
	return b.kept
}

// The methods of heap.Interface.

func (b *best[T]) Len() int           { return len(b.kept) }
func (b *best[T]) Less(i, j int) bool { return b.order(b.kept[i], b.kept[j]) > 0 }
func (b *best[T]) Swap(i, j int)      { b.kept[i], b.kept[j] = b.kept[j], b.kept[i] }
func (b *best[T]) Push(v any)         { b.kept = append(b.kept, v.(T)) }
func (b *best[T]) Pop() any           { panic("nothing is popped") }
