package htmlview

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Frame is a drawing of N columns that begins at 0, 0 in the upper left corner
// and has the value Top at its upper edge, 0 at its lower one.
type Frame struct {
	N             int
	Width, Height float64
	Top           float64
}

// Values are those of a series, by column; false where there is none.
type Values func(i int) (int64, bool)

// Ceiling is a round number not below n, whose half is round as well.
func Ceiling(n int64) float64 {
	size := math.Pow(10, math.Floor(math.Log10(math.Max(float64(n), 2))))
	for _, step := range []float64{1, 1.2, 1.6, 2, 3, 4, 5, 6, 8} {
		if top := step * size; top >= float64(n) && math.Mod(top, 2) == 0 {
			return top
		}
	}
	return 10 * size
}

// X is the middle of column i.
func (f Frame) X(i int) float64 { return (float64(i) + 0.5) * f.Width / float64(f.N) }

// Y is where a value lies.
func (f Frame) Y(v int64) float64 { return f.Height * (1 - float64(v)/f.Top) }

// At writes a coordinate.
func At(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// Line draws a series, broken where there is no value; a value without
// neighbours is a short dash.
func (f Frame) Line(value Values) string {
	var path strings.Builder
	drawing := false
	for i := range f.N {
		v, ok := value(i)
		if !ok {
			drawing = false
			continue
		}
		command := "L"
		if !drawing {
			command = "M"
		}
		fmt.Fprintf(&path, "%s%s %s", command, At(f.X(i)), At(f.Y(v)))
		if !drawing && !f.has(value, i+1) {
			path.WriteString("h" + strconv.FormatFloat(min(f.Width/125, f.Width/float64(f.N)/2), 'f', -1, 64))
		}
		drawing = true
	}
	return path.String()
}

// Area fills below a series, stretch by stretch.
func (f Frame) Area(value Values) string {
	var path strings.Builder
	for i := range f.N {
		v, ok := value(i)
		if !ok {
			continue
		}
		if !f.has(value, i-1) {
			fmt.Fprintf(&path, "M%s %s", At(f.X(i)), At(f.Height))
		}
		fmt.Fprintf(&path, "L%s %s", At(f.X(i)), At(f.Y(v)))
		if !f.has(value, i+1) {
			fmt.Fprintf(&path, "L%s %sZ", At(f.X(i)), At(f.Height))
		}
	}
	return path.String()
}

func (f Frame) has(value Values, i int) bool {
	if i < 0 || i >= f.N {
		return false
	}
	_, ok := value(i)
	return ok
}
