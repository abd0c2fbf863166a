package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/ingest"
	"github.com/docgauge/docgauge/internal/site/logs"
	"github.com/docgauge/docgauge/internal/web/server"
)

func (a commands) keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "make, list and revoke the API keys of a site",
		Long: `keys manages the keys with which docgauge export, and others, ask site serve. A
key is of one project, and only its digest is kept in DOCGAUGE_SITE_DIR. Keys
are valid, and revoked, at once, also while site serve runs.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.keysAddCommand(), a.keysListCommand(), a.keysRevokeCommand())
	return cmd
}

func (a commands) keysAddCommand() *cobra.Command {
	var project, scope, source string
	cmd := &cobra.Command{
		Use:   "add",
		Short: "make a key",
		Long: `add makes a key and prints it on standard output, alone and only this once. The
settings for docgauge export go to standard error.

Scopes: read for the numbers (export), write for agent jobs, admin for both.
ingest is for a host that pushes the lines of its log to a source http:NAME, and
for nothing else: the key opens all sources that feed its project alone, or the
one of --source NAME.

` + console.ReadingExitCodes,
		Example: `  docgauge site keys add
  docgauge site keys add --project prj_docs --scope admin >key
  docgauge site keys add --scope ingest --source edge`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.keysAdd(cmd.Context(), project, scope, source) },
	}
	f := cmd.Flags()
	f.StringVar(&project, "project", "", "`project` of the key (default: the only one)")
	f.StringVar(&scope, "scope", api.ScopeRead, "`scope`: read, write, admin or ingest")
	f.StringVar(&source, "source", "", "`name` of the only source http:NAME that a key of scope ingest opens")
	return cmd
}

func (a commands) keysAdd(ctx context.Context, project, scope, source string) (err error) {
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	if !slices.Contains([]string{api.ScopeRead, api.ScopeWrite, api.ScopeAdmin, api.ScopeIngest}, scope) {
		return input.Usagef("--scope %.40q: want read, write, admin or ingest", scope)
	}
	var urls []string // of the sources that the key opens
	if scope == api.ScopeIngest {
		if project, urls, err = a.opened(c, project, source); err != nil {
			return err
		}
	} else if source != "" {
		return input.Usagef("--source: only keys of --scope ingest open a source")
	} else if project, err = a.project(c, project); err != nil {
		return err
	}
	store, err := attach(c.SiteDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	key, secret, err := store.AddAPIKey(ctx, project, scope, source, a.Now())
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(a.Out, secret); err != nil {
		// The secret was not shown to anyone.
		_, revoked := store.RevokeAPIKey(context.WithoutCancel(ctx), key.ID)
		return errors.Join(err, revoked)
	}
	if scope == api.ScopeIngest {
		a.Note("key %s, scope %s. It opens, as Authorization: Bearer (the key) or X-Docgauge-Key: (the key),\n  POST %s",
			key.ID, scope, strings.Join(urls, "\n  POST "))
		return nil
	}
	variable := "DOCGAUGE_API_KEY"
	if scope == api.ScopeWrite {
		variable = "DOCGAUGE_WRITE_API_KEY"
	}
	a.Note("key %s, scope %s. The settings of docgauge export:\n"+
		"  DOCGAUGE_BASE_URL=%s\n  DOCGAUGE_PROJECTS=%s\n  %s=(the key)\n  DOCGAUGE_REPORTS=%s\n  DOCGAUGE_BUDGET=0",
		key.ID, scope, apiURL(c), project, variable, strings.Join(config.ReportNames(), ","))
	return nil
}

// attach opens the directory of a site, also before the first site serve.
func attach(dir string) (*facts.Store, error) {
	const patience, pause = 10 * time.Second, 20 * time.Millisecond
	for began := time.Now(); ; time.Sleep(pause) {
		store, err := facts.Attach(dir)
		if errors.Is(err, facts.ErrMissing) {
			store, err = facts.Open(dir)
		}
		if errors.Is(err, facts.ErrLocked) && time.Since(began) < patience {
			continue // a site serve is just creating it
		}
		if err != nil {
			return nil, fmt.Errorf("DOCGAUGE_SITE_DIR: %w", err)
		}
		return store, nil
	}
}

// project returns a project of the site; name can be empty if it has only one.
func (a commands) project(c config.Config, name string) (string, error) {
	s, err := a.readSettings(c)
	if err != nil {
		return "", err
	}
	if len(s.sources) == 0 { // the logs do not matter yet
		s.sources = []logs.Source{{}}
	}
	known := s.rules.Projects(s.sources)
	switch {
	case name == "" && len(known) == 1:
		return known[0], nil
	case name == "":
		return "", input.Usagef("--project: name one of %s", strings.Join(known, ", "))
	case !slices.Contains(known, name):
		return "", input.Usagef("--project %.140q: the site has %s; DOCGAUGE_SITE_PROJECTS names them", name,
			strings.Join(known, ", "))
	}
	return name, nil
}

// opened returns the project of a key that opens a source, or all that feed a project alone, and their URLs. The project
// is empty if the source feeds several.
func (a commands) opened(c config.Config, project, source string) (owner string, urls []string, err error) {
	s, err := a.readSettings(c)
	if err != nil {
		return "", nil, err
	}
	known, pushed := s.rules.Projects(s.sources), []string{}
	url := func(name string) string {
		return urlOf(c, cmp.Or(c.SiteIngestAddress, c.SiteListenAddress)) + ingest.Prefix + name
	}
	if source == "" {
		if project, err = a.project(c, project); err != nil {
			return "", nil, err
		}
	}
	for _, one := range s.sources {
		name, ok := one.Pushed()
		if !ok {
			continue
		}
		pushed = append(pushed, name)
		if one.Project == "" && len(known) == 1 {
			one.Project = known[0]
		}
		switch {
		case source == "" && one.Project == project:
			urls = append(urls, url(name))
		case source == "" || source != name:
		case project != "" && one.Project != project:
			return "", nil, input.Usagef("--project %.140q: http:%s does not feed it alone: leave --project out", project, name)
		default:
			return one.Project, []string{url(name)}, nil
		}
	}
	switch {
	case source != "":
		return "", nil, input.Usagef("--source %.64q: DOCGAUGE_SITE_LOGS has no source http:NAME of that name, but %s", source,
			cmp.Or(strings.Join(pushed, ", "), "none at all"))
	case len(urls) == 0:
		return "", nil, input.Usagef("--scope ingest: DOCGAUGE_SITE_LOGS has no source http:NAME that feeds %s alone: "+
			"add one, or name a source by --source", project)
	}
	return project, urls, nil
}

// apiURL is where clients reach the API, as far as the settings tell.
func apiURL(c config.Config) string { return urlOf(c, c.SiteListenAddress) }

// urlOf is where clients reach an address of site serve, as far as the settings tell.
func urlOf(c config.Config, address string) string {
	host, port, _ := net.SplitHostPort(address)
	scheme := "http"
	if tls, err := server.UsesTLS(c.WebConfigFile); err == nil && tls {
		scheme = "https"
	}
	switch addr, err := netip.ParseAddr(host); {
	case c.SiteTrustedProxies != "":
		return "https://(the name of the proxy)"
	case host == "" || err == nil && addr.IsUnspecified():
		return scheme + "://" + net.JoinHostPort("(the name of this machine)", port)
	}
	return scheme + "://" + address
}

func (a commands) keysListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list the keys, without their secrets",
		Long:  "list prints the keys of all projects, without their secrets.\n\n" + console.ReadingExitCodes,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(func(store *facts.Store) error {
				keys, err := store.APIKeys(cmd.Context())
				if err != nil {
					return err
				}
				return a.Print(asJSON, append([]facts.APIKey{}, keys...), func() error {
					if len(keys) == 0 {
						a.Note("there is no key: docgauge site keys add")
						return nil
					}
					t := render.NewTable(render.Column{Name: "id"}, render.Column{Name: "project"},
						render.Column{Name: "scope"}, render.Column{Name: "source"}, render.Column{Name: "made on"})
					for _, k := range keys {
						t.Add(k.ID, cmp.Or(k.Project, "-"), k.Scope, cmp.Or(k.Source, "-"), k.Created.Format(time.DateOnly))
					}
					return t.Print(a.Out)
				})
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a commands) keysRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "revoke ID",
		Short:   "remove a key, at once",
		Long:    "revoke removes a key: the next request with it is refused.\n\n" + console.ReadingExitCodes,
		Example: "  docgauge site keys list\n  docgauge site keys revoke k3vq7w2a",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return input.Usage(errors.New("name one key by its id: docgauge site keys list shows them"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(func(store *facts.Store) error {
				found, err := store.RevokeAPIKey(cmd.Context(), args[0])
				if err == nil && !found {
					err = input.Usagef("no key has the id %.40q: docgauge site keys list shows them", args[0])
				}
				return err
			})
		},
	}
}

// withStore opens the directory of the site beside a running site serve.
func (a commands) withStore(do func(*facts.Store) error) (err error) {
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	store, err := facts.Attach(c.SiteDir)
	if err != nil {
		return fmt.Errorf("DOCGAUGE_SITE_DIR: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return do(store)
}
