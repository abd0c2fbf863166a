package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// machine is what the numbers depend on.
type machine struct {
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Cores int    `json:"cores"`
	CPU   string `json:"cpu,omitempty"`
	Go    string `json:"go"`
	// Load is the system's load average before the first run, where it is known.
	Load string `json:"load,omitempty"`
	// FlushMillis is how long one small durable write takes on the disk of the
	// temporary directory: each window needs several.
	FlushMillis float64   `json:"flush_ms"`
	Time        time.Time `json:"time"`
}

func inspectMachine(dir string) (machine, error) {
	flush, err := flushTime(dir)
	return machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(),
		CPU: cpuModel(), Load: loadAverage(), FlushMillis: float64(flush.Microseconds()) / 1e3, Time: time.Now().UTC().Truncate(time.Second),
	}, err
}

// String is the line above the table.
func (m machine) String() string {
	parts := []string{fmt.Sprintf("%s/%s", m.OS, m.Arch), fmt.Sprintf("%d cores", m.Cores), m.CPU, m.Go, fmt.Sprintf("%.1f ms for a flush to disk", m.FlushMillis), m.Load, m.Time.Format(time.RFC3339)}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// flushTime returns the median time of a small write and its fsync.
func flushTime(dir string) (time.Duration, error) {
	file, err := os.Create(filepath.Join(dir, "flush"))
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name())
	var took []time.Duration
	for range 21 {
		start := time.Now()
		_, err := file.Write(make([]byte, 4096))
		if err := errors.Join(err, file.Sync()); err != nil {
			return 0, errors.Join(err, file.Close())
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2], file.Close()
}

// cpuModel and loadAverage know Linux only; elsewhere they are empty.
func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	if first, _, ok := strings.Cut(string(text), " "); ok {
		return "load " + first
	}
	return ""
}
