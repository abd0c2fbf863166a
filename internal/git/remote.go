package git

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Remote reaches a remote of the repository of Client. An agent can write the configuration and the hooks of the
// repository and of the user. Git would run the programs they name (pushurl, insteadOf, sshCommand, helpers), or ask
// their proxies, with the token in its environment. So git reaches the remote from a repository made for one call
// below Temp: it has no configuration but TrustOwners, no hooks or attributes, only the objects of the other one.
type Remote struct {
	Client Client
	Temp   string // directory
	// URL is where Login is for: it returns the prefix of the URLs of a host, and a user and password for git over HTTPS
	// there. nil = none.
	URL   string
	Login func() (prefix, user, password string, err error)
}

// At calls do with git in a repository made for this call, in which ref is at commit, unless
// that is empty.
func (r Remote) At(ctx context.Context, ref, commit string, do func(Client) error) (err error) {
	clean, err := os.MkdirTemp(r.Temp, "remote-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(clean)) }()
	format, err := r.Client.Run(ctx, "rev-parse", "--show-object-format")
	if err != nil {
		return err
	}
	common, err := r.Client.Run(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return err
	}
	g := Client{Program: r.Client.Program, Dir: r.Client.Dir, Env: Environment(Ordinary, network), Lock: r.Client.Lock}
	trust, err := TrustOwners(filepath.Join(clean, "trust"))
	if err != nil {
		return err
	}
	g = g.With(Clean(clean)...).With("GIT_ALLOW_PROTOCOL=https:http:ssh:file", trust)
	if _, err := g.Run(ctx, "init", "--quiet", "--bare", "--template=", "--object-format="+format); err != nil {
		return err
	}
	g = g.With("GIT_OBJECT_DIRECTORY=" + filepath.Join(common, "objects"))
	shallow := filepath.Join(common, "shallow")
	if info, err := os.Stat(shallow); err == nil && info.Mode().IsRegular() {
		g = g.With("GIT_SHALLOW_FILE=" + shallow)
	}
	if commit != "" {
		if _, err := g.Run(ctx, "update-ref", ref, commit); err != nil {
			return err
		}
	}
	credentials, err := r.credentials()
	if err != nil {
		return err
	}
	return do(g.With(credentials...))
}

// credentials returns those for the remote as environment, because anyone can see arguments. A
// remote that they are not for gets none: ssh, for one, passes its environment to what the
// user's configuration names.
func (r Remote) credentials() (env []string, err error) {
	if r.Login == nil {
		return nil, nil
	}
	prefix, user, password, err := r.Login()
	if err != nil {
		return nil, err
	}
	remote, err := url.Parse(r.URL)
	if err != nil {
		return nil, nil //nolint:nilerr // a path, or host:path of ssh
	}
	remote.Host = strings.ToLower(remote.Host)
	if remote.User = nil; !strings.HasPrefix(remote.String(), prefix) {
		return nil, nil
	}
	return []string{"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=credential." + strings.TrimSuffix(prefix, "/") + ".helper",
		"GIT_CONFIG_VALUE_0=" + loginHelper, "GIT_LOGIN_USER=" + user, "GIT_LOGIN_PASSWORD=" + password,
		// A password in the URL would come first.
		"GIT_CONFIG_KEY_1=url." + remote.String() + ".insteadOf", "GIT_CONFIG_VALUE_1=" + r.URL}, nil
}

// loginHelper tells git the user and the password where the prefix asks for them. As a header of git they would go to
// the host of a redirect, too.
const loginHelper = `!printf 'username=%s\npassword=%s\n' "$GIT_LOGIN_USER" "$GIT_LOGIN_PASSWORD"; :`

// Fetch brings the commits of ref at a remote here and returns the newest. If commit is not empty,
// that is where the ref is here.
func (r Remote) Fetch(ctx context.Context, remote, ref, commit string) (fetched string, err error) {
	err = r.At(ctx, ref, commit, func(g Client) (err error) {
		_, err = g.Run(ctx, "fetch", "--quiet", "--no-tags", "--recurse-submodules=no", "--", remote, ref)
		if err == nil {
			fetched, err = g.Run(ctx, "rev-parse", "--verify", "FETCH_HEAD")
		}
		return err
	})
	return fetched, err
}

// DefaultBranch returns the branch that HEAD of a remote names.
func (r Remote) DefaultBranch(ctx context.Context, remote string) (branch string, err error) {
	err = r.At(ctx, "", "", func(g Client) error {
		said, err := g.Run(ctx, "ls-remote", "--symref", "--", remote, "HEAD")
		// "ref: refs/heads/main\tHEAD"
		line, _, _ := strings.Cut(said, "\t")
		branch = strings.TrimPrefix(line, "ref: refs/heads/")
		if err == nil && branch == line {
			err = errors.New("has no default branch; name the one that pull requests are for: URL#branch")
		}
		return err
	})
	return branch, err
}

// passing are messages of git about errors that may pass: the remote was not reached, did not finish, or has too
// much to do. status has the HTTP status, if there is one.
var (
	passing = regexp.MustCompile(`(?i)could ?n[o']t (resolve|connect)|connection (was )?(refused|reset|closed)|` +
		`failed to connect|timed out|temporary failure|broken pipe|early eof|empty reply|(recv|send) failure|` +
		`operation too slow|unexpected disconnect|hung up unexpectedly|was not closed cleanly|bytes remaining to read|` +
		`(SSL|TLS|GnuTLS).*(EOF|terminated)|network is unreachable|no route to host`)
	status = regexp.MustCompile(`returned error: ([0-9]{3})|HTTP ([0-9]{3})`)
	// raced is what a server says to a push that another one, which may be ours without its answer, has overtaken.
	raced = regexp.MustCompile(`reference already exists|cannot lock ref|failed to (update|lock) ref|` +
		`incorrect old value`)
)

// Again reports whether to try git at a remote again. A push that is tried again finds what the one before has done:
// the remote says first where its branches are.
func Again(err error, n int) (time.Duration, bool) {
	failed, ok := errors.AsType[Error](err)
	if !ok {
		return 0, false
	}
	code := ""
	for _, found := range status.FindAllStringSubmatch(failed.Message, -1) {
		code = found[1] + found[2]
	}
	switch {
	case raced.MatchString(failed.Message):
		return 0, n == 1
	case strings.Contains(failed.Message, "rejected]"):
		return 0, false
	case code != "":
		return 0, code == "408" || code == "429" || code[0] == '5'
	}
	return 0, errors.Is(failed, context.DeadlineExceeded) && n == 1 || passing.MatchString(failed.Message)
}
