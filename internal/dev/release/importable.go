package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/dev/must"
)

// object is a JSON object, whose keys are sorted when it is written.
type object = map[string]any

// datasources are the inputs that take the place of the variables of datasources, by the
// plugin that the variable chooses, and the version that is required.
var datasources = map[string]struct{ input, label, description, version string }{
	"prometheus":                    {"DS_PROMETHEUS", "Prometheus", "that scrapes docgauge", "1.0.0"},
	"grafana-clickhouse-datasource": {"DS_CLICKHOUSE", "ClickHouse", "that docgauge writes to", "4.0.0"},
	"grafana-postgresql-datasource": {"DS_POSTGRES", "PostgreSQL", "that docgauge writes to", "1.0.0"},
}

// panelNames are the names of the kinds of panels.
var panelNames = map[string]string{
	"bargauge": "Bar gauge", "stat": "Stat", "state-timeline": "State timeline",
	"table": "Table", "timeseries": "Time series",
}

// importable turns a dashboard into the form of Grafana's "Export for sharing
// externally", which grafana.com takes: Grafana asks for the datasource at the import,
// where the dashboard has a variable. Everything else is the same.
func importable(dashboard []byte) []byte {
	var board struct {
		Templating struct {
			List []struct {
				Name, Type string
				Query      any
			}
		}
		Panels []struct{ Type string }
	}
	must.Do(json.Unmarshal(dashboard, &board))
	inputs, chosen := []object{}, []string{}
	oldest := object{"type": "grafana", "id": "grafana", "name": "Grafana", "version": "10.4.0"}
	requires := map[string]object{"grafana": oldest}
	for _, v := range board.Templating.List {
		plugin, ok := v.Query.(string)
		if !ok || v.Type != "datasource" {
			continue
		}
		s := datasources[plugin]
		inputs = append(inputs, object{
			"name": s.input, "label": s.label, "description": s.description,
			"type": "datasource", "pluginId": plugin, "pluginName": s.label,
		})
		requires["datasource "+plugin] = object{"type": "datasource", "id": plugin, "name": s.label,
			"version": s.version}
		chosen = append(chosen, "${"+v.Name+"}", "${"+s.input+"}")
	}
	for _, p := range board.Panels {
		if p.Type != "row" {
			requires["panel "+p.Type] = object{"type": "panel", "id": p.Type, "name": panelNames[p.Type], "version": ""}
		}
	}
	var form object
	must.Do(json.Unmarshal([]byte(strings.NewReplacer(chosen...).Replace(string(dashboard))), &form))
	required := []object{}
	for _, name := range slices.Sorted(maps.Keys(requires)) {
		required = append(required, requires[name])
	}
	form["__inputs"], form["__requires"], form["id"] = inputs, required, nil // a new dashboard
	templating := form["templating"].(object)
	templating["list"] = slices.DeleteFunc(templating["list"].([]any), func(variable any) bool {
		return variable.(object)["type"] == "datasource"
	})
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	must.Do(e.Encode(form))
	return text.Bytes()
}
