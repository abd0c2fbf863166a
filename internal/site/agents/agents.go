// Package agents knows which program a user agent names: the reviewed table of agents.txt, the
// rule that matches its tokens, and the address ranges that operators publish.
//
// A user agent is what a client says of itself. The table decides by whole tokens and never
// guesses: what calls itself automatic without being in the table is [Unknown], and what says
// nothing of the kind is a person's browser. Nothing here keeps or prints a user agent.
package agents

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
)

// Class is what an agent fetches pages for.
type Class string

// The classes.
const (
	Answers  Class = "answers"  // a page for a user's question
	Coding   Class = "coding"   // a page for a coding agent
	Search   Class = "search"   // pages for a search index
	Training Class = "training" // pages for training models
	Tool     Class = "tool"     // an HTTP library, on whose behalf is not known
	Other    Class = "other"    // previews, monitors, feeds, SEO, archives
	Unknown  Class = "unknown"  // calls itself automatic and is not in the table
)

// Classes are the classes that a row of the table can have.
var Classes = []Class{Answers, Coding, Search, Training, Tool, Other}

// Agent is a row of the table.
type Agent struct {
	// Token is the vendor's name of the agent, as it stands in the user agent.
	Token    string `json:"agent"`
	Operator string `json:"operator"`
	Class    Class  `json:"class"`
	// Hosted reports whether every client of the token runs at its operator.
	Hosted bool `json:"hosted"`
	// Ranges is the name of the file of published address ranges, empty for none.
	Ranges string `json:"ranges,omitempty"`
	// Source is the URL of what is known of the agent.
	Source string `json:"source"`
	// Visits is the name of the [Source] of the people whom its operator sends; empty for none.
	Visits string `json:"visits,omitempty"`

	// Listed marks a crawler of the public list, which is not in the table.
	Listed bool `json:"-"`

	// leading tokens match only at the beginning of a user agent.
	leading bool
	order   int
}

// Browser is how people are shown among agents, and Unconfirmed how clients that only claim to be browsers are.
// [Table.Match] returns nil for both.
var (
	Browser     = Agent{Token: "browser", Class: "human"}
	Unconfirmed = Agent{Token: "unconfirmed", Class: "human"}
)

// Unnamed is how a view of Markdown is shown that names no agent: coding agents use the user agents of
// browsers.
var Unnamed = Agent{Token: "unnamed", Class: Coding}

// unknown and unlisted are the programs that have no name here: unknown calls itself automatic, unlisted only
// does not begin as browsers do.
var (
	unknown  = &Agent{Token: "unknown", Class: Unknown}
	unlisted = &Agent{Token: "unknown", Class: Unknown}
)

// Neither is the audience of agents that count as no reader.
const Neither analytics.Audience = "neither"

// Audience returns the audience of one view by an agent, nil for a person's browser. A view of
// Markdown is a page asked for as Markdown, by path or by Accept.
func Audience(a *Agent, markdown bool) analytics.Audience {
	switch {
	case a == nil && !markdown:
		return analytics.Human
	case a == nil, a.Class == Answers, a.Class == Coding, markdown && a.IsTool():
		return analytics.AI
	}
	return Neither
}

// IsTool reports whether a program may act for anybody: an HTTP library, or one that only says its name.
func (a *Agent) IsTool() bool { return a.Class == Tool || a == unlisted }

// Table finds agents by their tokens. It does not change.
type Table struct {
	agents []*Agent // by token
	// byWord has the agents, and the crawlers of the public list, by the first word of their token, in lower case.
	byWord map[string][]*Agent
	// lengths has, by first letter, a bit for each length of a key of byWord.
	lengths [256]uint64
}

//go:embed agents.txt
var builtin []byte

//go:embed crawlers.txt
var crawlers string

// Builtin returns the table that comes with the program.
var Builtin = sync.OnceValue(func() *Table {
	rows, err := read(bytes.NewReader(builtin), "agents.txt")
	if err != nil {
		panic(err)
	}
	return newTable(rows, listed(crawlers))
})

// listed returns the crawlers of the public list: lines of a class and a token, after comments.
func listed(text string) (all []Agent) {
	for line := range strings.Lines(text) {
		if class, token, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && line[0] != '#' {
			a := Agent{Operator: "-", Class: Class(class), Source: crawlersSource, Listed: true}
			a.Token, a.leading = strings.CutPrefix(token, "^")
			all = append(all, a)
		}
	}
	return all
}

// crawlersSource is where the crawlers of the public list come from.
const crawlersSource = "https://github.com/monperrus/crawler-user-agents"

// Load returns the built-in table with the rows of a file over it: a row of the file takes the
// place of the built-in row of that token. An empty path is no file.
func Load(path string) (*Table, error) {
	if path == "" {
		return Builtin(), nil
	}
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	rows, err := read(bytes.NewReader(data.text), path)
	if err != nil {
		return nil, err
	}
	own := slices.Clone(rows)
	for _, a := range Builtin().agents {
		if !slices.ContainsFunc(own, func(b Agent) bool { return a.sameToken(&b) }) {
			rows = append(rows, *a)
		}
	}
	return newTable(rows, listed(crawlers)), nil
}

