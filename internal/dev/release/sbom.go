package main

import (
	"bytes"
	"crypto/sha256"
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

// sbom returns the software bill of materials of a binary, in CycloneDX 1.5:
// the modules that the Go linker recorded in it, with their sums from go.sum.
func (r *release) sbom(binary string, info *debug.BuildInfo, t target) ([]byte, error) {
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	self := module(info.Main.Path, r.version, sha256.Sum256(data))
	self.Type, self.Name = cdx.ComponentTypeApplication, "docgauge"
	self.Properties = &[]cdx.Property{
		{Name: "docgauge:target", Value: t.String()}, {Name: "docgauge:revision", Value: r.commit},
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
			return nil, fmt.Errorf("module %s: %q is no sum", dep.Path, dep.Sum)
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
