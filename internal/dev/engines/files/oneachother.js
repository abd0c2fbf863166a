boxes => {
	const lines = e => { const r = document.createRange(); r.selectNodeContents(e); return Array.from(r.getClientRects()) };
	const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
	const isText = e => e.children.length == 0 && e.textContent.trim() && !e.closest("title, .heard");
	return Array.from(document.querySelectorAll(boxes)).flatMap(card => {
		const texts = Array.from(card.querySelectorAll("*")).filter(isText)
			.map(e => [e.textContent.trim(), e instanceof SVGElement ? [e.getBoundingClientRect()] : lines(e)]);
		const pairs = texts.flatMap((a, i) => texts.slice(i + 1).map(b => [a, b]));
		return pairs.filter(([a, b]) => a[1].some(p => b[1].some(q => over(p, q)))).map(([a, b]) => a[0] + " | " + b[0]);
	});
}
