package main

import (
	"context"
	"debug/elf"
	"debug/macho"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// target is a system and a machine, in Go's words.
type target struct{ system, machine string }

func (t target) String() string { return t.system + "/" + t.machine }

var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// builder builds each binary once; this machine's also writes completions and
// manual pages.
type builder struct {
	*release
	dir   string // temporary
	built map[target]string
}

// binary builds docgauge for a target and returns the file.
func (b *builder) binary(ctx context.Context, t target) (string, error) {
	if file, ok := b.built[t]; ok {
		return file, nil
	}
	file := filepath.Join(b.dir, t.system+"-"+t.machine, "docgauge")
	flags := fmt.Sprintf("-s -w -X main.version=%s -X main.commit=%s", b.version, b.commit)
	if _, err := b.goCommand(ctx, t, "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", file, "./cmd/docgauge"); err != nil {
		return "", err
	}
	if err := checkFormat(file, t); err != nil {
		return "", err
	}
	b.built[t] = file
	return file, nil
}

// goCommand runs the go command for a target, deaf to settings of this machine
// that would change what it builds.
func (b *builder) goCommand(ctx context.Context, t target, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr = b.root, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+t.system, "GOARCH="+t.machine, "CGO_ENABLED=0",
		"GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// host runs this machine's docgauge.
func (b *builder) host(ctx context.Context, args ...string) ([]byte, error) {
	file, err := b.binary(ctx, target{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, file, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("docgauge %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// checkFormat reports whether a file is a static program for the target.
func checkFormat(file string, t target) error {
	if t.system == "darwin" {
		return checkMacho(file, map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[t.machine])
	}
	return checkELF(file, map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[t.machine])
}

func checkELF(file string, want elf.Machine) error {
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("not an ELF file: %w", err)
	}
	defer f.Close()
	if f.Machine != want {
		return fmt.Errorf("the binary is for %s, not %s", f.Machine, want)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("the binary is linked dynamically")
		}
	}
	return nil
}

func checkMacho(file string, want macho.Cpu) error {
	f, err := macho.Open(file)
	if err != nil {
		return fmt.Errorf("not a Mach-O file: %w", err)
	}
	defer f.Close()
	if f.Cpu != want || f.Type != macho.TypeExec {
		return fmt.Errorf("the binary is %s for %s, not a program for %s", f.Type, f.Cpu, want)
	}
	return nil
}
