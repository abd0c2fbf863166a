// Package ingest takes lines of access logs that hosts push over HTTP: POST /v1/ingest/NAME for each source http:NAME.
//
// It hides how hosts send: bodies of several forms, compressed or not, keys in headers, Vercel's signature, and the
// handshakes of Vercel, Cloudflare Logpush and Fastly. A body is an attack until it is read: all it can take has a
// bound, which is checked before the memory is taken. 200 is sent when its lines are durable, never before; a refusal
// means that nothing of it was taken.
//
// It keeps nothing, and knows no format of lines. Nothing of a body is logged or echoed.
package ingest

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Vercel signs with HMAC-SHA1, which is not broken
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/logs"
)

const (
	// Prefix is the path of a source without its name.
	Prefix    = "/v1/ingest/"
	challenge = "/.well-known/fastly/logging/challenge"
	// keyHeader is for hosts that cannot send the header Authorization.
	keyHeader       = "X-Docgauge-Key"
	signatureHeader = "X-Vercel-Signature"
	verifyHeader    = "X-Vercel-Verify"
	// retryAfter is when a refused body may be sent again, in seconds.
	retryAfter = "5"
	// maxRefused is the number of bytes of a refused body that are read and dropped: a sender that still writes when
	// the connection closes does not get the answer.
	maxRefused = 64 << 20
)

// Credential is what a key opens.
type Credential struct {
	Scope   string
	Project string
	// Source is the name of the only source that the key opens; empty: all that feed its project alone.
	Source string
}

// Taken is what became of a body.
type Taken struct {
	Lines    int `json:"lines"`
	Views    int `json:"views"`
	Unparsed int `json:"unparsed"`
	// Again: it has lines without ids, was taken before, and counts once. Lines that have ids are no views again.
	Again bool `json:"again"`
}

// Options are what a handler needs.
type Options struct {
	// Sources are the sources of the site, also the others; a body has the index of its source among them.
	Sources []logs.Source
	// Projects are the projects of the site.
	Projects []string
	Secrets  Secrets
	// FindKey returns what the key with a digest opens; false without such a key.
	FindKey func(ctx context.Context, digest [sha256.Size]byte) (Credential, bool, error)
	// Take returns when the lines of a body are durable. An error that is an [api.Refusal] is the answer; after any
	// other one too nothing was taken.
	Take   func(context.Context, *Body) (Taken, error)
	Logger *slog.Logger
}

// source is a source that is pushed.
type source struct {
	index   int
	project string // that it feeds alone; empty if it feeds several
	secrets
}

// Handler answers the requests of hosts. It is safe for concurrent use.
type Handler struct {
	Options
	sources  map[string]*source
	services []string // hashes of the ids of Fastly's services
	inFlight chan struct{}
	memory   memory
}

// NewHandler returns a handler; nil if no source is pushed.
func NewHandler(o Options) *Handler {
	h := &Handler{Options: o, sources: map[string]*source{}, inFlight: make(chan struct{}, maxInFlight)}
	for i, s := range o.Sources {
		name, ok := s.Pushed()
		if !ok {
			continue
		}
		one := source{i, s.Project, o.Secrets[name]}
		if one.project == "" && len(o.Projects) == 1 {
			one.project = o.Projects[0]
		}
		h.sources[name] = &one
		for _, id := range one.services {
			sum := sha256.Sum256([]byte(id))
			h.services = append(h.services, hex.EncodeToString(sum[:]))
		}
	}
	if len(h.sources) == 0 {
		return nil
	}
	return h
}

// Before lets pushed answer the requests of hosts, and next all others.
func Before(pushed, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == challenge || strings.HasPrefix(r.URL.Path, Prefix) {
			pushed.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ServeHTTP answers a request of a host.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == challenge && len(h.services) > 0 && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, strings.Join(h.services, "\n")+"\n") // the client may have gone
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, Prefix)
	if !ok || strings.Contains(name, "/") {
		answer(w, nil, api.Fail(http.StatusNotFound, "path: want %sNAME", Prefix))
		return
	}
	s := h.sources[name] // nil without one
	if s != nil && s.verify != "" {
		w.Header().Set(verifyHeader, s.verify)
		if r.Method == http.MethodGet || r.Method == http.MethodHead ||
			r.Method == http.MethodPost && r.ContentLength == 0 && !hasKey(r) {
			w.WriteHeader(http.StatusOK)
			return
		}
	}
	taken, err := h.post(r, name, s)
	answer(w, taken, err)
}

