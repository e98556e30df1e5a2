package suite

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// ModesMutants are faults to inject between the rule and its store, for locks in the form with several holders or a
// line: each is a possible mistake in a condition, or in what is written. Programs and histories notice all of them.
var ModesMutants = map[string]func(docstore.Store) docstore.Store{
	"tokens not increased":      sharedWrites(func(w *docstore.Write) { w.Add = without(w.Add, "token") }),
	"the line forgotten":        sharedWrites(func(w *docstore.Write) { drop(w, "q") }),
	"a lease that lives longer": sharedWrites(func(w *docstore.Write) { later(w, time.Second, "x") }),
	"a lease that ends early":   sharedWrites(func(w *docstore.Write) { later(w, -tick, "x") }),
}

// ModesHistoryMutants are faults that only concurrent callers meet: something of the document that a second write rests
// on is not compared.
var ModesHistoryMutants = map[string]func(docstore.Store) docstore.Store{
	"the revision found not compared":    notCompared("SHARED", "rev"),
	"the first grant found not compared": notCompared("RELEASED", "state", "token"),
}

// ModesBetweenMutants are those that histories meet too rarely: only a certain command between the two writes of
// another shows them.
var ModesBetweenMutants = map[string]func(docstore.Store) docstore.Store{
	"the plain lease found not compared, nor its renewals": notCompared("ACTIVE", "expires_at", "r1"),
	"the state of the plain lease found not compared":      notCompared("ACTIVE", "state"),
}

// notCompared leaves fields out of what a second write compares with the document found, which had a state.
func notCompared(state string, fields ...string) func(docstore.Store) docstore.Store {
	return func(s docstore.Store) docstore.Store {
		return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write {
			all, ok := w.If.(docstore.All)
			if !ok || !isShared(w) || !slices.Contains(
				all, docstore.Cond(docstore.Eq{Field: "state", Value: docstore.String(state)})) {
				return w
			}
			w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
				if eq, ok := c.(docstore.Eq); ok && slices.Contains(fields, eq.Field) {
					return docstore.All{}
				}
				if has, ok := c.(docstore.Has); ok && slices.Contains(fields, has.Field) {
					return docstore.Any{} // a field that the document did not have
				}
				return c
			})
			return w
		}}
	}
}

// ModesProgramMutants are faults that histories do not meet, because they need a certain time or a command that
// histories do not have.
var ModesProgramMutants = map[string]func(docstore.Store) docstore.Store{
	"the lock delay forgotten": func(s docstore.Store) docstore.Store {
		return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write {
			w.Set = maps.Clone(w.Set)
			delete(w.Set, "lock_delay_seconds")
			return w
		}}
	},
	"the time not compared":         timeIgnored,
	"a release not remembered":      sharedWrites(func(w *docstore.Write) { drop(w, "e") }),
	"an acquire not remembered":     sharedWrites(func(w *docstore.Write) { drop(w, "a") }),
	"a give-up not remembered":      sharedWrites(func(w *docstore.Write) { drop(w, "u") }),
	"the window forgotten":          sharedWrites(func(w *docstore.Write) { drop(w, "g") }),
	"the window a millisecond less": sharedWrites(func(w *docstore.Write) { later(w, -time.Millisecond, "g") }),
}

// isShared reports whether a write is one of a lock with several holders or a line: it leaves such a lock, or brings it
// back to plain form.
func isShared(w docstore.Write) bool {
	_, revised := w.Set["rev"]
	return revised || slices.Contains(w.Unset, "rev")
}

func sharedWrites(change func(*docstore.Write)) func(docstore.Store) docstore.Store {
	return func(s docstore.Store) docstore.Store {
		return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write {
			if isShared(w) {
				w.Set, w.Add = maps.Clone(w.Set), maps.Clone(w.Add)
				change(&w)
			}
			return w
		}}
	}
}

// timeIgnored leaves the store's time out of conditions on the document of several holders.
func timeIgnored(s docstore.Store) docstore.Store {
	return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write {
		if !isShared(w) {
			return w
		}
		w.If = rewriteTimes(w.If)
		return w
	}}
}

func rewriteTimes(c docstore.Cond) docstore.Cond {
	switch c := c.(type) {
	case docstore.Any:
		return docstore.Any(eachTime(c))
	case docstore.All:
		return docstore.All(eachTime(c))
	case docstore.Not:
		if isTime(c.Cond) {
			return docstore.All{}
		}
		return docstore.Not{Cond: rewriteTimes(c.Cond)}
	default:
		if isTime(c) {
			return docstore.All{}
		}
		return c
	}
}

func eachTime(cs []docstore.Cond) []docstore.Cond {
	out := make([]docstore.Cond, len(cs))
	for i, c := range cs {
		out[i] = rewriteTimes(c)
	}
	return out
}

func isTime(c docstore.Cond) bool {
	le, ok := c.(docstore.LE)
	if !ok {
		return false
	}
	_, now := le.Value.(docstore.Instant)
	return now
}

// isField reports whether a name is a letter, followed by a number or nothing.
func isField(name, letter string) bool {
	number, ok := strings.CutPrefix(name, letter)
	return ok && strings.Trim(number, "0123456789") == ""
}

func drop(w *docstore.Write, letter string) {
	maps.DeleteFunc(w.Set, func(f string, _ docstore.Value) bool { return isField(f, letter) })
}

// later moves the times that a write sets.
func later(w *docstore.Write, d time.Duration, letter string) {
	for f, v := range w.Set {
		if at, ok := v.(docstore.Instant); ok && isField(f, letter) {
			w.Set[f] = at.Add(d)
		}
	}
}

func without(m map[string]int64, name string) map[string]int64 {
	m = maps.Clone(m)
	delete(m, name)
	return m
}
