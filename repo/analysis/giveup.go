package analysis

import (
	"context"
	"slices"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// GiveUp gives up an acquire: its caller does not want it any more, and may not know what became of it. A lock that the
// request obtained ends as if it had never been: it counts neither as a run that failed nor as one whose worker
// crashed. No delivery of the request obtains a lock from now on, however late it is, as long as the document remembers
// it: until it has remembered three others.
//
// Where there is no document of an analysis none is made, because it is the user's: nothing is remembered, and only the
// end of the acquire keeps a late delivery from a document that is made meanwhile. Where acquires make documents, one
// is made that lasts for [KeepGivenUp], and that counts as none. A finished document is not changed: no copy obtains
// anything there. After a [Retry], or when the document is gone, only the end of the acquire keeps one out.
type GiveUp struct {
	Acquire Acquire // what is given up, with the same parameters; its end plays no part
}

// KeepGivenUp is how long it is remembered, where there is nothing else to remember, that a request was given up: as
// long as a request can have an end.
const KeepGivenUp = docstore.MaxAhead

// In is the command on a document of another shape.
func (c GiveUp) In(d Document) GiveUp { return GiveUp{c.Acquire.In(d)} }

// State reads the document.
func (c GiveUp) State(d docstore.Doc) (State, error) { return c.Acquire.State(d) }

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c GiveUp) Validate() error { return c.Acquire.Validate() }

// Write remembers the request if it is not remembered: it has obtained nothing, and will not. Where acquires make
// documents this is the write for one that does not exist.
func (c GiveUp) Write() docstore.Write {
	if d := c.Acquire.document(); !d.Made {
		return c.remember(d.present(), unfinished())
	}
	return c.remain(docstore.Not{Cond: docstore.Has{Field: fToken}})
}

// remain is the write that remembers the request where there is nothing else to remember.
func (c GiveUp) remain(found docstore.Cond) docstore.Write {
	w := c.remember(c.Acquire.document().readable(), found)
	w.Keep = KeepGivenUp
	return w
}

// remember is the write that remembers the request. It comes behind the latest acquire, whose holder may send that
// again. How long the document is kept is not its business.
func (c GiveUp) remember(found ...docstore.Cond) docstore.Write {
	request := c.Acquire.request()
	w := docstore.Write{
		Key: c.Acquire.document().Key(),
		If:  append(docstore.All(found), fRequests.Lacks(request)),
		Set: map[string]docstore.Value{},
	}
	fRequests.RememberBehind(w.Set, request)
	return w
}

// Fallback ends the lock of the request, or remembers the request where the first write could not.
func (c GiveUp) Fallback(s State, now rule.When) (docstore.Write, bool) {
	position, same := s.Requests.Find(c.Acquire.request())
	d := c.Acquire.document()
	var w docstore.Write
	switch {
	case position < 0 && s.gone(now.At):
		w = c.remain(d.gone())
	case !s.Exists, s.Status.Finished():
		return w, false
	case position < 0:
		w = c.remember(d.present(), unfinished())
	case position == 0 && same && s.Owner == c.Acquire.Owner:
		w = c.end(s)
	default:
		return w, false
	}
	return nullable(s, w), true
}

// end takes the lock off. The runs that were begun before and have not ended by themselves stay counted: they were
// before the request, and those that it came after are no fewer by it.
func (c GiveUp) end(s State) docstore.Write {
	d := c.Acquire.document()
	w := docstore.Write{
		Key: d.Key(),
		If: docstore.All{d.present(), docstore.Eq{Field: fOwner, Value: docstore.String(c.Acquire.Owner)},
			sameToken(s.Token), docstore.Eq{Field: fRequests[0], Value: c.Acquire.request().Entry()}},
		Unset: d.unlock(),
	}
	if s.Runs > 1 {
		w.Set = map[string]docstore.Value{fRuns: docstore.Int(s.Runs - 1)}
		w.Unset = slices.DeleteFunc(w.Unset, func(f string) bool { return f == fRuns })
	}
	return w
}

// Granted is the request that was remembered.
func (c GiveUp) Granted(s State, w rule.When) Outcome {
	return Outcome{Code: OK, At: w.Latest(), Grant: Grant{Status: s.At(w.At).Status}}
}

// GrantedFallback has the token of the lock that was ended, if one was.
func (c GiveUp) GrantedFallback(found, after State, _, w rule.When) Outcome {
	o := c.Granted(after, w)
	if after.Owner != found.Owner {
		o.Grant.Token = found.Token
	}
	return o
}

// Refusal is that of a request which was given up before, whose lock has ended, or whose analysis is finished: nothing
// is left to do.
func (c GiveUp) Refusal(s State, w rule.When) Outcome {
	if position, same := s.Requests.Find(c.Acquire.request()); position >= 0 && !same {
		return Outcome{Code: RequestIDReused, At: w.Latest(),
			Detail: "this request_id was used before with another ttl_seconds or due time: send what it was used with"}
	}
	o := c.Granted(s, w)
	o.Replayed = true
	return o
}

// GiveUp gives up an acquire; see [GiveUp]. One request to the store, two where the request has a lock; of a run that
// others have begun, two.
func (a *Analyses) GiveUp(ctx context.Context, c GiveUp) (Outcome, error) { return a.run(ctx, c) }
