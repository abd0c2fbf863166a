package runner

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// What RepoOptions.Allow permits.
const (
	AllowCI      = "ci"
	AllowHosts   = "hosts"
	AllowHooks   = "hooks"
	AllowEditors = "editors"
)

// Allowed lists the values of RepoOptions.Allow.
var Allowed = []string{AllowCI, AllowHosts, AllowHooks, AllowEditors}

// guarded are patterns (CheckPattern) of files that make programs run elsewhere when they change: on the
// machines of CI, of services that build and host sites, and of people, by git's hooks, editors and agents.
// The list does not have files that a build reads when it is run (package.json, Makefile, Dockerfile), texts that
// instruct agents (AGENTS.md), and .gitattributes, which names programs but defines none.
var guarded = map[string][]string{
	AllowCI: {
		".github/workflows/", ".github/actions/", "action.yml", "action.yaml", ".gitlab-ci.yml", "*.gitlab-ci.yml",
		".gitlab/ci/", ".gitea/workflows/", ".gitea/actions/", ".forgejo/workflows/", ".forgejo/actions/",
		".woodpecker/", ".woodpecker.y*ml", ".circleci/", ".buildkite/", ".travis.y*ml", ".drone.y*ml",
		".drone.jsonnet", ".drone.star", "azure-pipelines*.y*ml", ".azure-pipelines/", ".azure/pipelines/",
		".azuredevops/", ".pipelines/", "bitbucket-pipelines.y*ml", "Jenkinsfile", "Jenkinsfile.*", "*.jenkinsfile",
		".jenkins/", ".cirrus.y*ml", ".cirrus.star", "appveyor.y*ml", ".appveyor.y*ml", "buildspec*.y*ml",
		"cloudbuild*.y*ml", "cloudbuild*.json", ".cloudbuild/", ".semaphore/", ".builds/", ".build.y*ml", ".tekton/",
		".teamcity/", ".harness/", "codemagic.y*ml", "bitrise.y*ml", "*.gocd.y*ml", "screwdriver.y*ml",
		"wercker.y*ml", ".scrutinizer.y*ml", ".space.kts", ".onedev-buildspec.y*ml", ".zuul.y*ml", ".zuul.d/",
		"zuul.y*ml", "zuul.d/", ".prow.y*ml", ".vela.y*ml", ".codefresh/", "codefresh.y*ml", ".ci/",
		".taskcluster.yml", ".rultor.yml", ".magnum-ci.yml", ".shippable.yml", "shippable.yml", ".packit.y*ml",
		"packit.y*ml", ".copr/", ".tangled/workflows/", ".eas/workflows/", "ci_scripts/", ".ci.y*ml", ".radicle/",
		"buildkite.y*ml", "buildkite.json", "/buildkite/", "renovate.json", "renovate.json5", ".renovaterc",
		".renovaterc.json", ".renovaterc.json5",
	},
	AllowHosts: {
		".readthedocs.y*ml", "readthedocs.y*ml", "netlify.toml", "netlify/functions/", "netlify/edge-functions/",
		"netlify/plugins/", "vercel.json", "vercel.ts", "now.json", "render.y*ml", "wrangler.toml", "wrangler.json",
		"wrangler.jsonc", "fly.toml", "firebase.json", "amplify.y*ml", "app.yaml", "Procfile", "/app.json",
		"heroku.y*ml", "railway.json", "railway.toml", "nixpacks.toml", ".do/", ".platform.app.y*ml", ".platform/",
		".upsun/", ".lagoon.y*ml", "zeabur.json", "serverless.y*ml", "captain-definition", "/azure.y*ml",
		"_worker.js", "_worker.js/", "/functions/", "/api/**/*.[jt]s", "/api/**/*.[cm][jt]s", "/api/**/*.[jt]sx",
		"/api/**/*.py", "/api/**/*.go", "/api/**/*.rb", ".cpanel.yml", ".deployment", ".ebextensions/",
		"apprunner.yaml", "staticwebapp.config.json", ".htaccess", ".user.ini", "project.toml", ".buildpacks",
	},
	AllowHooks: {
		".githooks/", ".git-hooks/", ".hooks/", ".husky/", ".huskyrc", ".huskyrc.*", "husky.config.*",
		".pre-commit-config.y*ml", ".pre-commit-hooks.y*ml", "lefthook.*", ".lefthook.*", "lefthook-local.*",
		".lefthook-local.*", ".config/lefthook.*", ".config/lefthook-local.*", ".lefthook/", ".lefthook-local/",
		".overcommit.y*ml", ".lintstagedrc", ".lintstagedrc.*", "lint-staged.config.*", ".simple-git-hooks.*",
		"simple-git-hooks.*", "captainhook.json", "grumphp.y*ml", ".commitlintrc", ".commitlintrc.*",
		"commitlint.config.*", ".gitconfig",
		"githooks/", "git-hooks/", ".git_hooks/", "prek.toml", "hk.pkl", ".hk.pkl", ".cargo-husky/",
		".captainhook.json", ".rusty-hook.toml", "rusty-hook.toml", ".hg/", ".sl/", ".jj/",
	},
	AllowEditors: {
		".vscode/", "*.code-workspace", ".devcontainer/", ".devcontainer.json", ".envrc", ".idea/", ".zed/",
		".fleet/", ".vs/", ".exrc", ".nvimrc", ".nvim.lua", ".vimrc", ".vim/", ".dir-locals.el", ".dir-locals-2.el",
		"*.sublime-project", ".mise.toml", "mise.toml", ".mise.*.toml", "mise.*.toml", ".mise/", ".config/mise/",
		".config/mise.toml", ".gitpod.y*ml", ".gitpod.Dockerfile", ".ona/", ".idx/", "devbox.json", ".replit",
		"replit.nix", ".codesandbox/", ".stackblitzrc", ".claude/", ".mcp.json", "mcp.json", ".codex/", ".gemini/",
		".cursor/", ".windsurf/", ".cline/", ".roo/", ".roomodes", ".kiro/", ".continue/", ".aider.conf.y*ml",
		".opencode/", "opencode.json", "opencode.jsonc", ".amazonq/", ".junie/", ".goose/", ".crush.json",
		"crush.json", ".amp/", ".qwen/", ".factory/", ".agents/", ".copilot/", ".github/hooks/",
		".run/", "launch.vs.json", ".nova/", ".externalToolBuilders/", ".theia/", ".lvimrc", ".local.vimrc", ".nvim/",
		".helix/", ".neoconf.json", ".autoenv", ".autoenv.zsh", ".tool-versions", "mise/", ".flox/", "devenv.nix",
		".agent/", ".openhands/", ".opencode.json", ".opencode.jsonc", ".augment/", ".rovodev/", ".claude-plugin/",
		".continuerc.json", ".clinerules/hooks/", "devenv.local.nix", "devenv.y*ml", "tasks.vs.json",
	},
}

