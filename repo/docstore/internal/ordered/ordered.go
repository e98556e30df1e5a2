// Package ordered keeps values in an order, so that a page of them is found without looking at the others.
package ordered

import (
	"iter"
	"slices"
)

// most is how many values a chunk has before it is split.
const most = 128

// Set is a set of values in the order of a comparison. Adding, removing and finding the first of a page take a number
// of comparisons that is logarithmic in the number of values.
type Set[T any] struct {
	compare func(a, b T) int
	chunks  [][]T // in order, none empty, none longer than most
}

// New returns an empty set. Values for which compare returns 0 are one value.
func New[T any](compare func(a, b T) int) *Set[T] { return &Set[T]{compare: compare} }

// find returns where a value is, or where it belongs: a place in the last chunk that does not begin after it.
func (s *Set[T]) find(v T) (chunk, at int, found bool) {
	chunk, found = slices.BinarySearchFunc(s.chunks, v, func(c []T, v T) int { return s.compare(c[0], v) })
	if found {
		return chunk, 0, true
	}
	if chunk--; chunk < 0 {
		return 0, 0, false
	}
	at, found = slices.BinarySearchFunc(s.chunks[chunk], v, s.compare)
	return chunk, at, found
}

// Add adds a value, unless it is there.
func (s *Set[T]) Add(v T) {
	i, at, found := s.find(v)
	switch {
	case found:
		return
	case len(s.chunks) == 0:
		s.chunks = [][]T{{v}}
		return
	}
	c := slices.Insert(s.chunks[i], at, v)
	s.chunks[i] = c
	if len(c) > most {
		half := len(c) / 2
		s.chunks = slices.Insert(s.chunks, i+1, slices.Clone(c[half:]))
		clear(c[half:])
		s.chunks[i] = c[:half:half]
	}
}

// Remove removes a value, if it is there.
func (s *Set[T]) Remove(v T) {
	i, at, found := s.find(v)
	if !found {
		return
	}
	if s.chunks[i] = slices.Delete(s.chunks[i], at, at+1); len(s.chunks[i]) == 0 {
		s.chunks = slices.Delete(s.chunks, i, i+1)
	}
}

// From returns the values from v on, in order. The set must not be changed while they are read.
func (s *Set[T]) From(v T) iter.Seq[T] {
	return func(yield func(T) bool) {
		first, at, _ := s.find(v)
		for i := first; i < len(s.chunks); i++ {
			for _, v := range s.chunks[i][at:] {
				if !yield(v) {
					return
				}
			}
			at = 0
		}
	}
}
