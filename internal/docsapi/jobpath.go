package docsapi

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// DefaultJobPath is where an agent job is read (section 4.4 leaves it open).
const DefaultJobPath = "/v2/agent/{projectId}/job/{id}"

const (
	projectPlace = "{projectId}"
	idPlace      = "{id}"
)

// pathShape is a path of RFC 3986.
var pathShape = regexp.MustCompile(`^/([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*$`)

// CheckJobPath says whether path can be a Config.JobPath: a path relative to
// BaseURL, without query, with {projectId} and {id} once each.
func CheckJobPath(path string) error {
	plain := strings.NewReplacer(projectPlace, "p", idPlace, "i").Replace(path)
	switch {
	case strings.Count(path, projectPlace) != 1 || strings.Count(path, idPlace) != 1:
		return errors.New("DOCGAUGE_JOB_PATH: want " + projectPlace + " and " + idPlace + " once each, like " + DefaultJobPath)
	case strings.ContainsAny(path, "?#"):
		return errors.New("DOCGAUGE_JOB_PATH: must not have a query or a fragment")
	case !pathShape.MatchString(plain) || strings.HasPrefix(plain, "//") || hasDots(plain):
		return errors.New("DOCGAUGE_JOB_PATH: want a path that begins with one / and has no spaces, no . or .. segments and no other braces, like " + DefaultJobPath)
	}
	return nil
}

func hasDots(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// fillJobPath puts the values in, escaped, all at once: a value that looks like
// a place is none.
func fillJobPath(path, project, id string) string {
	return strings.NewReplacer(projectPlace, url.PathEscape(project), idPlace, url.PathEscape(id)).Replace(path)
}
