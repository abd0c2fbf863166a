package dashboards

import "slices"

// This file writes Grafana's classic dashboards (schema version 39, Grafana 10.4
// and newer). It knows the few kinds of panels that we use, and of each only the
// options that we set; Grafana fills in the others.

// fields are a JSON object whose keys are sorted.
type fields map[string]any

// dashboard is one JSON file.
type dashboard struct {
	// UID is the stable name in addresses: /d/UID.
	UID           string   `json:"uid"`
	Title         string   `json:"title"`
	Description   string   `json:"description"`
	Tags          []string `json:"tags"`
	SchemaVersion int      `json:"schemaVersion"`
	Timezone      string   `json:"timezone"`
	WeekStart     string   `json:"weekStart"`
	Refresh       string   `json:"refresh"`
	GraphTooltip  int      `json:"graphTooltip"`
	Editable      bool     `json:"editable"`
	Time          fields   `json:"time"`
	Templating    struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Links  []link   `json:"links"`
	Panels []*panel `json:"panels"`
}

// newDashboard returns a dashboard of these sections, in UTC, that opens with the
// time since from: "now-30d".
func newDashboard(uid, title, description, from string, variables []variable, sections ...section) dashboard {
	d := dashboard{
		UID: uid, Title: title, Description: description, Tags: []string{"docgauge"},
		SchemaVersion: 39, Timezone: "utc", WeekStart: "monday", Refresh: "1m", Editable: true,
		GraphTooltip: 1, // one cross hair over all panels
		Time:         fields{"from": from, "to": "now"}, Links: []link{}, Panels: arrange(sections),
	}
	d.Templating.List = variables
	return d
}

// link leads from the head of a dashboard to another page.
type link struct {
	Title       string   `json:"title"`
	Type        string   `json:"type"`
	URL         string   `json:"url"`
	Tooltip     string   `json:"tooltip"`
	Icon        string   `json:"icon"`
	Tags        []string `json:"tags"`
	KeepTime    bool     `json:"keepTime"`
	IncludeVars bool     `json:"includeVars"`
	TargetBlank bool     `json:"targetBlank"`
	AsDropdown  bool     `json:"asDropdown"`
}

// file returns the dashboard as JSON, indented by two spaces.
func (d dashboard) file() ([]byte, error) { return encode(d) }

// source names a datasource. It is always a variable, because nobody knows the
// uid of a datasource in somebody else's Grafana.
type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

var (
	promSource = source{"prometheus", "${datasource}"}
	sqlSource  = source{"grafana-clickhouse-datasource", "${clickhouse}"}
)

// variable is chosen at the head of a dashboard. Queries have it as $Name.
type variable struct {
	Name        string   `json:"name"`
	Label       string   `json:"label"`
	Description string   `json:"description"`
	Type        string   `json:"type"`
	Datasource  *source  `json:"datasource,omitempty"`
	Query       any      `json:"query"`
	Definition  string   `json:"definition,omitempty"`
	Current     option   `json:"current"`
	Options     []option `json:"options"`
	Refresh     int      `json:"refresh,omitempty"`
	Sort        int      `json:"sort,omitempty"`
	Regex       string   `json:"regex"`
	Multi       bool     `json:"multi"`
	IncludeAll  bool     `json:"includeAll"`
	AllValue    string   `json:"allValue,omitempty"`
	Hide        int      `json:"hide"`
}

// option is a value of a variable. Text and Value are lists where several may be chosen.
type option struct {
	Selected bool `json:"selected,omitempty"`
	Text     any  `json:"text,omitempty"`
	Value    any  `json:"value,omitempty"`
}

// The moments at which Grafana asks for the options of a variable.
const (
	onLoad      = 1
	onTimeRange = 2
)

// sourceVariable chooses a datasource.
func sourceVariable(s source, label, description string) variable {
	return variable{
		Name: s.UID[len("${") : len(s.UID)-1], Label: label, Description: description, Type: "datasource",
		Query: s.Type, Options: []option{}, Refresh: onLoad,
	}
}

// labelVariable chooses values of a metric's label: one, several or all. All
// matches a series without the label too.
func labelVariable(name, label, description, metric, of string) variable {
	query := "label_values(" + metric + ", " + of + ")"
	return variable{
		Name: name, Label: label, Description: description, Type: "query", Datasource: &promSource,
		Query: map[string]string{"query": query, "refId": "StandardVariableQuery"}, Definition: query,
		Current: option{Selected: true, Text: []string{"All"}, Value: []string{"$__all"}},
		Options: []option{}, Refresh: onTimeRange, Sort: 1, // by the alphabet
		Multi: true, IncludeAll: true, AllValue: ".*",
	}
}

