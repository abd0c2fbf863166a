package grafana

// FieldConfig says how values look.
type FieldConfig struct {
	Defaults  Defaults   `json:"defaults"`
	Overrides []Override `json:"overrides"`
}

// Defaults are for every field of a panel.
type Defaults struct {
	Unit       string     `json:"unit"`
	NoValue    string     `json:"noValue"`
	Min        *float64   `json:"min,omitempty"`
	Max        *float64   `json:"max,omitempty"`
	Color      Color      `json:"color"`
	Thresholds Thresholds `json:"thresholds"`
	Mappings   []Mapping  `json:"mappings"`
	Custom     options    `json:"custom,omitempty"`
}

// Color says where the colour of a field comes from.
type Color struct {
	Mode       string `json:"mode"`
	FixedColor string `json:"fixedColor,omitempty"`
}

// Thresholds are steps in ascending order; the first has no value.
type Thresholds struct {
	Mode  string `json:"mode"`
	Steps []Step `json:"steps"`
}

// Step is the colour from a value on.
type Step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Mapping shows text in place of values.
type Mapping struct {
	Type    string          `json:"type"`
	Options map[string]Word `json:"options"`
}

// Word is what is shown in place of a value.
type Word struct {
	Text  string `json:"text"`
	Color string `json:"color,omitempty"`
	Index int    `json:"index"`
}

// Override changes the fields of one name.
type Override struct {
	Matcher    Matcher    `json:"matcher"`
	Properties []Property `json:"properties"`
}

// Matcher picks fields.
type Matcher struct {
	ID      string `json:"id"`
	Options string `json:"options"`
}

// Property is one property of a field.
type Property struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}

// Units, by Grafana's names.
const (
	Count   = "locale"      // 12,345
	Share   = "percentunit" // 0.5 is 50 %
	Number  = "none"
	Seconds = "s"
	Moment  = "dateTimeAsIso"   // of milliseconds
	FromNow = "dateTimeFromNow" // of milliseconds
	Text    = "string"
)

// The colours of judgements, and one for what is not judged.
const (
	Good    = "green"
	Warning = "yellow"
	Bad     = "red"
	Neutral = "blue"
	Quiet   = "text"
)

func defaults() Defaults {
	return Defaults{
		Color: Color{Mode: "thresholds"}, Mappings: []Mapping{},
		Thresholds: Thresholds{Mode: "absolute", Steps: []Step{{Color: Neutral}}},
	}
}

// In sets the unit.
func (p *Panel) In(unit string) *Panel {
	p.FieldConfig.Defaults.Unit = unit
	return p
}

// Empty sets what is shown where there is no data.
func (p *Panel) Empty(text string) *Panel {
	p.FieldConfig.Defaults.NoValue = text
	return p
}

// Between sets the least and the greatest value of the scale.
func (p *Panel) Between(low, high float64) *Panel {
	p.FieldConfig.Defaults.Min, p.FieldConfig.Defaults.Max = &low, &high
	return p
}

// From is the step of a colour from a value on.
func From(value float64, color string) Step { return Step{color, &value} }

// Judged colours values: base below the first step.
func (p *Panel) Judged(base string, steps ...Step) *Panel {
	p.FieldConfig.Defaults.Thresholds.Steps = append([]Step{{Color: base}}, steps...)
	return p
}

// Words shows text in place of values.
func (p *Panel) Words(words map[string]Word) *Panel {
	p.FieldConfig.Defaults.Mappings = []Mapping{{Type: "value", Options: words}}
	return p
}

// On changes the fields of one name, as it is shown.
func (p *Panel) On(name string, properties ...Property) *Panel {
	p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, Override{Matcher{"byName", name}, properties})
	return p
}

// Like changes the fields whose names match a regular expression.
func (p *Panel) Like(pattern string, properties ...Property) *Panel {
	p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, Override{Matcher{"byRegexp", "/" + pattern + "/"}, properties})
	return p
}

// Named shows a field under another name.
func Named(name string) Property { return Property{"displayName", name} }

// Unit is the unit of a field.
func Unit(unit string) Property { return Property{"unit", unit} }

// Always is a colour that does not depend on the value.
func Always(color string) Property { return Property{"color", Color{"fixed", color}} }

// OnTheRight draws a field as bars against an axis of its own.
func OnTheRight(label string) []Property {
	return []Property{
		{"custom.axisPlacement", "right"}, {"custom.axisLabel", label}, {"custom.drawStyle", "bars"},
		{"custom.fillOpacity", 60}, {"custom.lineWidth", 1}, {"custom.lineInterpolation", "linear"},
	}
}
