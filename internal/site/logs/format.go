package logs

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Format is how the lines of a log are written.
type Format struct {
	// Name as DOCGAUGE_SITE_LOG_FORMAT has it.
	Name   string
	parser parser // nil: to be found out
	// columns: the log begins with lines that name its columns.
	columns bool
}

// parser reads lines, one at a time. A clone can be used beside the parser.
type parser interface {
	parse(line []byte, into *Line) error
	clone() parser
}

// Parser reads the lines of one log. It is for one goroutine.
type Parser struct {
	// Format is the name of the log's format, as found out or as given.
	Format  string
	parser  parser
	columns bool
}

// Parse reads a line without its end into a Line. An error says which part does not follow the
// format. A line that only describes the log is neither.
func (p *Parser) Parse(line []byte, into *Line) (ok bool, err error) {
	line = bytes.TrimLeft(line, "\x00")
	if p.columns && len(line) > 0 && line[0] == '#' {
		return false, nil
	}
	err = p.parser.parse(line, into)
	if nuls := bytes.LastIndexByte(line, 0) + 1; err != nil && nuls > 0 { // what is before them was cut by a crash
		err = p.parser.parse(line[nuls:], into)
	}
	return err == nil, err
}

// Clone returns a parser of the same log for another goroutine.
func (p *Parser) Clone() *Parser { return &Parser{p.Format, p.parser.clone(), p.columns} }

// mustCompile compiles a format of ours, after which text may follow.
func mustCompile(format string) *pattern {
	p, err := compile(format)
	if err != nil {
		panic(err) // a constant
	}
	p.open = true
	return p
}

// formats are those that auto can tell apart, in the order in which they are tried.
var formats = []Format{
	{Name: "main", parser: mustCompile(mainFormat)},
	{Name: "combined", parser: mustCompile(combinedFormat)},
	{Name: "common", parser: mustCompile(commonFormat)},
	{Name: "vhost", parser: mustCompile("$host:$server_port " + combinedFormat)},
	{Name: "caddy", parser: newObject(caddyKeys)},
	{Name: "traefik", parser: newObject(traefikKeys)},
	{Name: "cloudflare", parser: newObject(cloudflareKeys)},
	{Name: "mintlify", parser: newObject(mintlifyKeys)},
	{Name: "events", parser: events{}},
	{Name: "nginx json", parser: newObject(nginxKeys)},
	{Name: "cloudfront", columns: true},
}

// ParseFormat reads the value of DOCGAUGE_SITE_LOG_FORMAT: auto, combined, json, json:time=…,path=…,
// nginx:<log_format>, cloudfront, mintlify or events.
func ParseFormat(text string) (Format, error) {
	if keys, ok := strings.CutPrefix(text, "json:"); ok {
		named, err := parseKeys(keys)
		if err != nil {
			return Format{}, fmt.Errorf("json: %w", err)
		}
		return Format{Name: text, parser: newObject(named)}, nil
	}
	if format, ok := strings.CutPrefix(text, "nginx:"); ok {
		p, err := compile(format)
		if err != nil {
			return Format{}, fmt.Errorf("nginx: %w", err)
		}
		return Format{Name: text, parser: p}, nil
	}
	switch text {
	case "auto", "json", "combined":
		return Format{Name: text}, nil
	case "cloudfront", "mintlify", "events":
		return formats[slices.IndexFunc(formats, func(f Format) bool { return f.Name == text })], nil
	}
	return Format{}, fmt.Errorf("%.60q: want auto, combined, json, json:time=…,path=…, nginx:<log_format>, "+
		"cloudfront, "+
		"mintlify or events", text)
}

// family are the formats that a name stands for.
var family = map[string][]string{
	"combined": {"main", "combined", "common", "vhost"},
	"json":     {"caddy", "traefik", "cloudflare", "nginx json"},
}

// ErrUnknown is the error of a log of which no line follows a known format.
var ErrUnknown = errors.New("no line has a known format; name it with DOCGAUGE_SITE_LOG_FORMAT")

// Parser returns the parser of a log that begins with head. Where the format is to be found out, it
// is the one that most of these lines follow, the first of several.
func (f Format) Parser(head []byte) (*Parser, error) {
	if f.columns {
		return columnParser(head)
	}
	if f.parser != nil {
		return &Parser{f.Name, f.parser.clone(), false}, nil
	}
	if bytes.HasPrefix(head, []byte("#Version:")) || bytes.HasPrefix(head, []byte("#Fields:")) {
		return columnParser(head)
	}
	var best *Parser
	most := 0
	for _, c := range formats {
		if c.columns || f.Name != "auto" && !slices.Contains(family[f.Name], c.Name) {
			continue
		}
		p, n := &Parser{c.Name, c.parser.clone(), false}, 0
		for line := range bytes.Lines(head) {
			var l Line
			if ok, _ := p.Parse(bytes.TrimRight(line, "\r\n"), &l); ok && len(l.Client)+len(l.Forwarded)+
				len(l.Reader) > 0 &&
				len(l.Target)+len(l.Method) > 0 {
				n++
			}
		}
		if n > most {
			best, most = p, n
		}
	}
	if best == nil {
		return nil, ErrUnknown
	}
	return best, nil
}

// columnNames are CloudFront's names of columns.
var columnNames = map[string]field{
	"date": date, "time": clock, "c-ip": client, "x-forwarded-for": forwarded, "x-host-header": host,
	"cs-method": method, "cs-uri-stem": target, "sc-status": status, "cs(User-Agent)": userAgent, "cs(Accept)": accept,
	"sc-content-type": contentType,
}

// columns reads lines whose values stand between tabs, percent-encoded.
type columns struct {
	fields  []field
	scratch []byte
}

func columnParser(head []byte) (*Parser, error) {
	for line := range bytes.Lines(head) {
		names, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "#Fields:")
		if !ok {
			continue
		}
		c := &columns{}
		for _, name := range strings.Fields(names) {
			c.fields = append(c.fields, columnNames[name])
		}
		for name, f := range map[string]field{
			"date": date, "time": clock, "c-ip": client, "cs-uri-stem": target, "sc-status": status,
		} {
			if !slices.Contains(c.fields, f) {
				return nil, fmt.Errorf("the #Fields line has no %s", name)
			}
		}
		return &Parser{"cloudfront", c, true}, nil
	}
	return nil, errors.New("no #Fields line at the beginning; CloudFront's logs have one")
}

func (c *columns) clone() parser { return &columns{fields: c.fields} }

func (c *columns) parse(line []byte, into *Line) error {
	*into, c.scratch = Line{}, c.scratch[:0]
	for i, f := range c.fields {
		value, rest, more := bytes.Cut(line, []byte("\t"))
		if line = rest; more != (i+1 < len(c.fields)) {
			return errColumns
		}
		switch f {
		case none:
		case date:
			day, err := time.Parse(time.DateOnly, string(value))
			if err != nil {
				return errTime
			}
			into.Time += day.Unix()
		case clock:
			t, err := time.Parse(time.TimeOnly, string(value))
			if err != nil {
				return errTime
			}
			into.Time += int64(t.Hour()*60+t.Minute())*60 + int64(t.Second())
		case userAgent, accept:
			if text, err := url.PathUnescape(string(value)); err == nil {
				before := len(c.scratch)
				c.scratch = append(c.scratch, text...)
				value = c.scratch[before:]
			}
			fallthrough
		default:
			if err := into.set(f, value); err != nil {
				return err
			}
		}
	}
	return nil
}
