package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// AnalysisHistory lets workers contend for one analysis, loses requests and responses and lets the store fail, and then
// asks whether what they saw can be explained by the rules of the gate, carried out one command at a time. It is
// [ModesHistory] otherwise.
func AnalysisHistory(ctx context.Context, store docstore.Store, clock *Clock, name string, seed uint64) error {
	id, first := analysis.ID(name), docstore.Doc{"status": docstore.String("PENDING"), "lockToken": docstore.Int(0)}
	r, err := store.Write(ctx, docstore.Write{Key: docstore.Key{Kind: analysis.Kind, ID: name}, If: docstore.Absent{},
		Set: first})
	if err != nil || !r.Applied {
		return errors.Join(err, errors.New("there is such an analysis"))
	}
	analyses := analysis.New(newFaultyStore(store, seed), &analysis.Options{Now: clock.Now})
	return record(clock, seed, analysesModel(first), func(c *caller) func() error {
		w := &worker{caller: c, analyses: analyses, id: id}
		return func() error { return w.command(ctx) }
	})
}

// analysesModel is the rules themselves, one command at a time. The store's time of a decision and how long it took are
// known only within bounds, and whether a command without a response was carried out is not known at all, so a step may
// lead to several documents.
func analysesModel(first docstore.Doc) porcupine.Model {
	key := func(d docstore.Doc) string { return fmt.Sprintf("%#v", d) } // the fields of a map in order
	return numbered(first, key, func(from docstore.Doc, i *input, o output) (next []docstore.Doc) {
		if !o.known {
			next = append(next, from) // a store that failed may have done nothing
		}
		waits := []time.Duration{0}
		if i.to.After(i.from) {
			waits = append(waits, i.to.Sub(i.from))
		}
		for at := i.from; !at.After(i.to); at = at.Add(tick) {
			for _, took := range waits {
				after, shown := stepAnalysis(from, i.command.(gateCommand), rule.When{At: at, Took: took})
				if !o.known || shown == o {
					next = append(next, after)
				}
			}
		}
		return next
	}).ToModel()
}

func stepAnalysis(d docstore.Doc, c gateCommand, w rule.When) (docstore.Doc, output) {
	after, o, err := rule.Step(c, d, w)
	if err != nil {
		return d, output{known: true, code: err.Error()} // no outcome
	}
	delete(after, "lockHeartbeatAt") // plays no part in later outcomes, and would only multiply states
	return after, shownOutcome(o)
}

type gateCommand = rule.Command[analysis.State, analysis.Outcome]

// worker is a caller of the gate.
type worker struct {
	*caller
	analyses *analysis.Analyses
	id       analysis.ID
	past     []analysis.Acquire // that it has sent
}

// command sends a random command until it has a response.
func (w *worker) command(ctx context.Context) error {
	owner, request, token := w.owner(), w.request(), w.anyToken()
	var (
		c  gateCommand
		do func() (analysis.Outcome, error)
	)
	switch n := w.random.IntN(40); {
	case n < 4 && len(w.past) > 0: // one that may have arrived, or arrive later
		giveUp := analysis.GiveUp{Acquire: w.past[len(w.past)-1-w.random.IntN(min(3, len(w.past)))]}
		c, do = giveUp, func() (analysis.Outcome, error) { return w.analyses.GiveUp(ctx, giveUp) }
	case n < 7 && len(w.past) > 0: // a late delivery
		acquire := w.past[len(w.past)-1-w.random.IntN(min(3, len(w.past)))]
		c, do = acquire, func() (analysis.Outcome, error) { return w.analyses.Acquire(ctx, acquire) }
		return w.send(c, true, func() (output, error) { return known(do()) })
	case n < 9 && token != 0: // before it was sent
		acquire := analysis.Acquire{ID: w.id, Owner: owner, RequestID: request, TTLSeconds: 1, MaxTakeovers: 1000}
		w.past = append(w.past, acquire)
		giveUp := analysis.GiveUp{Acquire: acquire}
		c, do = giveUp, func() (analysis.Outcome, error) { return w.analyses.GiveUp(ctx, giveUp) }
	case n < 20 || token == 0:
		acquire := analysis.Acquire{ID: w.id, Owner: owner, RequestID: request, TTLSeconds: 1, MaxTakeovers: 1000}
		w.past = append(w.past, acquire)
		c, do = acquire, func() (analysis.Outcome, error) { return w.analyses.Acquire(ctx, acquire) }
		return w.send(c, true, func() (output, error) { return known(do()) })
	case n < 28:
		refresh := analysis.Refresh{ID: w.id, Owner: owner, Token: token, TTLSeconds: 2}
		c, do = refresh, func() (analysis.Outcome, error) { return w.analyses.Refresh(ctx, refresh) }
	case n < 36:
		release := analysis.Release{ID: w.id, Owner: owner, Token: token}
		c, do = release, func() (analysis.Outcome, error) { return w.analyses.Release(ctx, release) }
	case n < 38:
		retry := analysis.Retry{ID: w.id, By: owner, RequestID: request, Reason: "try again"}
		c, do = retry, func() (analysis.Outcome, error) { return w.analyses.Retry(ctx, retry) }
	default:
		finish := analysis.Finish{ID: w.id, Owner: owner, Token: token, Status: analysis.Ready}
		if w.random.IntN(4) > 0 { // READY is the end of the history
			finish.Status = analysis.Failed
		}
		c, do = finish, func() (analysis.Outcome, error) { return w.analyses.Finish(ctx, finish) }
	}
	return w.send(c, false, func() (output, error) { return known(do()) })
}

// known is what a worker learned: nothing, if the store could not say.
func known(o analysis.Outcome, err error) (output, error) {
	if errors.Is(err, docstore.ErrUnavailable) {
		return output{}, nil
	}
	return shownOutcome(o), err
}

// shownOutcome is the part of an outcome that histories compare.
func shownOutcome(o analysis.Outcome) output {
	return output{
		known: true, code: string(o.Code), replayed: o.Replayed, token: o.Grant.Token, expires: timeText(o.Grant.ExpiresAt),
		holder: o.Grant.Owner,
	}
}
