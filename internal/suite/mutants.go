package suite

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Mutants are faults to inject between the lock rule and its store: each is a possible mistake in a rule's condition. A
// check of locks is worth something only if it notices all of them.
var Mutants = map[string]func(docstore.Store) docstore.Store{
	"expiry off by one": func(s docstore.Store) docstore.Store {
		return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write {
			w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
				le, _ := c.(docstore.LE)
				if at, ok := le.Value.(docstore.Instant); ok && le.Field == "expires_at" && at.Offset() == 0 {
					le.Value = at.Add(-time.Millisecond) // a lease lives on at expires_at itself
					return le
				}
				return c
			})
			return w
		}}
	},
	"token not increased on takeover": func(s docstore.Store) docstore.Store {
		return mutant{through{s}, func(ctx context.Context, w docstore.Write) docstore.Write {
			found, err := s.Get(ctx, w.Key)
			if err == nil && found.Docs[0]["state"] == docstore.String("ACTIVE") {
				w.Add = nil
			}
			return w
		}}
	},
	"release by owner only": func(s docstore.Store) docstore.Store {
		return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write {
			if w.Set["state"] == docstore.String("RELEASED") {
				w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
					if eq, ok := c.(docstore.Eq); ok && eq.Field == "token" {
						return docstore.All{}
					}
					return c
				})
			}
			return w
		}}
	},
	"an acquire granted twice": func(s docstore.Store) docstore.Store { return forgetful(s, "a") },
	"a renewal granted twice":  func(s docstore.Store) docstore.Store { return forgetful(s, "r") },
	"a give-up that is not remembered": onGiveUpsOfLocks(func(w *docstore.Write) {
		for _, place := range []string{"u1", "u2", "u3", "u4"} {
			delete(w.Set, place)
		}
	}),
	"a give-up that ends no lease": onGiveUpsOfLocks(func(w *docstore.Write) {
		delete(w.Set, "state")
		delete(w.Set, "released_at")
	}),
}

// onGiveUpsOfLocks makes a mutant of a change to the writes that remember a request which was given up.
func onGiveUpsOfLocks(change func(*docstore.Write)) func(docstore.Store) docstore.Store {
	return func(s docstore.Store) docstore.Store {
		return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write {
			if _, gives := w.Set["u1"]; gives {
				w.Set = maps.Clone(w.Set)
				change(&w)
			}
			return w
		}}
	}
}

// ProgramMutants are faults of commands that histories do not have.
var ProgramMutants = map[string]func(docstore.Store) docstore.Store{
	"a force-release granted twice":             func(s docstore.Store) docstore.Store { return forgetful(s, "f") },
	"an acquire remembered until the next":      func(s docstore.Store) docstore.Store { return forgetful(s, "a", "1") },
	"a renewal remembered until the next":       func(s docstore.Store) docstore.Store { return forgetful(s, "r", "1") },
	"a force-release remembered until the next": func(s docstore.Store) docstore.Store { return forgetful(s, "f", "1") },
	"tokens from zero after a removal": func(s docstore.Store) docstore.Store {
		return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write {
			w.StartAtNow = nil
			return w
		}}
	},
	"the end that a renewal names not compared": func(s docstore.Store) docstore.Store {
		return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write {
			w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
				if eq, ok := c.(docstore.Eq); ok && eq.Field == "expires_at" {
					return docstore.All{}
				}
				return c
			})
			return w
		}}
	},
	"a holder replaced that did not agree": func(s docstore.Store) docstore.Store {
		return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write {
			w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
				if eq, ok := c.(docstore.Eq); ok && eq.Field == "replaceable" {
					return docstore.All{}
				}
				return c
			})
			return w
		}}
	},
	"a lock delay that no one looks at": func(s docstore.Store) docstore.Store {
		return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write {
			w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
				if has, ok := c.(docstore.Has); ok && has.Field == "lock_delay_seconds" {
					return docstore.Any{} // as if there was none
				}
				return c
			})
			return w
		}}
	},
	"a lock delay left by a release": func(s docstore.Store) docstore.Store {
		return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write {
			if w.Set["state"] == docstore.String("RELEASED") {
				w.Unset = nil
			}
			return w
		}}
	},
	"the leases before not remembered": func(s docstore.Store) docstore.Store {
		return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write {
			if v, ok := w.Set["d1"]; ok && v == docstore.Value(docstore.Before("expires_at")) {
				w.Set = maps.Clone(w.Set)
				w.Set["d1"] = docstore.Before("acquired_at")
			}
			return w
		}}
	},
	"the end of an earlier lease shown": func(s docstore.Store) docstore.Store {
		return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write {
			w.Unset = slices.DeleteFunc(slices.Clone(w.Unset), func(f string) bool { return f == "released_at" })
			return w
		}}
	},
}

// forgetful takes remembered requests of a kind out of conditions, all but those in the named places.
func forgetful(s docstore.Store, kind string, places ...string) docstore.Store {
	return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write {
		w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
			le, ok := c.(docstore.LE)
			place, remembers := strings.CutPrefix(le.Field, kind)
			// asks for the type of the field, not for a request
			isText := le.Value == docstore.Value(docstore.String("\U0010FFFF"))
			if ok && remembers && !isText && len(place) == 1 && !slices.Contains(places, place) {
				return docstore.Any{}
			}
			return c
		})
		return w
	}}
}

// mutant changes every write on its way to the store.
type mutant struct {
	through
	change func(context.Context, docstore.Write) docstore.Write
}

func (m mutant) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	changed := make([]docstore.Write, len(writes))
	for i, w := range writes {
		changed[i] = m.change(ctx, w)
	}
	return m.Store.Write(ctx, changed...)
}

// rewrite applies f to the leaves of a condition.
func rewrite(c docstore.Cond, f func(docstore.Cond) docstore.Cond) docstore.Cond {
	switch c := c.(type) {
	case docstore.Any:
		return docstore.Any(rewriteEach(c, f))
	case docstore.All:
		return docstore.All(rewriteEach(c, f))
	case docstore.Not:
		return docstore.Not{Cond: rewrite(c.Cond, f)}
	default:
		return f(c)
	}
}

func rewriteEach(cs []docstore.Cond, f func(docstore.Cond) docstore.Cond) []docstore.Cond {
	out := make([]docstore.Cond, len(cs))
	for i, c := range cs {
		out[i] = rewrite(c, f)
	}
	return out
}
