package analytics

import "fmt"

// Humans says which readers that call themselves browsers a service counts as human.
type Humans string

// The modes. The empty one is the mode of a service that does not say.
const (
	// Claimed counts every reader that calls itself a browser.
	Claimed Humans = "claimed"
	// Confirmed counts those among them that showed evidence of a browser.
	Confirmed Humans = "confirmed"
)

// UnmarshalText reads a mode; the empty text is one.
func (h *Humans) UnmarshalText(text []byte) error {
	switch mode := Humans(text); mode {
	case "", Claimed, Confirmed:
		*h = mode
		return nil
	default:
		return fmt.Errorf("%.40q: want %s or %s", mode, Claimed, Confirmed)
	}
}
