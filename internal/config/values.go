package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/jobs"
)

// Secret is a value that no formatting prints.
type Secret string

func (Secret) String() string               { return "[redacted]" }
func (Secret) GoString() string             { return "[redacted]" }
func (Secret) LogValue() slog.Value         { return slog.StringValue("[redacted]") }
func (Secret) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

// OptionalDate is a date that may be unset.
type OptionalDate struct {
	Date analytics.Date
	Set  bool
}

func (d *OptionalDate) Decode(s string) error {
	v, err := analytics.ParseDate(s)
	*d = OptionalDate{v, err == nil}
	if ago := spanBack.FindStringSubmatch(s); ago != nil {
		n, _ := strconv.Atoi(ago[1])
		back := map[string][3]int{"y": {-n}, "m": {0, -n}, "w": {0, 0, -7 * n}, "d": {0, 0, -n}}[ago[2]]
		err = fmt.Errorf("%q: want a date, such as %s", s,
			time.Now().UTC().AddDate(back[0], back[1], back[2]).Format(time.DateOnly))
	}
	return err
}

// spanBack matches a length of time that is written where a date belongs: 3y, 90d.
var spanBack = regexp.MustCompile(`^(\d{1,4})([dwmy])$`)

// Projects are the ids of the projects.
type Projects []string

func (ps *Projects) Decode(s string) (err error) {
	*ps, err = listOf("project id", s, checkProject, isItself)
	return err
}

// CheckProjects reports why a text is no list of projects, or nil.
func CheckProjects(ids string) error { return new(Projects).Decode(ids) }

// checkProject returns the id of a project, or an error.
func checkProject(id string) (string, error) {
	if analytics.CheckProject(id) != nil {
		return "", fmt.Errorf("project id %.140q: want 1 to 128 letters, digits, - or _", id)
	}
	return id, nil
}

// listOf reads the elements of a comma-separated list. Of none has two the same name.
func listOf[T any](kind, s string, read func(string) (T, error), name func(T) string) (out []T, err error) {
	var names []string
	for _, part := range split(s) {
		one, err := read(part)
		if err != nil {
			return nil, err
		}
		if slices.Contains(names, name(one)) {
			return nil, fmt.Errorf("%s %q: listed twice", kind, name(one))
		}
		out, names = append(out, one), append(names, name(one))
	}
	return out, nil
}

func isItself[T ~string](name T) string { return string(name) }

// split returns the elements of a comma-separated list.
func split(s string) []string {
	list := strings.Split(s, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// ProjectNames are the names that people are shown, by project id.
type ProjectNames map[string]string

// maxName is the length of the longest name, in bytes.
const maxName = 100

func (n *ProjectNames) Decode(s string) error {
	out := ProjectNames{}
	for _, part := range split(s) {
		id, name, ok := strings.Cut(part, "=")
		id, name = strings.TrimSpace(id), strings.TrimSpace(name)
		_, bad := checkProject(id)
		switch {
		case !ok:
			return fmt.Errorf("%.140q: want prj_a=Product docs,prj_b=…", part)
		case bad != nil:
			return bad
		case out[id] != "":
			return fmt.Errorf("project id %q: named twice", id)
		case name == "", len(name) > maxName, !utf8.ValidString(name), strings.ContainsFunc(name, unicode.IsControl):
			return fmt.Errorf("name of project %q: want 1 to %d bytes of printable UTF-8", id, maxName)
		}
		out[id] = name
	}
	*n = out
	return nil
}

// Of returns the name of a project, or its id where it has none.
func (n ProjectNames) Of(id string) string { return cmp.Or(n[id], id) }

// Addresses are those that serve listens on.
type Addresses []string

func (a *Addresses) Decode(s string) error {
	*a = split(s) // package server checks them
	return nil
}

// Hosts are names under which a server is reached.
type Hosts []string

// hostForm is a host name in lower case, without a port.
var hostForm = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)

func (h *Hosts) Decode(s string) error {
	*h = nil
	for _, part := range split(s) {
		name := strings.ToLower(part)
		if len(name) > 253 || !hostForm.MatchString(name) {
			return fmt.Errorf("%.100q: want host names without scheme and port, as docs.example.com,docgauge", part)
		}
		*h = append(*h, name)
	}
	return nil
}

// Windows are the granularities to export.
type Windows []analytics.Spec

func (w *Windows) Decode(s string) (err error) {
	*w, err = listOf("granularity", s, analytics.ParseSpec,
		func(spec analytics.Spec) string { return string(spec.Granularity) })
	return err
}

// Reports are the reports to export, visitors among them.
type Reports []analytics.Report

func (r *Reports) Decode(s string) error {
	out, err := listOf("report", s, analytics.ParseReport, analytics.Report.String)
	if err != nil {
		return err
	}
	if !slices.Contains(out, analytics.VisitorsReport) {
		return fmt.Errorf("%.40q: visitors is always exported: want visitors, or visitors and any of %s", s,
			strings.Join(ReportNames()[1:], ", "))
	}
	slices.Sort(out)
	*r = out
	return nil
}

// ReportNames are the names of all reports, visitors first.
func ReportNames() (names []string) {
	for _, r := range analytics.Reports {
		names = append(names, r.String())
	}
	return names
}

// OpenWindows are the granularities whose running window is read.
type OpenWindows []analytics.Granularity

func (o *OpenWindows) Decode(s string) (err error) {
	*o = OpenWindows{}
	if strings.TrimSpace(s) == "" {
		return nil
	}
	*o, err = listOf("open window", s, func(part string) (g analytics.Granularity, err error) {
		if g = analytics.Granularity(part); g != analytics.Day && g != analytics.Week && g != analytics.Month {
			err = fmt.Errorf("open window %q: want day, week or month", g)
		}
		return g, err
	}, isItself)
	return err
}

// Duration is a length of time.
type Duration time.Duration

func (d *Duration) Decode(s string) error {
	v, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16) // more than any setting allows
		v = time.Duration(n) * 24 * time.Hour
	}
	if err != nil {
		return fmt.Errorf("%.40q: want a duration like 90s, 15m, 72h or 3d", s)
	}
	*d = Duration(v)
	return nil
}

