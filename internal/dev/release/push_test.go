package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// hub is a registry in this process that drops uploads as fault says.
type hub struct {
	*httptest.Server
	fault func(upload int) string // "cut", "refuse", "lose", or empty

	uploads atomic.Int64
	lock    sync.Mutex
	tags    []string // set so far
	want    []v1.Descriptor
	broken  error // a tag that was set before everything was there
}

func newHub(t *testing.T, fault func(upload int) string) *hub {
	h := &hub{fault: fault}
	inner := registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0)))
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case strings.Contains(q.URL.Path, "/blobs/uploads/") && q.Method == http.MethodPut:
			switch h.fault(int(h.uploads.Add(1))) {
			case "cut":
				panic(http.ErrAbortHandler)
			case "refuse":
				http.Error(w, "busy", http.StatusServiceUnavailable)
				return
			case "lose":
				w.WriteHeader(http.StatusCreated)
				return
			}
		case strings.Contains(q.URL.Path, "/manifests/") && q.Method == http.MethodPut && !strings.Contains(q.URL.Path, "sha256:"):
			h.tagged(q, inner)
		}
		inner.ServeHTTP(w, q)
	}))
	h.Start()
	t.Cleanup(h.Close)
	return h
}

// tagged notes whether all blobs are there when a tag is set.
func (h *hub) tagged(q *http.Request, inner http.Handler) {
	repository, tag, _ := strings.Cut(q.URL.Path, "/manifests/")
	h.lock.Lock()
	defer h.lock.Unlock()
	h.tags = append(h.tags, tag)
	for _, blob := range h.want {
		answer := httptest.NewRecorder()
		inner.ServeHTTP(answer, httptest.NewRequest(http.MethodHead, repository+"/blobs/"+blob.Digest.String(), nil))
		if answer.Code != http.StatusOK {
			h.broken = errors.Join(h.broken, fmt.Errorf("tag %s was set without blob %s", tag, blob.Digest))
		}
	}
}

