package sandbox

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// route is one operation of the service.
type route struct {
	method string
	// path is a template; a segment {name} takes one segment of the request.
	path  string
	scope scope
	// refuse returns the injected refusal of a request, if it is its turn.
	refuse  func(*call) error
	success int // status code
	run     func(*call, *project) (any, error)
}

// table lists the operations, by section of the service's specification. Every
// path has a {projectId}.
func (s *Sandbox) table() []route {
	return []route{
		// 4.1; the status codes of success are the live service's
		{http.MethodPost, "/v2/agent/{projectId}/job", write, s.refusePost, http.StatusCreated, s.createJob},
		// 4.2
		{http.MethodPost, "/v2/agent/{projectId}/job/{id}/message", write, s.refusePost, http.StatusOK, s.messageJob},
		// 4.3
		{http.MethodGet, "/v1/analytics/{projectId}/visitors", read, s.refuseAnalytics, http.StatusOK, s.visitors},
		// 4.4; method and path are the live service's
		{http.MethodGet, "/v2/agent/{projectId}/job/{id}", read, refuseNone, http.StatusOK, s.readJob},
	}
}

// find returns the route of c and fills in its path parameters.
func find(routes []route, c *call) (route, error) {
	var allowed []string
	for _, rt := range routes {
		params, ok := match(rt.path, c.URL.EscapedPath())
		if !ok {
			continue
		}
		if rt.method == c.Method {
			c.params = params
			return rt, nil
		}
		allowed = append(allowed, rt.method)
	}
	if len(allowed) == 0 {
		return route{}, fail(http.StatusNotFound, "path %.200q: not found", c.URL.Path)
	}
	methods := strings.Join(allowed, ", ")
	return route{}, fail(http.StatusMethodNotAllowed, "method %.20q: want %s", c.Method, methods).with("Allow", methods)
}

// match fits an escaped path into a template.
func match(template, path string) (params map[string]string, ok bool) {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	params = map[string]string{}
	for i, segment := range want {
		value, err := url.PathUnescape(got[i])
		if err != nil {
			return nil, false
		}
		if name, isParam := strings.CutPrefix(segment, "{"); isParam && value != "" {
			params[strings.TrimSuffix(name, "}")] = value
		} else if value != segment {
			return nil, false
		}
	}
	return params, true
}

// refusal is an error as the service answers it; its JSON is the error body.
type refusal struct {
	Message string `json:"error"`
	status  int
	header  http.Header
}

func (r *refusal) Error() string { return r.Message }

func fail(status int, format string, args ...any) *refusal {
	return &refusal{Message: fmt.Sprintf(format, args...), status: status}
}

func (r *refusal) with(name, value string) *refusal {
	r.header = http.Header{name: {value}}
	return r
}
