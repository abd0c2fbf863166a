package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Limits of section 8 of the service's specification.
const (
	defaultLimit = 50
	MaxLimit     = analytics.PageRows
)

// Object is a JSON object with its members in this order.
type Object []member

type member struct {
	name  string
	value any
}

// MarshalJSON returns the object as JSON.
func (o Object) MarshalJSON() ([]byte, error) {
	body := []byte{'{'}
	for i, m := range o {
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, "%q:%s", m.name, value)
	}
	return append(body, '}'), nil
}

// NewPage returns the response body of section 4.3, of any report: the page of an answer that begins at offset, of at
// most limit rows. The totals are counts, or rows of the site. dataFrom is the first day with data of the project; nil
// without any. People are counted by humans.
func NewPage[T any, R analytics.RowType](
	totals T, rows []R, limit, offset int, dataFrom *analytics.Date, humans analytics.Humans,
) Object {
	report := analytics.ReportOf[R]()
	shown := any(totals)
	if site, ok := shown.([]R); ok {
		shown = siteOf(report.Shape(), site)
	}
	from := min(offset, len(rows))
	to := min(from+limit, len(rows))
	return Object{{"totals", shown}, {report.String(), append([]R{}, rows[from:to]...)}, {"hasMore", to < len(rows)},
		{"dataFrom", dataFrom}, {"humans", humans}}
}

// siteOf are rows of the site: their texts and counts, without a path.
func siteOf[R analytics.RowType](of *analytics.Shape, rows []R) []Object {
	site := []Object{}
	for _, row := range rows {
		record, o := analytics.RecordOf(row), Object{}
		for i, c := range of.Columns {
			if i > 0 && c.Kind != analytics.Truth {
				o = append(o, member{c.Name, of.Value(record, i)})
			}
		}
		site = append(site, o)
	}
	return site
}

// Query is the query of section 4.3: the views from From on and before To, in Unix seconds. Without
// a date, that end is open.
type Query struct {
	From, To int64
	// FromDay and ToDay are the UTC dates of the two; nil without a date.
	FromDay, ToDay *analytics.Date
	Limit, Offset  int
}

// ParseQuery reads a raw query; every error is a refusal with 400 that names the
// parameter and the rule. Unknown parameters are ignored.
func ParseQuery(raw string) (Query, error) {
	q := Query{From: math.MinInt64, To: math.MaxInt64, Limit: defaultLimit}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, Fail(http.StatusBadRequest, "query string: want name=value pairs, percent-encoded, joined by &: %v",
			err)
	}
	for _, param := range []struct {
		name string
		read func(value string) error
	}{
		{"dateFrom", func(v string) (err error) { q.From, q.FromDay, err = parseInstant("dateFrom", v); return err }},
		{"dateTo", func(v string) (err error) { q.To, q.ToDay, err = parseInstant("dateTo", v); return err }},
		{"limit", func(v string) (err error) { q.Limit, err = parseWhole("limit", v, 1, MaxLimit); return err }},
		{"offset", func(v string) (err error) { q.Offset, err = parseWhole("offset", v, 0, math.MaxInt); return err }},
	} {
		if n := len(values[param.name]); n > 1 {
			return q, Fail(http.StatusBadRequest, "%s: want it once, got it %d times", param.name, n)
		} else if n == 0 {
			continue
		}
		if err := param.read(values[param.name][0]); err != nil {
			return q, err
		}
	}
	if q.From > q.To {
		return q, Fail(http.StatusBadRequest, "dateFrom: must not be after dateTo")
	}
	return q, nil
}

func parseWhole(name, value string, least, most int) (int, error) {
	n, err := strconv.ParseUint(value, 10, strconv.IntSize-1)
	if err != nil || int(n) < least || int(n) > most {
		return 0, Fail(http.StatusBadRequest, "%s: want a whole number from %d to %d, got %.40q",
			name, least, most, value)
	}
	return int(n), nil
}

