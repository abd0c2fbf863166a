package parquet

import (
	"path"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
)

const (
	version     = "v1"
	suffix      = ".parquet"
	monthLayout = "2006-01"
)

// nameOf returns the name of key's file in table, relative to the root. The keys of
// the partitions are p, g and ym: engines let a partition key hide a column of the
// same name.
func nameOf(table string, key analytics.Key) (string, error) {
	if err := analytics.CheckProject(key.Project); err != nil {
		return "", err
	}
	if _, err := analytics.ParseGranularity(string(key.Granularity)); err != nil {
		return "", err
	}
	return path.Join(table, version,
		"p="+key.Project,
		"g="+string(key.Granularity),
		"ym="+key.From.Time().Format(monthLayout),
		key.From.String()+"_"+key.To.String()+suffix), nil
}

// keyOf is the inverse of nameOf; false where name is not one of ours.
func keyOf(name string) (analytics.Key, bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 6 {
		return analytics.Key{}, false
	}
	from, to, _ := strings.Cut(strings.TrimSuffix(parts[5], suffix), "_")
	of := slices.IndexFunc(analytics.Reports, func(r analytics.Report) bool {
		return slices.Contains(archive.Tables(r), parts[0])
	})
	if of < 0 {
		return analytics.Key{}, false
	}
	key := analytics.Key{
		Report:      analytics.Reports[of],
		Project:     strings.TrimPrefix(parts[2], "p="),
		Granularity: analytics.Granularity(strings.TrimPrefix(parts[3], "g=")),
	}
	if key.From.UnmarshalText([]byte(from)) != nil || key.To.UnmarshalText([]byte(to)) != nil {
		return analytics.Key{}, false
	}
	again, err := nameOf(parts[0], key)
	return key, err == nil && again == name
}
