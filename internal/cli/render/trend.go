package render

import "strings"

// Trend draws numbers as marks of a height from 0 to the largest of them; a dot is 0.
func Trend(numbers []float64) string {
	most := 0.0
	for _, n := range numbers {
		most = max(most, n)
	}
	heights := []rune("·▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, n := range numbers {
		height := 0
		if n > 0 {
			height = max(1, int(n/most*float64(len(heights)-1)+0.5))
		}
		b.WriteRune(heights[height])
	}
	return b.String()
}
