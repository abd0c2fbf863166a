package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOMs writes the software bill of materials of each program, in CycloneDX 1.5: the
// modules that the Go linker recorded in it, with their sums from go.sum.
func (r *release) writeSBOMs() error {
	for _, p := range r.built {
		info, err := buildinfo.ReadFile(p.Path)
		if err != nil {
			return err
		}
		text, err := r.sbom(p, info)
		if err = cmp.Or(err, r.write(r.name(p)+".cdx.json", text)); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) sbom(p program, info *debug.BuildInfo) ([]byte, error) {
	data, err := os.ReadFile(p.Path)
	if err != nil {
		return nil, err
	}
	self := module(info.Main.Path, r.tag, sha256.Sum256(data))
	self.Type, self.Name = cdx.ComponentTypeApplication, "docgauge"
	self.Properties = &[]cdx.Property{
		{Name: "docgauge:target", Value: p.System + "/" + p.Machine}, {Name: "docgauge:revision", Value: r.commit},
	}
	std := module("std", strings.TrimPrefix(info.GoVersion, "go"), [sha256.Size]byte{})
	std.Hashes = nil
	components := []cdx.Component{std}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			return nil, fmt.Errorf("module %s is replaced: a release is built from what go.mod requires", dep.Path)
		}
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(dep.Sum, "h1:"))
		if err != nil || len(sum) != sha256.Size {
			return nil, fmt.Errorf("module %s: %q is not a sum", dep.Path, dep.Sum)
		}
		components = append(components, module(dep.Path, dep.Version, [sha256.Size]byte(sum)))
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.at.Format(time.RFC3339), Component: &self}
	bom.Components = &components
	var text bytes.Buffer
	err = cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_5)
	return text.Bytes(), err
}

func module(path, version string, sum [sha256.Size]byte) cdx.Component {
	purl := "pkg:golang/" + path + "@" + url.QueryEscape(version) + "?type=module"
	return cdx.Component{
		BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}
}
