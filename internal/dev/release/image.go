package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/docgauge/docgauge/internal/dev/must"
)

// nonroot is the user of the image, a number that Kubernetes can check.
const nonroot = 65532

const sbomType = "application/vnd.cyclonedx+json"

// file is a file of a layer, or a directory if its name ends in a slash.
type file struct {
	name  string
	mode  int64
	owner int // user and group
	data  []byte
}

// writeImage writes the container image of all Linux programs: an OCI layout in a tar
// archive, with an index of the images, and for each image its SBOM as an artifact that
// refers to it.
func (r *release) writeImage() {
	base := baseFiles()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	all := index
	for _, p := range r.built {
		if p.System != "linux" {
			continue
		}
		image := r.imageOf(p, base)
		platform := &v1.Platform{OS: p.System, Architecture: p.Machine}
		index = mutate.AppendManifests(index,
			mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
		all = mutate.AppendManifests(all, mutate.IndexAddendum{Add: r.attachedSBOM(p, image)})
	}
	index = mutate.Annotations(index, r.annotations()).(v1.ImageIndex)
	// A tag may have no plus sign.
	tag := map[string]string{"org.opencontainers.image.ref.name": strings.ReplaceAll(r.version, "+", "_")}
	all = mutate.AppendManifests(all, mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{Annotations: tag}})
	dir := filepath.Join(r.prepared, "image")
	must.Do(os.RemoveAll(dir))
	must.Get(layout.Write(dir, all))
	var files []file
	must.Do(fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		must.Do(err)
		if !d.IsDir() {
			files = append(files, file{name: name, mode: 0o644, data: must.Get(os.ReadFile(filepath.Join(dir, name)))})
		}
		return nil
	}))
	r.write(fmt.Sprintf("docgauge_%s_image.tar", r.version), tarOf(files, r.modified))
}

// annotations are also the labels of the image.
func (r *release) annotations() map[string]string {
	all := map[string]string{
		"title": "docgauge",
		"description": "Documentation analytics: whole windows, inside a request budget, " +
			"to Parquet, Delta Lake, ClickHouse, PostgreSQL and Prometheus",
		"source":        "https://github.com/docgauge/docgauge",
		"documentation": "https://github.com/docgauge/docgauge/tree/main/docs",
		"licenses":      "Apache-2.0",
		"version":       r.tag,
		"revision":      r.commit,
		"created":       r.modified.Format(time.RFC3339),
	}
	named := map[string]string{}
	for name, value := range all {
		named["org.opencontainers.image."+name] = value
	}
	return named
}

// imageOf returns the image of one program. It says what deploy/docker/Dockerfile says; a
// test compares them.
func (r *release) imageOf(p program, base []file) v1.Image {
	text := must.Get(os.ReadFile(p.Path))
	binary := []file{{name: "docgauge", mode: 0o755, data: text}}
	for name, path := range map[string]string{
		"LICENSE": "LICENSE", "THIRD_PARTY_LICENSES": filepath.Join(r.prepared, "THIRD_PARTY_LICENSES"),
	} {
		text := must.Get(os.ReadFile(path))
		binary = append(binary, file{name: "usr/share/doc/docgauge/" + name, mode: 0o644, data: text})
	}
	image := must.Get(mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: p.System, Architecture: p.Machine, Created: v1.Time{Time: r.modified}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: fmt.Sprintf("%d:%d", nonroot, nonroot), WorkingDir: "/var/lib/docgauge",
			Entrypoint: []string{"/docgauge"}, Cmd: []string{"serve"},
			Env: []string{
				"PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
				// All addresses: the container engine decides what reaches the container.
				"DOCGAUGE_LISTEN_ADDRESS=0.0.0.0:9817", "DOCGAUGE_STATE_DIR=/var/lib/docgauge/state",
				"DOCGAUGE_PARQUET_URL=/var/lib/docgauge/data",
			},
			Volumes:      map[string]struct{}{"/var/lib/docgauge": {}},
			ExposedPorts: map[string]struct{}{"9817/tcp": {}}, StopSignal: "SIGTERM", Labels: r.annotations(),
			Healthcheck: &v1.HealthConfig{
				Test: []string{"CMD", "/docgauge", "healthcheck"}, Interval: 30 * time.Second,
				Timeout: 10 * time.Second, StartPeriod: 30 * time.Second, Retries: 3,
			},
		},
	}))
	image = mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, layer := range []struct {
		creator string
		files   []file
	}{{"CA certificates, time zones, user", base}, {"docgauge " + r.tag, binary}} {
		plain := tarOf(layer.files, r.modified)
		packed := must.Get(tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(plain)), nil
		}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(6), tarball.WithCompressedCaching))
		history := v1.History{Created: v1.Time{Time: r.modified}, CreatedBy: layer.creator}
		image = must.Get(mutate.Append(image, mutate.Addendum{Layer: packed, History: history}))
	}
	return mutate.Annotations(image, r.annotations()).(v1.Image)
}

