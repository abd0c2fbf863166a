package grafana

// Column is a column of a table, or part of how it looks.
type Column struct {
	// Field is its name in the data: a label, an alias of SQL, or the value of a
	// target, "Value #B"; Title is the one that is shown.
	Field, Title string
	properties   []Property
}

// Transform changes the data of a panel.
type Transform struct {
	ID      string  `json:"id"`
	Options options `json:"options"`
}

// Col returns a column with a unit.
func Col(field, title, unit string) Column {
	return Column{Field: field, Title: title, properties: []Property{Unit(unit)}}
}

// Wide sets the width in pixels.
func (c Column) Wide(pixels int) Column { return c.with(Property{"custom.width", pixels}) }

// Decimals sets how many digits follow the point.
func (c Column) Decimals(n int) Column { return c.with(Property{"decimals", n}) }

// Judged colours the cells: base below the first step.
func (c Column) Judged(base string, steps ...Step) Column {
	return c.with(
		Property{"custom.cellOptions", options{"type": "color-text"}}, Property{"color", Color{Mode: "thresholds"}},
		Property{"thresholds", Thresholds{"absolute", append([]Step{{Color: base}}, steps...)}})
}

// Gauge draws a bar in each cell, relative to the greatest.
func (c Column) Gauge() Column {
	return c.with(Property{"custom.cellOptions", options{"type": "gauge", "mode": "gradient", "valueDisplayMode": "text"}},
		Property{"color", Color{"fixed", Neutral}}, Property{"min", 0})
}

// Words shows text in place of values.
func (c Column) Words(words map[string]Word) Column {
	return c.with(Property{"mappings", []Mapping{{"value", words}}},
		Property{"custom.cellOptions", options{"type": "color-text"}})
}

// Linked makes the cells lead to an address.
func (c Column) Linked(title, url string, newTab bool) Column {
	return c.with(Property{"links", []options{{"title": title, "url": url, "targetBlank": newTab}}})
}

// Hidden keeps the column for links and does not show it.
func (c Column) Hidden() Column {
	return c.with(Property{"custom.hidden", true},
		Property{"custom.hideFrom", options{"viz": true, "legend": false, "tooltip": false}})
}

func (c Column) with(properties ...Property) Column {
	c.properties = append(c.properties[:len(c.properties):len(c.properties)], properties...)
	return c
}

// Table shows the targets joined on the columns that they have in common,
// without the time, in the order of columns, sorted by a title.
func Table(title, description, sortBy string, descending bool, columns []Column, targets ...Target) *Panel {
	p := newPanel("table", title, description, options{
		"cellHeight": "sm", "showHeader": true, "footer": options{"show": false, "reducer": []string{}, "countRows": false, "fields": ""},
		"sortBy": []options{{"displayName": sortBy, "desc": descending}},
	}, targets)
	p.FieldConfig.Defaults.Custom = options{"align": "auto", "cellOptions": options{"type": "auto"}, "filterable": false}
	if len(targets) > 1 {
		p.Transformations = append(p.Transformations, Transform{"merge", options{}})
	}
	p.Transformations = append(p.Transformations, organize(columns))
	for _, c := range columns {
		p.On(c.Title, c.properties...)
	}
	return p
}

// organize orders and renames, and drops the time of the query.
func organize(columns []Column) Transform {
	order, names := map[string]int{}, map[string]string{}
	for i, c := range columns {
		order[c.Field], names[c.Field] = i, c.Title
	}
	return Transform{"organize", options{
		"excludeByName": map[string]bool{"Time": true}, "indexByName": order, "renameByName": names,
	}}
}
