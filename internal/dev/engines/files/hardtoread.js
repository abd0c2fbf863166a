() => {
	const rgb = c => c.match(/[\d.]+/g).map(Number);
	const light = c => rgb(c).slice(0, 3).map(v => v / 255)
		.map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
	const back = e => {
		for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (rgb(c)[3] !== 0) return c }
		return "rgb(255, 255, 255)";
	};
	const hasText = e => Array.from(e.childNodes).some(n => n.nodeType == 3 && n.data.trim()) && !e.closest("title");
	return Array.from(document.querySelectorAll("body *")).filter(hasText).map(e => {
		const style = getComputedStyle(e), a = light(e instanceof SVGElement ? style.fill : style.color), b = light(back(e));
		return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.outerHTML.slice(0, 80)];
	}).filter(v => !(v[0] >= 4.5)).map(String);
}
