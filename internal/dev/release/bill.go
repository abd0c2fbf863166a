package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// bill is a CycloneDX 1.5 document: what the Go linker says is in a binary.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Ref        string     `json:"bom-ref"`
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Hashes     []hash     `json:"hashes,omitempty"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// billOfMaterials lists the modules in a binary, with the sums of go.sum.
func billOfMaterials(binary string, t target, r *release) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	self := module(info.Main.Path, r.version)
	self.Type, self.Name = "application", "docgauge"
	self.Hashes = []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(data))}}
	self.Properties = []property{{"docgauge:target", t.String()}, {"docgauge:revision", r.commit}}
	b := bill{"CycloneDX", "1.5", 1, metadata{r.at.Format(time.RFC3339), self}, []component{module("std", strings.TrimPrefix(info.GoVersion, "go"))}}
	for _, dep := range info.Deps {
		c, err := dependency(dep)
		if err != nil {
			return nil, err
		}
		b.Components = append(b.Components, c)
	}
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}

// dependency describes a module; its hash is the one that go.sum has.
func dependency(dep *debug.Module) (component, error) {
	if dep.Replace != nil {
		return component{}, fmt.Errorf("module %s is replaced: a release is built from what go.mod names", dep.Path)
	}
	c := module(dep.Path, dep.Version)
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(dep.Sum, "h1:"))
	if err != nil || len(sum) != sha256.Size {
		return component{}, fmt.Errorf("module %s: %q is no sum", dep.Path, dep.Sum)
	}
	c.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum)}}
	return c, nil
}

func module(path, version string) component {
	purl := "pkg:golang/" + path + "@" + url.QueryEscape(version) + "?type=module"
	return component{Ref: purl, Type: "library", Name: path, Version: version, PURL: purl}
}
