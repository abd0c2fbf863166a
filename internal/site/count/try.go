package count

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// Tried is what the logs of a source look like.
type Tried struct {
	Files          int    // that the path or glob matches; 0 for a bucket
	Format         string // the name in package logs of the form that most lines have; empty without lines
	Lines, Parsed  int    // of the beginning of the oldest log and the end of the newest
	Oldest, Newest time.Time
	Hosts          map[string]int // lines by host without its port; others are no names
	Linking        Linking
	Accept         bool // whether a line has the header
	People         People
	Findings       []Finding

	forms           map[string]int // lines by the name of their form
	viewer          *Viewer
	readers         map[[2]uint64]proof // those that call themselves browsers, with their proofs
	tally           Tally
	rules           *Rules
	markdown, other int // views by browsers of Markdown, by path, and of other pages
}

// Scripted reports whether the site's own script seems to fetch Markdown, as Docsify's does, and DOCGAUGE_SITE_MARKDOWN
// does not say so: browsers ask for it more often than for other pages.
func (t Tried) Scripted() bool {
	const fewest = 4
	return t.rules != nil && !t.rules.fetches && t.markdown >= fewest && t.markdown > t.other
}

// LinkedHost is the host that most links to the pages are on if the lines have no host; empty if there is none.
func (t Tried) LinkedHost() string {
	if len(t.Hosts) > 0 {
		return ""
	}
	host, _ := t.Linking.host()
	return host
}

// Linking counts lines without a host by the host that their referrer names, in lower case and without www., but for
// known sources.
type Linking map[string]int

func (l Linking) add(referrer []byte) {
	if from, err := url.Parse(string(referrer)); err == nil {
		if host := strings.TrimPrefix(hostOf(from.Host), "www."); host != "" {
			l[host]++
		}
	}
}

// host returns the host that most links are on, and their number: a site's own pages link to one another, and to
// their styles.
func (l Linking) host() (host string, links int) {
	sum := 0
	for name, n := range l {
		if sum += n; n > links || n == links && name < host {
			host, links = name, n
		}
	}
	if 2*links <= sum {
		return "", 0
	}
	return host, links
}

// headSize is the number of bytes at the beginning of the oldest log and at the end of the newest that Try reads.
const headSize = 64 << 10

// leastParsed is the share of lines that must follow a format.
const leastParsed = 0.95

// errEnough ends a look at a log.
var errEnough = errors.New("enough")

