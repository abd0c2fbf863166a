// Package fake is the code host that is not there: GitHub, GitLab or Gitea, as far as docgauge pushes branches, opens
// pull requests and reads them. The sandbox and the demo show its pull requests; tests decide which of its responses are
// lost, late or wrong.
//
// A [Store] keeps pull requests and what people do to them; a [Host] answers requests to the API of one kind of host
// about them: rights, lists, opening, reviews, files, checks, events and files of the repository. A response that a
// client already has is a 304 and does not count against GitHub's hourly limit; lists come in pages with a Link header.
// What it does not know, such as comments and people, is left out or the same made-up value each time.
package fake
