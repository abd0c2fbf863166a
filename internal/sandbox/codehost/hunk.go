package codehost

import (
	"regexp"
	"strconv"
)

var hunkHead = regexp.MustCompile(`^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@`)

// hunkSizes returns how many lines before and after the change a hunk has,
// none where its head is not one.
func hunkSizes(head string) (before, after int) {
	m := hunkHead.FindStringSubmatch(head)
	if m == nil {
		return 0, 0
	}
	return hunkSize(m[1]), hunkSize(m[2])
}

func hunkSize(s string) int {
	if s == "" {
		return 1
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}
