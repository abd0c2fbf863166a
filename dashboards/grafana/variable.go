package grafana

// Variable is chosen at the head of a dashboard. Queries have it as $Name.
type Variable struct {
	Name        string   `json:"name"`
	Label       string   `json:"label"`
	Description string   `json:"description"`
	Type        string   `json:"type"`
	Datasource  *Source  `json:"datasource,omitempty"`
	Query       any      `json:"query"`
	Definition  string   `json:"definition,omitempty"`
	Current     Option   `json:"current"`
	Options     []Option `json:"options"`
	Refresh     int      `json:"refresh,omitempty"`
	Sort        int      `json:"sort,omitempty"`
	Regex       string   `json:"regex"`
	Multi       bool     `json:"multi"`
	IncludeAll  bool     `json:"includeAll"`
	AllValue    string   `json:"allValue,omitempty"`
	Hide        int      `json:"hide"`
}

// Option is a value of a variable; both are lists where several may be chosen.
type Option struct {
	Selected bool `json:"selected,omitempty"`
	Text     any  `json:"text,omitempty"`
	Value    any  `json:"value,omitempty"`
}

// Source names a datasource: always a variable, so that no dashboard knows the
// uid that it has in somebody's Grafana.
type Source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// The types of datasources, which are the ids of their plugins.
const (
	PrometheusType = "prometheus"
	ClickHouseType = "grafana-clickhouse-datasource"
)

// Prometheus and ClickHouse are the datasources that the variables made by
// Choose name.
var (
	Prometheus = Source{PrometheusType, "${datasource}"}
	ClickHouse = Source{ClickHouseType, "${clickhouse}"}
)

// When the options of a variable are asked for, and how they are sorted.
const (
	onLoad         = 1
	onTimeRange    = 2
	alphabetical   = 1
	allText        = "All"
	allValue       = "$__all"
	everything     = ".*"
	standardQuery  = "StandardVariableQuery"
	datasourceKind = "datasource"
)

// Choose returns the variable by which the datasource is chosen.
func (s Source) Choose(label, description string) Variable {
	name := s.UID[len("${") : len(s.UID)-1]
	return Variable{
		Name: name, Label: label, Description: description, Type: datasourceKind,
		Query: s.Type, Options: []Option{}, Refresh: onLoad,
	}
}

// Labels returns a variable of the values of a label of a metric: one, several,
// or all, which matches a series without the label too.
func Labels(name, label, description, metric, of string) Variable {
	query := "label_values(" + metric + ", " + of + ")"
	return Variable{
		Name: name, Label: label, Description: description, Type: "query", Datasource: &Prometheus,
		Query: map[string]string{"query": query, "refId": standardQuery}, Definition: query,
		Current: Option{Selected: true, Text: []string{allText}, Value: []string{allValue}},
		Options: []Option{}, Refresh: onTimeRange, Sort: alphabetical,
		Multi: true, IncludeAll: true, AllValue: everything,
	}
}

// Rows returns a variable of what a query to ClickHouse selects: the first
// column, or where there are two, values and their texts. The first row is
// chosen; preset is what to show before the query was run.
func Rows(name, label, description, sql string, preset Option) Variable {
	return Variable{
		Name: name, Label: label, Description: description, Type: "query", Datasource: &ClickHouse,
		Query: sql, Definition: sql, Current: preset, Options: []Option{}, Refresh: onTimeRange,
	}
}