func (d Duration) String() string { return time.Duration(d).String() }

// Count is a whole number, not negative.
type Count int

func (n *Count) Decode(s string) error {
	v, err := strconv.Atoi(s)
	if err != nil || v < 0 || v > 1_000_000 {
		return fmt.Errorf("%.40q: want a whole number from 0 to 1000000", s)
	}
	*n = Count(v)
	return nil
}

// amount is a number that is not negative, to the millionth.
type amount float64

func (a *amount) Decode(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= 1_000_000) {
		return fmt.Errorf("%.40q: want a number from 0 to 1000000, like 1.5", s)
	}
	*a = amount(math.Round(v*1e6) / 1e6)
	return nil
}

// Bytes is a size.
type Bytes int64

func (b *Bytes) Decode(s string) error {
	v, err := humanize.ParseBytes(s)
	if err != nil || v == 0 || v > 1<<60 {
		return fmt.Errorf("%.40q: want a size like 500MiB or 2GiB", s)
	}
	*b = Bytes(v)
	return nil
}

// logFormat is text or json. Exporters call the former logfmt.
type logFormat string

func (f *logFormat) Decode(s string) error {
	if s == "logfmt" {
		s = "text"
	}
	return oneOf(f, s, "text", "json")
}

// didYouMean names the nearest known variable, if one is near.
func didYouMean(name string) string {
	const longest = 64 // bytes of a name that is compared
	edits := func(v Variable) int { return format.Edits(name, v.Name) }
	if len(name) <= longest {
		best := slices.MinFunc(Variables(), func(a, b Variable) int { return cmp.Compare(edits(a), edits(b)) })
		if edits(best) <= 3 {
			return "; did you mean " + best.Name + "?"
		}
	}
	return "; `docgauge help configuration --all` lists them"
}

// NotifyFormat is the format of the receiver at DOCGAUGE_NOTIFY_URL.
type NotifyFormat string

const (
	NotifyJSON  NotifyFormat = "json"
	NotifySlack NotifyFormat = "slack"
)

func (f *NotifyFormat) Decode(s string) error { return oneOf(f, s, NotifyJSON, NotifySlack) }

// oneOf reads one of the words.
func oneOf[T ~string](to *T, s string, words ...T) error {
	if *to = T(s); slices.Contains(words, *to) {
		return nil
	}
	return fmt.Errorf("%.40q: want %s", s, AnyOf(words))
}

// AnyOf lists words as "a, b or c".
func AnyOf[T ~string](words []T) string {
	list := ""
	for i, word := range words {
		switch {
		case i == 0:
		case i < len(words)-1:
			list += ", "
		default:
			list += " or "
		}
		list += string(word)
	}
	return list
}

// Change is how much the readers of a week must change.
type Change struct {
	// Percent is in per cent of the former number; 0 is never. Points are of the share of AI; 0: Percent of it.
	Percent, Points float64
}

func (c *Change) Decode(s string) error {
	percent, points, hasPoints := strings.Cut(s, ",")
	v, err := strconv.ParseFloat(strings.TrimSuffix(percent, "%"), 64)
	isChange := err == nil && (v == 0 && !hasPoints || v >= 1 && v <= 1000)
	*c = Change{Percent: v}
	if hasPoints {
		c.Points, err = strconv.ParseFloat(strings.TrimSpace(points), 64)
		isChange = isChange && err == nil && c.Points > 0 && c.Points < 100
	}
	if !isChange {
		return fmt.Errorf("%.40q: want a percentage from 1%% to 1000%%, like 30%%, also with points of AI share, like "+
			"30%%,5, or 0 for never", s)
	}
	return nil
}

func (c Change) String() string {
	text := strconv.FormatFloat(c.Percent, 'f', -1, 64) + "%"
	if c.Points > 0 {
		text += " (AI share: " + strconv.FormatFloat(c.Points, 'f', -1, 64) + " points)"
	}
	return text
}

// ParseHookURL reads the URL of a webhook or a monitor, which is a secret, without its
// fragment. The error names the variable and does not quote the URL.
func ParseHookURL(variable string, raw Secret) (*url.URL, error) {
	text, _, _ := strings.Cut(string(raw), "#")
	u, err := analytics.ParseServiceURL(text, analytics.URLRules{
		Example: "https://hooks.example.com/docgauge", CredentialsIn: "put a token into its path", Query: true,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	return u, nil
}

// NewState is the action on prompt files if the state has no job.
type NewState string

func (n *NewState) Decode(s string) error {
	return oneOf((*jobs.NewState)(n), s, jobs.Refuse, jobs.Submit, jobs.Skip)
}
