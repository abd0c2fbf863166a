// Package spelling finds the word somebody meant. It does not say what it found.
package spelling

const (
	near    = 3  // edits
	longest = 64 // bytes of a word that is looked at
)

// Nearest returns the known word that is the fewest edits from word, the first of
// several; empty where none is near, which is at most three edits and fewer than
// the known word is long.
func Nearest(word string, known []string) (best string) {
	if len(word) > longest {
		return ""
	}
	fewest := near + 1
	for _, k := range known {
		if d := distance(word, k); d < min(fewest, len(k)) {
			best, fewest = k, d
		}
	}
	return best
}

// distance is the edit distance of two short words, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
