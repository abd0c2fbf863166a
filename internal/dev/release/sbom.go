package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/docgauge/docgauge/internal/dev/must"
)

// sbom is the software bill of materials of a program, in CycloneDX 1.5: the modules that the Go linker recorded in
// it, with their sums from go.sum.
func (r *release) sbom(p program) []byte {
	info, data := must.Get(buildinfo.ReadFile(p.Path)), must.Get(os.ReadFile(p.Path))
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
			must.Do(fmt.Errorf("module %s is replaced: a release is built from what go.mod requires", dep.Path))
		}
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(dep.Sum, "h1:"))
		if err != nil || len(sum) != sha256.Size {
			must.Do(fmt.Errorf("module %s: %q is not a sum", dep.Path, dep.Sum))
		}
		components = append(components, module(dep.Path, dep.Version, [sha256.Size]byte(sum)))
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.modified.Format(time.RFC3339), Component: &self}
	bom.Components = &components
	var text bytes.Buffer
	must.Do(cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_5))
	return text.Bytes()
}

func module(path, version string, sum [sha256.Size]byte) cdx.Component {
	purl := "pkg:golang/" + path + "@" + url.QueryEscape(version) + "?type=module"
	return cdx.Component{
		BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}
}
