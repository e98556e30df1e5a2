package analysis

import (
	"cmp"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Ends that a wrong clock has written, see [rule.When.Impossible]. An acquire that meets one counts it anew, in a
// second write that is sent in that case only: the end of a lock, also of one that another writer has made, and until
// when a record is kept.

// countedAnew tells who is refused because of such an end.
const countedAnew = " was further ahead than a lock can last, because a clock was wrong when it was written: it counts " +
	"from now"

// longest is how long the lock lasts from its last heartbeat on: the gate writes both times in one write. Of the lock
// of another writer it is the longest that there is.
func (s State) longest() time.Duration {
	most := MaxTTLSeconds * time.Second
	if ttl := s.Expiry.Latest.Sub(s.Heartbeat); !s.Heartbeat.IsZero() && ttl >= time.Second && ttl < most {
		return ttl
	}
	return most
}

// countAnew is the write that counts impossible ends of the document from now. It applies only to the lock, or the end
// of the record, that was found.
func (d Document) countAnew(s State, w rule.When) (docstore.Write, bool) {
	wr := docstore.Write{Key: d.Key(), Set: map[string]docstore.Value{}}
	most, kept := time.Duration(0), time.Duration(cmp.Or(s.keepSeconds, d.Shape.KeepSeconds))*time.Second
	until, _ := docstore.ParseTime(s.until)
	switch {
	case !s.Exists || s.Status.Finished() || s.Owner == "":
		wr.If = docstore.All{d.present(), sameToken(s.Token), docstore.Eq{Field: fKeptUntil, Value: s.until},
			rule.ImpossibleEnd(fKeptUntil, kept)}
	default:
		most = s.longest()
		if _, is := w.Impossible(s.Expiry.Earliest, most); !is || s.Expiry.Unclear {
			return wr, false
		}
		wr.If = d.asFound(s)
		wr.Set[d.ExpiryField], wr.Set[fHeartbeatAt] = docstore.Now.Add(most), docstore.Now
	}
	if d.Shape.KeepSeconds > 0 {
		wr.Set[fKeepSeconds], wr.Set[fKeptUntil] = docstore.Int(kept/time.Second), docstore.Now.Add(most+kept)
		wr.Keep = most + kept
	}
	_, gone := w.Impossible(until, most+kept)
	return wr, most > 0 || s.until != "" && gone
}

// impossible reports whether an acquire counts an end of the document anew, and does nothing else. What the request has
// already is its own.
func (c Acquire) impossible(s State, w rule.When) (docstore.Write, bool) {
	if position, _ := s.Requests.Find(c.request()); position >= 0 || c.differs(s) ||
		!s.Status.Finished() && (s.Owner == "" || s.Expiry.passed(w.At)) {
		return docstore.Write{}, false
	}
	return c.document().countAnew(s, w)
}

// GrantedFallback is that of [Acquire.Granted], or the refusal of an acquire whose second write counted an end anew.
func (c Acquire) GrantedFallback(found, after State, decided, w rule.When) Outcome {
	if found.gone(decided.At) {
		return c.Granted(after, w)
	}
	if _, is := c.impossible(found, decided); !is {
		return c.Granted(after, w)
	}
	o := c.refusal(after, w)
	if o.CountedAnew = true; o.Code == Locked {
		o.Detail = cmp.Or(o.Detail, c.document().ExpiryField+countedAnew)
	}
	return o
}
