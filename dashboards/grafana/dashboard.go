package grafana

import (
	"bytes"
	"encoding/json"
)

// Dashboard is what one JSON file holds.
type Dashboard struct {
	// UID is the stable name that addresses have: /d/UID.
	UID           string     `json:"uid"`
	Title         string     `json:"title"`
	Description   string     `json:"description"`
	Tags          []string   `json:"tags"`
	SchemaVersion int        `json:"schemaVersion"`
	Timezone      string     `json:"timezone"`
	WeekStart     string     `json:"weekStart"`
	Refresh       string     `json:"refresh"`
	GraphTooltip  int        `json:"graphTooltip"`
	Editable      bool       `json:"editable"`
	Time          Time       `json:"time"`
	Templating    Templating `json:"templating"`
	Links         []Link     `json:"links"`
	Panels        []*Panel   `json:"panels"`
}

// Time is the range that a dashboard opens with: "now-30d", "now".
type Time struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Templating holds the variables, in the order in which they are shown.
type Templating struct {
	List []Variable `json:"list"`
}

// The values that all dashboards share.
const (
	schemaVersion = 39
	pluginVersion = "11.0.0" // of the panels, whose options have this version's form
	sharedCursor  = 1        // one cross hair over all panels
)

// New returns a dashboard of these sections, in UTC.
func New(uid, title, description string, from string, variables []Variable, sections ...Section) Dashboard {
	return Dashboard{
		UID: uid, Title: title, Description: description, Tags: []string{"docgauge"},
		SchemaVersion: schemaVersion, Timezone: "utc", WeekStart: "monday", Refresh: "1m",
		GraphTooltip: sharedCursor, Editable: true,
		Time: Time{From: from, To: "now"}, Templating: Templating{List: variables},
		Links: []Link{}, Panels: arrange(sections),
	}
}

// JSON returns the dashboard as a file, indented by two spaces.
func (d Dashboard) JSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(d)
	return b.Bytes(), err
}

// Link leads from the head of a dashboard to another page.
type Link struct {
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

// To links to another dashboard, for the same time. With variables, it gets the
// values of this one's: right only where both mean the same by a name.
func (d Dashboard) To(variables bool) Link {
	return Link{
		Title: d.Title, Type: "link", URL: "/d/" + d.UID, Tooltip: d.Description, Icon: "dashboard",
		Tags: []string{}, KeepTime: true, IncludeVars: variables,
	}
}
