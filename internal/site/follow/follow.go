// Package follow reads the access logs of a site as they grow and rotate: every line once, whatever happens to the
// files and to this process. It gives chunks of whole lines, each with the position of its file after it; whoever
// keeps the facts of the lines keeps the position in the same transaction, and gives all positions back to New.
//
// It keeps nothing itself, and knows no format.
package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// Source is an item of DOCGAUGE_SITE_LOGS.
type Source struct {
	// Project is that of all lines; empty if the lines say it.
	Project string
	// Where is a file, a glob, - for standard input, or s3://bucket/prefix with the parameters of package filestore.
	Where string
}

// ParseSources reads DOCGAUGE_SITE_LOGS: [project=]source, separated by commas.
func ParseSources(text string) (sources []Source, err error) {
	for item := range strings.SplitSeq(text, ",") {
		s := Source{Where: strings.TrimSpace(item)}
		if s.Where == "" {
			continue
		}
		if project, where, ok := strings.Cut(s.Where, "="); ok && !strings.ContainsAny(project, "/.:*?") {
			if err := analytics.CheckProject(project); err != nil {
				return nil, err
			}
			s = Source{project, where}
		}
		_, globErr := filepath.Match(s.Where, "")
		switch scheme, _, isURL := strings.Cut(s.Where, "://"); {
		case s.Where == "":
			return nil, fmt.Errorf("%.80q: has no source after the =: want project=/var/log/nginx/access.log", item)
		case slices.ContainsFunc(sources, func(o Source) bool { return o.Where == s.Where }):
			return nil, fmt.Errorf("%.80q: is named twice: name it once", s.Where)
		case isURL && scheme == "s3":
			if _, err := filestore.New(s.Where); err != nil {
				return nil, err
			}
		case isURL:
			return nil, fmt.Errorf("%.80q: want a file, a glob, - or s3://bucket/prefix", s.Where)
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
	// Key is that of the file: its position is kept by it.
	Key string
	// Name is the path or object, for people.
	Name string
	// Head is the beginning of the file's decompressed text, whole lines of at most 64 KiB: the log's format is found
	// out from it. It comes with the first chunk of a file since New that has lines, and is nil after it.
	Head []byte
	// Chunk is the lines. Free it once they are read. There can be none: then only the position has changed.
	logs.Chunk
	// Position of the file after the lines, to be kept by Key; nil if there is nothing to keep: the file is gone for
	// good, or has no position, as standard input.
	Position []byte
	// PossiblyLost: lines before this chunk may have been lost, because the file was emptied (copytruncate).
	PossiblyLost bool
}

// Options of New.
type Options struct {
	Stdin  io.Reader
	Logger *slog.Logger // nil: none
	// Now is the time; nil: time.Now.
	Now func() time.Time
}

// Follower reads the logs of some sources. It is for one goroutine.
type Follower struct {
	sources []Source
}

// New returns a Follower that goes on after positions, by key, as chunks had them. It reads nothing.
func New(sources []Source, positions map[string][]byte, o Options) (*Follower, error) {
	return &Follower{sources: sources}, nil
}

// Poll calls each with what is new in every log, the oldest files first, and returns once it has read what was there
// when it began. A log that cannot be read does not stop it: the error names those. After an error of each, which ends
// the poll, make another Follower from the positions that were kept.
func (f *Follower) Poll(ctx context.Context, each func(Chunk) error) error {
	return errors.New("follow: not built yet")
}

// Close closes the files. Standard input stays open.
func (f *Follower) Close() error { return nil }
