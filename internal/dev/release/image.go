package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nonroot is the user of the image, a number that Kubernetes can check.
const nonroot = 65532

const (
	sbomType   = "application/vnd.cyclonedx+json"
	emptyType  = "application/vnd.oci.empty.v1+json"
	tagKey     = "org.opencontainers.image.ref.name"
	layoutFile = "oci-layout"
)

// store has blobs and manifests by their digest.
type store map[v1.Hash][]byte

func (s store) add(mediaType types.MediaType, data []byte) v1.Descriptor {
	hash, size, _ := v1.SHA256(bytes.NewReader(data)) // of memory: no error
	s[hash] = data
	return v1.Descriptor{MediaType: mediaType, Size: size, Digest: hash}
}

func (s store) addJSON(mediaType types.MediaType, v any) (v1.Descriptor, error) {
	data, err := json.Marshal(v)
	return s.add(mediaType, data), err
}

// image writes the container image of all Linux targets: an OCI layout with an index
// of the images, and for each image its SBOM as an artifact that refers to it.
func (r *release) image(ctx context.Context, parts []part) error {
	base, err := r.base(ctx)
	if err != nil {
		return err
	}
	s := store{}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Annotations: r.annotations()}
	layout := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for _, p := range parts {
		if p.system != "linux" {
			continue
		}
		image, err := r.imageOf(s, p, base)
		if err != nil {
			return err
		}
		sbom, err := r.attach(s, image, p.sbom)
		if err != nil {
			return err
		}
		image.Platform = &v1.Platform{OS: p.system, Architecture: p.machine}
		index.Manifests, layout.Manifests = append(index.Manifests, image), append(layout.Manifests, sbom)
	}
	if len(index.Manifests) == 0 {
		return nil
	}
	root, err := s.addJSON(types.OCIImageIndex, index)
	if err != nil {
		return err
	}
	root.Annotations = map[string]string{tagKey: tagOf(r.plain())}
	layout.Manifests = append([]v1.Descriptor{root}, layout.Manifests...)
	top, err := json.Marshal(layout)
	if err != nil {
		return err
	}
	files := []file{
		{name: layoutFile, mode: 0o644, data: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{name: "index.json", mode: 0o644, data: top},
	}
	for hash, data := range s {
		files = append(files, file{name: "blobs/" + hash.Algorithm + "/" + hash.Hex, mode: 0o644, data: data})
	}
	var packed bytes.Buffer
	if err := writeTar(&packed, "", r.at, files); err != nil {
		return err
	}
	return r.write(fmt.Sprintf("docgauge_%s_image.tar", r.plain()), packed.Bytes())
}

// tagOf makes a version a tag, which may have no plus sign.
func tagOf(version string) string { return strings.ReplaceAll(version, "+", "_") }

// annotations are also the labels of the image.
func (r *release) annotations() map[string]string {
	const opencontainers = "org.opencontainers.image."
	return map[string]string{
		opencontainers + "title":         "docgauge",
		opencontainers + "description":   "Documentation analytics: whole windows, inside a request budget, to Parquet, Delta Lake, ClickHouse, PostgreSQL and Prometheus",
		opencontainers + "source":        "https://github.com/docgauge/docgauge",
		opencontainers + "documentation": "https://github.com/docgauge/docgauge/tree/main/docs",
		opencontainers + "licenses":      "Apache-2.0",
		opencontainers + "version":       r.version,
		opencontainers + "revision":      r.commit,
		opencontainers + "created":       r.at.Format("2006-01-02T15:04:05Z07:00"),
	}
}

