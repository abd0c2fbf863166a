package engines

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// event keeps what [Tab.Console] and [Tab.Requests] return. An event that does
// not decode is kept as a message, so that nothing is lost in silence.
func (t *Tab) event(m message) {
	var e struct {
		Type  string
		Args  []struct{ Value, Description any }
		Entry struct{ Level, Source, Text, URL string }
		Fault struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
		Request struct{ URL string }
	}
	if err := json.Unmarshal(m.Result, &e); err != nil {
		t.say("%s: %v", m.Method, err)
		return
	}
	switch m.Method {
	case "Page.loadEventFired":
		select {
		case t.loaded <- struct{}{}:
		default:
		}
	case "Network.requestWillBeSent":
		t.mu.Lock()
		defer t.mu.Unlock()
		t.requests = append(t.requests, e.Request.URL)
	case "Runtime.consoleAPICalled":
		var words []string
		for _, arg := range e.Args {
			words = append(words, fmt.Sprint(cmp.Or(arg.Value, arg.Description)))
		}
		t.say("console.%s: %s", e.Type, strings.Join(words, " "))
	case "Runtime.exceptionThrown":
		t.say("exception: %s", cmp.Or(e.Fault.Exception.Description, e.Fault.Text))
	case "Log.entryAdded":
		t.say("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
	}
}

func (t *Tab) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.console = append(t.console, fmt.Sprintf(format, args...))
}
