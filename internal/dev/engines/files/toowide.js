(exempt, boxes) => {
	const right = e => e.getBoundingClientRect().right;
	return Array.from(document.querySelectorAll("body *"))
		.filter(e => !e.closest(exempt) && right(e) > right(e.parentElement.closest(boxes)) + 0.5)
		.map(e => e.tagName + "." + e.getAttribute("class") + " " + e.textContent.slice(0, 40));
}
