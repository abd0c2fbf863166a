package agents

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// lists writes the files of a directory of ranges, all of them on the first of November.
func lists(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		write(t, path, text)
		at := now.AddDate(0, 0, -22)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestIsSpoofed(t *testing.T) {
	const published = `{"creationTime": "%s", "prefixes": [{"ipv4Prefix": "192.0.2.0/24"},
		{"ipv4Prefix": "192.0.2.16/28"}, {"ipv6Prefix": "2001:db8::/32"}, {"ipv4Prefix": "198.51.100.7/32"}]}`
	at := now
	ranges, err := ReadRanges(lists(t, map[string]string{
		"gptbot.json":        fmt.Sprintf(published, "2026-10-25T00:00:00.000000"),
		"bingbot.json":       fmt.Sprintf(published, "2026-10-23T11:00:00.121331"), // 31 days
		"applebot.json":      fmt.Sprintf(published, "2027-11-23T11:00:00.121331"), // a clock that is wrong
		"claude-bots.json":   "# fetched\n192.0.2.0/24\r\n\n  2001:db8::1 # one\n",
		"..2026_11_23":       "hidden",
		"ccbot.json":         strings.ReplaceAll(published, `"creationTime": "%s", `, ""),
		"perplexitybot.json": fmt.Sprintf(published, "2026-11-22"),
	}), func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		userAgent, addr string
		want            bool
	}{
		{"GPTBot", "192.0.2.255", false},
		{"GPTBot", "192.0.2.200", false}, // after the inner network
		{"GPTBot", "::ffff:192.0.2.1", false},
		{"GPTBot", "198.51.100.7", false},
		{"GPTBot", "2001:db8:ffff::1", false},
		{"GPTBot", "192.0.3.0", true},
		{"GPTBot", "192.0.1.255", true},
		{"GPTBot", "2001:db9::", true},
		{"GPTBot", "0.0.0.0", true},
		{"bingbot", "192.0.2.1", false},
		{"bingbot", "203.0.113.1", false},
		{"Applebot", "203.0.113.1", false},
		{"CCBot", "203.0.113.1", true}, // 22 days by the file's time
		{"PerplexityBot", "203.0.113.1", true},
		{"ClaudeBot", "192.0.2.1", false},
		{"ClaudeBot", "2001:db8::1", false},
		{"Claude-User", "203.0.113.1", false}, // a user's machine
		{"ClaudeBot", "203.0.113.1", true},
		{"Googlebot", "203.0.113.1", false}, // no file
		{"curl", "203.0.113.1", false},
		{"FooBot", "203.0.113.1", false},
		{"Firefox", "203.0.113.1", false},
	} {
		if got := ranges.IsSpoofed(Builtin().Match(tc.userAgent), netip.MustParseAddr(tc.addr)); got != tc.want {
			t.Errorf("%s from %s: %t, want %t", tc.userAgent, tc.addr, got, tc.want)
		}
	}
	if ranges.IsSpoofed(Builtin().Match("GPTBot"), netip.Addr{}) {
		t.Error("no address")
	}
	stale := ranges.Stale()
	if len(ranges.Lists()) != 6 || len(stale) != 2 || stale[0].Name != "applebot.json" || stale[1].Name != "bingbot.json" {
		t.Errorf("%v; stale: %v", ranges.Lists(), stale)
	}
	at = now.AddDate(0, 0, 9) // the process runs on
	if ranges.IsSpoofed(Builtin().Match("CCBot"), netip.MustParseAddr("203.0.113.1")) {
		t.Error("a list of 31 days proves something")
	} else if stale := ranges.Stale(); len(stale) != 5 {
		t.Errorf("stale: %v", stale)
	}
	none, err := ReadRanges("", time.Now)
	if err != nil || none.IsSpoofed(Builtin().Match("GPTBot"), netip.MustParseAddr("192.0.2.1")) {
		t.Errorf("no directory: %v", err)
	}
	if (*Ranges)(nil).IsSpoofed(Builtin().Match("GPTBot"), netip.MustParseAddr("192.0.2.1")) {
		t.Error("no ranges")
	}
}

// TestContains compares the search with a look at each network.
func TestContains(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	addr := func() netip.Addr {
		return netip.AddrFrom4([4]byte{10, byte(random.IntN(2)), byte(random.IntN(4)), byte(random.IntN(256))})
	}
	for range 200 {
		var all []netip.Prefix
		var text strings.Builder
		for range 1 + random.IntN(8) {
			p := netip.PrefixFrom(addr(), 14+random.IntN(19))
			all = append(all, p)
			fmt.Fprintln(&text, p)
		}
		var l RangeList
		if err := l.parse([]byte(text.String())); err != nil {
			t.Fatal(err)
		}
		for range 50 {
			a, want := addr(), false
			for _, p := range all {
				want = want || p.Contains(a)
			}
			if got := l.contains(a); got != want {
				t.Fatalf("%s in %v: %v", a, all, got)
			}
		}
	}
}

func TestBadRanges(t *testing.T) {
	dir := lists(t, map[string]string{
		"a.json": `{"prefixes": [}`, "b.json": `{"prefixes": [{"ipv4Prefix": "\u001b[31m300.0.0.0/8"}]}`,
		"c.json": `{"prefixes": [{}]}`, "d.txt": "", "e.txt": "192.0.2.0/33", "f.txt": "0.0.0.0/0",
		"g.json": `{"creationTime": "yesterday", "prefixes": [{"ipv4Prefix": "192.0.2.0/24"}]}`,
		"h.txt":  strings.Repeat("# filler\n", maxFile/9+1) + "192.0.2.0/24", "ok.txt": "192.0.2.0/24",
		"j.txt": "<html><body>Not found</body></html>", "k.txt": "fe80::1%eth0",
	})
	if err := os.Mkdir(filepath.Join(dir, "i"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "l"), 0o600); err != nil { // nobody writes into it
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "ok.txt"), filepath.Join(dir, "linked.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "nothing"), filepath.Join(dir, "m")); err != nil {
		t.Fatal(err)
	}
	_, err := ReadRanges(dir, time.Now)
	problems := strings.Split(err.Error(), "\n")
	want := []string{
		"a.json: is not JSON", "b.json: network 1", "c.json: network 1 has neither", "d.txt: has no networks",
		"e.txt: network 1", "f.txt: network 1", "g.json: creationTime", "h.txt: is larger than", "i: is a directory",
		"j.txt: network 1", "k.txt: network 1", "l: is a named pipe", "m: no such file",
	}
	if len(problems) != len(want) {
		t.Fatalf("%d problems, want %d:\n%v", len(problems), len(want), err)
	}
	for i, p := range problems {
		if !strings.Contains(p, string(filepath.Separator)+want[i]) || strings.Contains(p, "\x1b") {
			t.Errorf("%q, want %q", p, want[i])
		}
	}
	if _, err := ReadRanges(filepath.Join(dir, "nothing"), time.Now); err == nil {
		t.Error("a directory that is not there")
	}
}
