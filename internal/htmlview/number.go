package htmlview

import (
	"math"
	"strconv"
)

// Commas writes n in groups of three: 1,234,567.
func Commas[N int | int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	sign := ""
	if n < 0 {
		sign, text = "−", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// Short writes the mark of an axis: 850, 1.5k, 20M.
func Short(n float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= unit.size {
			return strconv.FormatFloat(math.Round(n/unit.size*100)/100, 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// Plural counts things whose plural ends in s: 1 window, 2 windows.
func Plural[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return Commas(n) + " " + one + "s"
}

// Percent writes a share with three digits at most; small ones keep a decimal.
func Percent(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	return Percentage(float64(part) / float64(whole) * 100)
}

// Percentage writes v per cent as [Percent] does.
func Percentage(v float64) string {
	digits := 1
	if math.Abs(v) >= 99.95 {
		digits = 0
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + "\u202f%"
}

// Difference writes how much more or less to is than from, which is not 0.
func Difference(from, to int64) string {
	v := (float64(to) - float64(from)) / float64(from) * 100
	switch text := Percentage(math.Abs(v)); {
	case text == Percentage(0):
		return "unchanged"
	case v > 0:
		return "▲ " + text
	default:
		return "▼ " + text
	}
}

// Cut shortens s to so many letters.
func Cut(s string, letters int) string {
	n := 0
	for i := range s {
		if n == letters {
			return s[:i] + "…"
		}
		n++
	}
	return s
}
