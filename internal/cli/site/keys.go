package site

import (
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
	var project, scope string
	cmd := &cobra.Command{
		Use:   "add",
		Short: "make a key",
		Long: `add makes a key and prints it on standard output, alone and only this once. The
settings for docgauge export go to standard error.

Scopes: read for the numbers (export), write for agent jobs, admin for both.

` + console.ReadingExitCodes,
		Example: `  docgauge site keys add
  docgauge site keys add --project prj_docs --scope admin >key`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.keysAdd(cmd.Context(), project, scope) },
	}
	f := cmd.Flags()
	f.StringVar(&project, "project", "", "`project` of the key (default: the only one)")
	f.StringVar(&scope, "scope", api.ScopeRead, "`scope`: read, write or admin")
	return cmd
}

func (a commands) keysAdd(ctx context.Context, project, scope string) (err error) {
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	if !slices.Contains([]string{api.ScopeRead, api.ScopeWrite, api.ScopeAdmin}, scope) {
		return input.Usagef("--scope %.40q: want read, write or admin", scope)
	}
	if project, err = a.project(c, project); err != nil {
		return err
	}
	store, err := attach(c.SiteDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	key, secret, err := store.AddAPIKey(ctx, project, scope, a.Now())
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(a.Out, secret); err != nil {
		// Nobody has seen it.
		_, revoked := store.RevokeAPIKey(context.WithoutCancel(ctx), key.ID)
		return errors.Join(err, revoked)
	}
	variable := "DOCGAUGE_API_KEY"
	if scope == api.ScopeWrite {
		variable = "DOCGAUGE_WRITE_API_KEY"
	}
	a.Note("key %s, scope %s. The settings of docgauge export:\n"+
		"  DOCGAUGE_BASE_URL=%s\n  DOCGAUGE_PROJECTS=%s\n  %s=(the key)\n  DOCGAUGE_BUDGET=0",
		key.ID, scope, apiURL(c), project, variable)
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

// apiURL is where clients reach the API, as far as the settings tell.
func apiURL(c config.Config) string {
	host, port, _ := net.SplitHostPort(c.SiteListenAddress)
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
	return scheme + "://" + c.SiteListenAddress
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
						render.Column{Name: "scope"}, render.Column{Name: "made on"})
					for _, k := range keys {
						t.Add(k.ID, k.Project, k.Scope, k.Created.Format(time.DateOnly))
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
