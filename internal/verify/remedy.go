package verify

import "fmt"

// Remedy says what can be done about a finding.
type Remedy string

// The remedies.
const (
	// Copy: a sink holds the window whole, and the others are filled from there.
	Copy Remedy = "copy"
	// Adopt: what a sink shows is whole and enters the ledger; sinks that lack it are
	// filled from there.
	Adopt Remedy = "adopt"
	// Read: no sink holds the window whole; a repair makes it due.
	Read Remedy = "read"
	// Due: the next export reads it.
	Due Remedy = "due"
	// Ask: it is older than what is due; an export that names it reads it.
	Ask Remedy = "export"
	// Unconfigured: no export reads it, as its project or granularity is not configured.
	Unconfigured Remedy = "configure"
	// ByHand: a person must decide.
	ByHand Remedy = "by_hand"
	// Wait: a sink that may hold it cannot be inspected now.
	Wait Remedy = "wait"
	// Approximate: nothing is damaged; the service counted so.
	Approximate Remedy = "none"
)

// ifEmptied says what to do where a sink shows nothing of what it had.
const ifEmptied = "If it is really gone: `docgauge verify --repair` copies what another sink has, " +
	"and `docgauge status --rebuild` forgets the rest, so that what DOCGAUGE_SINCE allows is due again"

// Advice says what to do about the finding; empty where its detail does.
func (f Finding) Advice() string {
	switch f.Remedy {
	case Copy:
		return "`docgauge verify --repair` copies it from " + f.From
	case Adopt:
		return "`docgauge verify --repair` enters it in the ledger as " + f.From + " shows it"
	case Read:
		return "`docgauge verify --repair` makes it due for the next export"
	case Due:
		return "it is due: the next `docgauge export` reads it"
	case Ask:
		return fmt.Sprintf("`docgauge export --from %s --to %s --windows %s --project %s` reads it",
			f.Key.From, f.Key.To, f.Key.Granularity, f.Key.Project)
	case Unconfigured:
		return "no export reads it: put it back into DOCGAUGE_PROJECTS and DOCGAUGE_WINDOWS and verify again, " +
			"or remove it from the sink and run `docgauge status --rebuild`"
	case Wait:
		return "mend the sink that cannot be inspected; nothing is concluded before"
	case Approximate:
		return "none: the service counted so, and nothing is damaged"
	}
	return ""
}
