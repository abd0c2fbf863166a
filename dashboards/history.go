package dashboards

import "github.com/docgauge/docgauge/dashboards/grafana"

// history shows the past, from ClickHouse, of one project.
func history() grafana.Dashboard {
	preset := func(text, value string) grafana.Option {
		return grafana.Option{Selected: true, Text: text, Value: value}
	}
	return grafana.New(uidHistory, "docgauge / Readers history",
		"Every window that was exported: trends, overlap of humans and AI, pages that rise, fall, appear or vanish, one page over time, windows that were restated.",
		"now-6M", []grafana.Variable{
			grafana.ClickHouse.Choose("ClickHouse", "The ClickHouse that docgauge writes to; its default database must be docgauge's."),
			grafana.Rows("project", "Project", "The project to show.", sqlProjects, grafana.Option{}),
			grafana.Rows("granularity", "Window", "How long the windows are of everything but the first three trends.", sqlGranularities, preset("week", "week")),
			grafana.Rows("after", "Pages of", "First day of the window whose pages are shown.", sqlAfters, preset("the newest", newestDate)),
			grafana.Rows("before", "Compared with", "First day of the earlier window that it is compared with.", sqlBefores, preset("the one before", newestDate)),
			grafana.Rows("page", "Page", "The page of the drill-down.", sqlPages, preset("the page with the most readers", topPage)),
		},
		historyTrend(), historyOverlap(), historyPages(), historyMovers(), historyPage(), historyWindows())
}

// What is said of tables and trends of the history.
const (
	noWindow   = "No window was exported in this time"
	noTwo      = "No two windows to compare, or nothing changed"
	twoWindows = "the two windows may have the same pages, or there is only one"
)

// audiences names the columns that series have, and gives each a colour that it keeps.
func audiences(p *grafana.Panel) *grafana.Panel {
	return p.
		On("readers", grafana.Named("all"), grafana.Always("blue")).
		On("human", grafana.Named("human"), grafana.Always("green")).
		On("ai", grafana.Named("AI"), grafana.Always("purple"))
}

func historyTrend() grafana.Section {
	s := grafana.Section{Title: "Trend of $project"}
	for _, g := range []struct{ name, title string }{{"day", "Daily readers"}, {"week", "Weekly readers"}, {"month", "Monthly readers"}} {
		target := grafana.SQLSeries(sqlTrend(g.name)).Maybe("windows of a " + g.name + " may not be exported, or none begins in the time range")
		s.Panels = append(s.Panels, audiences(grafana.Lines(g.title,
			"Unique visitors of the site in each "+g.name+", which the service counted as one window."+notAdded, target).
			In(grafana.Count).Empty(noWindow).Size(8, 9)))
	}
	return s
}

func historyOverlap() grafana.Section {
	return grafana.Section{Title: "Humans and AI, by $granularity", Panels: []*grafana.Panel{
		grafana.Lines("Human, AI, and both",
			"Readers of each $granularity in three parts that do add up: only human, only AI, and both (human + AI - all).",
			grafana.SQLSeries(sqlOverlap)).
			On("human_only", grafana.Named("only human"), grafana.Always("green")).
			On("both", grafana.Always("orange")).
			On("ai_only", grafana.Named("only AI"), grafana.Always("purple")).
			Columns().Stacked().In(grafana.Count).Empty(noWindow).Size(12, 9),
		grafana.Lines("Shares of humans and AI",
			"Of all readers of each $granularity. Human and AI are more than 100 % together, by those who are both.",
			grafana.SQLSeries(sqlShares).Maybe("nobody came in any window")).
			On("human_share", grafana.Named("human"), grafana.Always("green")).
			On("both_share", grafana.Named("both"), grafana.Always("orange")).
			On("ai_share", grafana.Named("AI"), grafana.Always("purple")).
			In(grafana.Share).Between(0, 1).Empty("No readers in this time").Size(12, 9),
	}}
}

// pageColumn shows a path that leads to the drill-down; id is its hexadecimal form.
func pageColumn() grafana.Column {
	return grafana.Col("path", "Page", grafana.Text).Linked("Show this page over time",
		"/d/"+uidHistory+"?${__url_time_range}&${clickhouse:queryparam}&${project:queryparam}&${granularity:queryparam}"+
			"&${after:queryparam}&${before:queryparam}&var-page=${__data.fields.id}", false)
}

func pageID() grafana.Column { return grafana.Col("id", "id", grafana.Text).Hidden() }

func historyPages() grafana.Section {
	return grafana.Section{Title: "Pages of the $granularity of $after", Panels: []*grafana.Panel{
		grafana.Table("Top pages",
			"The pages with the most unique visitors in the chosen $granularity. Click on one to see it over time."+notAdded,
			"Readers", true, []grafana.Column{
				pageColumn(), grafana.Col("total", "Readers", grafana.Count).Wide(200).Gauge(),
				grafana.Col("human", "Human", grafana.Count).Wide(90), grafana.Col("ai", "AI", grafana.Count).Wide(90),
				grafana.Col("both", "Both", grafana.Count).Wide(90), pageID(),
			}, grafana.SQL(sqlTop).Maybe("nobody came in the chosen window")).
			In(grafana.Count).Empty("No pages in this window").Size(24, 10),
	}}
}

