package engines

import (
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Git runs git in dir as a person would, without the configuration of the machine or of a hook
// that runs the tests, and returns its output.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Person", "-c", "user.email=person@example.com",
		"-c", "init.defaultBranch=main", "-c", "maintenance.auto=false"}, args...)...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	cmd.Env = append(cmd.Env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// GitRepository makes a repository with a commit of readme.md on main. It sets the environment,
// so that git and the shell that the test's subject runs there have no other configuration.
func GitRepository(t testing.TB) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		Need(t, Missing{Engine: "git", Install: "apt-get install git"})
	}
	for name, value := range map[string]string{"HOME": t.TempDir(), "XDG_CONFIG_HOME": "", "LC_ALL": "C"} {
		t.Setenv(name, value)
	}
	dir = filepath.Join(t.TempDir(), "docs")
	Git(t, ".", "init", "--quiet", dir)
	if err := os.WriteFile(filepath.Join(dir, "readme.md"), []byte("# Docs\n\nHello.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	Git(t, dir, "add", ".")
	Git(t, dir, "commit", "--quiet", "-m", "first")
	return dir
}

// GitServer returns a handler of git over HTTP for the repositories below root. Clients must send authorization.
func GitServer(root, authorization string) (http.Handler, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	backend := &cgi.Handler{Path: program, Args: []string{"http-backend"}, Env: []string{
		"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=agent", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != authorization {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}), nil
}