// attachedSBOM returns the SBOM of a program as an artifact that refers to its image.
func (r *release) attachedSBOM(p program, image v1.Image) v1.Image {
	text := must.Get(os.ReadFile(filepath.Join(r.out, r.name(p)+".cdx.json")))
	subject := must.Get(partial.Descriptor(image))
	sbom := must.Get(mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		static.NewLayer(text, sbomType)))
	// The type of the configuration is the type of the artifact.
	return mutate.Subject(mutate.ConfigMediaType(sbom, sbomType), *subject).(v1.Image)
}

// baseFiles are the files below the program, as in a distroless image: the roots that
// Go's team takes from Mozilla, the time zones of this Go, one user, and the directories
// that docgauge writes to. A new volume starts with their rights.
func baseFiles() []file {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		// A file cannot say that a root counts only for older certificates.
		if root.Constraint == nil {
			must.Do(pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	const passwd = "root:x:0:0:root:/root:/sbin/nologin\n" +
		"nonroot:x:65532:65532:nonroot:/var/lib/docgauge:/sbin/nologin\n"
	files := []file{
		{name: "etc/passwd", mode: 0o644, data: []byte(passwd)},
		{name: "etc/group", mode: 0o644, data: []byte("root:x:0:\nnonroot:x:65532:\n")},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: roots.Bytes()},
		{name: "tmp/", mode: 0o1777},
		{name: "var/lib/docgauge/", mode: 0o700, owner: nonroot},
		{name: "var/lib/docgauge/data/", mode: 0o700, owner: nonroot},
		{name: "var/lib/docgauge/state/", mode: 0o700, owner: nonroot},
	}
	goroot := must.Get(exec.Command("go", "env", "GOROOT").Output())
	zones := must.Get(zip.OpenReader(filepath.Join(strings.TrimSpace(string(goroot)), "lib/time/zoneinfo.zip")))
	defer zones.Close()
	for _, zone := range zones.File {
		if zone.FileInfo().IsDir() {
			continue
		}
		data := must.Get(fs.ReadFile(zones, zone.Name))
		files = append(files, file{name: "usr/share/zoneinfo/" + zone.Name, mode: 0o644, data: data})
	}
	return files
}

// tarOf returns an archive of files, sorted, all with one time.
func tarOf(files []file, at time.Time) []byte {
	var packed bytes.Buffer
	out := tar.NewWriter(&packed)
	for _, f := range slices.SortedFunc(slices.Values(files),
		func(a, b file) int { return cmp.Compare(a.name, b.name) }) {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Format: tar.FormatPAX, Name: f.name, Size: int64(len(f.data)),
			Mode: f.mode, Uid: f.owner, Gid: f.owner, ModTime: at,
		}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		must.Do(out.WriteHeader(h))
		must.Get(out.Write(f.data))
	}
	must.Do(out.Close())
	return packed.Bytes()
}