func (a *Agent) sameToken(b *Agent) bool { return strings.EqualFold(a.Token, b.Token) }

const (
	// maxWord is the length of the longest word of a token.
	maxWord = 63
	// maxProblems bounds the bad lines of a file that are listed: it may be another kind of file.
	maxProblems = 50
	columns     = "token, operator, class, hosted or anywhere, ranges or -, source; and perhaps visits"
)

// read reads the rows of a table: a row a line, with the columns token, operator, class, hosted or anywhere,
// ranges (a file name, or -), source (an https URL) and, if there is one, visits (the name of a [Source]), separated
// by tabs. A token after ^ matches only at the beginning of a user agent. Empty lines and lines that begin with # mean
// nothing. The error names the bad lines with the file.
func read(r io.Reader, name string) ([]Agent, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var rows []Agent
	var problems []error
	seen := map[string]int{}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		a, problem := parse(line)
		key := strings.ToLower(a.Token)
		if first := seen[key]; problem == "" && first > 0 {
			problem = fmt.Sprintf("the token %s is in line %d already", a.Token, first)
		}
		if problem != "" {
			if len(problems) == maxProblems {
				problems = append(problems, errors.New(name+": and more"))
				break
			}
			problems = append(problems, fmt.Errorf("%s:%d: %s", name, n, problem))
			continue
		}
		seen[key] = n
		rows = append(rows, a)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return rows, nil
}

// parse returns the agent of a line, or what is wrong with the line.
func parse(line string) (a Agent, problem string) {
	cells := strings.Split(line, "\t")
	if len(cells) != 6 && len(cells) != 7 {
		return a, fmt.Sprintf("want 6 columns separated by tabs (%s), got %d", columns, len(cells))
	}
	for i, c := range cells {
		cells[i] = strings.TrimSpace(c)
	}
	a = Agent{Token: cells[0], Operator: cells[1], Class: Class(cells[2]), Ranges: cells[4], Source: cells[5]}
	if len(cells) == 7 {
		a.Visits = cells[6]
	}
	a.Token, a.leading = strings.CutPrefix(a.Token, "^")
	a.Hosted = cells[3] == "hosted"
	if a.Ranges == "-" {
		a.Ranges = ""
	}
	head := firstWord(a.Token)
	switch {
	case head == "" || len(head) > maxWord || !isWord(a.Token[len(a.Token)-1]) || !printable(a.Token):
		problem = fmt.Sprintf("token %q: want a name that begins with a word of at most %d letters, digits, - and _ "+
			"and ends with one", format.Cut(a.Token, 80), maxWord)
	case slices.ContainsFunc([]*Agent{&Browser, &Unconfirmed, &Unnamed, unknown}, a.sameToken):
		problem = fmt.Sprintf("token %s: is what docgauge calls those that have no name; want another", a.Token)
	case a.Operator == "" || !printable(a.Operator):
		problem = "the operator is missing, or not of plain characters: want a name, or - if nobody in particular"
	case !slices.Contains(Classes, a.Class):
		problem = fmt.Sprintf("class %q: want answers, coding, search, training, tool or other",
			format.Cut(string(a.Class), 80))
	case !a.Hosted && cells[3] != "anywhere":
		problem = fmt.Sprintf("%q: want hosted if all its clients run at the operator, else anywhere",
			format.Cut(cells[3], 80))
	case a.Ranges != "" && (!printable(a.Ranges) || filepath.Base(a.Ranges) != a.Ranges || a.Ranges[0] == '.'):
		problem = fmt.Sprintf("ranges %q: want the name of a file in DOCGAUGE_SITE_RANGES_DIR, or -",
			format.Cut(a.Ranges, 80))
	case !strings.HasPrefix(a.Source, "https://") && !strings.HasPrefix(a.Source, "http://") || !printable(a.Source):
		problem = fmt.Sprintf("source %q: want the URL of the page that says so", format.Cut(a.Source, 80))
	case a.Visits != "" && !slices.ContainsFunc(sources().all[len(beforeTable):],
		func(s *Source) bool { return s.Name == a.Visits }):
		problem = fmt.Sprintf("visits %q: want the name of a source such as chatgpt, or no column", format.Cut(a.Visits, 80))
	}
	return a, problem
}

// newTable returns the table of rows, and below them the crawlers of the public list.
func newTable(rows, crawlers []Agent) *Table {
	slices.SortFunc(rows, func(a, b Agent) int {
		return strings.Compare(strings.ToLower(a.Token), strings.ToLower(b.Token))
	})
	t := &Table{byWord: map[string][]*Agent{}}
	for _, a := range slices.Concat(rows, crawlers) {
		t.add(&a)
	}
	return t
}

func (t *Table) add(a *Agent) {
	a.order = a.rank()
	key := strings.ToLower(firstWord(a.Token))
	t.byWord[key] = append(t.byWord[key], a)
	t.lengths[key[0]] |= 1 << len(key)
	if !a.Listed {
		t.agents = append(t.agents, a)
	}
}

// Agents returns the rows, by token, without the crawlers of the public list.
func (t *Table) Agents() []Agent {
	out := make([]Agent, len(t.agents))
	for i, a := range t.agents {
		out[i] = *a
	}
	return out
}
