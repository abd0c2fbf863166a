package main

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// pageRows is the maximum number of rows in a page.
const pageRows = analytics.PageRows

// server is the bench's service: visitors as in section 4.3 of the specification, the number of requests at
// /requests, and /answers to limit it. It generates rows as they are requested.
type server struct {
	requests atomic.Int64
	answers  atomic.Int64 // requests beyond this number get no response; 0 means no limit
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/analytics/{project}/visitors", s.visitors)
	mux.HandleFunc("GET /requests", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, s.requests.Load()) // for visitors, invalid ones included
	})
	mux.HandleFunc("GET /answers", func(_ http.ResponseWriter, r *http.Request) {
		n, _ := strconv.ParseInt(r.FormValue("until"), 10, 64) // the bench's own request
		s.answers.Store(n)
	})
	return mux
}

func (s *server) visitors(w http.ResponseWriter, r *http.Request) {
	n, until := s.requests.Add(1), s.answers.Load()
	if until > 0 && n > until {
		<-r.Context().Done() // until the client closes the connection
		return
	}
	var rows, ms int
	_, err := fmt.Sscanf(r.PathValue("project"), "%drows_%dms", &rows, &ms)
	from, fromErr := time.Parse(time.DateOnly, r.FormValue("dateFrom"))
	offset, offsetErr := strconv.Atoi(r.FormValue("offset"))
	limit, limitErr := strconv.Atoi(r.FormValue("limit"))
	if err := errors.Join(err, fromErr, offsetErr, limitErr); err != nil || offset < 0 || limit < 1 ||
		limit > pageRows {
		http.Error(w, fmt.Sprintf("offset %d, limit %d: %v", offset, limit, err), http.StatusBadRequest)
		return
	}
	time.Sleep(time.Duration(ms) * time.Millisecond)
	text := appendPage(make([]byte, 0, pageRows*96), rows, from.YearDay(), offset, limit) // a row is about that long
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // fails only if the client has closed the connection
}

// Sixteen of each, so that four bits choose one.
var (
	sections = strings.Fields("guides concepts reference tutorials platform settings security analytics changelog " +
		"billing deployment webhooks components examples overview migration")
	topics = strings.Fields("quickstart pagination rate-limits api-tokens single-sign custom-domain monitoring " +
		"page-layout navigation versioning file-upload error-codes retry-policy data-export user-roles search-index")
)

// appendPage appends the response for a page of a window with that many rows. All pages of a window carry the
// same totals. Paths are unique and unordered; the day changes the counts, but not the paths.
func appendPage(b []byte, rows, day, offset, limit int) []byte {
	b = append(b, `{"totals":{`...)
	b = appendCounts(b, int64(rows)*3, int64(rows), int64(rows)*7/2)
	b = append(b, `,"visitors":[`...)
	end := min(rows, offset+limit)
	for i := offset; i < end; i++ {
		if i > offset {
			b = append(b, ',')
		}
		b = appendPath(append(b, `{"path":"`...), i)
		human, ai, total := counts(i, day)
		b = appendCounts(append(b, `",`...), human, ai, total)
	}
	b = append(b, `],"hasMore":`...)
	return append(strconv.AppendBool(b, end < rows), '}')
}

// mixed is the number that the path of row i ends with. Multiplying by an odd number is a bijection of the 32-bit
// numbers, so all paths differ, and neighbours are far apart.
func mixed(i int) uint32 { return uint32(i) * 2_654_435_761 }

func appendPath(b []byte, i int) []byte {
	m := mixed(i)
	b = append(append(append(b, "/docs/"...), sections[m>>28]...), '/')
	b = append(append(b, topics[m>>24&15]...), '-')
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[m>>shift&15])
	}
	return b
}

// counts are the counts of row i of a window that begins on that day of the year.
func counts(i, day int) (human, ai, total int64) {
	human, ai = int64((mixed(i)^uint32(day))%5000), int64((mixed(i)>>13+uint32(day))%700)
	return human, ai, max(human, ai) + min(human, ai)/2
}

func appendCounts(b []byte, human, ai, total int64) []byte {
	b = strconv.AppendInt(append(b, `"human":`...), human, 10)
	b = strconv.AppendInt(append(b, `,"ai":`...), ai, 10)
	b = strconv.AppendInt(append(b, `,"total":`...), total, 10)
	return append(b, '}')
}
