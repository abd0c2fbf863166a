// Package outcomes finds the pages that each merged pull request touched, and estimates what the
// readers of those pages did since.
//
// # Merges
//
// [Merges] and [Estimate] join the journal, the pull requests, the pages that these changed,
// and the readers of those pages in the archive. A merge touched the pages that its prompt
// names (pages: in the front matter), or else those that its changed files are. Every merge
// of a project goes into the estimate, selected or not, because a page that another merge
// touched cannot be compared with. A merge without pages, or a pull request whose state is unknown,
// is listed with the reason.
//
// # Estimates
//
// An estimate uses settled, verified day windows of the archive; docs/dev/outcomes-method.md has the method in plain
// words. It is a [study] of one merge in a [panel] of daily visitors: a change against a [control], less the usual
// change ([correction]), judged by placebo merges, or against the page's own level where there are too few of those;
// many merges are pooled. Unique visitors are never added up over days or pages: all levels are means of daily
// visitors. Nothing is drawn at random, so the same archive gives the same numbers, and memory is bounded by the
// pages compared, not by the pages of the archive. An estimate sends no request and changes nothing.
package outcomes
