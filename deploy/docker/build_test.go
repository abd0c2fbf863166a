package docker

import (
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// image is what the Dockerfile makes, laid out in a directory.
type image struct {
	root     string
	final    stage
	uid, gid int
}

// build does what `docker build` would: it runs the commands of the first stage
// on a copy of the tree, and copies from there as the second stage says. What
// base images hold is not there.
func build(t *testing.T) image {
	t.Helper()
	all := stages(t)
	src, out := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "out")
	var env []string
	for _, i := range all[0] {
		switch i.Name {
		case "ARG":
			env = append(env, stage{i}.environment("ARG")...)
		case "COPY":
			copyContext(t, src, i.words())
		case "RUN":
			runBuild(t, src, strings.ReplaceAll(i.Text, "/out/", out+"/"), env)
		}
	}
	made := image{root: t.TempDir(), final: all[1]}
	user, group, _ := strings.Cut(all[1].all("USER")[0].Text, ":")
	made.uid, _ = strconv.Atoi(user)
	made.gid, _ = strconv.Atoi(group)
	for _, i := range all[1].all("COPY") {
		words := i.words()
		made.copyOut(t, strings.Replace(words[0], "/out/", out+"/", 1), words[1], i.flag("chown"))
	}
	return made
}

// copyContext copies what .dockerignore leaves: COPY a b ./ and COPY . .
func copyContext(t *testing.T, src string, words []string) {
	t.Helper()
	ignored := readIgnore(t)
	for _, from := range words[:len(words)-1] {
		err := filepath.WalkDir(filepath.Join(root, from), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			below, err := filepath.Rel(root, path)
			if err != nil || below == "." {
				return err
			}
			if ignored(filepath.ToSlash(below)) {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			return copyFile(path, filepath.Join(src, below), d)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func copyFile(from, to string, d fs.DirEntry) error {
	if d.IsDir() {
		return os.MkdirAll(to, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

func runBuild(t *testing.T, dir, command string, env []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("RUN %s: %v\n%s", command, err, out)
	}
}

// copyOut is COPY --from=build: a file, or with a slash at its end what is below
// a directory, with the rights it has there.
func (m image) copyOut(t *testing.T, from, to, owner string) {
	t.Helper()
	to = filepath.Join(m.root, to)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"-R", "--preserve=mode", from, to}
	if strings.HasSuffix(from, "/") {
		args[2] = from + "."
		if err := os.MkdirAll(to, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("cp", args...).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
	if owner == "" || os.Geteuid() != 0 {
		return
	}
	entries, err := os.ReadDir(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if out, err := exec.Command("chown", "-R", owner, filepath.Join(to, entry.Name())).CombinedOutput(); err != nil {
			t.Fatalf("chown: %v\n%s", err, out)
		}
	}
}

// static: the image has no loader and no library.
func (m image) static(t *testing.T, program string) {
	t.Helper()
	file, err := elf.Open(filepath.Join(m.root, program))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	if err != nil || len(libraries) > 0 {
		t.Errorf("%s needs the libraries %v: %v", program, libraries, err)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s needs a loader", program)
		}
	}
}