// rowVariable chooses a row of a query to ClickHouse, which selects values, or
// values and their texts. It opens with the first row, or with the preset.
func rowVariable(name, label, description, sql string, preset option) variable {
	return variable{
		Name: name, Label: label, Description: description, Type: "query", Datasource: &sqlSource,
		Query: sql, Definition: sql, Current: preset, Options: []option{}, Refresh: onTimeRange,
	}
}

// target is a query of a panel.
type target struct {
	RefID      string `json:"refId"`
	Datasource source `json:"datasource"`
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
	// mayBeEmpty is the reason why there may be no data though all is well.
	mayBeEmpty string
}

// instant asks for the end of the range. In a legend, {{label}} is a label's value.
func instant(expr, legend string) target {
	t := labelled(expr)
	t.LegendFormat, t.Format = legend, "time_series"
	return t
}

// overTime asks for the whole range.
func overTime(expr, legend string) target {
	t := instant(expr, legend)
	t.Instant, t.Range = false, true
	return t
}

// labelled asks for the end of the range, as a table of the labels and the value.
func labelled(expr string) target {
	return target{Datasource: promSource, Expr: expr, Instant: true, EditorMode: "code", Format: "table"}
}

// sqlRows asks ClickHouse for a table.
func sqlRows(query string) target {
	return target{
		Datasource: sqlSource, RawSQL: query, EditorType: "sql", QueryType: "table", PluginVersion: "4.0.0", Format: 1,
	}
}

// sqlSeries asks ClickHouse for series: a time, in ascending order, and numbers.
func sqlSeries(query string) target {
	t := sqlRows(query)
	t.QueryType, t.Format = "timeseries", 0
	return t
}

// maybe gives the reason why there may be no data though all is well.
func (t target) maybe(why string) target {
	t.mayBeEmpty = why
	return t
}

// panel is a rectangle of a dashboard.
type panel struct {
	ID              int          `json:"id"`
	Type            string       `json:"type"`
	Title           string       `json:"title"`
	Description     string       `json:"description,omitempty"`
	PluginVersion   string       `json:"pluginVersion,omitempty"`
	Grid            grid         `json:"gridPos"`
	Datasource      *source      `json:"datasource,omitempty"`
	Targets         []target     `json:"targets,omitempty"`
	FieldConfig     *fieldConfig `json:"fieldConfig,omitempty"`
	Options         any          `json:"options,omitempty"`
	Transformations []fields     `json:"transformations,omitempty"`
	Collapsed       *bool        `json:"collapsed,omitempty"`
	Panels          *[]panel     `json:"panels,omitempty"`
}

// grid is the place of a panel, in cells.
type grid struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// fieldConfig is the look of values: of all, and of those of one name.
type fieldConfig struct {
	Defaults struct {
		Unit       string    `json:"unit"`
		NoValue    string    `json:"noValue"`
		Min        *float64  `json:"min,omitempty"`
		Max        *float64  `json:"max,omitempty"`
		Color      color     `json:"color"`
		Thresholds fields    `json:"thresholds"`
		Mappings   []mapping `json:"mappings"`
		Custom     fields    `json:"custom,omitempty"`
	} `json:"defaults"`
	Overrides []fields `json:"overrides"`
}

// color says where the colour of a field comes from.
type color struct {
	Mode       string `json:"mode"`
	FixedColor string `json:"fixedColor,omitempty"`
}

// mapping shows words in place of values.
type mapping struct {
	Type    string          `json:"type"`
	Options map[string]word `json:"options"`
}

// word is shown in place of a value.
type word struct {
	Text  string `json:"text"`
	Color string `json:"color,omitempty"`
	Index int    `json:"index"`
}

// Units, by Grafana's names.
const (
	counts   = "locale"      // 12,345
	shares   = "percentunit" // 0.5 is 50 %
	numerals = "none"
	seconds  = "s"
	dates    = "dateTimeAsIso"   // of milliseconds
	ago      = "dateTimeFromNow" // of milliseconds
	plain    = "string"
)

// The colours of judgements, and two for what is not judged.
const (
	good    = "green"
	warning = "yellow"
	bad     = "red"
	neutral = "blue"
	quiet   = "text"
)

// either shows words in place of 0 and 1.
func either(zero, zeroColor, one, oneColor string) map[string]word {
	return map[string]word{"0": {Text: zero, Color: zeroColor}, "1": {Text: one, Color: oneColor, Index: 1}}
}

