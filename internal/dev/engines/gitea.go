package engines

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// GiteaVersion is the version that install.sh builds.
const GiteaVersion = "1.26.0"

// GiteaUser is the administrator of a Gitea.
const GiteaUser = "keeper"

// Gitea is a running code host, with pages without styles and scripts: its Go module does not have them.
type Gitea struct {
	process
	URL      string // http://127.0.0.1:PORT
	password string // of GiteaUser
	config   string
}

// giteaConfig is the configuration; its arguments are the working directory, the user, the static files, URL and port.
const giteaConfig = `WORK_PATH = %[1]s
RUN_USER = %[2]s
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
STATIC_ROOT_PATH = %[3]s
ROOT_URL = %[4]s/
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %[5]d
DISABLE_SSH = true
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
PATH = %[1]s/gitea.db
SQLITE_JOURNAL_MODE = WAL
[security]
INSTALL_LOCK = true
[cron]
ENABLED = false
[actions]
ENABLED = false
[log]
LEVEL = Warn
`

// RunGitea starts a Gitea for one test, and makes its user.
func RunGitea(t testing.TB) *Gitea {
	t.Helper()
	g := run(t, func(dir string) (*Gitea, error) { return start(dir, 1, newGitea) })
	out, err := exec.Command(g.argv[0], "--config", g.config, "admin", "user", "create", "--admin", "--username", GiteaUser,
		"--password", g.password, "--email", GiteaUser+"@example.com", "--must-change-password=false").CombinedOutput()
	if err != nil {
		t.Fatalf("make a user of Gitea: %v\n%s", err, out)
	}
	return g
}

// newGitea writes the configuration of a server and does not start it.
func newGitea(dir string, ports []int) (*Gitea, error) {
	static := filepath.Join(Tools(), "gitea")
	program, err := filepath.Abs(filepath.Join(static, "gitea"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		return nil, Missing{Engine: "Gitea " + GiteaVersion, Install: "sh internal/dev/engines/install.sh gitea"}
	}
	we, err := user.Current()
	if err != nil {
		return nil, err
	}
	g := &Gitea{URL: "http://" + loopback(ports[0]), password: rand.Text(), config: filepath.Join(dir, "app.ini")}
	g.process = process{name: "gitea", argv: []string{program, "--config", g.config, "web"}, dir: dir, ports: ports,
		ready: answers(g.URL+"/api/v1/version", `{"version":"`+GiteaVersion+`"}`)}
	return g, write(g.config, fmt.Sprintf(giteaConfig, dir, we.Username, filepath.Dir(program), g.URL, ports[0]))
}

// Call sends a request to the API as a user, GiteaUser if as is empty, and reads the answer unless answer is nil. A status
// other than 2xx ends the test. What Gitea says to try again, such as a merge while it looks for conflicts, is tried for a
// minute.
func (g *Gitea) Call(t testing.TB, as, method, path string, body, answer any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		r, err := http.NewRequestWithContext(t.Context(), method, g.URL+"/api/v1"+path, bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth(GiteaUser, g.password)
		r.Header.Set("Content-Type", "application/json")
		if as != "" {
			r.Header.Set("Sudo", as)
		}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if strings.Contains(string(got), "try again later") && time.Now().Before(end) {
			continue
		}
		if err == nil && answer != nil {
			err = json.Unmarshal(got, answer)
		}
		if err != nil || response.StatusCode/100 != 2 {
			t.Fatalf("%s %s: %s, %v: %s", method, path, response.Status, err, got)
		}
		return
	}
}

// Token makes a token of GiteaUser with scopes, such as read:repository.
func (g *Gitea) Token(t testing.TB, scopes ...string) string {
	t.Helper()
	var token struct {
		Text string `json:"sha1"`
	}
	g.Call(t, "", http.MethodPost, "/users/"+GiteaUser+"/tokens", object{"name": rand.Text(), "scopes": scopes}, &token)
	return token.Text
}

// Repository makes a repository of GiteaUser with the branch main of the repository in dir, and returns its URL.
func (g *Gitea) Repository(t testing.TB, name, dir string) (url string) {
	t.Helper()
	g.Call(t, "", http.MethodPost, "/user/repos", object{"name": name, "default_branch": "main"}, nil)
	url = g.URL + "/" + GiteaUser + "/" + name
	login := strings.Replace(url, "://", "://"+GiteaUser+":"+g.password+"@", 1)
	Git(t, dir, "push", "--quiet", login, "main")
	return url
}
