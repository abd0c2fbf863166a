() => {
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), problems = new Set();
	while (texts.nextNode()) {
		const element = texts.currentNode.parentElement, words = texts.currentNode.data.trim();
		if (!words || !element.checkVisibility() || element.closest("script, style, title")) continue;
		const size = parseFloat(getComputedStyle(element).fontSize);
		if (size < 12) problems.add(`${size}px: ${element.tagName} ${element.className}: ${words.slice(0, 40)}`);
	}
	return Array.from(problems);
}
