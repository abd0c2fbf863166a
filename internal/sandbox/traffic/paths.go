package traffic

import "fmt"

// startPaths are the pages visited most. Some need escaping in JSON, in URLs or
// in Prometheus labels, as real documentation paths do.
var startPaths = []string{
	"/", "/quickstart", "/introduction", "/authentication", "/api-reference/introduction", "/changelog",
	"/guides/überblick", "/ja/クイックスタート", "/api-reference/users/{id}", "/guides/what's new",
	`/guides/"quoted" names`, "/guides/rate-limits & quotas", "/reference/100%25-coverage", "/guides/a<b>c",
	`/windows/c:\path`, "/пример/ссылка", "/guides/emoji-🚀", "/faq#top",
}

var (
	resources = []string{
		"users", "projects", "keys", "webhooks", "invoices", "teams", "roles", "sessions", "deployments", "domains",
		"events", "files", "messages", "jobs", "logs", "metrics", "tokens", "orders", "payments", "refunds",
	}
	actions = []string{"create", "get", "list", "update", "delete", "search"}
	topics  = []string{
		"installation", "configuration", "errors", "pagination", "versioning", "testing", "deployment", "monitoring",
		"security", "caching", "migrations", "streaming", "batching", "localization", "search", "theming",
		"analytics", "backups", "permissions", "troubleshooting",
	}
	platforms = []string{"go", "python", "node", "java", "ruby", "php", "rust", "dotnet", "kubernetes", "terraform"}
)

// docPaths returns n different page paths, the same ones on every call.
func docPaths(n int) []string {
	paths := append(make([]string, 0, n), startPaths[:min(n, len(startPaths))]...)
	add := func(format string, args ...any) {
		if len(paths) < n {
			paths = append(paths, fmt.Sprintf(format, args...))
		}
	}
	for _, topic := range topics {
		add("/guides/%s", topic)
		for _, platform := range platforms {
			add("/sdks/%s/%s", platform, topic)
		}
	}
	for _, resource := range resources {
		for _, action := range actions {
			add("/api-reference/%s/%s", resource, action)
		}
	}
	for i := len(paths); i < n; i++ {
		add("/reference/page-%06d", i)
	}
	return paths
}
