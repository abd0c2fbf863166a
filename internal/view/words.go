package view

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
)

// Text from outside can have any length. People are shown MaxName characters of a path, name
// or link, and MaxMessage of a message or tooltip.
const (
	MaxName    = 200
	MaxMessage = 500
)

// Percent writes a share with at most three digits; small ones keep a decimal.
func Percent(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	return percentage(float64(part) / float64(whole))
}

// percentage rounds as JSON and CSV do: 6.25 per cent are 6.3.
func percentage(share float64) string {
	if math.Abs(share) >= 0.9995 {
		return strconv.FormatFloat(math.Round(share*100), 'f', 0, 64) + "%"
	}
	return strconv.FormatFloat(math.Round(share*1000)/10, 'f', 1, 64) + "%"
}

// Signed writes a change of a number: +12, −1,300, 0.
func Signed(n int64) string {
	if n > 0 {
		return "+" + format.Commas(n)
	}
	return strings.Replace(format.Commas(n), "-", "−", 1)
}

// Growth writes by which share a number grew: +2.1%, −54.6%. It is empty if the two look the
// same, or from is 0.
func Growth(from, to int64) string {
	if from <= 0 {
		return ""
	}
	text := percentage(math.Abs(float64(to)-float64(from)) / float64(from))
	switch {
	case text == percentage(0):
		return ""
	case to < from:
		return "−" + text
	}
	return "+" + text
}

// ratio writes a change in whole per cent: +27%, −6%, 0%.
func ratio(change float64) string { return Signed(int64(math.Round(change*100))) + "%" }

// Days names a window by its days: Mon 5 Oct 2026, 28 Sep – 4 Oct 2026, October 2026.
func Days(g analytics.Granularity, w analytics.Window) string {
	first, last := w.From.Time(), (w.To - 1).Time()
	switch {
	case w.Days() == 1:
		return first.Format("Mon 2 Jan 2006")
	case g == analytics.Month:
		return first.Format("January 2006")
	default:
		return format.DateSpan(first, last, 0)
	}
}

// AgentName names an agent for people. by is how its service counts people.
func AgentName(agent string, by analytics.Humans) string {
	switch {
	case agent == analytics.BrowserAgent && by == "":
		return "people"
	case agent == analytics.BrowserAgent:
		return "people (confirmed)"
	case agent == analytics.UnconfirmedAgent:
		return "people (unconfirmed)"
	}
	return agent
}

// agentKinds has the words for the classes of agents, in the order of their lists.
var agentKinds = []struct{ class, kind string }{
	{"answers", "AI assistant"}, {"coding", "AI coding agent"}, {"search", "search crawler"},
	{"training", "training crawler"}, {"tool", "program"}, {"other", "crawler"}, {"unknown", "unknown program"},
	{"human", "people"},
}

// AgentKind says what an agent of a class is, and whether its views count as AI where the class does not say so.
func AgentKind(class string, audience analytics.Audience) string {
	kind := class
	rank := AgentRank(class)
	if rank < len(agentKinds) {
		kind = agentKinds[rank].kind
	}
	if audience == analytics.AI && !strings.HasPrefix(kind, "AI ") {
		return kind + ", counts as AI"
	}
	return kind
}

// AgentRank is the place of a class in lists of agents: assistants first, then crawlers, then programs.
func AgentRank(class string) int {
	for i, k := range agentKinds {
		if k.class == class {
			return i
		}
	}
	return len(agentKinds)
}

// Readers names the audience of an effect.
func (e Effect) Readers() string {
	if e.Audience == analytics.AI {
		return "AI"
	}
	return string(e.Audience)
}

// Wait says when a merge whose readers are compared will have its verdicts; empty if it has them.
func (o Outcome) Wait() string {
	if o.Final || len(o.Effects) == 0 {
		return ""
	}
	return "; verdicts when the days to " + (o.Date() + OutcomeDays).Time().Format("2 Jan") + " are settled"
}

// Clear reports whether the verdict is that the readers became more or fewer.
func (e Effect) Clear() bool { return e.Verdict == MoreReaders || e.Verdict == FewerReaders }

// Tone is up or down if the verdict is clear, quiet if it is too early for one.
func (e Effect) Tone() string {
	switch e.Verdict {
	case TooEarly:
		return "quiet"
	case MoreReaders:
		return "up"
	case FewerReaders:
		return "down"
	}
	return ""
}

// BeforeText writes the mean of daily visitors before the merge, a dash if it is not known.
func (e Effect) BeforeText() string {
	if e.Before <= 0 {
		return "–"
	}
	return format.Commas(int64(math.Round(e.Before)))
}

// Visitors writes Actual or Expected, a dash if it is not known.
func (e Effect) Visitors(mean float64) string {
	if e.Verdict == NotEnoughData {
		return "–"
	}
	return format.Commas(int64(math.Round(mean)))
}