// CheckPattern returns an error for what is not a pattern of guarded files: a name, which is looked for in
// each directory, or a path from the top of the repository, with / at its end for a directory. A * matches
// within a name, **/ any number of directories; case does not count.
func CheckPattern(pattern string) error {
	_, err := path.Match(pattern, "")
	if err != nil || strings.Trim(pattern, "/") == "" || strings.Contains(pattern, "//") {
		return fmt.Errorf("%.100q: want a name, or a path from the top of the repository, such as deploy.yml or ci/*.sh; "+
			"a directory ends with /", pattern)
	}
	return nil
}

// matches reports whether a pattern names a path in the form of plainPath, or a directory of it. A link also
// matches in the place of a directory on the way.
func matches(pattern, name string, link bool) bool {
	if before, after, ok := strings.Cut(pattern, "**/"); ok {
		return slices.ContainsFunc(make([]int, strings.Count(name, "/")+2), func(int) bool {
			same := matches(before+after, name, link)
			before += "*/"
			return same
		})
	}
	pattern = strings.ToLower(pattern)
	body, isDir := strings.CutSuffix(pattern, "/")
	want, parts := strings.Split(strings.TrimPrefix(body, "/"), "/"), strings.Split(name, "/")
	ends := 1
	if !strings.Contains(body, "/") {
		ends = len(parts) // of the places at which it may begin
	}
	for at := range ends {
		here := parts[at:]
		whole := len(here) == len(want) && (!isDir || link) || len(here) > len(want) && isDir
		if !whole && (!link || len(here) >= len(want)) {
			continue
		}
		same := true
		for i := range min(len(want), len(here)) {
			ok, err := path.Match(want[i], here[i])
			same = same && (ok && err == nil || isShort(here[i], want[i]))
		}
		if same {
			return true
		}
	}
	return false
}

// guard is a pattern, and why files that it matches are refused.
type guard struct{ pattern, why string }

// guards returns what r does not allow to change.
func (r *Repo) guards() (all []guard) {
	for _, kind := range Allowed {
		if !slices.Contains(r.options.Allow, kind) {
			for _, p := range guarded[kind] {
				all = append(all, guard{p, "makes programs run elsewhere; DOCGAUGE_SITE_AGENT_ALLOW=" + kind + " permits it"})
			}
		}
	}
	for _, p := range r.options.Refuse {
		all = append(all, guard{p, "is one of DOCGAUGE_SITE_AGENT_REFUSE"})
	}
	return all
}

func refuseGuarded(guards []guard, name string, link bool) error {
	plain := plainPath(name)
	for _, g := range guards {
		if matches(g.pattern, plain, link) {
			return refused(name, g.why)
		}
	}
	return nil
}

