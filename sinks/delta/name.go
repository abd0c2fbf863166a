package delta

import (
	"crypto/rand"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	suffix = ".parquet"
	// nameTime is when a file was published: of a hard link, the file system says when
	// its contents were written.
	nameTime = "20060102T150405"
	// hidden goes before a project whose folder engines would take for their own, such
	// as _delta_log. It is in no project's id.
	hidden = "="
)

// nameForm is the form of the last part of a data file's name: from, to, revision, when it was published, and what
// no other has.
var nameForm = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)_(\d{4}-\d\d-\d\d)_r\d+_(\d{8}T\d{6})_[0-9A-Z]{8}\.parquet$`)

// newName returns a new name of a data file of rev, relative to its table.
func newName(rev analytics.Revision, now time.Time) (string, error) {
	if err := analytics.CheckProject(rev.Project); err != nil {
		return "", err
	}
	if _, err := analytics.ParseGranularity(string(rev.Granularity)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%sr%d_%s_%s%s",
		prefixOf(rev.Key), rev.Number, now.UTC().Format(nameTime), rand.Text()[:8], suffix), nil
}

// prefixOf is the beginning of the names of the window's files.
func prefixOf(key analytics.Key) string {
	return folder(key) + "/" + key.From.String() + "_" + key.To.String() + "_"
}

// folder is where the files of the windows of a project and granularity are.
func folder(key analytics.Key) string {
	project := key.Project
	if strings.HasPrefix(project, "_") {
		project = hidden + project
	}
	return project + "/" + string(key.Granularity)
}

// parseName is the inverse of newName, without the revision; false where name is not one
// of ours.
func parseName(name string) (key analytics.Key, published time.Time, ours bool) {
	dir, base := path.Split(name)
	project, granularity, _ := strings.Cut(strings.TrimSuffix(dir, "/"), "/")
	key.Project, key.Granularity = strings.TrimPrefix(project, hidden), analytics.Granularity(granularity)
	parts := nameForm.FindStringSubmatch(base)
	if parts == nil || folder(key)+"/" != dir || analytics.CheckProject(key.Project) != nil {
		return key, published, false
	}
	_, err := analytics.ParseGranularity(granularity)
	if err == nil {
		err = key.From.UnmarshalText([]byte(parts[1]))
	}
	if err == nil {
		err = key.To.UnmarshalText([]byte(parts[2]))
	}
	if err == nil {
		published, err = time.Parse(nameTime, parts[3])
	}
	return key, published, err == nil
}