// ChangeText writes the change, a dash if it is not known.
func (e Effect) ChangeText() string {
	if e.Verdict == NotEnoughData {
		return "–"
	}
	return ratio(e.Change)
}

// Interval writes the 90 % interval of the change, a dash if it is not known.
func (e Effect) Interval() string {
	if e.Verdict == NotEnoughData {
		return "–"
	}
	return ratio(e.Low) + " to " + ratio(e.High)
}

// Sentence says what the verdicts of a project say together, and what its merges cost.
func (s OutcomeSummary) Sentence() string {
	if s.Comparisons == 0 {
		return fmt.Sprintf("None judged yet: %d too early, %d without enough data.", s.TooEarly, s.NotEnoughData) +
			s.costSentence()
	}
	digits, form := 0, byte('f') // 4, but 0.4
	if s.ByChance < 1 {
		digits, form = 1, 'g'
	}
	text := fmt.Sprintf("%s, %s: %d more, %d fewer readers, %s expected by chance. ", format.Plural(s.Merges, "merge"),
		format.Plural(s.Comparisons, "comparison"), s.More, s.Fewer, strconv.FormatFloat(s.ByChance, form, digits, 64))
	if s.Mean == nil {
		return fmt.Sprintf("%sNo mean change yet: it needs corrected comparisons of merges on %d dates.", text,
			MeanDates) + s.costSentence()
	}
	text += fmt.Sprintf("Mean change %s (%s to %s), of %s on %d dates", ratio(s.Mean.Change), ratio(s.Mean.Low),
		ratio(s.Mean.High), format.Plural(s.Mean.Comparisons, "comparison"), s.Mean.Dates)
	if rest := s.Comparisons - s.Mean.Comparisons; rest > 0 {
		text += fmt.Sprintf(", without %d that could not be corrected", rest)
	}
	return text + "." + s.costSentence()
}

// Sentences are the sentences of the summaries, with the name of the project, unless name is nil, and the date since
// which merges count.
func (o Outcomes) Sentences(name func(project string) string) (all []string) {
	for _, s := range o.Summaries {
		text := s.Sentence()
		if !o.Since.IsZero() {
			text = "Since " + o.Since.UTC().Format("2 Jan 2006") + ": " + text
		}
		if name != nil {
			text = name(s.Project) + ". " + text
		}
		all = append(all, text)
	}
	return all
}

var jobTones = map[string]string{
	"completed": "ok", "active": "wait", "submitting": "wait", "pending": "wait", "held": "wait", "archived": "wait",
	"failed": "bad", "rejected": "bad", "unknown": "bad", "lost": "bad", "invalid": "bad",
}

// Name is the title of a job, or else its prompt.
func (j Job) Name() string { return cmp.Or(j.Title, j.Prompt) }

// Since is when it was created, or else wanted; zero before.
func (j Job) Since() time.Time { return cmp.Or(j.Created, j.Begun) }

// StateText is the word for its state. The result of an ended job counts more.
func (j Job) StateText() string {
	switch j.Result {
	case "no_pr":
		return "completed without a pull request"
	case "pr":
		return "completed"
	}
	return cmp.Or(j.Result, j.State)
}

// Tone is the tone of the job's state: ok, wait, bad or none.
func (j Job) Tone() string {
	if j.Result == "no_pr" {
		return "wait"
	}
	return jobTones[j.StateText()]
}

// CostText writes the cost, and how far it is known; empty if nothing is known.
func (j Job) CostText() string { return CostOf(j).Text() }

// TokensText writes the number of tokens; empty if it is not known.
func (j Job) TokensText() string {
	if j.Tokens == nil {
		return ""
	}
	return format.Plural(*j.Tokens, "token")
}

// ReviewText is the state of a pull request, and how long it has waited for people since it was
// opened, or did until it ended.
func (p PullRequest) ReviewText(now time.Time) string {
	if p.Opened.IsZero() || p.State == "unknown" {
		return p.State
	}
	end := p.Ended
	if end.IsZero() {
		end = now
	}
	return p.State + ", " + format.Duration(max(0, end.Sub(p.Opened)))
}

// Short names a pull request by the end of its address: #412.
func (l Link) Short() string {
	u, err := url.Parse(string(l))
	if err != nil {
		return ""
	}
	last := strings.Trim(u.Path, "/")
	last = format.Cut(last[strings.LastIndexByte(last, '/')+1:], 40)
	switch {
	case last == "":
		return u.Host
	case strings.Trim(last, "0123456789") == "":
		return "#" + last
	}
	return "…/" + last
}

// ModeChange says that a window counts people by another mode than the windows before it.
func ModeChange(before, now analytics.Humans, window string) string {
	return "People are counted as " + now.Said() + " from " + window + " on, as " + before.Said() +
		" before: the two do not compare."
}
