package strictyaml

import (
	"fmt"
	"strings"
)

// unknownKey says that a key is unknown, and which known one may be meant.
func unknownKey(name string, known []string) string {
	best, distance := "", 3 // more than two slips are another word
	for _, k := range known {
		if d := slips(name, k); d < distance && d < len(k) {
			best, distance = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf("there is no such key; did you mean %q?", best)
	}
	return "there is no such key; known here: " + strings.Join(known, ", ")
}

// slips is the edit distance of two words.
func slips(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
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
