package analytics_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
)

func ExampleEscapePath() {
	for _, path := range [][]rune{
		[]rune(`/guides/überblick`),
		[]rune(`/windows/c:\path`),
		append([]rune("/search/"), 0xd83d),
		append([]rune("/caf"), analytics.StrayByte+0xe9),
		append([]rune(`/c:\`), 0xd83d),
		[]rune(`/search/\ud83d`),
	} {
		fmt.Println(analytics.EscapePath(path))
	}
	// Output:
	// /guides/überblick
	// /windows/c:\path
	// /search/\ud83d
	// /caf\xe9
	// /c:\\\ud83d
	// /search/\\ud83d
}

func ExampleUnescapePath() {
	fmt.Printf("%x\n", analytics.UnescapePath(`/\ud83d`))
	fmt.Printf("%q\n", string(analytics.UnescapePath(`/search/\\ud83d`)))
	// Output:
	// [2f d83d]
	// "/search/\\ud83d"
}

// units draws paths that are hard to keep apart: whatever a service can send,
// and text that reads like an escape.
func units() *rapid.Generator[[]rune] {
	surrogate := rapid.Custom(func(t *rapid.T) []rune {
		return []rune{rapid.Int32Range(0xd800, 0xdfff).Draw(t,
			"surrogate")}
	})
	stray := rapid.Custom(func(t *rapid.T) []rune {
		return []rune{analytics.StrayByte + rapid.Int32Range(0x80, 0xff).Draw(t, "byte")}
	})
	text := rapid.Map(rapid.String(), func(s string) []rune { return []rune(strings.ToValidUTF8(s, "\uFFFD")) })
	lookalike := rapid.Map(rapid.SampledFrom([]string{
		`\`, `\\`, `\x`, `\xf`, `\xff`, `\x7f`, `\XFF`, `\ud`, `\ud8`, `\ud800`, `\udfff`, `\ud7ff`, `\ue000`,
		`\uD800`, `xff`, `ud800`, "0", "f", "\x00",
	}), func(s string) []rune { return []rune(s) })
	part := rapid.OneOf(surrogate, stray, text, lookalike)
	return rapid.Map(rapid.SliceOfN(part, 0, 8), func(parts [][]rune) []rune { return slices.Concat(parts...) })
}

func TestEscapePathIsReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := units().Draw(t, "path")
		text := analytics.EscapePath(path)
		if !utf8.ValidString(text) {
			t.Fatalf("%x is kept as %q, which is not UTF-8", path, text)
		}
		if back := analytics.UnescapePath(text); !slices.Equal(path, back) {
			t.Fatalf("%x is kept as %q and comes back as %x", path, text, back)
		}
	})
}

func TestEscapePathLeavesOrdinaryPathsAlone(t *testing.T) {
	for _, path := range []string{
		"", "/", "/a\x00\n\u0085b", `/c:\path\xampp\users\data`, `\x7f`, `\ud7ff`, `\ue000`, `\uD800`, `\xFF`, `\\`,
		"\uFFFD", "/🚀", "/%ff",
	} {
		if got := analytics.EscapePath([]rune(path)); got != path {
			t.Errorf("%q is kept as %q", path, got)
		}
	}
}
