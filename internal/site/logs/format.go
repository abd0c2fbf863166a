package logs

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Format is how the lines of a log are written: auto's, and before them a format with a name, or the zone of the
// times that have none.
type Format struct {
	pattern *pattern
	object  *object
	zone    *time.Location
}

// ParseFormat reads the value of DOCGAUGE_SITE_LOG_FORMAT: auto, json:time=…,path=…, nginx:<log_format>,
// haproxy:<zone>, or the name of a form that auto finds by itself.
func ParseFormat(text string) (f Format, err error) {
	name, value, hasValue := strings.Cut(text, ":")
	switch {
	case name == "json" && hasValue:
		f.object, err = parseKeys(value)
	case name == "nginx" && hasValue:
		if f.pattern, err = compile(pasted(value), nil); err != nil {
			f.pattern, err = compile(strings.TrimSpace(value), nil)
		}
	case name == "haproxy" && hasValue:
		if f.zone, err = time.LoadLocation(value); err != nil {
			err = fmt.Errorf("%.60q: want a time zone, such as Europe/Berlin", value)
		}
	default:
		known := []string{"auto", "json", "w3c", "cloudfront", "mintlify", "events"}
		for _, form := range textForms {
			known = append(known, form.name)
		}
		if !slices.Contains(known, text) {
			return f, fmt.Errorf("%.60q: want auto, combined, json, json:time=…,path=…, nginx:<log_format>, w3c, alb, s3, "+
				"haproxy, haproxy:<zone>, envoy, bunny, mintlify or events", text)
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return f, err
}

var directive = regexp.MustCompile(`^\s*(?:log_format\s+[\w-]+\s+)?(?:escape=\w+\s+)?(['"][\s\S]*['"])\s*;?\s*$`)

// pasted returns the format in the text of nginx's directive log_format, from its name, escape=… or its quotes on: the
// quoted parts are one text. Other text is a format as it is.
func pasted(text string) string {
	m := directive.FindStringSubmatch(text)
	if m == nil {
		return strings.TrimSpace(text)
	}
	var format []byte
	for rest := m[1]; rest != ""; {
		end := 1
		for end < len(rest) && (rest[end] != rest[0] || isEscaped([]byte(rest[:end]))) {
			end++
		}
		if end == len(rest) || rest[0] != '\'' && rest[0] != '"' {
			return strings.TrimSpace(text) // the quotes are the format's
		}
		format = unescape(format, []byte(rest[1:end]))
		rest = strings.TrimLeft(rest[end+1:], " \t\r\n")
	}
	return string(format)
}

// ErrUnknown is the error of a log of which no line follows a known format.
var ErrUnknown = errors.New("no line has a known format; name it with DOCGAUGE_SITE_LOG_FORMAT " +
	"(docs/site.md says which ones are known)")

// Parser reads lines. How it reads one depends on that line alone, and for columns on the #Fields before it. It is for
// one goroutine.
type Parser struct {
	// Form is the name of the form of the line that was read last.
	Form    string
	format  Format
	object  *object // a copy of the format's
	json    object
	fields  string
	columns *columns
	scratch []byte
	opened  [maxEnvelopes][]byte
	// parts are the parts of a line that a container's runtime has split, by stream: stdout and stderr.
	parts [2]lineParts
}

// lineParts are the parts of a line before its last one.
type lineParts struct {
	text []byte
	n    int
}

// Parser returns a parser of lines of the format.
func (f Format) Parser() *Parser {
	p := &Parser{format: f, json: object{root: jsonKeys()}}
	if f.object != nil {
		o := *f.object
		p.object = &o
	}
	return p
}

// Fields returns the #Fields line that rules the next lines.
func (p *Parser) Fields() string { return p.fields }

// SetFields sets the #Fields line that rules the next lines, as [Lines.Fields] has it; empty: none does. They do not
// continue a line before them.
func (p *Parser) SetFields(line string) {
	p.EndParts()
	if line == p.fields {
		return
	}
	p.fields, p.columns = line, nil
	if names, ok := strings.CutPrefix(line, fieldsPrefix); ok {
		p.columns = newColumns(names)
	}
}

// EndParts returns the number of parts of lines whose last part has not come, and forgets them.
func (p *Parser) EndParts() (n int) {
	for i := range p.parts {
		n += p.parts[i].n
		p.parts[i] = lineParts{text: p.parts[i].text[:0]}
	}
	return n
}

// joined returns the whole line of which an envelope has the last part; ok is false if it has another one.
func (p *Parser) joined(e envelope) (line []byte, ok bool) {
	if e.stream == 0 {
		return e.inside, true
	}
	parts := &p.parts[e.stream>>1&1] // o or e
	if e.isPart || parts.n > 0 {
		if len(parts.text) > chunkSize { // as ReadLines never has them
			parts.text = parts.text[:0]
		}
		parts.text, parts.n = append(parts.text, e.inside...), parts.n+1
		if e.isPart {
			return nil, false
		}
		e.inside = parts.text
		*parts = lineParts{text: parts.text[:0]}
	}
	return e.inside, true
}

// Parse reads a line without its end into a Line. An error says which part does not follow the
// format. A line that only describes the log, a part of one that goes on in the next lines, or a request that no client
// has made, is neither.
func (p *Parser) Parse(line []byte, into *Line) (ok bool, err error) {
	line = bytes.TrimPrefix(bytes.TrimLeft(line, "\x00"), byteOrderMark)
	if len(line) > 0 && line[0] == '#' {
		if bytes.HasPrefix(line, []byte(fieldsPrefix)) {
			p.SetFields(string(line))
		}
		return false, nil
	}
	err = p.parse(line, into, 0)
	if err != nil {
		if nuls := bytes.LastIndexByte(line, 0) + 1; nuls > 0 { // a crash has cut what is before them
			err = p.parse(line[nuls:], into, 0)
		}
	}
	if errors.Is(err, errDescription) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if into.isLocal && p.format.zone != nil {
		t := time.Unix(into.Time, 0).UTC()
		into.Time = time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, p.format.zone).Unix()
	}
	if len(into.Host) == 0 {
		into.Host = hostOfURL(into.Target)
	}
	return true, nil
}

// hostOfURL returns the host of a target that is a whole URL.
func hostOfURL(target []byte) []byte {
	rest, ok := bytes.CutPrefix(target, []byte("http"))
	if !ok {
		return nil
	}
	if rest, ok = bytes.CutPrefix(bytes.TrimPrefix(rest, []byte("s")), []byte("://")); !ok {
		return nil
	}
	if at := bytes.IndexAny(rest, "/?#"); at >= 0 {
		rest = rest[:at]
	}
	return rest
}

// maxEnvelopes is how many lines may be in one another.
const maxEnvelopes = 4

// errDescription: a line only describes the log.
var errDescription = errors.New("describes the log")

// parse reads a line that is in depth others. It tries the format that has a name, then each form, then what lines of
// other formats are put in. The error is from the form that says most.
func (p *Parser) parse(line []byte, into *Line, depth int) error {
	if f := p.format.pattern; f != nil {
		p.Form = "nginx"
		var err error
		if p.scratch, err = f.parse(line, into, p.scratch[:0]); err == nil {
			return nil
		}
	}
	if len(line) > 0 && line[0] == '{' {
		return p.parseJSON(line, into, depth)
	}
	if p.columns != nil && isDate(line) {
		p.Form = "w3c"
		return p.columns.parse(line, into)
	}
	problem := errForm
	for i := range textForms {
		var err error
		f := &textForms[i]
		p.Form = f.name
		if p.scratch, err = f.parse(line, into, p.scratch[:0]); err == nil {
			return nil
		}
		if i == 0 || errors.Is(err, errStatus) && errors.Is(problem, errForm) {
			problem = err
		}
	}
	if depth < maxEnvelopes {
		e, err := open(line)
		if err != nil {
			return err
		}
		inside, ok := p.joined(e)
		if !ok {
			return errDescription
		}
		if len(inside) > 0 {
			return p.parseInside(inside, e.at, into, depth+1)
		}
	}
	if p.columns != nil {
		p.Form = "w3c"
		return p.columns.parse(line, into)
	}
	return problem
}

// parseInside reads a line of which another one says the time, unless it says it itself.
func (p *Parser) parseInside(line []byte, at int64, into *Line, depth int) error {
	err := p.parse(line, into, depth)
	if errors.Is(err, errTime) && into.Time == 0 && at > 0 && line[0] == '{' {
		into.Time, err = at, nil
	}
	return err
}

// parseJSON reads an object: a request, or another line in it.
func (p *Parser) parseJSON(line []byte, into *Line, depth int) error {
	if p.object != nil {
		p.Form, p.object.seen = "json", p.object.seen|hasObject
		if err := p.object.parse(line, into); err == nil {
			return nil
		}
	}
	o := &p.json
	err := o.parse(line, into)
	p.Form, into.ID = o.form(), o.id
	switch {
	case err != nil && !errors.Is(err, errRequest) && !errors.Is(err, errTime):
		return err
	case o.isVercel && errors.Is(err, errRequest): // a message, which may be anything
		return errDescription
	case o.isVercel:
		into.RequestID = o.id
	case len(into.Reader) > 0 && len(into.Kind) > 0:
		p.Form = "events"
		return parseEvent(line, into)
	case err != nil && len(o.inner) > 0 && depth < maxEnvelopes:
		e := envelope{inside: o.inner, at: into.Time}
		if name, isContainer := bytes.CutPrefix(o.stream, []byte("std")); isContainer && len(name) > 0 {
			e.stream, e.isPart = name[0], isDockerPart(o.inner)
		}
		inside, ok := p.joined(e)
		if !ok {
			return errDescription
		}
		p.opened[depth] = append(p.opened[depth][:0], bytes.TrimRight(inside, "\r\n")...)
		return p.parseInside(p.opened[depth], e.at, into, depth+1)
	case len(o.source) > 0 && string(o.source) != "eyeball" && !strings.EqualFold(string(o.source), "true"):
		return errDescription
	case bytes.HasPrefix(into.Event, []byte("docs.content.")):
		into.Method, into.Status = []byte("GET"), 200
	}
	into.Reader, into.Kind = nil, nil
	return err
}

// fieldsPrefix begins the line that names columns.
const fieldsPrefix = "#Fields:"

// isDate reports whether a line begins with a date and a space or tab.
func isDate(line []byte) bool {
	return len(line) > 10 && line[4] == '-' && line[7] == '-' && (line[10] == ' ' || line[10] == '\t')
}

// column is a column that says something of a line.
type column struct {
	name  string
	field field
}

// knownColumns are columns in the logs of IIS and CloudFront. Every log has the first needed; of several hosts the last
// one in this list counts.
var knownColumns = []column{
	{"date", date}, {"time", clock}, {"c-ip", client}, {"cs-method", method}, {"cs-uri-stem", target},
	{"sc-status", status}, {"cs(User-Agent)", userAgent}, {"cs(Accept)", accept}, {"cs-host", host}, {"cs(Host)", host},
	{"x-host-header", host}, {"sc-content-type", contentType}, {"x-forwarded-for", forwarded},
	{"cs(X-Forwarded-For)", forwarded}, {"cs-uri-query", query}, {"cs(Sec-Purpose)", purpose}, {"cs(Purpose)", purpose},
	{"cs(Referer)", referrer}, {"sc-bytes", size}, {"cs(Sec-Fetch-Mode)", fetchMode},
}

const needed = 6

// columns reads lines whose values are between tabs or spaces.
type columns struct {
	known        []int  // of each column its place in knownColumns, negative for others
	lacks        string // a column that is needed
	isCloudFront bool   // it encodes values before it writes them
	scratch      []byte
}

func newColumns(names string) *columns {
	c := &columns{}
	for name := range strings.FieldsSeq(names) {
		c.isCloudFront = c.isCloudFront || strings.EqualFold(name, "x-edge-location")
		isIt := func(known column) bool { return strings.EqualFold(known.name, name) }
		c.known = append(c.known, slices.IndexFunc(knownColumns, isIt))
	}
	for i, column := range knownColumns[:needed] {
		if !slices.Contains(c.known, i) {
			c.lacks = column.name
		}
	}
	return c
}

// percent is an encoded percent sign.
var percent = []byte("%25")

func (c *columns) parse(line []byte, into *Line) error {
	*into, c.scratch = Line{}, c.scratch[:0]
	if c.lacks != "" {
		return fmt.Errorf("the #Fields line has no %s", c.lacks)
	}
	separator, hasTabs := []byte(" "), bytes.IndexByte(line, '\t') >= 0
	if hasTabs {
		separator = []byte("\t")
	}
	hostBy := 0
	var asked []byte // the query
	for i, at := range c.known {
		value, rest, more := bytes.Cut(line, separator)
		if len(line) > 0 && line[0] == '"' {
			if end := bytes.Index(line, append([]byte(`"`), separator...)); end > 0 {
				value, rest, more = line[1:end], line[end+2:], true
			} else {
				value, rest, more = bytes.Trim(line, `"`), nil, false
			}
		}
		if line = rest; more != (i+1 < len(c.known)) {
			return errColumns
		}
		if at < 0 {
			continue
		}
		switch f := knownColumns[at].field; f {
		case date:
			day, isLocal, ok := readTime(append(append(c.scratch, value...), "T00:00:00Z"...))
			if !ok || isLocal {
				return errTime
			}
			into.Time += day
		case clock:
			t, ok := readClock(value)
			if !ok {
				return errTime
			}
			into.Time += t
		case host:
			if value = dashed(value); len(value) > 0 && at >= hostBy {
				into.Host, hostBy = value, at
			}
		case target:
			if c.isCloudFront && bytes.Contains(value, percent) {
				value = bytes.ReplaceAll(value, percent, []byte("%"))
			}
			if err := into.set(f, value); err != nil {
				return err
			}
		case query:
			if value = dashed(value); len(value) > 0 {
				asked = value
			}
		case userAgent, accept:
			before := len(c.scratch)
			if hasTabs {
				text, err := url.PathUnescape(string(value))
				if err == nil && c.isCloudFront && strings.Contains(text, "%20") && !strings.Contains(text, " ") {
					text, err = url.PathUnescape(text) // encoded twice
				}
				if err == nil {
					c.scratch = append(c.scratch, text...)
					value = c.scratch[before:]
				}
			} else { // IIS writes + for a space, and for itself: of two the second is one
				c.scratch = append(c.scratch, value...)
				value = c.scratch[before:]
				for i, b := range value {
					if b == '+' && (i == 0 || value[i-1] != ' ') {
						value[i] = ' '
					}
				}
			}
			fallthrough
		default:
			if err := into.set(f, value); err != nil {
				return err
			}
		}
	}
	if len(asked) > 0 {
		before := len(c.scratch)
		c.scratch = append(append(append(c.scratch, into.Target...), '?'), asked...)
		into.Target = c.scratch[before:]
	}
	return nil
}