// timestamp is the ISO 8601 extended format with a zone: seconds and the minutes of
// the zone may be left out.
var timestamp = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})(:\d{2}(?:[.,]\d+)?)?(Z|[+-]\d{2}:?(?:\d{2})?)$`)

// parseInstant reads a date or a timestamp and returns its UTC date, and the first whole Unix
// second that is not before it: with events in whole seconds, comparing with
// that second is comparing with the instant.
func parseInstant(name, value string) (int64, *analytics.Date, error) {
	if d, err := analytics.ParseDate(value); err == nil {
		return d.Time().Unix(), &d, nil
	}
	if m := timestamp.FindStringSubmatch(value); m != nil {
		zone := strings.ReplaceAll(m[3], ":", "")
		if len(zone) == len("+02") {
			zone += "00"
		}
		if t, err := time.Parse("2006-01-02T15:04:05Z0700", m[1]+cmp.Or(m[2], ":00")+zone); err == nil {
			day := analytics.DateOf(t)
			return t.Add(time.Second - time.Nanosecond).Unix(), &day, nil
		}
	}
	return 0, nil, Fail(http.StatusBadRequest,
		"%s: want a date that exists, as YYYY-MM-DD or ISO 8601 with a zone (2026-10-01T00:00:00Z), got %.40q", name,
		value)
}

// The scopes of keys.
const (
	ScopeRead  = "read"  // GET
	ScopeWrite = "write" // everything else
	ScopeAdmin = "admin" // both
	// ScopeIngest opens sources for lines that are pushed, and nothing else.
	ScopeIngest = "ingest"
)

// Credential is what a key allows.
type Credential struct {
	// ID names the key without revealing it.
	ID string
	// Scope is what the key allows: [ScopeRead], [ScopeWrite], [ScopeAdmin] or [ScopeIngest].
	Scope string
	// Project is the one that the key is for; empty: every project.
	Project string
	Expired bool
}

// Keyring holds keys by their digests, so that the time of a look-up reveals nothing about a key.
type Keyring map[[sha256.Size]byte]Credential

// KeyForm is the form of API keys.
var KeyForm = regexp.MustCompile(`^[A-Za-z0-9]+_[!-~]+$`)

// Add adds a key.
func (k Keyring) Add(key string, c Credential) { k[sha256.Sum256([]byte(key))] = c }

// Find returns what the key with this digest allows; false without one.
func (k Keyring) Find(_ context.Context, digest [sha256.Size]byte) (Credential, bool, error) {
	c, found := k[digest]
	return c, found, nil
}

// authenticate refuses a request whose Authorization header does not allow the scope: 401 without a
// valid key, 403 without the scope.
func (s *Service) authenticate(c *Call, scope string) error {
	unauthorized := func(message string) error {
		return Fail(http.StatusUnauthorized, "%s", message).With("Www-Authenticate", "Bearer")
	}
	headers := c.Header.Values("Authorization")
	if len(headers) != 1 {
		return unauthorized("Authorization header: want one, Bearer <prefix>_<secret>")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || !KeyForm.MatchString(token) {
		return unauthorized("Authorization header: want Bearer <prefix>_<secret>")
	}
	found, ok, err := s.FindKey(c.Context(), sha256.Sum256([]byte(token)))
	switch {
	case err != nil:
		return err
	case !ok:
		return unauthorized("API key: is not known")
	case found.Expired:
		return unauthorized("API key: has expired")
	case found.Scope != scope && found.Scope != ScopeAdmin:
		return Fail(http.StatusForbidden, "API key: lacks the %s scope", scope)
	}
	c.Key = found
	return nil
}

// Limits of a prompt. The specification has none; these are the limits of docgauge's prompt
// files.
const (
	MaxPrompt = 64 << 10
	// MaxBody lets every byte of a prompt be written as \u00XX, and leaves space for more fields.
	MaxBody = 6*MaxPrompt + 4<<10
	// titleHeader has the title of a new job's pull request, encoded by RFC 2047; it may be missing.
	titleHeader = "Docgauge-Title"
)

// job is POST /v2/agent/{project}/job and /v2/agent/{project}/job/{id}/message, and GET /v2/agent/{project}/job/{id}.
func (s *Service) job(c *Call) (any, error) {
	if s.Jobs == nil {
		return nil, errNoJobs
	}
	id := c.PathValue("id")
	if c.Method == http.MethodGet {
		return s.Jobs.Get(c, id)
	}
	prompt, err := readPrompt(c)
	if err != nil {
		return nil, err
	}
	if id != "" {
		return s.Jobs.Message(c, id, prompt)
	}
	title, err := new(mime.WordDecoder).DecodeHeader(c.Header.Get(titleHeader))
	if err != nil {
		title = "" // a job is worth more than its title
	}
	return s.Jobs.Create(c, prompt, title)
}

// errNoJobs has a status that tells clients that the prompt was not taken: after a 501 they could
// not know.
var errNoJobs = Fail(http.StatusNotFound, "agent jobs: this site runs none")

// readPrompt returns the prompt in the body of c; every error is a refusal that names the
// field and the rule and nothing of the prompt. Other fields are ignored.
func readPrompt(c *Call) (prompt string, err error) {
	if media, _, err := mime.ParseMediaType(c.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return "", Fail(http.StatusUnsupportedMediaType, "Content-Type header: want application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, c.Body, MaxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return "", Fail(http.StatusRequestEntityTooLarge, "body: want at most %d bytes", MaxBody)
	}
	// A map, because a struct would take "Prompt" for "prompt".
	var fields map[string]json.RawMessage
	bad := func(message string) (string, error) { return "", Fail(http.StatusBadRequest, "%s", message) }
	switch {
	case err != nil:
		return bad("body: ended before it was complete")
	case !utf8.Valid(body):
		return bad("body: want UTF-8")
	case json.Unmarshal(body, &fields) != nil || fields == nil:
		return bad(`body: want one JSON object, such as {"prompt": "…"}`)
	case fields["prompt"] == nil:
		return bad("prompt: is required")
	case bytes.Equal(fields["prompt"], []byte("null")) || json.Unmarshal(fields["prompt"], &prompt) != nil:
		return bad("prompt: want a string")
	case strings.TrimSpace(prompt) == "":
		return bad("prompt: must not be empty")
	case len(prompt) > MaxPrompt:
		return "", Fail(http.StatusRequestEntityTooLarge, "prompt: want at most %d bytes of UTF-8, got %d",
			MaxPrompt, len(prompt))
	}
	return prompt, nil
}
