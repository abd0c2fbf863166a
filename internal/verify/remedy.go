package verify

import "strings"

// Remedy says what can be done about a finding.
type Remedy string

const (
	copyOver  Remedy = "copy"      // a sink has the window whole, and the others are filled from there
	adopt     Remedy = "adopt"     // what a sink shows is whole and enters the ledger; others are filled from there
	Read      Remedy = "read"      // no sink has the window whole; a repair makes it due
	due       Remedy = "due"       // the next export reads it
	ask       Remedy = "export"    // it is older than what is due; an export that names it reads it
	configure Remedy = "configure" // its project or granularity is not configured, so no export reads it
	byHand    Remedy = "by_hand"   // a person must decide, by the finding's detail
	wait      Remedy = "wait"      // a sink that may have it cannot be inspected now
	none      Remedy = "none"      // nothing is damaged; the service counted so
)

// advice says what to do, for people.
var advice = map[Remedy]string{
	copyOver: "`docgauge verify --repair` copies it from {source}",
	adopt:    "`docgauge verify --repair` enters it in the ledger as {source} shows it",
	Read:     "`docgauge verify --repair` makes it due for the next export",
	due:      "it is due: the next `docgauge export` reads it",
	ask:      "`docgauge export --from {from} --to {to} --windows {granularity} --project {project}` reads it",
	configure: "no export reads it: put it back into DOCGAUGE_PROJECTS and DOCGAUGE_WINDOWS and verify again, " +
		"or remove it from the sink and run `docgauge status --rebuild`",
	wait: "mend the sink that cannot be inspected; until then nothing is concluded",
	none: "none: the service counted so, and nothing is damaged",
}

// adviceEmptied is for a sink that shows none of its windows.
const adviceEmptied = "If it is really gone: `docgauge verify --repair` copies what another sink has, " +
	"and `docgauge status --rebuild` forgets the rest, so that what DOCGAUGE_SINCE allows is due again"

// Advice says what to do about the finding; empty where its detail does.
func (f Finding) Advice() string {
	return strings.NewReplacer("{source}", f.From, "{from}", f.Key.From.String(), "{to}", f.Key.To.String(),
		"{granularity}", string(f.Key.Granularity), "{project}", f.Key.Project).Replace(advice[f.Remedy])
}