func historyMovers() grafana.Section {
	columns := func(judged grafana.Column) []grafana.Column {
		return []grafana.Column{
			pageColumn(), grafana.Col("earlier", "Before", grafana.Count).Wide(90), grafana.Col("later", "After", grafana.Count).Wide(90),
			judged, grafana.Col("relative", "Relative", grafana.Share).Wide(90), pageID(),
		}
	}
	only := []grafana.Column{
		pageColumn(), grafana.Col("total", "Readers", grafana.Count).Wide(90), grafana.Col("human", "Human", grafana.Count).Wide(90),
		grafana.Col("ai", "AI", grafana.Count).Wide(90), pageID(),
	}
	change := grafana.Col("change", "Change", grafana.Count).Wide(90)
	return grafana.Section{Title: "From $before to $after", Panels: []*grafana.Panel{
		grafana.Table("Rising pages", "Pages of both windows that gained the most readers.", "Change", true,
			columns(change.Judged(grafana.Good)), grafana.SQL(sqlMovers(true)).Maybe(twoWindows)).
			In(grafana.Count).Empty(noTwo).Size(12, 9),
		grafana.Table("Falling pages", "Pages of both windows that lost the most readers.", "Change", false,
			columns(change.Judged(grafana.Bad)), grafana.SQL(sqlMovers(false)).Maybe(twoWindows)).
			In(grafana.Count).Empty(noTwo).Size(12, 9),
		grafana.Table("Pages that appeared", "Read in the later window, and not by anybody in the earlier one.", "Readers", true,
			only, grafana.SQL(sqlOnly(sqlAfter, sqlBefore)).Maybe(twoWindows)).
			In(grafana.Count).Empty(noTwo).Size(12, 8),
		grafana.Table("Pages that vanished", "Read in the earlier window, and not by anybody in the later one.", "Readers", true,
			only, grafana.SQL(sqlOnly(sqlBefore, sqlAfter)).Maybe(twoWindows)).
			In(grafana.Count).Empty(noTwo).Size(12, 8),
	}}
}

func historyPage() grafana.Section {
	return grafana.Section{Title: "One page: $page", Panels: []*grafana.Panel{
		audiences(grafana.Lines("The page by $granularity",
			"Unique visitors of the chosen page in each $granularity. A window that was exported without the page shows 0, one that was not exported shows nothing.",
			grafana.SQLSeries(sqlPageTrend)).
			In(grafana.Count).Empty(noWindow).Size(16, 9)),
		grafana.Table("The page in the chosen window",
			"Its readers, and which share of the site's readers they are.", "Readers", true, []grafana.Column{
				grafana.Col("path", "Page", grafana.Text), grafana.Col("total", "Readers", grafana.Count).Wide(80),
				grafana.Col("human", "Human", grafana.Count).Wide(80), grafana.Col("ai", "AI", grafana.Count).Wide(80),
				grafana.Col("share", "Of all", grafana.Share).Wide(80),
			}, grafana.SQL(sqlPageNow).Maybe("nobody read the page in the chosen window")).
			In(grafana.Count).Empty("Nobody read it in this window").Size(8, 9),
	}}
}

func historyWindows() grafana.Section {
	return grafana.Section{Title: "The windows themselves", Panels: []*grafana.Panel{
		grafana.Table("Newest windows",
			"The newest window of each granularity. Settled: it can no longer change. Verified: its pages agreed with each other. Pages is -1 where only totals are read.",
			"Window", false, []grafana.Column{
				grafana.Col("granularity", "Window", grafana.Text).Wide(80), grafana.Col("first_day", "From", grafana.Text).Wide(100),
				grafana.Col("until", "Until", grafana.Text).Wide(100), grafana.Col("total", "Readers", grafana.Count).Wide(80),
				grafana.Col("human", "Human", grafana.Count).Wide(80), grafana.Col("ai", "AI", grafana.Count).Wide(80),
				grafana.Col("both", "Both", grafana.Count).Wide(80), grafana.Col("page_count", "Pages", grafana.Count).Wide(80),
				grafana.Col("revision", "Reading", grafana.Number).Wide(80),
				grafana.Col("is_settled", "Settled", grafana.Text).Wide(80).Words(yesOrNo(grafana.Quiet)),
				grafana.Col("is_verified", "Verified", grafana.Text).Wide(80).Words(yesOrNo(grafana.Warning)),
			}, grafana.SQL(sqlNewest)).
			In(grafana.Count).Empty("No window was exported").Size(12, 9),
		grafana.Table("Restated windows",
			"Windows whose numbers changed when they were read again: what the first reading said, and what the newest says.",
			"Read", true, []grafana.Column{
				grafana.Col("granularity", "Window", grafana.Text).Wide(80), grafana.Col("first_day", "From", grafana.Text).Wide(100),
				grafana.Col("readings", "Readings", grafana.Number).Wide(80),
				grafana.Col("was", "Was", grafana.Count).Wide(80), grafana.Col("became", "Is", grafana.Count).Wide(80),
				grafana.Col("change", "Change", grafana.Count).Wide(80).
					Judged(grafana.Warning, grafana.From(0, grafana.Quiet), grafana.From(1, grafana.Warning)),
				grafana.Col("pages_were", "Pages were", grafana.Count).Wide(90), grafana.Col("pages_became", "Pages are", grafana.Count).Wide(90),
				grafana.Col("read_at", "Read", grafana.Moment).Wide(170),
			}, grafana.SQL(sqlRestated).Maybe("no numbers changed after they were first read")).
			In(grafana.Count).Empty("No window was restated").Size(12, 9),
	}}
}

// yesOrNo colours the words.
func yesOrNo(not string) map[string]grafana.Word {
	return map[string]grafana.Word{
		"no": {Text: "no", Color: not}, "yes": {Text: "yes", Color: grafana.Good, Index: 1},
	}
}
