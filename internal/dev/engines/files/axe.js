axe.run(document, {
	resultTypes: ["violations"],
	runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"],
}).then(r => r.violations.flatMap(v => v.nodes.map(n => `${v.id}: ${n.target.join(" ")}: ${n.failureSummary}`)))