func (h *hub) repository(t *testing.T, path string) name.Repository {
	t.Helper()
	r, err := name.NewRepository(strings.TrimPrefix(h.URL, "http://") + "/" + path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// never drops nothing.
func never(int) string { return "" }

// small is the image of two machines, with programs that nobody can run.
func small(t *testing.T) (layout []byte, a *artifact) {
	t.Helper()
	r := release{root: "../../..", out: t.TempDir(), version: "v1.2.3+new", commit: "c0ffee", at: commitTime, log: t.Output()}
	var parts []part
	for _, machine := range []string{"amd64", "arm64"} {
		parts = append(parts, part{target{"linux", machine}, []file{
			{name: "docgauge", mode: 0o755, data: []byte(machine)}, {name: "LICENSE"}, {name: "THIRD_PARTY_LICENSES"},
		}, []byte("SBOM of " + machine)})
	}
	if err := r.image(t.Context(), parts); err != nil {
		t.Fatal(err)
	}
	layout, err := os.ReadFile(filepath.Join(r.out, "docgauge_1.2.3+new_image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	if a, err = readLayout(layout); err != nil {
		t.Fatal(err)
	}
	return layout, a
}

// TestPush: whatever a registry drops, a push ends complete, or says so without a tag;
// repeating it then completes it.
func TestPush(t *testing.T) {
	_, image := small(t)
	for title, tc := range map[string]struct {
		fault func(int) string
		fails bool
	}{
		"nothing is dropped":              {never, false},
		"connections are cut":             {func(n int) string { return []string{"cut", ""}[n%2] }, false},
		"uploads are refused for a while": {func(n int) string { return map[bool]string{true: "refuse"}[n < 4] }, false},
		"uploads are lost":                {func(n int) string { return []string{"lose", ""}[n%2] }, false},
		"every upload is lost":            {func(int) string { return "lose" }, true},
		"every upload is refused":         {func(int) string { return "refuse" }, true},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, tc.fault)
			h.want = image.blobs
			to := h.repository(t, "docgauge/docgauge")
			err := image.push(t.Context(), to, time.Microsecond)
			if (err != nil) != tc.fails {
				t.Fatalf("push: %v", err)
			}
			if tc.fails {
				if !strings.Contains(err.Error(), "push again") || len(h.tags) > 0 {
					t.Errorf("after a push that failed: tags %q, %v", h.tags, err)
				}
				h.fault = never
				if err := image.push(t.Context(), to, time.Microsecond); err != nil {
					t.Errorf("the second push: %v", err)
				}
			}
			if h.broken != nil || !slices.Equal(h.tags, []string{"1.2.3_new"}) {
				t.Errorf("tags %q: %v", h.tags, h.broken)
			}
			index, err := remote.Index(to.Tag("1.2.3_new"))
			if err != nil {
				t.Fatal(err)
			}
			if err := validate.Index(index); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDamagedLayout: what is no image, or no longer one, is refused before anything is sent.
func TestDamagedLayout(t *testing.T) {
	layout, _ := small(t)
	for text, data := range map[string][]byte{
		"another sum":   bytes.Replace(layout, []byte("SBOM of"), []byte("SBOM 0f"), 1),
		"no OCI layout": make([]byte, 1024),
	} {
		if _, err := readLayout(data); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s", err, text)
		}
	}
	for _, args := range [][]string{{}, {"a.tar"}, {"absent.tar", "127.0.0.1:1/x"}} {
		if err := pushCommand(t.Context(), args); err == nil || !strings.Contains(err.Error(), "push") {
			t.Errorf("push %q: %v", args, err)
		}
	}
}

// TestImageIsThatOfTheDockerfile: both say the same to those who run them.
func TestImageIsThatOfTheDockerfile(t *testing.T) {
	_, a := small(t)
	text, err := os.ReadFile("../../../deploy/docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, final, _ := strings.Cut(strings.ReplaceAll(string(text), "\\\n", " "), "\nFROM gcr.io")
	instruction := func(name string) string {
		found := regexp.MustCompile(`(?m)^`+name+` +(.*)$`).FindAllStringSubmatch(final, -1)
		if len(found) != 1 {
			t.Fatalf("%d %s", len(found), name)
		}
		return strings.Join(strings.Fields(found[0][1]), " ")
	}
	var platforms []string
	for _, desc := range a.manifests {
		var m v1.Manifest
		var file v1.ConfigFile
		if err := json.Unmarshal(a.store[desc.Digest], &m); err != nil {
			t.Fatal(err)
		}
		if desc.Platform == nil {
			continue // an SBOM, or the index
		}
		if err := json.Unmarshal(a.store[m.Config.Digest], &file); err != nil {
			t.Fatal(err)
		}
		platforms = append(platforms, file.OS+"/"+file.Architecture)
		c := file.Config
		form := func(argv []string) string { return `["` + strings.Join(argv, `", "`) + `"]` }
		for name, got := range map[string]string{
			"USER": c.User, "WORKDIR": c.WorkingDir, "ENTRYPOINT": form(c.Entrypoint), "CMD": form(c.Cmd), "STOPSIGNAL": c.StopSignal,
			"ENV":         strings.Join(c.Env[2:], " "), // without what distroless sets
			"HEALTHCHECK": fmt.Sprintf("--interval=%.0fs --timeout=%.0fs --start-period=%.0fs --retries=%d CMD %s", c.Healthcheck.Interval.Seconds(), c.Healthcheck.Timeout.Seconds(), c.Healthcheck.StartPeriod.Seconds(), c.Healthcheck.Retries, form(c.Healthcheck.Test[1:])),
		} {
			if want := instruction(name); got != want {
				t.Errorf("%s is %s, and that of the Dockerfile %s", name, got, want)
			}
		}
		for _, label := range regexp.MustCompile(`(\S+)="([^"]*)"`).FindAllStringSubmatch(instruction("LABEL"), -1) {
			if want := strings.NewReplacer("$VERSION", "v1.2.3+new", "$COMMIT", "c0ffee").Replace(label[2]); c.Labels[label[1]] != want {
				t.Errorf("label %s is %q, and that of the Dockerfile %q", label[1], c.Labels[label[1]], want)
			}
		}
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("platforms %q", platforms)
	}
}

// checkImage pushes the released image to a registry that drops uploads, pulls it,
// unpacks it into a directory, and runs it there.
func checkImage(t *testing.T, layout, sbom []byte) {
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, layout, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := readArtifact(file)
	if err != nil {
		t.Fatal(err)
	}
	h := newHub(t, func(n int) string { return []string{"lose", "", "cut", ""}[n%4] })
	h.want = a.blobs
	a.tags = append(a.tags, "1.2")
	to := h.repository(t, "docgauge")
	if err := a.push(t.Context(), to, time.Microsecond); err != nil || h.broken != nil {
		t.Fatal(err, h.broken)
	}
	index, err := remote.Index(to.Tag("1.2"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	attached, err := remote.Referrers(to.Digest(manifest.Manifests[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := attached.IndexManifest()
	if err != nil || len(referrers.Manifests) != 1 {
		t.Fatalf("%v, %v: want one SBOM", referrers, err)
	}
	bom, err := remote.Image(to.Digest(referrers.Manifests[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := bom.Manifest(); err != nil || m.ArtifactType != sbomType {
		t.Errorf("the SBOM is %v, %v", m, err)
	}
	layers, err := bom.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatal(layers, err)
	}
	in, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(in); err != nil || !bytes.Equal(text, sbom) {
		t.Errorf("the SBOM that is attached is not that of the release: %v", err)
	}
	t.Run("runs", func(t *testing.T) { runImage(t, image) })
}

// runImage does what a container engine does: as the image's user and with its
// environment, below a root directory that has its files and nothing else.
func runImage(t *testing.T, image v1.Image) {
	m := newMachine(t)
	if err := os.RemoveAll(m.root); err != nil {
		t.Fatal(err)
	}
	files := mutate.Extract(image)
	defer files.Close()
	extract(t, files, m.root)
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	at, port := engines.Sandbox(t, filepath.Join(m.root, "docgauge")), engines.FreePort(t)
	env := append(slices.Clone(c.Env), fmt.Sprintf("DOCGAUGE_LISTEN_ADDRESS=0.0.0.0:%d", port), "TZ=Asia/Kolkata",
		"DOCGAUGE_SINCE="+time.Now().AddDate(0, 0, -3).UTC().Format(time.DateOnly))
	for name, value := range at {
		env = append(env, name+"="+value)
	}
	inside := func(argv ...string) *exec.Cmd { return m.command(t, nonroot, nonroot, env, argv...) }
	if said := run(t, inside("/docgauge", "version")); !strings.Contains(said, "v1.2.3-rc.1") {
		t.Errorf("the image is another version: %s", said)
	}
	d := startDaemon(t, inside(slices.Concat(c.Entrypoint, c.Cmd, []string{"--once-at-start"})...), port)
	run(t, inside(c.Healthcheck.Test[1:]...))
	for end := time.Now().Add(patience); inside("/docgauge", "healthcheck", "--ready").Run() != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not ready")
		}
	}
	if got := d.scrape(t, "docgauge_windows_committed_total"); !strings.Contains(got, `sink="parquet"`) {
		t.Errorf("committed: %s", got)
	}
	if d.stop(t); strings.Contains(d.log.String(), "unknown time zone") {
		t.Errorf("no time zones:\n%s", d.log)
	}
	roots := m.read(t, "etc/ssl/certs/ca-certificates.crt")
	if n := strings.Count(roots, "BEGIN CERTIFICATE"); n < 100 || !m.has("usr/share/zoneinfo/Asia/Kolkata") {
		t.Errorf("%d roots, time zones %v", n, m.has("usr/share/zoneinfo/Asia/Kolkata"))
	}
}

// extract unpacks a tar archive with owners and modes.
func extract(t *testing.T, from io.Reader, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(from); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(to, h.Name)
		err = os.MkdirAll(filepath.Dir(at), 0o755)
		if h.Typeflag == tar.TypeDir {
			err = errors.Join(err, os.MkdirAll(at, 0o755))
		} else {
			data, failure := io.ReadAll(archive)
			err = errors.Join(err, failure, os.WriteFile(at, data, 0o600))
		}
		if err = errors.Join(err, os.Chown(at, h.Uid, h.Gid), os.Chmod(at, h.FileInfo().Mode())); err != nil {
			t.Fatal(err)
		}
	}
}

// checkChart pushes the chart as helm does, and helm pulls and renders it.
func checkChart(t *testing.T, chart []byte) {
	a, err := chartArtifact(chart)
	if err != nil {
		t.Fatal(err)
	}
	h := newHub(t, func(n int) string { return []string{"cut", "lose", ""}[min(n-1, 2)] })
	h.want = a.blobs
	to := h.repository(t, "charts/docgauge")
	if err := a.push(t.Context(), to, time.Microsecond); err != nil || h.broken != nil {
		t.Fatal(err, h.broken)
	}
	dir, home := t.TempDir(), t.TempDir()
	helm := func(args ...string) string {
		cmd, err := engines.Tool(t.Context(), "helm", args...)
		engines.Need(t, err)
		cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
		return run(t, cmd)
	}
	helm("pull", "oci://"+to.Name(), "--version", "1.2.3-rc.1", "--plain-http", "--destination", dir)
	file := filepath.Join(dir, "docgauge-1.2.3-rc.1.tgz")
	if pulled, err := os.ReadFile(file); err != nil || !bytes.Equal(pulled, chart) {
		t.Errorf("helm pulled another chart: %v", err)
	}
	rendered := helm("template", "acme", file, "--kube-version", "1.31.0", "--set", "baseURL=https://api.example.com,projects={prj_a},secrets.existingSecret=acme,metrics.rules.enabled=true")
	for _, want := range []string{`image: "ghcr.io/docgauge/docgauge:1.2.3-rc.1"`, "helm.sh/chart: docgauge-1.2.3-rc.1", "alert: DocgaugeDown"} {
		if !strings.Contains(rendered, want) {
			t.Errorf("the chart that was pulled renders no %s", want)
		}
	}
}
