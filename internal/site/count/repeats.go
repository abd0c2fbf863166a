package count

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

const (
	// maxPrints bounds the views that Repeats compares.
	maxPrints = 1 << 15
	// leastRepeated is the number of views that two logs share by chance at most.
	leastRepeated = 5
	// recentDay is for how many seconds before the newest view a log that is followed is compared with others.
	recentDay = 24 * 60 * 60
)

// Repeats finds logs with the same views: a log and its copy, or two logs that a server writes of each request. It
// compares a sample of the views by people and AI. A view is the same in every format: a reader, a page and a second.
type Repeats struct {
	// mask is 0 in the prints of the sample. It grows with the number of views.
	mask atomic.Uint64
	// recent is the number of seconds of which views are compared; 0: all.
	recent  int64
	newest  int64
	logs    []comparedLog
	numbers map[string]int32 // of logs, by key
	seen    map[uint64]repeat
}

// comparedLog is a log: its source, and its name for people.
type comparedLog struct {
	source int
	name   string
}

// repeat is a view in one log, or in two.
type repeat struct {
	at            int64
	first, second int32 // in order; second is absent if it is in one
}

const absent = -1

// sampleBits is the number of bits of a print that say whether it is of the sample. They follow from page and time, so
// that the sample is the same in each run; the others follow from the reader too.
const sampleBits = 20

// print is a view of the sample, in a few bytes.
type print struct {
	hash uint64
	at   int64
}

// NewRepeats returns an empty sample of views of all times.
func NewRepeats() *Repeats { return &Repeats{numbers: map[string]int32{}, seen: map[uint64]repeat{}} }

// NewRecentRepeats returns an empty sample of the views of the last day of the logs.
func NewRecentRepeats() *Repeats {
	r := NewRepeats()
	r.recent = recentDay
	return r
}

// sample adds a view to a batch if it is one of the sample. page is the hash of its page.
func (r *Repeats) sample(b *Batch, v *view, page uint64, at int64) {
	if v.Kind != facts.Human && v.Kind != facts.AI {
		return
	}
	const odd = 0x9e3779b97f4a7c15
	hash := (page ^ uint64(at)*odd ^ uint64(v.Project)<<32) * odd
	if hash ^= hash >> 32; hash&r.mask.Load() == 0 {
		b.prints = append(b.prints, print{hash ^ v.Readers[0]>>sampleBits<<sampleBits, at})
	}
}

// log returns the number of a log, and keeps its source and its name for people.
func (r *Repeats) log(source int, key, name string) int32 {
	log, known := r.numbers[key]
	if !known {
		log = int32(len(r.logs))
		r.numbers[key], r.logs = log, append(r.logs, comparedLog{})
	}
	r.logs[log] = comparedLog{source, name}
	return log
}

// Add compares the views of a batch with the views of other logs. It is for one goroutine at a time.
func (r *Repeats) Add(source int, key, name string, b Batch) {
	if len(b.prints) > 0 {
		r.add(r.log(source, key, name), &b)
	}
}

// add compares the views of a batch of a log. Of several logs with the same view the first two count.
func (r *Repeats) add(log int32, b *Batch) {
	for _, p := range b.prints {
		r.newest = max(r.newest, p.at)
		one, known := r.seen[p.hash]
		switch {
		case !known:
			one = repeat{p.at, log, absent}
		case log == one.first || log == one.second:
			continue
		case log < one.first:
			one.first, one.second = log, one.first
		case one.second == absent || log < one.second:
			one.second = log
		default:
			continue
		}
		if p.hash&r.mask.Load() == 0 {
			r.seen[p.hash] = one
		}
		if len(r.seen) > maxPrints {
			r.shrink()
		}
	}
}

// isRecent reports whether a view is compared still.
func (r *Repeats) isRecent(one repeat) bool { return r.recent == 0 || one.at >= r.newest-r.recent }

// shrink makes the sample smaller. If views of all times count, the order in which they came changes nothing.
func (r *Repeats) shrink() {
	maps.DeleteFunc(r.seen, func(_ uint64, one repeat) bool { return !r.isRecent(one) })
	most := maxPrints
	if r.recent > 0 {
		most /= 2 // else a few that are no longer recent would make room again and again
	}
	for len(r.seen) > most && r.mask.Load() < 1<<sampleBits-1 {
		mask := r.mask.Load()<<1 | 1
		r.mask.Store(mask)
		maps.DeleteFunc(r.seen, func(hash uint64, _ repeat) bool { return hash&mask != 0 })
	}
}

