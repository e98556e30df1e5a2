package suite

import (
	"context"
	"errors"
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// AnalysisHistory lets workers contend for one analysis, loses requests and responses and lets the store fail, and then
// asks whether what they saw can be explained by the rules of the gate, carried out one command at a time. It is
// [ModesHistory] otherwise.
func AnalysisHistory(ctx context.Context, store docstore.Store, clock *Clock, name string, seed uint64) error {
	g := &gateProgram{store: store, clock: clock, name: name,
		analyses: analysis.New(newFaultyStore(store, seed), &analysis.Options{Now: clock.Now})}
	err := g.otherWriter(ctx, "x", docstore.Write{If: docstore.Absent{},
		Set: docstore.Doc{"status": docstore.String("PENDING"), "lockToken": docstore.Int(0)}})
	if err != nil {
		return err
	}
	return record(clock, seed, analysesModel(), func(c *caller) func() error {
		w := &worker{caller: c, program: g}
		return func() error { return w.command(ctx) }
	})
}

// gateCommand is a command of a history.
type gateCommand struct {
	GateStep

	token int64
}

// analysesModel is the oracle, one command at a time. The store's time of a decision and how long it took are known
// only within bounds, and whether a command without a response was carried out is not known at all, so a step may lead
// to several states.
func analysesModel() porcupine.Model {
	first := gateOracle{status: "PENDING", begun: true, run: run{over: true}} // there is a token: 0
	key := func(o gateOracle) string { return fmt.Sprint(o) }
	return numbered(first, key, func(from gateOracle, i *input, o output) (next []gateOracle) {
		if !o.known {
			next = append(next, from) // a store that failed may have done nothing
		}
		c := i.command.(gateCommand)
		for at := i.from; !at.After(i.to); at = at.Add(tick) {
			after := from
			a := after.answer(c.GateStep, c.token, at)
			tooLate := a.Code == "OK" && (c.Do == "acquire" || c.Do == "refresh") &&
				!a.Expires.After(at.Add(i.to.Sub(i.from)))
			if !o.known || o == shownAnswer(a) || tooLate && o == (output{known: true, code: "LEASE_EXPIRED"}) {
				next = append(next, after)
			}
		}
		return next
	}).ToModel()
}

// worker is a caller of the gate.
type worker struct {
	*caller

	program *gateProgram
	past    []GateStep // acquires
}

// command sends a random command until it has a response.
func (w *worker) command(ctx context.Context) error {
	s := GateStep{ID: "x", Owner: w.owner(), Request: w.request(), TTL: 1, MaxTakeovers: 1000, Reason: "try again"}
	token := w.anyToken()
	switch n := w.random.IntN(40); {
	case n < 7 && len(w.past) > 0: // a late delivery, or one that may have arrived, or arrive later, is given up
		if s = w.past[len(w.past)-1-w.random.IntN(min(3, len(w.past)))]; n < 4 {
			s.Do = "give up"
		}
	case n < 20 || token == 0:
		s.Do = "acquire"
		w.past = append(w.past, s)
		if n >= 7 && n < 9 && token != 0 { // before it was sent
			s.Do = "give up"
		}
	case n < 28:
		s.Do, s.TTL = "refresh", 2
	case n < 36:
		s.Do = "release"
	case n < 38:
		s.Do = "retry"
	default:
		s.Do, s.Failed = "finish", w.random.IntN(4) > 0 // READY is the end of the history
	}
	return w.send(gateCommand{s, token}, s.Do == "acquire", func() (output, error) {
		a, err := w.program.send(ctx, s, token)
		if errors.Is(err, docstore.ErrUnavailable) { // the store could not say
			return output{}, nil
		}
		return shownAnswer(a), err
	})
}

// shownAnswer is the part of an answer that histories compare.
func shownAnswer(a GateAnswer) output {
	return output{known: true, code: a.Code, replayed: a.Replayed, token: a.Token, expires: timeText(a.Expires),
		holder: a.Holder}
}
