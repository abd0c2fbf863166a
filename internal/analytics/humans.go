package analytics

import (
	"cmp"
	"fmt"
)

// Humans says which readers that call themselves browsers a service counts as human.
type Humans string

// The modes. The empty one is the mode of a service that does not say.
const (
	// Claimed counts every reader that calls itself a browser.
	Claimed Humans = "claimed"
	// Confirmed counts those among them that showed evidence of a browser.
	Confirmed Humans = "confirmed"
)

// The agents that are people, in reports with agents.
const (
	// BrowserAgent is a reader that calls itself a browser, and showed evidence of one where the service looks for it.
	BrowserAgent = "browser"
	// UnconfirmedAgent is a reader that calls itself a browser and showed no evidence.
	UnconfirmedAgent = "unconfirmed"
)

// Said is the mode in words.
func (h Humans) Said() string { return cmp.Or(string(h), "not said") }

// Rule says which agents the human visitors are.
func (h Humans) Rule() string {
	if h == Confirmed {
		return "human = " + BrowserAgent
	}
	return "human = " + BrowserAgent + " + " + UnconfirmedAgent
}

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
