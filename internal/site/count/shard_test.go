package count

import (
	"math/rand/v2"
	"testing"

	"github.com/docgauge/docgauge/internal/site/facts"
)

// TestShardTables: the tables of a shard say what maps do, also of a reader whose views or bytes are more than an entry
// has room for.
func TestShardTables(t *testing.T) {
	const readers, most = 3000, mostVisits
	s := &newShards(1)[0]
	r := rand.New(rand.NewPCG(1, 2))
	numbers, bytes, unsaid := map[uint64]uint32{}, map[uint32]int64{}, map[uint32]bool{}
	views := map[[2]uint32]int{}
	for range 20 * readers {
		id := uint64(r.IntN(readers)) * 0x9E3779B97F4A7C15
		number := s.numberOf(id)
		if want, known := numbers[id]; known && number != want || !known && int(number) != len(numbers) {
			t.Fatalf("reader %d of %d has the number %d, want %d", id, len(numbers), number, want)
		}
		numbers[id] = number
		n := r.Int64N(1 << 33)
		if number%100 == 7 && n%8 == 0 {
			n, unsaid[number] = facts.Unsaid, true
		}
		s.addBytes(s.reader(number), number, n)
		bytes[number] += n
		source := uint32(r.IntN(1 << sourceBits))
		s.visits.add(number, int32(source))
		views[[2]uint32{number, source}]++
	}
	for range 2*most + 5 {
		s.visits.add(3, 5)
	}
	views[[2]uint32{3, 5}] += 2*most + 5
	for _, number := range numbers {
		want := bytes[number]
		if unsaid[number] {
			want = facts.Unsaid
		}
		if got := s.bytesOf(s.reader(number), number); got != want {
			t.Errorf("reader %d has %d bytes, want %d", number, got, want)
		}
	}
	s.visits.each(func(reader uint32, source int32, n int) {
		key := [2]uint32{reader, uint32(source)}
		if want := views[key]; n != want {
			t.Errorf("reader %d has %d views of source %d, want %d", reader, n, source, want)
		}
		delete(views, key)
	})
	if len(views) > 0 {
		t.Errorf("%d readers and sources are missing", len(views))
	}
}
