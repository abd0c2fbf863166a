package count

import (
	"cmp"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// Finding is a reason why the numbers of a log say less than they seem to, with the remedy.
type Finding struct {
	Name string // one of FindingNames
	Text string // one sentence
	// Ruins says that the numbers of the log are wrong.
	Ruins bool
}

// The names of findings.
const (
	NoKey       = "key"        // a key of json:… that no line has
	NoUserAgent = "user-agent" // most lines lack it
	NoStatus    = "status"     // most lines lack it
	NoClients   = "clients"    // most addresses belong to a proxy
	Future      = "future"     // lines of times that are yet to come
	NoEvidence  = "evidence"   // no line can show that a client is a browser
	Repeated    = "repeated"   // most views are in another log too
)

// FindingNames are the names of all findings.
var FindingNames = []string{NoKey, NoUserAgent, NoStatus, Future, NoClients, NoEvidence, Repeated}

// Tally counts what the findings of a log follow from.
type Tally struct {
	forms []formLines
	keys  uint32 // as [logs.Parser.Keys] has them
	lines int    // of all forms
	// forwarded counts the lines that have X-Forwarded-For.
	forwarded int
	browsers  crowdViews
	// Lines that can show that a client is a browser.
	assets, notModified, fetchModes int

	future int
	newest int64 // Unix seconds, of the future
}

// formLines counts the lines of a form that can be without a part.
type formLines struct {
	form                    string
	lines, agents, statuses int
}

// form returns the counts of a form.
func (t *Tally) form(name string) *formLines {
	for i := range t.forms {
		if t.forms[i].form == name {
			return &t.forms[i]
		}
	}
	t.forms = append(t.forms, formLines{form: name})
	return &t.forms[len(t.forms)-1]
}

// observe counts a line of a form.
func (v *Viewer) observe(form string, l *logs.Line) {
	t := &v.tally
	t.lines++
	if l.Time >= v.Future {
		t.future, t.newest = t.future+1, max(t.newest, l.Time)
	}
	if len(l.Reader) > 0 { // an event has neither
		return
	}
	f := t.form(form)
	f.lines++
	if len(l.Forwarded) > 0 {
		t.forwarded++
	}
	if len(l.FetchMode) > 0 {
		t.fetchModes++
	}
	if len(l.UserAgent) > 0 {
		f.agents++
	}
	if l.Status != 0 {
		f.statuses++
	}
}

// Add adds other lines.
func (t *Tally) Add(other Tally) {
	for _, f := range other.forms {
		to := t.form(f.form)
		to.lines, to.agents, to.statuses = to.lines+f.lines, to.agents+f.agents, to.statuses+f.statuses
	}
	t.keys |= other.keys
	t.forwarded += other.forwarded
	t.assets, t.notModified, t.fetchModes = t.assets+other.assets, t.notModified+other.notModified,
		t.fetchModes+other.fetchModes
	t.browsers.add(other.browsers)
	t.lines, t.future, t.newest = t.lines+other.lines, t.future+other.future, max(t.newest, other.newest)
}

// AddRecent adds later lines; once there are so many in all, those before count half.
func (t *Tally) AddRecent(other Tally, lines int) {
	if t.lines+other.lines > lines {
		for i := range t.forms {
			f := &t.forms[i]
			f.lines, f.agents, f.statuses = f.lines/2, f.agents/2, f.statuses/2
		}
		t.lines, t.future, t.forwarded = t.lines/2, t.future/2, t.forwarded/2
		t.assets, t.notModified, t.fetchModes = t.assets/2, t.notModified/2, t.fetchModes/2
		t.browsers.all, t.browsers.shared = t.browsers.all/2, t.browsers.shared/2
		for i := range t.browsers.networks {
			t.browsers.networks[i] /= 2
		}
	}
	t.Add(other)
}

// remedies say, by the form of lines, how to log the user agent, the status and Sec-Fetch-Mode.
var remedies = map[string]struct{ agent, status, mode string }{
	"combined": {agent: "log the format combined, not common; in Traefik, set " + traefikAgent,
		mode: "name a log_format with $http_sec_fetch_mode, as docs/site.md has it"},
	"traefik": {agent: "set " + traefikAgent + " in Traefik",
		status: "let accesslog.fields of Traefik keep DownstreamStatus",
		mode:   "set accesslog.fields.headers.names.Sec-Fetch-Mode=keep in Traefik"},
	"caddy": {agent: "let the filters of Caddy's log keep request>headers>User-Agent",
		status: "let the filters of Caddy's log keep status",
		mode:   "let the filters of Caddy's log keep request>headers>Sec-Fetch-Mode"},
	"cloudflare": {agent: "add ClientRequestUserAgent to the fields of the Logpush job",
		status: "add EdgeResponseStatus to the fields of the Logpush job",
		mode:   "add the request header sec-fetch-mode to the custom fields of Logpush"},
	"nginx": {agent: "add $http_user_agent to nginx's log_format, and to DOCGAUGE_SITE_LOG_FORMAT if it names the format",
		status: "add $status to nginx's log_format, and to DOCGAUGE_SITE_LOG_FORMAT if it names the format",
		mode:   "add $http_sec_fetch_mode to nginx's log_format, and to DOCGAUGE_SITE_LOG_FORMAT if it names the format"},
	"haproxy": {agent: "add `capture request header User-Agent len 256` to HAProxy's frontend",
		mode: "add `capture request header Sec-Fetch-Mode len 16` to HAProxy's frontend"},
	"w3c": {agent: "add cs(User-Agent) to the fields of the log",
		status: "add sc-status to the fields of the log",
		mode:   "add cs(Sec-Fetch-Mode) to the fields of the log"},
	"json": {agent: "log it, and name its key in DOCGAUGE_SITE_LOG_FORMAT, as agent=…",
		status: "log it, and name its key in DOCGAUGE_SITE_LOG_FORMAT, as status=…"},
}

const traefikAgent = "accesslog.fields.headers.names.User-Agent=keep"

// Findings returns what is found in a log, or in several; nothing before it has so many lines.
func (r *Rules) Findings(t Tally, least int) (all []Finding) {
	missing := map[string]bool{}
	for _, key := range r.format.MissingKeys(t.keys) {
		missing[key.Meaning] = true
		all = append(all, Finding{NoKey, noKey(key), true})
	}
	if t.lines < least {
		return nil
	}
	for _, f := range t.forms {
		remedy := remedies[f.form]
		if lack := f.lines - f.agents; 2*lack > f.lines && !missing["agent"] {
			all = append(all, Finding{NoUserAgent, fmt.Sprintf("no user agent in %d of %s (%s), which therefore count no "+
				"reader: %s", lack, format.Plural(f.lines, "line"), f.form,
				cmp.Or(remedy.agent, "log the header User-Agent")), true})
		}
		if lack := f.lines - f.statuses; 2*lack > f.lines && !missing["status"] {
			all = append(all, Finding{NoStatus, fmt.Sprintf("no status in %d of %s (%s), which therefore count no view: %s",
				lack, format.Plural(f.lines, "line"), f.form, cmp.Or(remedy.status, "log the status of the response")), true})
		}
	}
	if f, ok := r.proxyFound(t); ok {
		all = append(all, f)
	}
	if t.browsers.all >= leastViews && t.assets+t.notModified+t.fetchModes == 0 {
		all = append(all, Finding{NoEvidence, "no line can show whether the clients that call themselves browsers are " +
			"browsers: the log has no styles, scripts, fonts or images of the site, no page answered 304, and no " +
			"Sec-Fetch-Mode: log them; " + t.logFetchMode(), r.humans == analytics.Confirmed})
	}
	if t.future > 0 {
		all = append(all, Finding{Future, fmt.Sprintf("%d of %s left out, with times in the future, up to %s: correct the "+
			"clock or the time zone of the server that writes the log", t.future, format.Plural(t.lines, "line"),
			time.Unix(t.newest, 0).UTC().Format(time.RFC3339)), 2*t.future > t.lines})
	}
	return all
}

// logFetchMode says how to log Sec-Fetch-Mode, for the form that most lines have.
func (t *Tally) logFetchMode() string {
	most := formLines{}
	for _, f := range t.forms {
		if f.lines > most.lines {
			most = f
		}
	}
	return cmp.Or(remedies[most.form].mode, "for the header, see docs/site.md")
}

// leastViews is the number of views by browsers before which nothing is said of their addresses.
const leastViews = 20

// proxyFound finds that most views by browsers have the address of a proxy.
func (r *Rules) proxyFound(t Tally) (f Finding, ok bool) {
	views := t.browsers
	if views.all < leastViews {
		return f, false
	}
	percent := func(n int) int { return 100 * n / views.all }
	logIt := ""
	if t.forwarded == 0 {
		logIt = ", and log X-Forwarded-For, which this log lacks"
	}
	for i, n := range views.networks {
		name := clientNetworks[i]
		if name == "" || 2*n <= views.all {
			continue
		}
		remedy := "set DOCGAUGE_SITE_LOG_PROXIES=" + name + logIt
		if contains(r.proxies, logs.Proxies(name)[0].Addr()) {
			remedy = "log X-Forwarded-For, by which DOCGAUGE_SITE_LOG_PROXIES tells readers apart"
		}
		isPrivate, whose := name == "private", "the networks of "+name+":"
		if isPrivate {
			whose = "private networks: unless your readers are there,"
		}
		return Finding{NoClients, fmt.Sprintf("%d%% of the views by browsers come from %s %s", percent(n), whose, remedy),
			!isPrivate}, true
	}
	if 2*views.shared > views.all {
		return Finding{NoClients, fmt.Sprintf("%d%% of the views by browsers come from addresses that have %d or more "+
			"different browsers each, as those of a CDN or proxy: name its networks in DOCGAUGE_SITE_LOG_PROXIES%s",
			percent(views.shared), manyBrowsers, logIt), false}, true
	}
	return f, false
}

func noKey(key logs.Key) string {
	return fmt.Sprintf("no line has the key %s (%s) that DOCGAUGE_SITE_LOG_FORMAT names: spell it as the log does",
		key.Name, key.Meaning)
}

// unknown returns the error of a log without a line of a known format.
func (r *Rules) unknown(t Tally) error {
	if missing := r.format.MissingKeys(t.keys); len(missing) > 0 {
		return fmt.Errorf("%w; %s", logs.ErrUnknown, noKey(missing[0]))
	}
	return logs.ErrUnknown
}