// newPanel returns a panel over targets, which get the names A, B, C, ….
func newPanel(kind, title, description string, options, custom fields, targets []target) *panel {
	for i := range targets {
		targets[i].RefID = string(rune('A' + i))
	}
	p := &panel{
		Type: kind, Title: title, Description: description, PluginVersion: "11.0.0",
		Datasource: &targets[0].Datasource, Targets: targets, Options: options,
		FieldConfig: &fieldConfig{Overrides: []fields{}},
	}
	d := &p.FieldConfig.Defaults
	d.Color, d.Mappings, d.Custom = color{Mode: "thresholds"}, []mapping{}, custom
	return p.judged(neutral)
}

var newestValue = fields{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}

// stat shows the newest value of each series in large type.
func stat(title, description string, targets ...target) *panel {
	return newPanel("stat", title, description, fields{
		"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "orientation": "auto",
		"textMode": "auto", "wideLayout": true, "reduceOptions": newestValue,
	}, nil, targets)
}

// bars shows the newest value of each series as a horizontal bar.
func bars(title, description string, targets ...target) *panel {
	return newPanel("bargauge", title, description, fields{
		"displayMode": "gradient", "orientation": "horizontal", "valueMode": "color", "namePlacement": "auto",
		"showUnfilled": true, "sizing": "auto", "minVizWidth": 8, "minVizHeight": 16, "maxVizHeight": 300,
		"reduceOptions": newestValue,
	}, nil, targets)
}

