package engines

import "fmt"

// The expressions below are for [Tab.Eval]: each lists, as texts, what is wrong
// with a page.

// TooWide finds what reaches out of its box, one of boxes, or of the viewport and
// is not among exempt. Both are selectors.
func TooWide(exempt, boxes string) string {
	return fmt.Sprintf(`Array.from(document.querySelectorAll("body *")).filter(e =>
	!e.closest(%[1]q) &&
	e.getBoundingClientRect().right > (e.parentElement.closest(%[2]q).getBoundingClientRect().right + 0.5)
).map(e => e.tagName + "." + e.getAttribute("class") + " " + e.textContent.slice(0, 40))`, exempt, boxes)
}

// HardToRead finds texts with less contrast than WCAG AA asks for.
const HardToRead = `(() => {
	const rgb = c => c.match(/[\d.]+/g).map(Number);
	const light = c => rgb(c).slice(0, 3).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
	const back = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (rgb(c)[3] !== 0) return c } return "rgb(255, 255, 255)" };
	return Array.from(document.querySelectorAll("body *")).filter(e => Array.from(e.childNodes).some(n => n.nodeType == 3 && n.data.trim()) && !e.closest("title")).map(e => {
		const style = getComputedStyle(e), a = light(e instanceof SVGElement ? style.fill : style.color), b = light(back(e));
		return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.outerHTML.slice(0, 80)];
	}).filter(v => !(v[0] >= 4.5)).map(String);
})()`

// OnEachOther finds pairs of texts of one box that lie on each other. Boxes is a selector.
func OnEachOther(boxes string) string {
	return fmt.Sprintf(`(() => {
	const lines = e => { const r = document.createRange(); r.selectNodeContents(e); return Array.from(r.getClientRects()) };
	const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
	return Array.from(document.querySelectorAll(%q)).flatMap(card => {
		const texts = Array.from(card.querySelectorAll("*")).filter(e => e.children.length == 0 && e.textContent.trim() && !e.closest("title, .heard"))
			.map(e => [e.textContent.trim(), e instanceof SVGElement ? [e.getBoundingClientRect()] : lines(e)]);
		return texts.flatMap((a, i) => texts.slice(i + 1).filter(b => a[1].some(p => b[1].some(q => over(p, q)))).map(b => a[0] + " | " + b[0]));
	});
})()`, boxes)
}
