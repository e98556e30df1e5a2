package lock

import (
	"context"
	"slices"

	"github.com/leasehold-dev/leasehold/repo/rule"
)

// toldIn is [Options].HandedOver for commands with the context; nil if no one is told.
func (l *Locks) toldIn(ctx context.Context) func(Outcome) {
	if l.handedOver == nil {
		return nil
	}
	return func(o Outcome) { l.handedOver(ctx, o) }
}

// tellHandedOver tells of the leases that a second write granted to requests in line other than the command's own: of
// its own the outcome tells.
func tellHandedOver(told func(Outcome), id ID, command any, found, after State, w rule.When) {
	if told == nil || found.shared == nil || len(found.shared.line) == 0 || after.Token == found.Token ||
		after.revision != found.revision+1 { // a join: others wrote before it
		return
	}
	own := ""
	if c, ok := acquireOf(command); ok {
		own = string(c.request().Entry())
	}
	for _, l := range id.handedOver(found.shared.line, own, after) {
		told(Outcome{Code: OK, At: w.Latest(), Lease: l})
	}
}

// telling sends commands of a set, and tells of what their step handed over.
func (l *Locks) telling(send rule.Send[State, Outcome]) rule.Send[State, Outcome] {
	if l.handedOver == nil {
		return send
	}
	return func(ctx context.Context, cs []rule.Command[State, Outcome]) (rule.Sent[State, Outcome], error) {
		done, err := send(ctx, cs)
		if err != nil || !done.Applied {
			return done, err
		}
		for i, c := range cs {
			found, decided, ok := done.Second(i)
			if !ok || found.shared == nil {
				continue
			}
			// Not every store returns the documents after a step; the write applies to the document found and no other.
			write, _ := c.(rule.Fallback[State]).Fallback(found, decided)
			id := ID{Tenant: write.Key.Tenant, Key: write.Key.ID}
			doc, err := write.Apply(found.found, done.When.At)
			if err != nil {
				continue
			}
			if after, err := id.State(doc); err == nil {
				tellHandedOver(l.toldIn(ctx), id, c, found, after, done.When)
			}
		}
		return done, nil
	}
}

// acquireOf is the acquire that a command is, whatever is beside it.
func acquireOf(command any) (Acquire, bool) {
	for {
		if c, ok := command.(Acquire); ok {
			return c, true
		}
		w, ok := command.(rule.Wrapper)
		if !ok {
			return Acquire{}, false
		}
		command = w.Unwrap()
	}
}

// handedOver are the leases, by token, that requests which were in line have in the state after; but for own.
func (id ID) handedOver(line []place, own string, after State) (leases []Lease) {
	v := after.view()
	for _, p := range line {
		if h := v.grantOf(p.request); p.request != own && h != nil {
			l := v.lease(id, *h, Active)
			l.Owner, l.Metadata = p.owner, p.metadata // the document does not have those of a rate
			leases = append(leases, l)
		}
	}
	slices.SortFunc(leases, func(a, b Lease) int { return int(a.Token - b.Token) })
	return leases
}

// grantOf is the lease that a request has by its entry; nil if it has none.
func (v *sharedForm) grantOf(request string) *holder {
	if v.latest != nil && v.latest.request == request {
		return v.latest
	}
	for i, g := range v.grants {
		if g.request == request {
			return v.earlier(i)
		}
	}
	for i, h := range v.holders {
		if h.request == request && !h.ended {
			return &v.holders[i]
		}
	}
	return nil
}
