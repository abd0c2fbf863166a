package sinks

import (
	"fmt"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Scope says which windows are inspected, and how deep. The zero value is all of
// them, by what the sink says of each.
type Scope struct {
	// Projects, if any, are those whose windows are wanted.
	Projects []string
	// Within, if not zero, holds the windows that are wanted.
	Within analytics.Window
	// Keys, if not nil, are the windows that are wanted.
	Keys map[analytics.Key]bool
	// Rows: the rows are read, or added up on the server.
	Rows bool
}

// Has reports whether the window k is wanted.
func (s Scope) Has(k analytics.Key) bool {
	return (len(s.Projects) == 0 || slices.Contains(s.Projects, k.Project)) &&
		(s.Within == analytics.Window{} || s.Within.From <= k.From && k.To <= s.Within.To) &&
		(s.Keys == nil || s.Keys[k])
}

// Shown is what readers of a sink see of one window.
type Shown struct {
	// Revision is what the sink says: Totals as shown, Rows as announced.
	analytics.Revision
	// Checksum is the [analytics.Checksum] that the sink keeps beside the rows;
	// empty where it keeps none.
	Checksum string
	// Sum is what the rows come to, where Scope.Rows asked for it.
	Sum analytics.Sum
}

// Whole reports whether the rows are as many as announced and have the checksum
// that the sink keeps. It can tell where the rows were added up.
func (s Shown) Whole() bool {
	return s.Sum.Rows == max(s.Rows, 0) && (s.Checksum == "" || s.Checksum == s.Sum.Checksum.String())
}

// FaultKind says how a window is damaged.
type FaultKind string

// The kinds of faults.
const (
	// Unreadable: what readers would get is no window.
	Unreadable FaultKind = "unreadable"
	// Disagree: what the sink shows in several places is not one revision.
	Disagree FaultKind = "disagree"
	// Stray: readers see something that is no window of ours; Key is empty.
	Stray FaultKind = "stray"
	// Unavailable: the window could not be looked at now. It may be whole.
	Unavailable FaultKind = "unavailable"
)

// Fault is the error of one window: what readers see of it cannot be told.
type Fault struct {
	// Sink is the sink's name.
	Sink string
	Key  analytics.Key
	Kind FaultKind
	// Err says what is wrong, and names the file, if it is one.
	Err error
}

func (f Fault) Error() string {
	if f.Key == (analytics.Key{}) {
		return fmt.Sprintf("%s sink: %v", f.Sink, f.Err)
	}
	return fmt.Sprintf("%s sink: %s: %v", f.Sink, f.Key, f.Err)
}

func (f Fault) Unwrap() error { return f.Err }
