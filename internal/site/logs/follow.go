package logs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/internal/format"
)

// Source is an item of DOCGAUGE_SITE_LOGS.
type Source struct {
	// Project is the project of all lines; empty if the lines say it.
	Project string
	// Where is a file, a glob, - for standard input, s3://bucket/prefix with the parameters of package filestore, or
	// http:NAME for lines that are pushed over HTTP.
	Where string
}

// pushedPrefix begins a source whose lines are pushed over HTTP.
const pushedPrefix = "http:"

// pushedName is the form of its name: a part of a URL's path.
var pushedName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Pushed returns the name of a source whose lines are pushed over HTTP.
func (s Source) Pushed() (name string, ok bool) { return strings.CutPrefix(s.Where, pushedPrefix) }

// IsFile reports whether a source is a file or a glob.
func (s Source) IsFile() bool {
	return s.Where != "-" && !strings.Contains(s.Where, "://") && !strings.HasPrefix(s.Where, pushedPrefix)
}

// path is Where in one spelling.
func (s Source) path() string {
	if !s.IsFile() {
		return s.Where
	}
	if path, err := filepath.Abs(s.Where); err == nil {
		return path
	}
	return filepath.Clean(s.Where)
}

// ParseSources reads DOCGAUGE_SITE_LOGS: [project=]source, separated by commas.
func ParseSources(text string) (sources []Source, err error) {
	for _, item := range format.List(text) {
		s := Source{Where: item}
		if project, where, ok := strings.Cut(s.Where, "="); ok && !strings.ContainsAny(project, "/.:*?") {
			if err := analytics.CheckProject(project); err != nil {
				return nil, err
			}
			s = Source{project, where}
		}
		_, globErr := filepath.Match(s.Where, "")
		name, isPushed := s.Pushed()
		switch scheme, _, isURL := strings.Cut(s.Where, "://"); {
		case s.Where == "":
			return nil, fmt.Errorf("%.80q: has no source after the =: want project=/var/log/nginx/access.log", item)
		case slices.ContainsFunc(sources, func(o Source) bool { return o.path() == s.path() }):
			return nil, fmt.Errorf("%.80q: is named twice: name it once", s.Where)
		case isURL && scheme == "s3":
			if _, err := filestore.New(s.Where); err != nil {
				return nil, err
			}
		case isURL:
			return nil, fmt.Errorf("%.80q: want a file, a glob, -, s3://bucket/prefix or http:NAME", s.Where)
		case isPushed && !pushedName.MatchString(name):
			return nil, fmt.Errorf("%.80q: want http:NAME with 1 to 64 letters, digits, - or _", s.Where)
		case globErr != nil:
			return nil, fmt.Errorf("%.80q: is no glob: every [ needs its ]", s.Where)
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// Chunk is some whole lines of one file.
type Chunk struct {
	// Source is the index of its source.
	Source int
	// Key is the key of the file: its position is kept by it.
	Key string
	// Name is the path or object, for people.
	Name string
	// Free the lines once they are read. There can be none: then only the position has changed.
	Lines
	// Position of the file after the lines, to be kept by Key; nil if there is nothing to keep: the file is gone for
	// good, or has no position, as standard input.
	Position []byte
	// PossiblyLost: lines before this chunk may have been lost: the file was emptied (copytruncate), cut, or replaced by
	// another that begins alike.
	PossiblyLost bool
}

// FollowOptions are the options of NewFollower.
type FollowOptions struct {
	Stdin io.Reader // nil: os.Stdin
	// Now is the time; nil: time.Now.
	Now func() time.Time
}

const (
	// grace is the time for which a file that was renamed or deleted is kept open after its last line: a server
	// writes to it until it opens another.
	grace = time.Minute
	// forgetAfter is the time after which a file that is gone is forgotten. It may have been away for a moment.
	forgetAfter = 24 * time.Hour
	// headSize is how much of a file's text tells it from others.
	headSize = 1 << 10
	// endSize is the number of bytes before an offset that are kept as a hash. If they differ, lines that were read
	// are no longer there, or it is another file that begins alike.
	endSize = 1 << 10
	// endSum is how many digits of a hash Ends has.
	endSum = 6
	// fewFiles is the number of files up to which each poll lists all. Of more it looks at this many, which changed last,
	// and lists when a directory or one of these changed, but at most once in listPause for each file, and at least once
	// in grace. To look at a file takes about 10 µs.
	fewFiles  = 256
	listPause = time.Millisecond
)

// position is what is kept of a file.
type position struct {
	Where string `json:"where"` // source
	Base  string `json:"base,omitempty"`
	Path  string `json:"path"` // or name of the object
	inode
	// Born is when the inode got this file, 0 where the system does not say: a deleted file's goes to a new one.
	Born int64  `json:"born,omitempty"`
	ETag string `json:"etag,omitempty"` // of an object
	// Sum is the hash of the first HeadSize bytes of the text: headSize, or what there was.
	Sum      string `json:"sum,omitempty"`
	HeadSize int    `json:"head_size,omitempty"`
	// Ends has the first digits of the hash up to the end of each line in it: a copy may be shorter.
	Ends   map[int]string `json:"ends,omitempty"`
	Offset int64          `json:"offset"` // in the text, decompressed
	// End is the hash of the EndSize bytes before the offset: endSize, or what there was; 0 if it is not known.
	End      string `json:"end,omitempty"`
	EndSize  int    `json:"end_size,omitempty"`
	Lines    int    `json:"lines"`            // before the offset
	Fields   string `json:"fields,omitempty"` // the last #Fields line before the offset
	IsPacked bool   `json:"packed,omitempty"` // compressed
	// IsEmptied: the file was emptied, and its copy not found yet.
	IsEmptied bool `json:"emptied,omitempty"`
	// Size and Modified are the file's when it was read to its end. Modified is set for an object then.
	Size     int64     `json:"size,omitempty"`
	Modified time.Time `json:"modified,omitzero"`
	// Gone is since when nothing is there, although its source has other files.
	Gone time.Time `json:"gone,omitzero"`
}

// known is a file whose lines are read.
type known struct {
	key string
	position
	isKept  bool   // position was given to be kept
	hasLost bool   // lines, possibly
	end     []byte // that position.End is the hash of, once lines were read
	// file stays open as long as a server may write to it.
	file   *os.File
	active time.Time  // when it was live or grew
	at     *candidate // in this poll; nil: nothing is there
	// failed is why the file could not be read, as long as it has the size and time.
	failed      error
	failedSize  int64
	failedSince time.Time
}

// Follower reads the logs of some sources as they grow and rotate: every line once, whatever happens to the files and
// to this process. Each chunk has the position of its file after it; whoever keeps the facts of the lines keeps the
// position in the same transaction, and gives all positions back to NewFollower. It keeps nothing itself, and knows no
// format, but for the #Fields line that rules what follows it. It is for one goroutine.
type Follower struct {
	sources []Source
	now     func() time.Time
	known   []*known
	buckets map[int]*bucket
	stdin   *stdin
	// behind has the sources with a file that changed while the last poll looked at it.
	behind map[int]bool
	copies map[inode]copied // files that have nothing but what others have

	polledAt     time.Time            // when the last poll had read the files
	listedAt     time.Time            // when the files were last listed; zero: they must be
	changed      map[string]time.Time // when the directories of the logs had last changed then
	isUrgent     bool                 // a file could not be read then, or may still be written to after it was renamed
	recent       []*known             // the files that changed last
	fileProblems SourceErrors         // of the last poll

	freeText int64 // freeText, but in a test
	fewFiles int   // fewFiles, but in a test
}

// NewFollower returns a Follower that goes on after positions, by key, as chunks had them. It reads nothing.
func NewFollower(sources []Source, positions map[string][]byte, o FollowOptions) (*Follower, error) {
	f := &Follower{sources: sources, now: o.Now, buckets: map[int]*bucket{},
		copies: map[inode]copied{}, freeText: freeText, fewFiles: fewFiles}
	if f.now == nil {
		f.now = time.Now
	}
	for key, text := range positions {
		k := &known{key: key, isKept: true}
		if err := json.Unmarshal(text, &k.position); err != nil {
			return nil, fmt.Errorf("the position %.80q is damaged: %w", key, err)
		}
		f.known = append(f.known, k)
	}
	for i, s := range sources {
		if strings.HasPrefix(s.Where, "s3://") {
			inbox, err := filestore.NewInbox(s.Where)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.Where, err)
			}
			f.buckets[i] = &bucket{inbox: inbox}
		} else if s.Where == "-" {
			f.stdin = newStdin(i, cmp.Or[io.Reader](o.Stdin, os.Stdin))
		}
	}
	return f, nil
}

// Close closes the files. Standard input stays open.
func (f *Follower) Close() (err error) {
	for _, k := range f.known {
		err = errors.Join(err, k.close())
	}
	for _, b := range f.buckets {
		err = errors.Join(err, b.inbox.Close())
	}
	if f.stdin != nil {
		f.stdin.stop()
	}
	return err
}

func (k *known) close() (err error) {
	if k.file != nil {
		err, k.file = k.file.Close(), nil
	}
	return err
}

// SourceErrors are the errors of a poll, by the index of their source.
type SourceErrors map[int]error

func (e SourceErrors) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns them in the order of the sources.
func (e SourceErrors) Unwrap() (all []error) {
	for _, source := range slices.Sorted(maps.Keys(e)) {
		all = append(all, e[source])
	}
	return all
}

// Poll calls each with what is new in every log, the oldest files first, and returns once it has read what was there
// when it began. A log that cannot be read does not stop it: the error is [SourceErrors] then. After an error of each,
// which ends the poll unless it is ErrWait, make another Follower from the positions that were kept.
func (f *Follower) Poll(ctx context.Context, each func(Chunk) error) error {
	f.behind = map[int]bool{}
	p := &poll{Follower: f, ctx: ctx, each: each, listed: map[string]int{}, paths: map[string]bool{},
		problems: SourceErrors{}}
	p.run()
	if p.stopped != nil {
		return p.stopped
	}
	if len(p.problems) > 0 {
		return p.problems
	}
	return nil
}

// IsBehind reports whether the next poll reads lines of a source that the last one should have read, because a file was
// renamed or emptied while it was looked at.
func (f *Follower) IsBehind(source int) bool { return f.behind[source] }

// poll is one Poll.
type poll struct {
	*Follower
	ctx      context.Context
	each     func(Chunk) error
	stopped  error           // by each or ctx
	listed   map[string]int  // how many files a source has; without those that could not be listed
	paths    map[string]bool // of files
	problems SourceErrors
	unpack   Decompressor // of archives, which are read one after the other
}

func (p *poll) run() {
	p.files()
	for i, s := range p.sources {
		if b := p.buckets[i]; b != nil && p.stopped == nil {
			p.problem(i, p.bucket(i, s.Where, b))
		}
	}
	if p.stopped == nil {
		p.forget()
	}
	if p.stdin != nil && p.stopped == nil {
		p.problem(p.stdin.source, p.stdin.poll(p))
	}
}

// problem keeps an error of a source.
func (p *poll) problem(source int, err error) {
	switch {
	case err == nil, errors.Is(err, ErrSkip):
		return
	case errors.Is(err, errChanged):
		p.behind[source] = true
		return
	}
	if where := p.sources[source].Where; !strings.HasPrefix(err.Error(), where) {
		err = fmt.Errorf("%s: %w", where, err)
	}
	p.problems[source] = errors.Join(p.problems[source], err)
}

// sourceOf returns the index of the source of k, negative if it is none any more.
func (p *poll) sourceOf(k *known) int {
	return slices.IndexFunc(p.sources, func(s Source) bool { return s.Where == k.Where })
}

// give calls each with lines of a file, and moves its position once each has them.
func (p *poll) give(k *known, c Chunk) error {
	if p.stopped = context.Cause(p.ctx); p.stopped == nil {
		next := k.position
		end := k.end
		if next.Offset += c.Size; c.Size > 0 {
			if len(end) != k.EndSize || int64(len(c.Text)) != c.Size { // what was before the text is not known
				end = nil
			}
			end = append(bytes.Clone(end[max(0, min(len(end), len(end)+len(c.Text)-endSize)):]),
				c.Text[max(0, len(c.Text)-endSize):]...)
			next.End, next.EndSize = sum(end), len(end)
		}
		next.Lines = max(next.Lines, c.First-1+bytes.Count(c.Text, []byte("\n")))
		if c.Size > 0 {
			next.Fields = c.after
		}
		c.Key, c.Name = k.key, k.Path
		if c.Position, p.stopped = json.Marshal(next); p.stopped == nil {
			if p.stopped = p.each(c); p.stopped == nil {
				k.position, k.isKept, k.end = next, true, end
				return nil
			}
			if err := p.stopped; errors.Is(err, ErrWait) {
				p.stopped = nil
				return err
			}
		}
	}
	return errStopped
}

// ErrWait is an error of the function that gets the chunks if it cannot take the lines of a file yet: the poll continues
// with the other files, and the next poll gives the same lines again.
var ErrWait = errors.New("the log waits")

// ErrSkip is an ErrWait for a file whose remaining lines are not needed. It does not count as an error of the source.
var ErrSkip = fmt.Errorf("%w: it is skipped", ErrWait)

// errStopped: poll.stopped says why.
var errStopped = errors.New("stopped")

// forget gives up the positions of files that are gone for good. Positions of a source without files are kept: its disk
// may not be mounted.
func (p *poll) forget() {
	p.known = slices.DeleteFunc(p.known, func(k *known) bool {
		source := p.sourceOf(k)
		switch {
		case p.stopped != nil:
		case k.at != nil && k.Gone.IsZero():
		case k.at != nil:
			k.Gone = time.Time{}
			_ = p.give(k, Chunk{Source: k.at.source})
		case !k.isKept && (k.ETag == "" || p.listed[k.Where] > 0):
			return true
		case p.listed[k.Where] == 0 || source < 0:
		case k.Gone.IsZero():
			k.Gone = p.now()
			_ = p.give(k, Chunk{Source: source})
		case p.now().Sub(k.Gone) >= forgetAfter:
			// From here on a file that came back would be read again.
			p.stopped = p.each(Chunk{Source: source, Key: k.key, Name: k.Path,
				PossiblyLost: !k.IsPacked && !k.IsEmptied && k.Offset < k.Size})
			return p.stopped == nil
		}
		return false
	})
}