// behindLinks returns guards of the files that links lead to, where the links are in the place of files that guards
// match, or of directories on the way, and of the links on the way. The links have their targets.
func behindLinks(guards []guard, links map[string]string) (found []guard) {
	targets, seen := map[string]string{}, map[string]bool{}
	for name, target := range links {
		targets[plainPath(name)] = target
	}
	names, literal := slices.Sorted(maps.Keys(targets)), strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)
	for queue := slices.Clone(guards); len(queue) > 0; queue = queue[1:] {
		g := queue[0]
		body, isDir := strings.CutSuffix(g.pattern, "/")
		anchored, want := strings.Contains(body, "/"), strings.Split(strings.TrimPrefix(body, "/"), "/")
		for _, name := range names {
			if !matches(g.pattern, name, true) {
				continue
			}
			why := g.why
			if !strings.HasPrefix(why, throughLink) {
				why = fmt.Sprintf(throughLink+"%.200q, which %s", name, why)
			}
			end, way, ok := follow(name, targets)
			for _, link := range way {
				found = append(found, guard{"/" + literal.Replace(link), why})
			}
			var patterns []string // for which links are looked at again
			top := "/"
			if end != "." {
				top += literal.Replace(end) + "/"
			}
			used := strings.Count(name, "/") + 1 // of the pattern
			if ok && (!anchored || isDir && used >= len(want) || matches(g.pattern, name, false)) {
				patterns = append(patterns, top+"**/*")
				if end != "." {
					patterns = append(patterns, strings.TrimSuffix(top, "/"))
				}
			}
			if i := slices.Index(want, "**"); i >= 0 {
				used = min(used, i)
			}
			if ok && anchored && used < len(want) {
				patterns = append(patterns, top+strings.Join(want[used:], "/")+g.pattern[len(body):])
			}
			for _, p := range patterns {
				if !seen[p] {
					seen[p] = true
					found, queue = append(found, guard{p, why}), append(queue, guard{p, why})
				}
			}
		}
	}
	return found
}

const (
	throughLink = "is read through the link "
	maxFollowed = 40 // links on one way, as in Linux
)

// follow returns where a link leads to, and the links on the way. It fails if that is out of the repository, or
// nowhere. Names have the form of plainPath.
func follow(name string, targets map[string]string) (end string, way []string, ok bool) {
	end = "."
	for rest := strings.Split(name, "/"); len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		if part == ".." {
			if end == "." {
				return end, way, false
			}
			end = path.Dir(end)
			continue
		}
		end = path.Join(end, plainPath(part))
		if target, isLink := targets[end]; isLink {
			if len(way) == maxFollowed || path.IsAbs(target) {
				return end, way, false
			}
			way, end = append(way, end), path.Dir(end)
			rest = slices.Concat(strings.Split(target, "/"), rest)
		}
	}
	return end, way, true
}

// isShort reports whether Windows may give the short name part, such as vscode~1, to a file that want matches:
// its first six letters without dots, or two letters and four digits if there are many.
func isShort(part, want string) bool {
	short := shortForm.FindStringSubmatch(part)
	stem, _, _ := strings.Cut(strings.TrimLeft(want, "."), ".")
	stem = stem[:min(len(stem), 6)]
	return short != nil && stem != "" &&
		(short[1] == stem || hashed.MatchString(short[1]) && short[1][:2] == stem[:min(len(stem), 2)])
}

var (
	shortForm = regexp.MustCompile(`^([^~]{1,6})~[0-9]+(\.[^.]{0,3})?$`)
	hashed    = regexp.MustCompile(`^..[0-9a-f]{4}$`)
)

// ignorable are the characters that macOS ignores in names, as git knows them.
var ignorable = regexp.MustCompile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")

// plainPath returns the path that macOS or Windows may take name for, in lower case. Upper case comes first because
// some lower-case letters, such as the long s, share it with another.
func plainPath(name string) string {
	name = strings.ToLower(strings.ToUpper(norm.NFC.String(ignorable.ReplaceAllString(name, ""))))
	parts := strings.Split(name, "/")
	for i, part := range parts {
		part, _, _ = strings.Cut(part, ":") // a stream of NTFS
		parts[i] = strings.TrimRight(part, " .")
	}
	return strings.Join(parts, "/")
}

// shortName matches the names that Windows gives to .git, .gitmodules and others of git.
var shortName = regexp.MustCompile(`^(git~[0-9]|gi[0-9a-z]{0,4}~[0-9])`)

// device matches the names of devices of Windows.
var device = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$) *([.:].*)?$`)

// unportable returns why some systems cannot check out name; empty = all can.
func unportable(name string) string {
	if !utf8.ValidString(name) {
		return "has a name that is not UTF-8, which macOS cannot check out"
	}
	for part := range strings.SplitSeq(name, "/") {
		control := func(c rune) bool { return c < ' ' || c == 0x7f }
		if strings.ContainsAny(part, `<>:"|?*\`) || strings.ContainsFunc(part, control) ||
			strings.TrimRight(part, " .") != part || device.MatchString(part) {
			return "has a name that Windows cannot check out"
		}
	}
	return ""
}
