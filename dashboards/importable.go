package dashboards

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// input is what Grafana asks for when a dashboard is imported. The name stands in
// the dashboard for the uid of the datasource that is chosen: ${DS_PROMETHEUS}.
type input struct {
	Name        string `json:"name"`
	Label       string `json:"label"`
	Description string `json:"description"`
	Type        string `json:"type"`
	PluginID    string `json:"pluginId"`
	PluginName  string `json:"pluginName"`
}

// requirement is a part of Grafana that a dashboard needs.
type requirement struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Name    string `json:"name"`
	Version string `json:"version"`
}

// importable is a dashboard in the form of "Export for sharing externally", which
// grafana.com takes.
type importable struct {
	Inputs   []input       `json:"__inputs"`
	Requires []requirement `json:"__requires"`
	ID       *int          `json:"id"` // null: a new dashboard
	dashboard
}

// grafanaVersion is the oldest that the dashboards are for.
const grafanaVersion = "10.4.0"

// sources are the kinds of datasources, by their variables.
var sources = map[string]struct {
	input
	version string
}{
	promSource.UID: {input{"DS_PROMETHEUS", "Prometheus", "that scrapes docgauge", "datasource", promSource.Type, "Prometheus"}, "1.0.0"},
	sqlSource.UID:  {input{"DS_CLICKHOUSE", "ClickHouse", "that docgauge writes to", "datasource", sqlSource.Type, "ClickHouse"}, "4.0.0"},
}

// panelNames are the names of the kinds of panels.
var panelNames = map[string]string{
	"bargauge": "Bar gauge", "stat": "Stat", "state-timeline": "State timeline", "table": "Table", "timeseries": "Time series",
}

// Importable returns the dashboards by the names of their files, in the form for
// import by hand and for grafana.com: the datasource is asked for at the import, where
// the provisioned dashboards have a variable, and everything else is the same.
func Importable() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, d := range all() {
		text, err := d.importable()
		if err != nil {
			return nil, err
		}
		files[d.UID+".json"] = text
	}
	return files, nil
}

func (d dashboard) importable() ([]byte, error) {
	out := importable{dashboard: d, Requires: []requirement{{"grafana", "grafana", "Grafana", grafanaVersion}}}
	out.Templating.List = []variable{}
	var names []string
	for _, v := range d.Templating.List {
		s, ok := sources["${"+v.Name+"}"]
		if !ok {
			out.Templating.List = append(out.Templating.List, v)
			continue
		}
		out.Inputs = append(out.Inputs, s.input)
		out.Requires = append(out.Requires, requirement{"datasource", s.PluginID, s.PluginName, s.version})
		names = append(names, "${"+v.Name+"}", "${"+s.Name+"}")
	}
	for _, p := range d.Panels {
		r := requirement{"panel", p.Type, panelNames[p.Type], ""}
		if p.Type != "row" && !slices.Contains(out.Requires, r) {
			out.Requires = append(out.Requires, r)
		}
	}
	slices.SortFunc(out.Requires, func(a, b requirement) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID)) })
	text, err := encode(out)
	return []byte(strings.NewReplacer(names...).Replace(string(text))), err
}

// encode returns JSON, indented by two spaces.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}
