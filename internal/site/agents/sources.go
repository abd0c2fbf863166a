package agents

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Source is where people come from: an assistant, a search engine, a code host, a social network, or one of
// [Site], [OtherSource] and [NoSource].
type Source struct {
	Name  string `json:"source"`
	Class string `json:"class"`
	// Index is its place in [Sources].
	Index int `json:"-"`
}

// Sources that are not in the table.
var (
	Site        = &Source{"site", "site", 0}   // pages of the site itself
	OtherSource = &Source{"other", "other", 1} // a source that the table lacks
	NoSource    = &Source{"none", "none", 2}   // the line says none
)

// beforeTable are the sources that are not in the table.
var beforeTable = []*Source{Site, OtherSource, NoSource}

// sourceClasses are the classes of sources in the table. Class other has pages of hosts of the table that are
// something else.
var sourceClasses = []string{"assistant", "search", "code", "social", OtherSource.Class}

//go:embed sources.txt
var sourceLines string

// sourceTable finds sources. It does not change.
type sourceTable struct {
	all    []*Source           // beforeTable, and then in the order of the file
	hosts  map[string][]*place // by host, or name.*; the longest path first
	values map[string]*Source  // of utm_source, in lower case
}

// place is the pages of a host whose paths begin with path.
type place struct {
	path   string // empty, or after the first slash
	source *Source
}

// sources returns the table that comes with the program.
var sources = sync.OnceValue(func() *sourceTable {
	t := &sourceTable{all: slices.Clone(beforeTable), hosts: map[string][]*place{}, values: map[string]*Source{}}
	for line := range strings.Lines(sourceLines) {
		cells := strings.Split(strings.TrimSpace(line), "\t")
		if line[0] == '#' {
			continue
		}
		if len(cells) != 4 || !slices.Contains(sourceClasses, cells[1]) {
			panic(fmt.Sprintf("sources.txt: %q", line))
		}
		s := &Source{cells[0], cells[1], len(t.all)}
		if s.Name == OtherSource.Name {
			s = OtherSource
		} else {
			t.all = append(t.all, s)
			t.values[s.Name] = s
		}
		for _, text := range strings.Fields(cells[2]) {
			host, path, _ := strings.Cut(text, "/")
			places := append(t.hosts[host], &place{path, s})
			slices.SortFunc(places, func(a, b *place) int { return len(b.path) - len(a.path) })
			t.hosts[host] = places
		}
		if cells[3] != "-" {
			for _, value := range strings.Fields(cells[3]) {
				t.values[value] = s
			}
		}
	}
	return t
})

// Sources returns [Site], [OtherSource] and [NoSource], and then the sources of the table.
func Sources() []*Source { return slices.Clone(sources().all) }

const (
	// maxHost is the length of the longest name of a host.
	maxHost = 253
	// maxSourceValue is the length of the longest value of utm_source that is looked at.
	maxSourceValue = 64
)

// Referrer is what a referrer says by itself of where requests come from.
type Referrer struct {
	source *Source
	bare   []byte // the host of other pages, in lower case and without www.
}

// ReferrerOf returns what a referrer says to a site with some hosts of its own, in lower case and without ports. A www.
// before them says nothing.
func ReferrerOf(referrer []byte, own map[string]bool) Referrer {
	if len(referrer) == 0 {
		return Referrer{source: NoSource}
	}
	from, path := splitReferrer(referrer, nil)
	bare := bytes.TrimPrefix(from, www)
	switch {
	case len(from) == 0:
		return Referrer{source: OtherSource}
	case own[string(bare)]:
		return Referrer{source: Site}
	}
	return Referrer{cmp.Or(sources().ofHost(from, path), OtherSource), bare}
}

// SourceOf returns where a request comes from: what utm_source in the target's query says if it is in the table,
// else the referrer, which is the site if it is the line's host too. SourceOf returns no name that a client has made up,
// and needs memory only for escapes in utm_source.
func (r Referrer) SourceOf(target, host []byte) *Source {
	if at := bytes.IndexByte(target, '?'); at >= 0 {
		if s := sources().ofQuery(target[at+1:]); s != nil {
			return s
		}
	}
	if len(r.bare) > 0 && isHostOf(host, r.bare) {
		return Site
	}
	return r.source
}