// imageOf adds the image of one target. It says what deploy/docker/Dockerfile says;
// a test compares them.
func (r *release) imageOf(s store, p part, base []file) (v1.Descriptor, error) {
	config := v1.ConfigFile{
		OS: p.system, Architecture: p.machine, Created: v1.Time{Time: r.at}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: fmt.Sprintf("%d:%d", nonroot, nonroot), WorkingDir: "/var/lib/docgauge",
			Entrypoint: []string{"/docgauge"}, Cmd: []string{"serve"},
			Env: []string{
				"PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
				// All addresses: the container engine decides what reaches the container.
				"DOCGAUGE_LISTEN_ADDRESS=0.0.0.0:9817", "DOCGAUGE_STATE_DIR=/var/lib/docgauge/state", "DOCGAUGE_PARQUET_URL=/var/lib/docgauge/data",
			},
			Volumes: map[string]struct{}{"/var/lib/docgauge": {}}, ExposedPorts: map[string]struct{}{"9817/tcp": {}},
			StopSignal: "SIGTERM", Labels: r.annotations(),
			Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/docgauge", "healthcheck"}, Interval: 30e9, Timeout: 10e9, StartPeriod: 30e9, Retries: 3},
		},
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Annotations: r.annotations()}
	program := []file{{name: "docgauge", mode: 0o755, data: p.data("docgauge")}}
	for _, name := range []string{"LICENSE", "THIRD_PARTY_LICENSES"} {
		program = append(program, file{name: "usr/share/doc/docgauge/" + name, mode: 0o644, data: p.data(name)})
	}
	for _, layer := range []struct {
		says  string
		files []file
	}{{"CA certificates, time zones, user", base}, {"docgauge " + r.version, program}} {
		var plain bytes.Buffer
		packed, err := compressed("", r.at, layer.files)
		if err == nil {
			err = writeTar(&plain, "", r.at, layer.files)
		}
		if err != nil {
			return v1.Descriptor{}, err
		}
		hash, _, err := v1.SHA256(&plain)
		if err != nil {
			return v1.Descriptor{}, err
		}
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, hash)
		config.History = append(config.History, v1.History{Created: v1.Time{Time: r.at}, CreatedBy: layer.says})
		manifest.Layers = append(manifest.Layers, s.add(types.OCILayer, packed))
	}
	var err error
	if manifest.Config, err = s.addJSON(types.OCIConfigJSON, config); err != nil {
		return v1.Descriptor{}, err
	}
	return s.addJSON(types.OCIManifestSchema1, manifest)
}

// attach adds an SBOM that refers to an image.
func (r *release) attach(s store, image v1.Descriptor, sbom []byte) (v1.Descriptor, error) {
	desc, err := s.addJSON(types.OCIManifestSchema1, v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: sbomType,
		Config: s.add(emptyType, []byte("{}")), Layers: []v1.Descriptor{s.add(sbomType, sbom)}, Subject: &image,
		Annotations: map[string]string{"org.opencontainers.image.created": r.at.Format("2006-01-02T15:04:05Z07:00")},
	})
	desc.ArtifactType = sbomType
	return desc, err
}

// base returns the files below the program, as in a distroless image: the roots that
// Go's team takes from Mozilla, the time zones of this Go, one user, and the
// directories that docgauge writes to. A new volume starts with their rights.
func (r *release) base(ctx context.Context) ([]file, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		// A file cannot say that a root counts only for older certificates.
		if root.Constraint == nil {
			if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
				return nil, err
			}
		}
	}
	files := []file{
		{name: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/var/lib/docgauge:/sbin/nologin\n")},
		{name: "etc/group", mode: 0o644, data: []byte("root:x:0:\nnonroot:x:65532:\n")},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: roots.Bytes()},
		{name: "tmp/", mode: 0o1777},
		{name: "var/lib/docgauge/", mode: 0o700, owner: nonroot},
		{name: "var/lib/docgauge/data/", mode: 0o700, owner: nonroot},
		{name: "var/lib/docgauge/state/", mode: 0o700, owner: nonroot},
	}
	goroot, err := r.output(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	zones, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(goroot)), "lib/time/zoneinfo.zip"))
	if err != nil {
		return nil, err
	}
	defer zones.Close()
	for _, zone := range zones.File {
		if strings.HasSuffix(zone.Name, "/") {
			continue
		}
		in, err := zone.Open()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(in)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: "usr/share/zoneinfo/" + zone.Name, mode: 0o644, data: data})
	}
	return files, nil
}
