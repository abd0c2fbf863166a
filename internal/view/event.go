package view

import (
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/journal"
)

// Event is the body of a notification; its keys are stable. It has one of the parts.
type Event struct {
	Event string    `json:"event"`
	At    time.Time `json:"at"`
	// Text is one line for people; Lines are further ones.
	Text  string   `json:"text"`
	Lines []string `json:"lines,omitempty"`
	// Project and ProjectName are empty where the event is about all projects.
	Project     string `json:"project,omitempty"`
	ProjectName string `json:"project_name,omitempty"`

	Export *Export   `json:"export,omitempty"`
	Key    *KeyEvent `json:"key,omitempty"`
	Quota  *Quota    `json:"quota,omitempty"`
	// Windows are the first ones; Text counts all.
	Windows []analytics.Aside `json:"windows,omitempty"`
	Digest  *Digest           `json:"digest,omitempty"`
	Readers *ReadersChange    `json:"readers,omitempty"`
	// Job is an agent job that came to the state that Event names, Queue the paused prompt queue.
	Job   *Job           `json:"job,omitempty"`
	Queue *journal.Queue `json:"queue,omitempty"`
}

// Export is the state of the exports.
type Export struct {
	// Failures counts the exports that failed since the last good one.
	Failures    int       `json:"failures,omitempty"`
	LastError   string    `json:"last_error,omitempty"`
	LastSuccess time.Time `json:"last_success_at,omitzero"`
	// ToldAt is when the failures that are over were reported.
	ToldAt time.Time `json:"told_at,omitzero"`
}

// KeyEvent is a key that expires or was refused.
type KeyEvent struct {
	Name     string          `json:"name"`
	Variable string          `json:"variable"`
	Expires  *analytics.Date `json:"expires,omitempty"`
	DaysLeft *int            `json:"days_left,omitempty"`
}

// Quota counts the requests that the service throttled although the budget had room.
type Quota struct {
	Throttled int64     `json:"requests_throttled"`
	Since     time.Time `json:"since,omitzero"`
}

// Week is a complete week of a project and what changed. Unique visitors are not additive:
// Total is not Human + AI, and no number here is a sum.
type Week struct {
	From analytics.Date `json:"from"`
	To   analytics.Date `json:"to"`
	// Settled means that the numbers are final.
	Settled bool             `json:"settled"`
	Totals  analytics.Totals `json:"totals"`
	// Humans is the mode by which people were counted. HumansBefore is the mode of the week before, if that is another
	// one: then the two weeks are not compared.
	Humans       analytics.Humans  `json:"humans,omitempty"`
	HumansBefore *analytics.Humans `json:"humans_before,omitempty"`
	// People are the people of the site, where windows of agents are exported too.
	People *People `json:"people,omitempty"`
	// Before are the totals of the week before, Change the differences; absent if that week
	// was not exported, or counts people by another mode.
	Before *analytics.Totals `json:"before,omitempty"`
	Change *analytics.Totals `json:"change,omitempty"`
}

// ReadersChange is a week whose readers changed by more than DOCGAUGE_NOTIFY_CHANGE against
// the week before, which is always known here.
type ReadersChange struct {
	Week
	// Threshold is DOCGAUGE_NOTIFY_CHANGE, in per cent of the former value; Points is its second part, in points of
	// the share of AI, which is measured in per cent without it.
	Threshold float64 `json:"threshold_percent"`
	Points    float64 `json:"threshold_points,omitempty"`
	// Site and AIShare report whether all readers, or the share of AI, changed by more.
	Site    bool `json:"site"`
	AIShare bool `json:"ai_share"`
	// Pages are the most read pages that changed by more, the largest change first. A page that appeared has no
	// visitors in the week before, one that vanished none in this.
	Pages []DigestPage `json:"pages,omitempty"`
}

// Digest is the newest week of a project.
type Digest struct {
	Week
	// Pages are absent where only totals are exported.
	Pages *DigestPages `json:"pages,omitempty"`
	// Agents are those with the most readers, without people, Misses the paths of plain characters that agents
	// asked for most of those that are not there; absent where no windows of agents are exported.
	Agents []RankedAgent `json:"agents,omitempty"`
	Misses []Miss        `json:"misses,omitempty"`
	// Missed counts all missed paths, of any characters; absent without any.
	Missed *DigestMissed `json:"missed,omitempty"`
	// Reports are the other reports whose windows are exported.
	Reports []DigestReport `json:"reports,omitempty"`
	// Sources are the assistants that sent most people; absent where no windows of sources are exported.
	Sources []DigestSource `json:"sources,omitempty"`
	Jobs    []DigestJob    `json:"jobs,omitempty"`
	// Outcomes is what the verdicts on recent merges say together; absent if there is none.
	Outcomes *OutcomeSummary `json:"outcomes,omitempty"`
}

// DigestMissed counts the paths that agents missed in a week. Sure is the number of paths with a sure redirect, found
// without the history of a repository.
type DigestMissed struct {
	Paths int `json:"paths"`
	Sure  int `json:"sure"`
}

// DigestSource is the people whom an assistant sent, with evidence of a browser (agent browser) or without
// (unconfirmed). Reads are the requests of its agents in the same week; null where they are not known.
type DigestSource struct {
	Source   string `json:"source"`
	Agent    string `json:"agent"`
	Visitors int64  `json:"visitors"`
	Change   *int64 `json:"change"`
	Reads    *int64 `json:"reads"`
}

// DigestPages has the pages that moved most, by all visitors: see [analytics.Movers].
type DigestPages struct {
	Rising   []DigestPage `json:"rising"`
	Falling  []DigestPage `json:"falling"`
	Appeared int64        `json:"appeared"`
	Vanished int64        `json:"vanished"`
}

// DigestPage is a page whose visitors became more or fewer.
type DigestPage struct {
	Path   string           `json:"path"`
	Totals analytics.Totals `json:"totals"`
	Before analytics.Totals `json:"before"`
}

// DigestReport has the rows with the largest first count: rows of the site, or of pages where the report has no others.
type DigestReport struct {
	Report analytics.Report `json:"report"`
	Rows   []DigestRow      `json:"rows"`
}

// DigestRow is a row of a report by the names of its columns, and the change of the first count from the week before,
// which is null where that has no such row.
type DigestRow struct {
	Texts   map[string]string `json:"texts"`
	Counts  map[string]int64  `json:"counts"`
	Change  *int64            `json:"change"`
	Percent *float64          `json:"change_percent"`
}

// DigestJob is an agent job that ended in the week.
type DigestJob struct {
	Prompt string    `json:"prompt"`
	Title  string    `json:"title,omitempty"`
	Result string    `json:"result"`
	PRLink string    `json:"pr_link,omitempty"`
	Ended  time.Time `json:"ended_at"`
}
