package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"go.yaml.in/yaml/v3"
)

// uploads is how often what a registry lacks is sent to it.
const uploads = 5

// pushCommand is `release push FILE REPOSITORY [TAG…]`. It prints the digest.
func pushCommand(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("push", flag.ContinueOnError)
	set.Usage = func() {
		fmt.Fprintln(set.Output(), `usage: release push FILE REPOSITORY [TAG...]

Sends an image (docgauge_VERSION_image.tar) or a chart (docgauge-VERSION.tgz) to a
registry, under its version and further tags, and prints REPOSITORY@DIGEST. The user is that of
docker login. A push that failed may be repeated: what the registry has is not sent
again, and tags are set when everything has arrived.`)
	}
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if set.NArg() < 2 {
		return errors.New("push: want a file and a repository, as in push dist/docgauge_1.2.3_image.tar ghcr.io/docgauge/docgauge")
	}
	a, err := readArtifact(set.Arg(0))
	if err != nil {
		return fmt.Errorf("push %s: %w", set.Arg(0), err)
	}
	// Registries on this machine have no certificate; the library knows them by their names.
	repository, err := name.NewRepository(set.Arg(1))
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	a.tags = append(a.tags, set.Args()[2:]...)
	if err := a.push(ctx, repository, time.Second); err != nil {
		return fmt.Errorf("push %s to %s: %w", set.Arg(0), repository, err)
	}
	fmt.Println(repository.Digest(a.root.String()))
	return nil
}

// artifact is something for a registry.
type artifact struct {
	store     store
	blobs     []v1.Descriptor
	manifests []v1.Descriptor // each behind those that it names
	root      v1.Hash         // of the manifest that the tags stand for
	tags      []string
}

func readArtifact(file string) (*artifact, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(file, ".tgz") {
		return chartArtifact(data)
	}
	return readLayout(data)
}

// readLayout reads an OCI layout that is a tar archive.
func readLayout(data []byte) (*artifact, error) {
	a := &artifact{store: store{}}
	var index v1.IndexManifest
	for archive := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return nil, err
		}
		switch {
		case h.Name == "index.json":
			if err := json.Unmarshal(content, &index); err != nil {
				return nil, fmt.Errorf("index.json: %w", err)
			}
		case strings.HasPrefix(h.Name, "blobs/"):
			if desc := a.store.add("", content); desc.Digest.Hex != path.Base(h.Name) {
				return nil, fmt.Errorf("%s has another sum: the file is damaged, make the release again", h.Name)
			}
		}
	}
	for _, desc := range index.Manifests {
		if tag := desc.Annotations[tagKey]; tag != "" {
			a.root, a.tags = desc.Digest, []string{tag}
		}
		if err := a.collect(desc); err != nil {
			return nil, err
		}
	}
	if a.tags == nil {
		return nil, errors.New("no OCI layout with a version: want an image that make release made")
	}
	return a, nil
}

// collect finds what a manifest needs.
func (a *artifact) collect(desc v1.Descriptor) error {
	var m struct {
		Config            v1.Descriptor
		Layers, Manifests []v1.Descriptor
	}
	if err := json.Unmarshal(a.store[desc.Digest], &m); err != nil {
		return fmt.Errorf("manifest %s: %w", desc.Digest, err)
	}
	for _, child := range m.Manifests {
		if err := a.collect(child); err != nil {
			return err
		}
	}
	if !desc.MediaType.IsIndex() {
		a.blobs = append(append(a.blobs, m.Config), m.Layers...)
	}
	a.manifests = append(a.manifests, desc)
	return nil
}

// chartArtifact is a packaged chart with the media types of helm push.
func chartArtifact(chart []byte) (*artifact, error) {
	packed, err := gzip.NewReader(bytes.NewReader(chart))
	if err != nil {
		return nil, err
	}
	var metadata map[string]any
	for archive := tar.NewReader(packed); metadata == nil; {
		h, err := archive.Next()
		if err != nil {
			return nil, fmt.Errorf("no chart: %w", err)
		}
		if path.Base(h.Name) == "Chart.yaml" {
			if err := yaml.NewDecoder(archive).Decode(&metadata); err != nil {
				return nil, err
			}
		}
	}
	s := store{}
	config, err := s.addJSON("application/vnd.cncf.helm.config.v1+json", metadata)
	if err != nil {
		return nil, err
	}
	layer := s.add("application/vnd.cncf.helm.chart.content.v1.tar+gzip", chart)
	version := fmt.Sprint(metadata["version"])
	root, err := s.addJSON(types.OCIManifestSchema1, v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config, Layers: []v1.Descriptor{layer},
		Annotations: map[string]string{
			"org.opencontainers.image.title": fmt.Sprint(metadata["name"]), "org.opencontainers.image.version": version,
			"org.opencontainers.image.description": fmt.Sprint(metadata["description"]),
		},
	})
	if err != nil {
		return nil, err
	}
	return &artifact{store: s, blobs: []v1.Descriptor{config, layer}, manifests: []v1.Descriptor{root}, root: root.Digest, tags: []string{tagOf(version)}}, nil
}

// push uploads blobs until the registry has all of them, then the manifests, and
// sets the tags last: no tag ever stands for something that is not whole.
func (a *artifact) push(ctx context.Context, to name.Repository, wait time.Duration) error {
	options := []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("docgauge-release"),
		remote.WithRetryBackoff(remote.Backoff{Duration: wait, Factor: 2, Jitter: 0.1, Steps: uploads}),
	}
	missing, err := a.blobs, error(nil)
	for attempt := 0; len(missing) > 0; attempt++ {
		if attempt == uploads {
			return errors.Join(fmt.Errorf("%d of %d blobs did not arrive, and no tag was set: push again", len(missing), len(a.blobs)), err)
		}
		err = nil
		for _, blob := range missing {
			err = errors.Join(err, remote.WriteLayer(to, static.NewLayer(a.store[blob.Digest], blob.MediaType), options...))
		}
		if missing, err = a.missing(to, err, options); context.Cause(ctx) != nil {
			return context.Cause(ctx)
		}
	}
	var root manifest
	for _, desc := range a.manifests {
		m := manifest{desc.MediaType, a.store[desc.Digest]}
		if err := remote.Put(to.Digest(desc.Digest.String()), m, options...); err != nil {
			return err
		}
		if desc.Digest == a.root {
			root = m
		}
	}
	for _, tag := range a.tags {
		if err := remote.Put(to.Tag(tag), root, options...); err != nil {
			return err
		}
	}
	return nil
}

// missing returns the blobs that the registry does not have: it may have said that it
// took one, and lost it. A blob that it cannot be asked for is missing too.
func (a *artifact) missing(in name.Repository, former error, options []remote.Option) (none []v1.Descriptor, err error) {
	err = former
	for _, blob := range a.blobs {
		layer, failure := remote.Layer(in.Digest(blob.Digest.String()), options...)
		there := false
		if failure == nil {
			there, failure = partial.Exists(layer)
		}
		if !there {
			none, err = append(none, blob), errors.Join(err, failure)
		}
	}
	return none, err
}

// manifest is one for the library.
type manifest struct {
	mediaType types.MediaType
	data      []byte
}

func (m manifest) MediaType() (types.MediaType, error) { return m.mediaType, nil }
func (m manifest) RawManifest() ([]byte, error)        { return m.data, nil }