// answer writes what became of a body, or why it was refused.
func answer(w http.ResponseWriter, taken any, err error) {
	status := http.StatusOK
	if refused, ok := errors.AsType[*api.Refusal](err); ok {
		taken, status = refused, refused.Status
		maps.Copy(w.Header(), refused.Header)
	}
	text, _ := json.Marshal(taken) // it has texts and numbers
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may have gone
}

// post takes the body of a request. Every error is a refusal.
func (h *Handler) post(r *http.Request, name string, s *source) (_ any, err error) {
	isSent := r.Header.Get("Expect") == "" // else the sender waits for 100 Continue
	defer func() {
		if err != nil && isSent && r.ContentLength <= maxRefused { // else the connection closes before the answer is read
			_, _ = io.CopyN(io.Discard, r.Body, maxRefused)
		}
	}()
	if r.Method != http.MethodPost {
		return nil, api.Fail(http.StatusMethodNotAllowed, "method %.20q: want POST", r.Method).With("Allow", "POST")
	}
	mac, err := h.allow(r, name, s)
	if err != nil {
		return nil, err
	}
	if err := checkHeaders(r); err != nil {
		return nil, err
	}
	select {
	case h.inFlight <- struct{}{}:
		defer func() { <-h.inFlight }()
	default:
		return nil, api.Fail(http.StatusTooManyRequests, "requests: more than %d at once", maxInFlight).
			With("Retry-After", retryAfter)
	}
	b := &Body{Source: s.index, memory: &h.memory}
	defer b.free()
	isSent = true
	sent := &sentBody{Reader: http.MaxBytesReader(nil, r.Body, maxPacked), mac: mac}
	if err := b.read(sent, strings.ToLower(r.Header.Get("Content-Encoding"))); err != nil {
		return nil, refusalOf(err, sent.err)
	}
	if mac != nil {
		given, err := hex.DecodeString(r.Header.Get(signatureHeader))
		if err != nil || !hmac.Equal(given, mac.Sum(nil)) {
			return nil, api.Fail(http.StatusForbidden, "%s header: is not the signature of this body under the secret in "+
				"DOCGAUGE_SITE_INGEST_SECRET", signatureHeader)
		}
	}
	if b.isTest() {
		return Taken{}, nil
	}
	taken, err := h.Take(r.Context(), b)
	if _, isRefusal := errors.AsType[*api.Refusal](err); err != nil && !isRefusal {
		h.Logger.Error("lines that were pushed are not kept", "source", name, "error", err)
		err = Unavailable("what was sent cannot be kept now: the log of docgauge site serve says why")
	}
	return taken, err
}

// Unavailable is the refusal of a body that can be taken later.
func Unavailable(why string) error {
	return api.Fail(http.StatusServiceUnavailable, "%s; send it again", why).With("Retry-After", retryAfter)
}

// checkHeaders refuses a body by what the request says of it.
func checkHeaders(r *http.Request) error {
	if r.ContentLength > maxPacked {
		return refusalOf(&http.MaxBytesError{}, nil)
	}
	media := "text/plain" // also for what curl says by itself: application/x-www-form-urlencoded
	if text := r.Header.Get("Content-Type"); text != "" {
		var err error
		if media, _, err = mime.ParseMediaType(text); err != nil {
			media = ""
		}
	}
	kind, name, _ := strings.Cut(media, "/")
	if kind != "application" && kind != "text" || slices.Contains([]string{"html", "xml"}, name) {
		return api.Fail(http.StatusUnsupportedMediaType, "Content-Type header: want application/json, "+
			"application/x-ndjson, text/plain, or another one of text or of application")
	}
	if n := len(r.Header.Values("Content-Encoding")); n > 1 {
		return refusalOf(logs.ErrEncoding, nil)
	}
	return nil
}

