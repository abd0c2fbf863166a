package grafana

// Target is a query of a panel.
type Target struct {
	RefID      string `json:"refId"`
	Datasource Source `json:"datasource"`
	// Expr is PromQL. It is asked for one instant, the end of the time range, or
	// for all of it.
	Expr         string `json:"expr,omitempty"`
	Instant      bool   `json:"instant,omitempty"`
	Range        bool   `json:"range,omitempty"`
	LegendFormat string `json:"legendFormat,omitempty"`
	EditorMode   string `json:"editorMode,omitempty"`
	// RawSQL is for ClickHouse.
	RawSQL        string `json:"rawSql,omitempty"`
	EditorType    string `json:"editorType,omitempty"`
	QueryType     string `json:"queryType,omitempty"`
	PluginVersion string `json:"pluginVersion,omitempty"`
	// Format is a word for Prometheus and a number for ClickHouse.
	Format any `json:"format"`
	// MayBeEmpty says why there may be no data though all is well; it is not
	// part of the JSON.
	MayBeEmpty string `json:"-"`
}

// The formats of ClickHouse's datasource, and the version of the plugin whose
// targets look like ours.
const (
	sqlTimeSeries    = 0
	sqlTable         = 1
	sqlPluginVersion = "4.0.0"
)

// Instant asks for the end of the range. In a legend, {{label}} is the value of
// a label.
func Instant(expr, legend string) Target {
	return Target{Datasource: Prometheus, Expr: expr, Instant: true, LegendFormat: legend, EditorMode: "code", Format: "time_series"}
}

// Range asks for the whole range.
func Range(expr, legend string) Target {
	return Target{Datasource: Prometheus, Expr: expr, Range: true, LegendFormat: legend, EditorMode: "code", Format: "time_series"}
}

// Labelled asks for the end of the range, as a table whose columns are the
// labels and the value.
func Labelled(expr string) Target {
	return Target{Datasource: Prometheus, Expr: expr, Instant: true, EditorMode: "code", Format: "table"}
}

// SQL asks ClickHouse for a table.
func SQL(query string) Target { return sql(query, "table", sqlTable) }

// SQLSeries asks ClickHouse for series: a time, in ascending order, and numbers.
func SQLSeries(query string) Target { return sql(query, "timeseries", sqlTimeSeries) }

func sql(query, kind string, format int) Target {
	return Target{
		Datasource: ClickHouse, RawSQL: query, EditorType: "sql", QueryType: kind,
		PluginVersion: sqlPluginVersion, Format: format,
	}
}

// Maybe says why the target may have no data though all is well.
func (t Target) Maybe(why string) Target {
	t.MayBeEmpty = why
	return t
}
