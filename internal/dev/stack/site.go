package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/must"
)

// files are the documentation site, the prompts, and a command in the role of
// the agent.
//
//go:embed files
var files embed.FS

// promptFiles is the directory, in files and in the stack, of the prompts, and
// firstPrompt the one that runs before the export.
const (
	promptFiles = "prompts"
	firstPrompt = promptFiles + "/00-authentication.md"
)

// writeSite writes all files but the prompts, whose directory it makes, and
// makes the site a git repository. Without git, agent jobs only pretend to edit.
func (s *stack) writeSite(ctx context.Context) {
	s.writeFiles(func(path string) bool { return !strings.HasPrefix(path, promptFiles+"/") })
	git, err := exec.LookPath("git")
	if err != nil {
		s.options.Say("git is not installed; agent jobs only pretend to edit files")
		return
	}
	for _, args := range [][]string{
		{"-c", "init.defaultBranch=main", "init", "--quiet"},
		{"config", "user.name", "docgauge stack"},
		{"config", "user.email", "stack@localhost"},
		{"add", "."},
		{"commit", "--quiet", "--message", "The documentation as it is"},
	} {
		cmd := exec.CommandContext(ctx, git, args...)
		cmd.Dir = s.path("site")
		// Settings of the person, such as signing, do not apply here.
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
		run(cmd)
	}
	s.repository = s.path("site")
}

// logFormat is the log format of docs/site.md.
const logFormat = `$host $remote_addr [$time_iso8601] "$request" $status "$http_user_agent" "$http_accept" ` +
	`"$http_x_forwarded_for"`

// visitors are the user agents of the readers of the site: people, assistants, tools, crawlers, one of which has
// published addresses, and a scanner.
var visitors = []string{
	"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
	"Mozilla/5.0 (compatible; Claude-User/1.0; +Claude-User@anthropic.com)",
	"Claude-User (claude-code/2.1.86; +https://support.anthropic.com/)",
	"Mozilla/5.0 (compatible; ChatGPT-User/1.0; +https://openai.com/bot)",
	"curl/8.5.0",
	"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
	"GPTBot/1.2",
	"ScannerBot/1.0 (+https://scanner.example)",
}

// startWebServer starts a web server with the pages of the site, as HTML and Markdown, and has visitors read them on
// every day since the month before this one. Without nginx, its log is empty.
func (s *stack) startWebServer(ctx context.Context) {
	log := s.path("web", "access.log")
	s.environment = append(s.environment, "DOCGAUGE_SITE_LOGS="+log, "DOCGAUGE_SITE_LOG_FORMAT=nginx:"+logFormat,
		"DOCGAUGE_SITE_LOG_PROXIES=127.0.0.0/8")
	root := must.Get(fs.Sub(files, "files/site"))
	targets := []string{"/missing", "/wp-login.php", "/style.css"}
	must.Do(fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		must.Do(err)
		if d.IsDir() {
			return os.MkdirAll(s.path("web", "pages", path), 0o700)
		}
		text := must.Get(fs.ReadFile(root, path))
		for _, path := range []string{path, strings.TrimSuffix(path, ".md") + ".html"} {
			targets = append(targets, "/"+path)
			must.Do(os.WriteFile(s.path("web", "pages", filepath.FromSlash(path)), text, 0o600))
		}
		return nil
	}))
	must.Do(os.WriteFile(log, nil, 0o600))
	s.Web = must.Get(engines.StartNginx(s.path("web"), s.path("web", "pages"),
		map[string]string{"access": strings.ReplaceAll(logFormat, "$time_iso8601", "$time")}))
	s.stops = append(s.stops, s.Web.Stop)
	r := rand.New(rand.NewPCG(31, 1))
	now := time.Now().UTC()
	for day := monthBefore(now); !day.After(now); day = day.AddDate(0, 0, 1) {
		for range 60 {
			target := "http://" + s.Web.Addr + targets[r.IntN(len(targets))]
			get := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, target, nil))
			get.Header.Set("X-Time", day.Format("2006-01-02T15:04:05-07:00"))
			get.Header.Set("X-Forwarded-For", fmt.Sprintf("%s.%d", []string{"192.0.2", "203.0.113"}[r.IntN(2)], r.IntN(20)))
			get.Header.Set("User-Agent", visitors[r.IntN(len(visitors))])
			get.Header.Set("Accept", []string{"text/html, */*;q=0.8", "text/markdown, text/html;q=0.9"}[r.IntN(5)/4])
			response, err := http.DefaultClient.Do(get)
			must.Do(err)
			must.Do(response.Body.Close())
		}
	}
}

// monthBefore is the beginning of the month before the month of now.
func monthBefore(now time.Time) time.Time {
	return time.Date(now.Year(), now.Month()-1, 1, 0, 0, 0, 0, time.UTC)
}

// firstJob runs a job to its end before the export, so that the past has the readers
// that its merged change brought. Its counters are in the first scrape of Prometheus.
func (s *stack) firstJob(ctx context.Context) {
	s.writeFiles(func(path string) bool { return path == firstPrompt })
	must.Get(s.docgauge(ctx, nil, "jobs", "run", "--wait"))
	// The sandbox serves the readers at the beginning of the minute. An export before the
	// next minute would lack the effect, and its windows would never be read again.
	minute := time.Now().Truncate(time.Minute).Add(time.Minute)
	s.options.Say("waiting until " + minute.UTC().Format("15:04 UTC") + " for its readers")
	select {
	case <-time.After(time.Until(minute)):
	case <-ctx.Done():
		must.Do(ctx.Err())
	}
}

// writePrompts gives serve its prompts once Prometheus, if there is one, has
// scraped the counter of ended jobs of each project: rules compare counters
// with their earlier values, and would miss jobs that end before the first scrape.
func (s *stack) writePrompts(ctx context.Context) {
	if s.Prometheus != nil {
		waiting, cancel := context.WithTimeout(ctx, 2*time.Minute) // a new server waits five seconds or more
		defer cancel()
		query := fmt.Sprintf("count(count by (project) (docgauge_agent_jobs_finished_total)) == %d", len(projects))
		s.await(waiting, func(ctx context.Context) string {
			answer, err := get(ctx, s.Prometheus.URL+"/api/v1/query?"+url.Values{"query": {query}}.Encode())
			if strings.Contains(answer, `"result":[{`) {
				return ""
			}
			return fmt.Sprintf("a scrape of serve by Prometheus (%s, %v)", answer, err)
		})
	}
	s.writeFiles(func(path string) bool {
		return strings.HasPrefix(path, promptFiles+"/") && path != firstPrompt
	})
}

// writeFiles writes the wanted files; a path is relative to files. It makes all
// directories.
func (s *stack) writeFiles(wanted func(path string) bool) {
	below := must.Get(fs.Sub(files, "files"))
	must.Do(fs.WalkDir(below, ".", func(path string, d fs.DirEntry, err error) error {
		to := s.path(filepath.FromSlash(path))
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(to, 0o700)
		case !wanted(path):
			return nil
		}
		return os.WriteFile(to, must.Get(fs.ReadFile(below, path)), 0o600)
	}))
}
