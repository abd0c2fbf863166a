package app

import (
	"slices"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/pulls"
)

// Pulls follows the pull requests of the jobs.
type Pulls struct {
	*pulls.Follower
	// Host is the client that it asks.
	Host *codehost.Client
	// Tokens are those of the code hosts that are set.
	Tokens []*Keyring
}

// NewPulls makes what follows the pull requests; nothing is sent.
func (a *App) NewPulls() (*Pulls, error) {
	c := a.Config
	github := newKeyring("DOCGAUGE_GITHUB_TOKEN", c.GitHubToken, c.SecretFiles, config.IsToken)
	gitlab := newKeyring("DOCGAUGE_GITLAB_TOKEN", c.GitLabToken, c.SecretFiles, config.IsToken)
	gitea := newKeyring("DOCGAUGE_GITEA_TOKEN", c.GiteaToken, c.SecretFiles, config.IsToken)
	host, err := codehost.New(codehost.Options{
		GitHubURL: c.GitHubURL, GitLabURL: c.GitLabURL, GiteaURL: c.GiteaURL,
		UserAgent: "docgauge/" + c.Build.Version, Now: a.Now,
		GitHubToken: func() (string, error) { return github.Get(), nil },
		GitLabToken: func() (string, error) { return gitlab.Get(), nil },
		GiteaToken:  func() (string, error) { return gitea.Get(), nil },
	})
	if err != nil {
		return nil, config.Problems{err.Error()}
	}
	set := slices.DeleteFunc([]*Keyring{github, gitlab, gitea}, func(k *Keyring) bool { return k.Get() == "" })
	return &Pulls{pulls.New(a.State, host, a.Now), host, set}, nil
}
