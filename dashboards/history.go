package dashboards

// history shows the past, from ClickHouse, of one project.
func history() dashboard {
	preset := func(text, value string) option {
		return option{Selected: true, Text: text, Value: value}
	}
	return newDashboard(uidHistory, "docgauge / Readers history",
		"Every window that was exported: trends, overlap of humans and AI, pages that rise, fall, appear or vanish, one "+
			"page over time, windows that were restated.",
		"now-6M", []variable{
			sourceVariable(sqlSource, "ClickHouse", "The ClickHouse that docgauge writes to; its default database must be "+
				"docgauge's."),
			rowVariable("project", "Project", "The project to show.", sqlProjects, option{}),
			rowVariable("granularity", "Window", "Length of the windows in all panels but the first three trends.",
				sqlGranularities, preset("week", "week")),
			rowVariable("after", "Pages of", "First day of the window whose pages are shown.", sqlAfters,
				preset("the newest", newestDate)),
			rowVariable("before", "Compared with", "First day of the earlier window that it is compared with.", sqlBefores,
				preset("the one before", newestDate)),
			rowVariable("page", "Page", "The page of the drill-down.", sqlPages,
				preset("the page with the most readers", topPage)),
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
func audiences(p *panel) *panel {
	return p.
		on("readers", named("all"), always("blue")).
		on("human", named("human"), always("green")).
		on("ai", named("AI"), always("purple"))
}

func historyTrend() section {
	var panels []*panel
	for _, g := range [][2]string{{"day", "Daily readers"}, {"week", "Weekly readers"}, {"month", "Monthly readers"}} {
		target := sqlSeries(sqlTrend(g[0])).maybe("windows of a " + g[0] + " may not be exported, or none begins in the " +
			"time range")
		panels = append(panels, audiences(graph(g[1],
			"Unique visitors of the site in each "+g[0]+", which the service counted as one window."+notAdded, target).
			in(counts).empty(noWindow).size(8, 9)))
	}
	return row("Trend of $project", panels...)
}

func historyOverlap() section {
	return row("Humans and AI, by $granularity",
		graph("Human, AI, and both",
			"Readers of each $granularity in three parts that do add up: only human, only AI, and both (human + AI - all).",
			sqlSeries(sqlOverlap)).
			on("human_only", named("only human"), always("green")).
			on("both", always("orange")).
			on("ai_only", named("only AI"), always("purple")).
			columns().stacked().in(counts).empty(noWindow).size(12, 9),
		graph("Shares of humans and AI",
			"Shares of all readers of each $granularity. Human and AI add up to more than 100 %, because some readers are both.",
			sqlSeries(sqlShares).maybe("nobody came in any window")).
			on("human_share", named("human"), always("green")).
			on("both_share", named("both"), always("orange")).
			on("ai_share", named("AI"), always("purple")).
			in(shares).between(0, 1).empty("No readers in this time").size(12, 9),
	)
}

// pageColumn shows a path that leads to the drill-down; id is its hexadecimal form.
func pageColumn() column {
	return col("path", "Page", plain).linked("Show this page over time",
		"/d/"+uidHistory+"?${__url_time_range}&${clickhouse:queryparam}&${project:queryparam}&${granularity:queryparam}"+
			"&${after:queryparam}&${before:queryparam}&var-page=${__data.fields.id}", false)
}

func pageID() column { return col("id", "id", plain).hidden() }

func historyPages() section {
	return row("Pages of the $granularity of $after",
		table("Top pages",
			"The pages with the most unique visitors in the chosen $granularity. Click on one to see it over time."+notAdded,
			"Readers", true, []column{
				pageColumn(), col("total", "Readers", counts).wide(200).gauge(),
				col("human", "Human", counts).wide(90), col("ai", "AI", counts).wide(90),
				col("both", "Both", counts).wide(90), pageID(),
			}, sqlRows(sqlTop).maybe("nobody came in the chosen window")).
			in(counts).empty("No pages in this window").size(24, 10),
	)
}

func historyMovers() section {
	columns := func(judged column) []column {
		return []column{
			pageColumn(), col("earlier", "Before", counts).wide(90), col("later", "After", counts).wide(90),
			judged, col("relative", "Relative", shares).wide(90), pageID(),
		}
	}
	only := []column{
		pageColumn(), col("total", "Readers", counts).wide(90), col("human", "Human", counts).wide(90),
		col("ai", "AI", counts).wide(90), pageID(),
	}
	change := col("change", "Change", counts).wide(90)
	return row("From $before to $after",
		table("Rising pages",
			"Pages with readers in both windows that gained the most. A page that only the later window has is not here but "+
				"under Pages that appeared.",
			"Change", true,
			columns(change.judged(good)), sqlRows(sqlMovers(true)).maybe(twoWindows)).
			in(counts).empty(noTwo).size(12, 9),
		table("Falling pages",
			"Pages with readers in both windows that lost the most. A page that only the earlier window has is not here but "+
				"under Pages that vanished.",
			"Change", false,
			columns(change.judged(bad)), sqlRows(sqlMovers(false)).maybe(twoWindows)).
			in(counts).empty(noTwo).size(12, 9),
		table("Pages that appeared", "Pages that the later window has and the earlier one has not.", "Readers", true,
			only, sqlRows(sqlOnly(sqlAfter, sqlBefore)).maybe(twoWindows)).
			in(counts).empty(noTwo).size(12, 8),
		table("Pages that vanished", "Pages that the earlier window has and the later one has not.", "Readers", true,
			only, sqlRows(sqlOnly(sqlBefore, sqlAfter)).maybe(twoWindows)).
			in(counts).empty(noTwo).size(12, 8),
	)
}

func historyPage() section {
	return row("One page: $page",
		audiences(graph("The page by $granularity",
			"Unique visitors of the chosen page in each $granularity. A window that was exported without the page shows 0, "+
				"one that was not exported shows nothing.",
			sqlSeries(sqlPageTrend)).
			in(counts).empty(noWindow).size(16, 9)),
		table("The page in the chosen window",
			"Its readers, and their share of the site's readers.", "Readers", true, []column{
				col("path", "Page", plain), col("total", "Readers", counts).wide(80),
				col("human", "Human", counts).wide(80), col("ai", "AI", counts).wide(80),
				col("share", "Of all", shares).wide(80),
			}, sqlRows(sqlPageNow).maybe("nobody read the page in the chosen window")).
			in(counts).empty("Nobody read it in this window").size(8, 9),
	)
}

func historyWindows() section {
	return row("The windows themselves",
		table("Newest windows",
			"The newest window of each granularity. Settled: it can no longer change. Verified: its pages agreed with each "+
				"other. Pages is -1 where only totals are read.",
			"Window", false, []column{
				col("granularity", "Window", plain).wide(80), col("first_day", "From", plain).wide(100),
				col("until", "Until", plain).wide(100), col("total", "Readers", counts).wide(80),
				col("human", "Human", counts).wide(80), col("ai", "AI", counts).wide(80),
				col("both", "Both", counts).wide(80), col("page_count", "Pages", counts).wide(80),
				col("revision", "Reading", numerals).wide(80),
				col("is_settled", "Settled", plain).wide(80).words(yesOrNo(quiet)),
				col("is_verified", "Verified", plain).wide(80).words(yesOrNo(warning)),
			}, sqlRows(sqlNewest)).
			in(counts).empty("No window was exported").size(12, 9),
		table("Restated windows",
			"Windows whose numbers changed when they were read again: the first reading and the newest.",
			"Read", true, []column{
				col("granularity", "Window", plain).wide(80), col("first_day", "From", plain).wide(100),
				col("readings", "Readings", numerals).wide(80),
				col("was", "Was", counts).wide(80), col("became", "Is", counts).wide(80),
				col("change", "Change", counts).wide(80).
					judged(warning, from(0, quiet), from(1, warning)),
				col("pages_were", "Pages were", counts).wide(90), col("pages_became", "Pages are", counts).wide(90),
				col("read_at", "Read", dates).wide(170),
			}, sqlRows(sqlRestated).maybe("no numbers changed after they were first read")).
			in(counts).empty("No window was restated").size(12, 9),
	)
}

// yesOrNo colours the words.
func yesOrNo(not string) map[string]word {
	return map[string]word{
		"no": {Text: "no", Color: not}, "yes": {Text: "yes", Color: good, Index: 1},
	}
}