// sentBody is a body as it is sent.
type sentBody struct {
	io.Reader
	mac hash.Hash // nil: it is not signed
	err error     // of reading; not the end
}

func (s *sentBody) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if s.mac != nil {
		s.mac.Write(p[:n])
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// refusalOf returns the answer for a body that could not be read. sent is the error of the connection, if it has one.
func refusalOf(err, sent error) error {
	if sent != nil {
		err = sent
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return api.Fail(http.StatusRequestEntityTooLarge, "body: has more than 16 MiB: send smaller batches")
	}
	late, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, errUnpacked), errors.Is(err, errLongLine):
		return api.Fail(http.StatusRequestEntityTooLarge, "body: %v", err)
	case errors.Is(err, errDeep):
		return api.Fail(http.StatusBadRequest, "body: %v", err)
	case errors.Is(err, errFull):
		return Unavailable("body: " + err.Error())
	case errors.Is(err, logs.ErrEncoding):
		return api.Fail(http.StatusUnsupportedMediaType, "Content-Encoding header: %v", err)
	case isNet && late.Timeout():
		return api.Fail(http.StatusRequestTimeout, "body: came too slowly")
	case sent != nil:
		return api.Fail(http.StatusBadRequest, "body: ended before it was complete")
	}
	return api.Fail(http.StatusBadRequest, "body: cannot be unpacked: it is not of its Content-Encoding, damaged, or not "+
		"complete")
}

func hasKey(r *http.Request) bool {
	return len(r.Header.Values("Authorization"))+len(r.Header.Values(keyHeader)) > 0
}

// allow refuses a request without a key that opens the source. mac is not nil if the body must have a signature.
func (h *Handler) allow(r *http.Request, name string, s *source) (mac hash.Hash, err error) {
	unauthorized := func(message string) error {
		return api.Fail(http.StatusUnauthorized, "%s", message).With("Www-Authenticate", "Bearer")
	}
	if !hasKey(r) {
		if len(r.Header.Values(signatureHeader)) == 1 && s != nil && s.signature != "" {
			return hmac.New(sha1.New, []byte(s.signature)), nil
		}
		return nil, unauthorized("key: want one of scope ingest, as Authorization: Bearer KEY or " + keyHeader + ": KEY")
	}
	given := append(r.Header.Values("Authorization"), r.Header.Values(keyHeader)...)
	if len(given) != 1 {
		return nil, unauthorized("key: want one, got several")
	}
	key := given[0]
	if _, password, ok := r.BasicAuth(); ok {
		key = password
	} else if scheme, token, ok := strings.Cut(key, " "); ok && strings.EqualFold(scheme, "Bearer") {
		key = token
	}
	if !api.KeyForm.MatchString(key) {
		return nil, unauthorized("key: want <prefix>_<secret>")
	}
	found, ok, err := h.FindKey(r.Context(), sha256.Sum256([]byte(key)))
	switch {
	case err != nil:
		h.Logger.Error("key not looked up", "error", err)
		return nil, Unavailable("keys cannot be looked up now: the log of docgauge site serve says why")
	case !ok:
		return nil, unauthorized("key: is not known")
	case found.Scope != api.ScopeIngest:
		return nil, api.Fail(http.StatusForbidden, "key: lacks the %s scope", api.ScopeIngest)
	case s == nil || !s.opens(found, name):
		return nil, api.Fail(http.StatusNotFound, "source %.64q: not found with this key; a source that feeds several "+
			"projects needs a key of `docgauge site keys add --scope ingest --source NAME`", name)
	}
	return nil, nil
}

// opens reports whether a key opens a source.
func (s *source) opens(c Credential, name string) bool {
	if c.Source != "" {
		return c.Source == name
	}
	return s.project != "" && s.project == c.Project
}
