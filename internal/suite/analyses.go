package suite

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Analyses proves that the analysis gate works on a store: random programs compared with an oracle that is written from
// BE-041, and concurrent histories. newStore is as for [Locks].
func Analyses(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	analysesProof.of(t, newStore)
}

// AnalysesChecksBite shows that the checks of [Analyses] notice faults.
func AnalysesChecksBite(t *testing.T) { analysesProof.bites(t) }

var analysesProof = proof[GateStep]{AnalysisProgram, RunAnalyses, AnalysisHistory, AnalysisMutants,
	AnalysisProgramMutants, nil}

// AnalysisMutants are faults to inject between the rules of the gate and their store.
var AnalysisMutants = map[string]func(docstore.Store) docstore.Store{
	"< for <=": onWrites(func(w docstore.Write) docstore.Write {
		w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
			return endedBefore(c, time.Millisecond) // a lock lives on at lockExpiresAt itself
		})
		return w
	}),
	"unfenced finish": onWrites(func(w docstore.Write) docstore.Write {
		if w.Set["status"] != nil && w.Add["lockToken"] == 0 {
			w.If = forgetting(w.If, "lockToken")
		}
		return w
	}),
	"unfenced release": onWrites(func(w docstore.Write) docstore.Write {
		if w.Set["status"] == nil && w.Set["lockExpiresAt"] == nil {
			w.If = forgetting(w.If, "lockToken")
		}
		return w
	}),
	"refresh that revives": onWrites(func(w docstore.Write) docstore.Write {
		if w.Set["lockHeartbeatAt"] != nil && w.Set["lockRequest1"] == nil {
			w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
				return endedBefore(c, time.Hour) // a lock has ended only if that was an hour ago
			})
		}
		return w
	}),
	"acquire without status check": onWrites(func(w docstore.Write) docstore.Write {
		if w.Set["lockRequest1"] != nil {
			w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
				if eq, ok := c.(docstore.Eq); ok && eq.Field == "status" {
					return docstore.Any{} // no status is a finished one
				}
				return c
			})
		}
		return w
	}),
	"blind put": onWrites(func(w docstore.Write) docstore.Write {
		if w.Set["lockRequest1"] != nil {
			w.If = nil
		}
		return w
	}),
	"token not increased": onWrites(func(w docstore.Write) docstore.Write {
		w.Add, w.StartAtNow = nil, nil
		return w
	}),
}

// AnalysisProgramMutants are faults of commands that histories do not have, or have too seldom.
var AnalysisProgramMutants = map[string]func(docstore.Store) docstore.Store{
	"retry of a READY or running analysis": onRetries(func(w docstore.Write) docstore.Write {
		w.If = forgetting(w.If, "status")
		return w
	}),
	"retry without the request memory": func(s docstore.Store) docstore.Store {
		return forgetful(s, "lockRetry")
	},
	"retry remembered until the next": func(s docstore.Store) docstore.Store {
		return forgetful(s, "lockRetry", "1")
	},
	"retry of a failure that it does not name": onRetries(func(w docstore.Write) docstore.Write {
		w.If = forgetting(w.If, "lockFinishedAt")
		return w
	}),
	"retry that leaves the lock": onRetries(func(w docstore.Write) docstore.Write {
		w.Unset = slices.DeleteFunc(slices.Clone(w.Unset), func(f string) bool { return f == "lockOwner" })
		return w
	}),
	"failures counted on after a retry": onRetries(func(w docstore.Write) docstore.Write {
		w.Unset = slices.DeleteFunc(slices.Clone(w.Unset), func(f string) bool { return f == "lockFailures" })
		return w
	}),
	"an acquire without its end": onWrites(func(w docstore.Write) docstore.Write {
		w.Until = time.Time{}
		return w
	}),
	"given up, and not remembered": onGiveUps(func(w docstore.Write) docstore.Write {
		w.Set = maps.Clone(w.Set)
		delete(w.Set, "lockRequest2")
		return w
	}),
	"given up in the place of the holder": onGiveUps(func(w docstore.Write) docstore.Write {
		w.Set = maps.Clone(w.Set)
		w.Set["lockRequest1"] = w.Set["lockRequest2"]
		return w
	}),
	"given up, and counted as a run that ended": onWrites(func(w docstore.Write) docstore.Write {
		if w.Set["lockRuns"] != nil {
			w.Set, w.Unset = nil, append(slices.Clone(w.Unset), "lockRuns")
		}
		return w
	}),
	"given up, and counted as a run": onWrites(func(w docstore.Write) docstore.Write {
		if n, ok := w.Set["lockRuns"].(docstore.Int); ok {
			w.Set = docstore.Doc{"lockRuns": n + 1}
		}
		return w
	}),
	"a retry that no sweep finds": onRetries(func(w docstore.Write) docstore.Write {
		w.Set = maps.Clone(w.Set)
		delete(w.Set, "lockExpiresAt")
		return w
	}),
}

// onGiveUps makes a mutant of a change to the writes that remember a request which was given up.
func onGiveUps(change func(docstore.Write) docstore.Write) func(docstore.Store) docstore.Store {
	return onWrites(func(w docstore.Write) docstore.Write {
		if w.Set["lockRequest1"] != nil || w.Set["lockRequest2"] == nil {
			return w
		}
		return change(w)
	})
}

// onRetries makes a mutant of a change to the writes of retries.
func onRetries(change func(docstore.Write) docstore.Write) func(docstore.Store) docstore.Store {
	return onWrites(func(w docstore.Write) docstore.Write {
		if w.Set["lockRetriedAt"] == nil {
			return w
		}
		return change(w)
	})
}

// onWrites makes a mutant of a change to every write.
func onWrites(change func(docstore.Write) docstore.Write) func(docstore.Store) docstore.Store {
	return func(s docstore.Store) docstore.Store {
		return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write { return change(w) }}
	}
}

// endedBefore is the condition that a lock has certainly ended, moved: that it had so this long ago. Other conditions
// stay as they are.
func endedBefore(c docstore.Cond, ago time.Duration) docstore.Cond {
	le, ok := c.(docstore.LE)
	if ok && le.Field == "lockExpiresAt" && le.Value == docstore.Value(docstore.Earliest) {
		le.Value = docstore.Earliest.Add(-ago)
		return le
	}
	return c
}

// forgetting is a condition that no longer asks whether a field is equal to something.
func forgetting(c docstore.Cond, field string) docstore.Cond {
	return rewrite(c, func(c docstore.Cond) docstore.Cond {
		if eq, ok := c.(docstore.Eq); ok && eq.Field == field {
			return docstore.All{}
		}
		return c
	})
}
