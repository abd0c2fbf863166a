package engines

import (
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Dashboard is a Grafana dashboard: the part of its JSON that tests read. Grafana
// itself is not run; [Query.Expand] treats a query like Grafana.
type Dashboard struct {
	UID, Title, Description, Timezone, WeekStart, Refresh string
	SchemaVersion, GraphTooltip                           int
	ID                                                    any
	Tags                                                  []string
	Links                                                 []struct {
		Title, Type, URL, Tooltip string
		KeepTime, IncludeVars     bool
	}
	Templating struct{ List []variable }
	Panels     []*Panel // those in collapsed rows too, after their row

	Text string `json:"-"` // the file
}

// variable is chosen at the head of a dashboard.
type variable struct {
	Name, Label, Description, Type, AllValue string
	Datasource                               *datasource
	// Query is SQL, the type of a datasource, or an object with label_values(metric, label).
	Query   any
	Current struct{ Value any }
	Options []any
}

// datasource names a datasource.
type datasource struct{ Type, UID string }

// Panel is a rectangle of a dashboard, or the title of a row.
type Panel struct {
	ID                       int
	Type, Title, Description string
	Grid                     struct{ H, W, X, Y int } `json:"gridPos"`
	Datasource               datasource
	Targets                  []struct {
		RefID, Expr, RawSQL string
		Instant             bool
		Datasource          datasource
	}
	FieldConfig struct {
		Defaults struct {
			Unit, NoValue string
			Thresholds    struct{ Steps []struct{ Value *float64 } }
			Custom        map[string]any
		}
		Overrides []struct{ Properties []struct{ ID string } }
	}
	Options         map[string]any
	Transformations []struct{ ID string }
	Panels          []*Panel
}

// Dashboards reads the dashboards of a directory.
func Dashboards(t testing.TB, dir string) (all []Dashboard) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboard in %s: %v", dir, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := Dashboard{Text: string(text)}
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var panels []*Panel
		for _, p := range d.Panels {
			panels = append(append(panels, p), p.Panels...)
		}
		d.Panels = panels
		all = append(all, d)
	}
	return all
}

// Query is one query of a panel or of a variable.
type Query struct {
	// Dashboard and Panel are titles; Ref is A, B, … within the panel. The Panel of
	// a variable is "$" and its name.
	Dashboard, Panel, Ref string
	// Expr is PromQL or SQL, with Grafana's variables and macros. Source is the plugin that runs it.
	Expr, Source string
	// Instant is PromQL for one moment, not for a range.
	Instant bool
	// Defaults are the values of the variables when the dashboard opens.
	Defaults map[string]string
}

// The plugins of the datasources.
const (
	PrometheusSource = "prometheus"
	ClickHouseSource = "grafana-clickhouse-datasource"
	PostgresSource   = "grafana-postgresql-datasource"
)

// Queries returns the queries of all panels, and those that fill variables from
// ClickHouse: they select values, or values and their texts. Variables are filled from
// Prometheus by label_values, which is not PromQL and is left out.
func Queries(boards []Dashboard) (panels, variables []Query) {
	for _, d := range boards {
		defaults := map[string]string{}
		for _, v := range d.Templating.List {
			if v.AllValue != "" {
				defaults[v.Name] = v.AllValue
			} else if text, ok := v.Current.Value.(string); ok {
				defaults[v.Name] = text
			}
		}
		for _, v := range d.Templating.List {
			if sql, ok := v.Query.(string); ok && v.Datasource != nil {
				variables = append(variables, Query{d.Title, "$" + v.Name, "A", sql, v.Datasource.Type, false, defaults})
			}
		}
		for _, p := range d.Panels {
			for _, t := range p.Targets {
				panels = append(panels, Query{d.Title, p.Title, t.RefID, t.Expr + t.RawSQL, t.Datasource.Type,
					t.Instant, defaults})
			}
		}
	}
	return panels, variables
}

func (q Query) String() string { return q.Dashboard + " / " + q.Panel + " / " + q.Ref }

var (
	timeFilter       = regexp.MustCompile(`\$__timeFilter\(([a-z_]+)\)`)
	dateFilter       = regexp.MustCompile(`\$__dateFilter\(([a-z_]+)\)`)
	grafanaReference = regexp.MustCompile(`\$\{([a-z_]+)(:percentencode)?\}|\$([a-z_]+)`)
)

// Expand returns the query as Grafana sends it, with the macros and variables that our
// dashboards use replaced. Names in vars have no dollar: "project" is an id, or a
// pattern in PromQL; "__from" and "__to" are the time range in milliseconds since
// 1970, by default the last 30 days. A variable that is not in vars has its default.
// An unknown variable is left unchanged.
func (q Query) Expand(vars map[string]string) string {
	to := milliseconds(vars["__to"], time.Now())
	from := milliseconds(vars["__from"], to.AddDate(0, 0, -30))
	values := map[string]string{"__range": strconv.Itoa(int(to.Sub(from).Seconds())) + "s"}
	maps.Copy(values, q.Defaults)
	maps.Copy(values, vars)
	text := dateFilter.ReplaceAllString(q.Expr,
		"$1 >= toDate('"+from.Format(time.DateOnly)+"') AND $1 <= toDate('"+to.Format(time.DateOnly)+"')")
	text = timeFilter.ReplaceAllString(text,
		"$1 BETWEEN '"+from.Format(time.RFC3339)+"' AND '"+to.Format(time.RFC3339)+"'")
	return grafanaReference.ReplaceAllStringFunc(text, func(found string) string {
		m := grafanaReference.FindStringSubmatch(found)
		value, ok := values[m[1]+m[3]]
		switch {
		case !ok:
			return found
		case m[2] != "":
			// Letters, digits and -_.~ remain, so nothing can end a string.
			return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
		}
		return value
	})
}

// milliseconds reads milliseconds since 1970, in UTC.
func milliseconds(text string, otherwise time.Time) time.Time {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.UnixMilli(n).UTC()
	}
	return otherwise.UTC()
}