// Findings returns which logs have most of their views in common with another, by source: one finding for two logs.
func (r *Repeats) Findings() map[int][]Finding {
	views, both := map[int32]int{}, map[[2]int32]int{}
	for _, one := range r.seen {
		if !r.isRecent(one) {
			continue
		}
		if views[one.first]++; one.second != absent {
			views[one.second]++
			both[[2]int32{min(one.first, one.second), max(one.first, one.second)}]++
		}
	}
	all := map[int][]Finding{}
	for _, pair := range slices.SortedFunc(maps.Keys(both), func(a, b [2]int32) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	}) {
		n, log, other := both[pair], pair[1], pair[0]
		isMost := func(log int32) bool { return n >= leastRepeated && 2*n > views[log] }
		if !isMost(log) || isMost(other) && r.logs[other].name > r.logs[log].name {
			log, other = other, log
		}
		if !isMost(log) {
			continue
		}
		l := r.logs[log]
		all[l.source] = append(all[l.source], Finding{Repeated, fmt.Sprintf("%d of %d views of %s that were compared are in "+
			"%s too, so that their requests count twice: read only one of the two", n, views[log], l.name,
			r.logs[other].name), true})
	}
	return all
}

// repeatedSize is the number of bytes at the beginning and at the end of each file that Repeated compares.
const repeatedSize = 256 << 10

// unpackedSize is the number of bytes of archives after which Repeated reads the beginning of each alone: half a
// minute or so. Only tests change it.
var unpackedSize int64 = 4 << 30

// Repeated looks for files of the sources, by their index, that have the same views, as [Repeats] does, and says which
// cannot be read: archives up to their end, as far as unpackedSize goes. Like [Rules.Try] it changes nothing; buckets
// are left out.
func (r *Rules) Repeated(
	ctx context.Context, sources []logs.Source, now func() time.Time,
) (_ map[int][]Finding, unreadable logs.SourceErrors, _ error) {
	var files []logs.Source
	var numbers []int // of files in sources
	for i, s := range sources {
		if s.IsFile() {
			files, numbers = append(files, s), append(numbers, i)
		}
	}
	v, parser, found := NewViewer(r, NewVocabulary(), 0, (analytics.DateOf(now())+2).Time().Unix()), r.Parser(), NewRepeats()
	v.Identify, v.Repeats = once(facts.ForgottenHash()), found
	all := r.Projects(sources)
	f, err := logs.NewFollower(files, nil, logs.FollowOptions{Now: now})
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	looked, unpacked := map[string]bool{}, int64(0)
	err = f.Poll(ctx, func(c logs.Chunk) error {
		add := func(text []byte) {
			v.Fixed = int32(slices.Index(all, files[c.Source].Project))
			b := v.Batch(parser, logs.Lines{Text: text, First: 1, Fields: parser.Fields()})
			found.Add(numbers[c.Source], c.Key, c.Name, b)
			b.Free()
		}
		if len(c.Text) == 0 {
			return nil
		}
		defer c.Free()
		rest := logs.ErrSkip
		if logs.IsArchive(c.Name) && unpacked < unpackedSize {
			rest, unpacked = nil, unpacked+int64(len(c.Text))
		}
		if looked[c.Key] {
			return rest
		}
		looked[c.Key] = true
		parser.SetFields(c.Fields)
		if len(c.Text) <= repeatedSize {
			add(c.Text)
		} else {
			add(c.Text[:bytes.LastIndexByte(c.Text[:repeatedSize], '\n')+1])
			if end, err := endOf(c.Name, repeatedSize); err == nil {
				add(end)
			}
		}
		return rest
	})
	failed, isOfSources := errors.AsType[logs.SourceErrors](err)
	if err != nil && !isOfSources {
		return nil, nil, err
	}
	unreadable = logs.SourceErrors{}
	for i, err := range failed {
		unreadable[numbers[i]] = err
	}
	return found.Findings(), unreadable, nil
}

// endOf returns the whole lines at the end of a file, nothing of an archive.
func endOf(path string, size int64) ([]byte, error) {
	if logs.IsArchive(path) {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, info.Size()-size)
	text, err := io.ReadAll(io.NewSectionReader(file, from, size))
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	if from > 0 { // in the middle of a line
		text = text[bytes.IndexByte(text, '\n')+1:]
	}
	return text, err
}