// Try reads the beginning of the oldest log of a source, as a collector does, and the end of the
// newest. It changes nothing.
func (r *Rules) Try(ctx context.Context, source logs.Source, now func() time.Time) (t Tried, err error) {
	if _, isPushed := source.Pushed(); isPushed || source.Where == "-" {
		return t, nil
	}
	t.Hosts, t.Linking, t.forms, t.rules = map[string]int{}, Linking{}, map[string]int{}, r
	parser := r.Parser()
	future := (analytics.DateOf(now()) + 2).Time().Unix()
	t.viewer = NewViewer(r, NewVocabulary(), 0, future)
	t.viewer.Fixed, t.viewer.Future, t.viewer.Identify = 0, future, once(facts.ForgottenHash())
	t.viewer.byProof, t.readers = true, map[[2]uint64]proof{}
	f, err := logs.NewFollower([]logs.Source{source}, nil, logs.FollowOptions{Now: now})
	if err != nil {
		return t, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	err = f.Poll(ctx, func(c logs.Chunk) error {
		head := c.Text
		if len(head) > headSize {
			head = head[:bytes.LastIndexByte(head[:headSize], '\n')+1]
		}
		if len(head) == 0 {
			return nil
		}
		if t.parse(parser, head); t.Parsed == 0 {
			return fmt.Errorf("%s: %w", c.Name, r.unknown(t.tally))
		}
		return errEnough
	})
	if err != nil && !errors.Is(err, errEnough) {
		return t, err
	}
	if !strings.Contains(source.Where, "://") {
		if err := t.newest(parser, source.Where); err != nil {
			return t, err
		}
	}
	t.Findings = r.Findings(t.tally, 1)
	t.People = peopleOf(maps.Values(t.readers), t.tally)
	for form, n := range t.forms {
		if most := t.forms[t.Format]; n > most || n == most && form < t.Format {
			t.Format = form
		}
	}
	if float64(t.Parsed) < leastParsed*float64(t.Lines) {
		return t, fmt.Errorf("only %d of %d lines follow the format: name it with DOCGAUGE_SITE_LOG_FORMAT, or leave "+
			"other files out", t.Parsed, t.Lines)
	}
	if source.Project == "" && len(r.projects) > 0 && t.Parsed > 0 && len(t.Hosts) == 0 && t.Format != "events" {
		return t, errors.New("its lines have no host, by which DOCGAUGE_SITE_PROJECTS tells projects apart: log the host, " +
			"or name the project of the whole log in DOCGAUGE_SITE_LOGS, project=path")
	}
	return t, nil
}

// newest tries each file, and reads the end of the newest.
func (t *Tried) newest(parser *logs.Parser, pattern string) error {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	var newest os.FileInfo
	path := ""
	var problems []error
	for _, p := range paths {
		info, err := os.Stat(p)
		if err == nil && info.Mode().IsRegular() {
			var file *os.File
			if file, err = os.Open(p); err == nil {
				err = file.Close()
				t.Files++
			}
			if newest == nil || info.ModTime().After(newest.ModTime()) {
				newest, path = info, p
			}
		}
		if err != nil {
			problems = append(problems, err)
		}
	}
	if newest == nil {
		problems = append(problems, errors.New("there is no such log yet, and answers that need it are 503: "+
			"is the path right?"))
	}
	small := t.Files == 1 && newest != nil && newest.Size() <= headSize // it was read
	if err := errors.Join(problems...); err != nil || t.Lines == 0 || small || logs.IsArchive(path) {
		return err
	}
	text, err := endOf(path, headSize)
	if err != nil {
		return err
	}
	t.parse(parser, text)
	return nil
}

func (t *Tried) parse(parser *logs.Parser, text []byte) {
	b := t.viewer.Batch(parser, logs.Lines{Text: text, First: 1, Fields: parser.Fields()})
	t.tally.Add(b.Tally)
	for _, v := range b.Views {
		if v.Agent == facts.Browser && v.Kind == facts.Human {
			t.readers[v.Readers] |= isPerson
		}
	}
	for i, s := range b.Shown {
		t.readers[s.Readers] |= b.proofs[i]
	}
	b.Free()
	var l logs.Line
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			continue
		}
		ok, err := parser.Parse(line, &l)
		if err == nil && !ok { // a comment
			continue
		}
		t.Lines++
		if err == nil {
			t.Parsed++
			t.forms[parser.Form]++
			written := time.Unix(l.Time, 0).UTC()
			if t.Parsed == 1 || written.Before(t.Oldest) {
				t.Oldest = written
			}
			if written.After(t.Newest) {
				t.Newest = written
			}
			if host := hostOf(string(l.Host)); host != "" {
				t.Hosts[host]++
			} else if agents.SourceOf(l.Referrer, nil, nil, nil) == agents.OtherSource {
				t.Linking.add(l.Referrer)
			}
			t.Accept = t.Accept || len(l.Accept) > 0
			t.view(&l)
		}
	}
}

// hostOf returns a host without its port, in lower case; empty if it is no name.
func hostOf(text string) string {
	host, _, _ := strings.Cut(strings.ToLower(text), ":")
	if strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
		return ""
	}
	return host
}

// view counts a line if it is a view by a browser.
func (t *Tried) view(l *logs.Line) {
	isView := string(l.Method) == "GET" && (l.Status >= 200 && l.Status <= 299 || l.Status == 304)
	path := pathOf(l.Target)
	if !isView || len(path) == 0 || t.rules.assets.kindOf(path) != isPage ||
		t.rules.agents.Match(string(l.UserAgent)) != nil || prefersMarkdown(string(l.Accept)) {
		return
	}
	if _, markdown := pageOf(path); markdown {
		t.markdown++
	} else {
		t.other++
	}
}
