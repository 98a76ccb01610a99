package main

import (
	"cmp"
	"hash/fnv"
	"math/rand/v2"
	"slices"
)

// sample takes n mutants of every guarantee, by the seed: the same seed takes the same.
func sample(mutants []mutant, n int, seed string) []mutant {
	h := fnv.New64a()
	_, _ = h.Write([]byte(seed)) // a hash does not fail
	dice := rand.New(rand.NewPCG(h.Sum64(), uint64(n)))
	mixed := slices.Clone(mutants)
	dice.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	taken := map[string]int{}
	var chosen []mutant
	for _, m := range mixed {
		if taken[m.guarantee] < n {
			taken[m.guarantee]++
			chosen = append(chosen, m)
		}
	}
	slices.SortFunc(chosen, func(a, b mutant) int { return cmp.Compare(a.name, b.name) })
	return chosen
}