// SourceOf is [Referrer.SourceOf] of one request.
func SourceOf(referrer, target []byte, own map[string]bool, host []byte) *Source {
	return ReferrerOf(referrer, own).SourceOf(target, host)
}

var www = []byte("www.")

// isHostOf reports whether host, as the header of a request has it, is bare, in lower case and without www.
func isHostOf(host, bare []byte) bool {
	if len(host) > len(www) && has(string(host[:len(www)]), "www.") {
		host = host[len(www):]
	}
	if len(host) < len(bare) || !bytes.EqualFold(host[:len(bare)], bare) {
		return false
	}
	host = bytes.TrimPrefix(host[len(bare):], []byte("."))
	return len(host) == 0 || host[0] == ':'
}

// ofQuery returns the source that utm_source names, nil if it is not in the table.
func (t *sourceTable) ofQuery(query []byte) *Source {
	const key = "utm_source="
	for {
		at := bytes.Index(query, []byte(key))
		if at < 0 {
			return nil
		}
		value := query[at+len(key):]
		if end := bytes.IndexAny(value, "&#;"); end >= 0 {
			value = value[:end]
		}
		if at == 0 || query[at-1] == '&' || query[at-1] == ';' {
			return t.ofValue(value)
		}
		query = query[at+len(key):]
	}
}

func (t *sourceTable) ofValue(value []byte) *Source {
	if len(value) > maxSourceValue {
		return nil
	}
	if bytes.ContainsAny(value, "%+") {
		text, err := url.QueryUnescape(string(value))
		if err != nil {
			return nil
		}
		value = []byte(text)
	}
	var buf [maxSourceValue]byte
	value = appendLower(buf[:0], bytes.TrimSpace(value))
	if s := t.values[string(value)]; s != nil {
		return s
	}
	return t.ofHost(value, nil)
}

// ofHost returns the source with a host in lower case and the beginning of a path, nil if the table has none.
func (t *sourceTable) ofHost(host, path []byte) *Source {
	for {
		for _, p := range t.hosts[string(host)] {
			if p.covers(path) {
				return p.source
			}
		}
		name, rest, ok := bytes.Cut(host, []byte("."))
		if !ok {
			return nil
		}
		if isCountry(rest) {
			var buf [maxHost + 2]byte
			for _, p := range t.hosts[string(append(append(buf[:0], name...), ".*"...))] {
				if p.covers(path) {
					return p.source
				}
			}
		}
		host = rest
	}
}

// covers reports whether a path, from after its first slash on, begins with the place's.
func (p *place) covers(path []byte) bool {
	rest, ok := bytes.CutPrefix(path, []byte(p.path))
	return ok && (p.path == "" || len(rest) == 0 || bytes.IndexByte([]byte("/?#"), rest[0]) >= 0)
}

// isCountry reports whether text may be the end of a host: com, de, co.uk, com.br.
func isCountry(text []byte) bool {
	first, second, two := bytes.Cut(text, []byte("."))
	if !two {
		return len(first) == 2 || string(first) == "com"
	}
	return len(second) == 2 && (string(first) == "co" || string(first) == "com")
}

// splitReferrer returns the host of a URL, which may lack its scheme, and what is after the first slash of its path.
// The host is in lower case in buf, without user, port and last dot; empty if it is none.
func splitReferrer(referrer, buf []byte) (host, path []byte) {
	if at := bytes.Index(referrer[:min(len(referrer), maxHost)], []byte("://")); at >= 0 {
		referrer = referrer[at+len("://"):]
	}
	if at := bytes.IndexAny(referrer[:min(len(referrer), 2*maxHost)], "/?#\\"); at >= 0 {
		referrer, path = referrer[:at], bytes.TrimPrefix(referrer[at:], []byte("/"))
	}
	if at := bytes.LastIndexByte(referrer, '@'); at >= 0 {
		referrer = referrer[at+1:]
	}
	if at := bytes.LastIndexByte(referrer, ':'); at >= 0 && referrer[0] != '[' {
		referrer = referrer[:at]
	}
	referrer = bytes.TrimSuffix(referrer, []byte("."))
	if len(referrer) > maxHost {
		return nil, nil
	}
	return appendLower(buf, referrer), path
}

func appendLower(buf, text []byte) []byte {
	for _, c := range text {
		buf = append(buf, lower(c))
	}
	return buf
}
