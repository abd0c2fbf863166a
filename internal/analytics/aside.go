package analytics

import "time"

// AsideReason is why a window is set aside: the reason label of
// docgauge_windows_set_aside.
type AsideReason string

// The reasons.
const (
	// AsideMalformed: an answer of the service holds something that cannot be kept.
	AsideMalformed AsideReason = "malformed"
	// AsideRepeats: the service sends the same rows again at another offset.
	AsideRepeats AsideReason = "repeats"
	// AsideRefused: the service refuses the request (4xx), though not those of
	// other windows.
	AsideRefused AsideReason = "refused"
	// AsideFailing: the service fails (5xx, no answer), though not for other windows.
	AsideFailing AsideReason = "failing"
)

// Aside is a window that the service does not give as it should. It is not asked
// for again before Until.
type Aside struct {
	Key
	Reason AsideReason `json:"reason"`
	// Detail is the last error, fit to be shown.
	Detail string `json:"detail"`
	// Failures counts the runs that met it, Since is when the first did.
	Failures int       `json:"failures"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
}