// graph shows values over time.
func graph(title, description string, targets ...target) *panel {
	p := newPanel("timeseries", title, description, fields{
		"legend":  fields{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
		"tooltip": fields{"mode": "multi", "sort": "desc"},
	}, fields{
		"drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 2, "fillOpacity": 8, "showPoints": "auto",
		"pointSize": 5, "spanNulls": false, "axisSoftMin": 0, "axisPlacement": "auto",
		"stacking": fields{"mode": "none", "group": "A"}, "thresholdsStyle": fields{"mode": "off"},
	}, targets)
	p.FieldConfig.Defaults.Color.Mode = "palette-classic"
	return p
}

// timeline shows the states of each series as coloured bands.
func timeline(title, description string, targets ...target) *panel {
	return newPanel("state-timeline", title, description, fields{
		"alignValue": "left", "mergeValues": true, "rowHeight": 0.8, "showValue": "auto",
		"legend":  fields{"displayMode": "list", "placement": "bottom", "showLegend": false},
		"tooltip": fields{"mode": "single"},
	}, fields{"fillOpacity": 70, "lineWidth": 0, "spanNulls": false}, targets)
}

// table shows the targets joined on the columns that they have in common,
// without the time, in the order of columns, sorted by a title.
func table(title, description, sortBy string, descending bool, columns []column, targets ...target) *panel {
	p := newPanel("table", title, description, fields{
		"cellHeight": "sm", "showHeader": true,
		"footer": fields{"show": false, "reducer": []string{}, "countRows": false, "fields": ""},
		"sortBy": []fields{{"displayName": sortBy, "desc": descending}},
	}, fields{"align": "auto", "cellOptions": fields{"type": "auto"}, "filterable": false}, targets)
	if len(targets) > 1 {
		p.Transformations = append(p.Transformations, fields{"id": "merge", "options": fields{}})
	}
	order, names := map[string]int{}, map[string]string{}
	for i, c := range columns {
		order[c.field], names[c.field] = i, c.title
		p.on(c.title, c.properties...)
	}
	p.Transformations = append(p.Transformations, fields{"id": "organize", "options": fields{
		"excludeByName": map[string]bool{"Time": true}, "indexByName": order, "renameByName": names,
	}})
	return p
}

// in sets the unit, and empty the text where there is no data.
func (p *panel) in(unit string) *panel    { p.FieldConfig.Defaults.Unit = unit; return p }
func (p *panel) empty(text string) *panel { p.FieldConfig.Defaults.NoValue = text; return p }

// size sets width, of 24 columns, and height.
func (p *panel) size(w, h int) *panel { p.Grid.W, p.Grid.H = w, h; return p }

// between sets the least and the greatest value of the scale.
func (p *panel) between(low, high float64) *panel {
	p.FieldConfig.Defaults.Min, p.FieldConfig.Defaults.Max = &low, &high
	return p
}

// from is the step of a colour from a value on.
func from(value float64, color string) fields { return fields{"color": color, "value": value} }

func thresholds(base string, steps []fields) fields {
	return fields{"mode": "absolute", "steps": slices.Concat([]fields{{"color": base, "value": nil}}, steps)}
}

// judged colours values: base below the first step.
func (p *panel) judged(base string, steps ...fields) *panel {
	p.FieldConfig.Defaults.Thresholds = thresholds(base, steps)
	return p
}

// words shows text in place of values.
func (p *panel) words(words map[string]word) *panel {
	p.FieldConfig.Defaults.Mappings = []mapping{{"value", words}}
	return p
}

// on changes the fields of one name, as it is shown; like those whose names match
// a regular expression.
func (p *panel) on(name string, properties ...fields) *panel {
	return p.override("byName", name, properties)
}

func (p *panel) like(pattern string, properties ...fields) *panel {
	return p.override("byRegexp", "/"+pattern+"/", properties)
}

func (p *panel) override(by, name string, properties []fields) *panel {
	p.FieldConfig.Overrides = append(p.FieldConfig.Overrides,
		fields{"matcher": fields{"id": by, "options": name}, "properties": properties})
	return p
}

// steps draws values that hold until the next one: those of a window.
func (p *panel) steps() *panel { return p.custom("lineInterpolation", "stepAfter") }

// columns draws upright bars.
func (p *panel) columns() *panel {
	return p.custom("drawStyle", "bars").custom("fillOpacity", 70).custom("lineWidth", 1).custom("showPoints", "never")
}

// stacked puts the series on top of each other: only where their sum means something.
func (p *panel) stacked() *panel {
	return p.custom("stacking", fields{"mode": "normal", "group": "A"}).custom("fillOpacity", 50)
}

// limits draws the thresholds into the picture.
func (p *panel) limits() *panel { return p.custom("thresholdsStyle", fields{"mode": "dashed"}) }

func (p *panel) custom(name string, value any) *panel {
	p.FieldConfig.Defaults.Custom[name] = value
	return p
}

func property(id string, value any) fields { return fields{"id": id, "value": value} }

// named shows a field under another name.
func named(name string) fields { return property("displayName", name) }

// always is a colour that does not depend on the value.
func always(c string) fields { return property("color", color{"fixed", c}) }

// column is a column of a table: its field in the data (a label, an alias of SQL,
// or the value of a target, "Value #B"), its title, and its look.
type column struct {
	field, title string
	properties   []fields
}

func col(field, title, unit string) column {
	return column{field, title, []fields{property("unit", unit)}}
}

func (c column) with(properties ...fields) column {
	c.properties = slices.Concat(c.properties, properties)
	return c
}

// wide sets the width in pixels, and decimals the digits after the point.
func (c column) wide(pixels int) column { return c.with(property("custom.width", pixels)) }
func (c column) decimals(n int) column  { return c.with(property("decimals", n)) }

var coloured = property("custom.cellOptions", fields{"type": "color-text"})

// judged colours the cells: base below the first step.
func (c column) judged(base string, steps ...fields) column {
	return c.with(coloured, property("color", color{Mode: "thresholds"}), property("thresholds", thresholds(base, steps)))
}

// gauge draws a bar in each cell, relative to the greatest.
func (c column) gauge() column {
	return c.with(
		property("custom.cellOptions", fields{"type": "gauge", "mode": "gradient", "valueDisplayMode": "text"}),
		always(neutral), property("min", 0))
}

// words shows text in place of values.
func (c column) words(words map[string]word) column {
	return c.with(property("mappings", []mapping{{"value", words}}), coloured)
}

// linked makes the cells lead to an address.
func (c column) linked(title, url string, newTab bool) column {
	return c.with(property("links", []fields{{"title": title, "url": url, "targetBlank": newTab}}))
}

// hidden keeps the column for links and does not show it.
func (c column) hidden() column {
	return c.with(property("custom.hidden", true),
		property("custom.hideFrom", fields{"viz": true, "legend": false, "tooltip": false}))
}

// section is a row of the dashboard with a title, and the panels below it.
type section struct {
	title  string
	panels []*panel
}

func row(title string, panels ...*panel) section { return section{title, panels} }

// arrange gives every panel an id and a place: from left to right, on the next
// shelf where one does not fit, each shelf as high as its highest panel.
func arrange(sections []section) (all []*panel) {
	const width = 24
	y := 0
	for _, s := range sections {
		all = append(all, &panel{
			Type: "row", Title: s.title, Grid: grid{H: 1, W: width, Y: y}, Collapsed: new(bool), Panels: &[]panel{},
		})
		x, height := 0, 0
		y++
		for _, p := range s.panels {
			if x+p.Grid.W > width {
				x, y, height = 0, y+height, 0
			}
			p.Grid.X, p.Grid.Y = x, y
			x, height = x+p.Grid.W, max(height, p.Grid.H)
			all = append(all, p)
		}
		y += height
	}
	for i, p := range all {
		p.ID = i + 1
	}
	return all
}
