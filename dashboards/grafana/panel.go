package grafana

// Panel is a rectangle of a dashboard.
type Panel struct {
	ID              int          `json:"id"`
	Type            string       `json:"type"`
	Title           string       `json:"title"`
	Description     string       `json:"description,omitempty"`
	PluginVersion   string       `json:"pluginVersion,omitempty"`
	Grid            Grid         `json:"gridPos"`
	Datasource      *Source      `json:"datasource,omitempty"`
	Targets         []Target     `json:"targets,omitempty"`
	FieldConfig     *FieldConfig `json:"fieldConfig,omitempty"`
	Options         any          `json:"options,omitempty"`
	Transformations []Transform  `json:"transformations,omitempty"`
	Collapsed       *bool        `json:"collapsed,omitempty"`
	Panels          *[]Panel     `json:"panels,omitempty"`
}

// options are a panel's own, as Grafana names them.
type options map[string]any

// newPanel returns a panel over targets, which get the names A, B, C, ….
func newPanel(kind, title, description string, o options, targets []Target) *Panel {
	p := &Panel{
		Type: kind, Title: title, Description: description, PluginVersion: pluginVersion,
		Datasource: &targets[0].Datasource, Targets: targets, Options: o,
		FieldConfig: &FieldConfig{Defaults: defaults(), Overrides: []Override{}},
	}
	for i := range p.Targets {
		p.Targets[i].RefID = string(rune('A' + i))
	}
	return p
}

// Size sets width, of [Columns], and height.
func (p *Panel) Size(w, h int) *Panel {
	p.Grid.W, p.Grid.H = w, h
	return p
}

// row is the head of a section.
func row(title string, y int) *Panel {
	open := false
	return &Panel{Type: "row", Title: title, Grid: Grid{H: 1, W: Columns, Y: y}, Collapsed: &open, Panels: &[]Panel{}}
}

// Stat shows the newest value of each series in large type.
func Stat(title, description string, targets ...Target) *Panel {
	return newPanel("stat", title, description, options{
		"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "orientation": "auto",
		"textMode": "auto", "wideLayout": true, "reduceOptions": newestValue(),
	}, targets)
}

// Bars shows the newest value of each series as a horizontal bar.
func Bars(title, description string, targets ...Target) *Panel {
	return newPanel("bargauge", title, description, options{
		"displayMode": "gradient", "orientation": "horizontal", "valueMode": "color", "namePlacement": "auto",
		"showUnfilled": true, "sizing": "auto", "minVizWidth": 8, "minVizHeight": 16, "maxVizHeight": 300,
		"reduceOptions": newestValue(),
	}, targets)
}

func newestValue() options {
	return options{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
}

// Lines shows values over time.
func Lines(title, description string, targets ...Target) *Panel {
	p := newPanel("timeseries", title, description, options{
		"legend":  options{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
		"tooltip": options{"mode": "multi", "sort": "desc"},
	}, targets)
	p.FieldConfig.Defaults.Color = Color{Mode: "palette-classic"}
	p.FieldConfig.Defaults.Custom = options{
		"drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 2, "fillOpacity": 8, "showPoints": "auto",
		"pointSize": 5, "spanNulls": false, "axisSoftMin": 0, "axisPlacement": "auto",
		"stacking": options{"mode": "none", "group": "A"}, "thresholdsStyle": options{"mode": "off"},
	}
	return p
}

// States shows as coloured bands what each series was when.
func States(title, description string, targets ...Target) *Panel {
	p := newPanel("state-timeline", title, description, options{
		"alignValue": "left", "mergeValues": true, "rowHeight": 0.8, "showValue": "auto",
		"legend": options{"displayMode": "list", "placement": "bottom", "showLegend": false}, "tooltip": options{"mode": "single"},
	}, targets)
	p.FieldConfig.Defaults.Custom = options{"fillOpacity": 70, "lineWidth": 0, "spanNulls": false}
	return p
}

// Steps draws values that hold until the next one: those of a window.
func (p *Panel) Steps() *Panel { return p.custom("lineInterpolation", "stepAfter") }

// Columns draws upright bars.
func (p *Panel) Columns() *Panel {
	return p.custom("drawStyle", "bars").custom("fillOpacity", 70).custom("lineWidth", 1).custom("showPoints", "never")
}

// Stacked puts the series on top of each other: only where their sum means something.
func (p *Panel) Stacked() *Panel {
	return p.custom("stacking", options{"mode": "normal", "group": "A"}).custom("fillOpacity", 50)
}

// Limits draws the thresholds into the picture.
func (p *Panel) Limits() *Panel {
	return p.custom("thresholdsStyle", options{"mode": "dashed"})
}

func (p *Panel) custom(name string, value any) *Panel {
	p.FieldConfig.Defaults.Custom[name] = value
	return p
}
