package lock

import (
	"maps"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// A lock remembers the leases before the latest one in shift registers, as it does requests: an acquire copies what the
// document says of the latest lease into the fields with a 1, and those into the fields with a 2. Their tokens are not
// stored: tokens rise by one.
//
// Writes are billed by the KiB, so that an acquire keeps only as many as fit into the KiB that its document has anyway:
// see [Acquire.remembers].
const (
	rememberedLeases = 2

	fOwnerCut = "o0" // the owner of the latest lease, cut to MaxPastBytes; only if leases are remembered
	fByCut    = "w0" // the administrator who ended it, cut likewise; only if one did
)

// register is a register of leases: the field of the latest lease from which it takes over, and its own, those of the
// leases before it.
type register [1 + rememberedLeases]string

var (
	pastOwners   = register{fOwnerCut, "o1", "o2"}
	pastAcquired = register{fAcquiredAt, "b1", "b2"}
	pastExpires  = register{fExpiresAt, "d1", "d2"}
	pastReleased = register{fReleasedAt, "c1", "c2"}
	pastBy       = register{fByCut, "w1", "w2"}

	leaseRegisters = [...]register{pastOwners, pastAcquired, pastExpires, pastReleased, pastBy}

	// shifts are the values that an acquire gives to their fields: what the field before had. They are made once.
	shifts = func() (values [len(leaseRegisters)][1 + rememberedLeases]docstore.Value) {
		for i, r := range leaseRegisters {
			for n := 1; n <= rememberedLeases; n++ {
				values[i][n] = docstore.Before(r[n-1])
			}
		}
		return values
	}()
)

// The size of a lock's document as DynamoDB counts it, in bytes. A test in adapters/awsdynamodb measures that it is no
// larger.
const (
	billedBytes = 1024
	// with all that it remembers of requests, without names, labels and policies
	usedBytes      = 519
	ownerCutBytes  = MaxPastBytes + len(fOwnerCut) // beside the names
	byCutBytes     = MaxPastBytes + len(fByCut)    // after a force-release
	pastLeaseBytes = 2*MaxPastBytes + 3*len("2026-01-01T00:00:00.000Z") + 5*len("o1")
	endsBytes      = (2*rule.Remembered + 1) * len("2026-01-01T00:00:00.000Z") // of requests that may replace others
	refusedBytes   = MaxPastBytes + len(fRefusedOwner) + len(fRefusedAt) + len("2026-01-01T00:00:00.000Z")
)

// remembers is how many leases before the new one its document can remember without being billed for more: it depends
// on the sizes of its names, labels and policies alone, because the acquire does not know the document.
func (c Acquire) remembers() int {
	size := usedBytes + len(c.Tenant) + len(c.Key) + len(c.Owner) + len(c.LeaseID)
	for k, v := range c.Metadata {
		size += 1 + len(k) + len(v)
	}
	if c.Replace {
		size += len(fReplaceable) + 1
	}
	if !c.replacesUntil().IsZero() {
		size += endsBytes
	}
	if c.LockDelaySeconds > 0 {
		size += len(fDelay) + len("3600")
	}
	if c.recordsRefusals {
		size += refusedBytes
	}
	units := func(bytes int) int { return (bytes + billedBytes - 1) / billedBytes }
	for n := rememberedLeases; n > 0; n-- {
		if units(size+ownerCutBytes+byCutBytes+n*pastLeaseBytes) == units(size) {
			return n
		}
	}
	return 0
}

// rememberLeases shifts the registers of leases, and forgets what does not fit, as well as what the shared form has
// left: it is older, and there is no telling by how many leases.
func (c Acquire) rememberLeases(w *docstore.Write) {
	kept := c.remembers()
	for i, r := range leaseRegisters {
		for n := 1; n <= rememberedLeases; n++ {
			if n <= kept {
				w.Set[r[n]] = shifts[i][n]
			} else {
				w.Unset = append(w.Unset, r[n])
			}
		}
	}
	if kept > 0 {
		w.Set[fOwnerCut] = docstore.String(cut(c.Owner))
	} else {
		w.Unset = append(w.Unset, fOwnerCut)
	}
	w.Unset = append(w.Unset, fByCut, fPast)
}

// ofHistory reports whether a field is of the registers of leases.
func ofHistory(field string) bool {
	for _, r := range leaseRegisters {
		if slices.Contains(r[1:], field) {
			return true
		}
	}
	return field == fOwnerCut || field == fByCut
}

// Raise is the write that sets the token of a lock's document to one that is at least to, and is no grant: package
// restore sends it. The leases that are held get new tokens from to on, which no one knows; what is numbered by the
// token, the leases before the latest one in plain form, is forgotten. It applies only to a document with the same
// leases. Of a damaged document, with which no command works, the token alone is set.
func Raise(id ID, d docstore.Doc, to int64) docstore.Write {
	w := docstore.Write{
		Key: id.key(), If: docstore.Eq{Field: fToken, Value: d[fToken]},
		Set: map[string]docstore.Value{fToken: docstore.Int(to)},
	}
	for n := 1; n <= rememberedLeases; n++ {
		w.Unset = append(w.Unset, pastOwners[n])
	}
	s, err := id.State(d)
	if err != nil || s.Phase == None {
		return w
	}
	w.If = s.asFound()
	if s.leaseIsPlain() {
		return w
	}
	held := slices.Clone(s.shared.holders)
	if s.shared.latest != nil {
		held = append(held, *s.shared.latest)
	}
	for i, h := range held {
		h.token = to + int64(i)
		w.Set["h"+suffix(h.number)], w.Set[fToken] = h.stored(), docstore.Int(h.token)
	}
	return w
}

// Raise implements [rule.Raiser]: leases that are held keep their tokens, and the next grant is above least. The plain
// form has the token of its lease alone, which has one that no one knows then: it has ended when the next is granted,
// or is replaced by that.
func (id ID) Raise(found docstore.Doc, least int64) docstore.Write {
	w := Raise(id, found, least)
	s, err := id.State(found)
	if err != nil || s.shared == nil {
		return w
	}
	if s.leaseIsPlain() { // it gets the form that has the tokens of its leases
		form := s.toShared().write(id, s, rule.When{}, 0)
		maps.Copy(w.Set, form.Set)
		other := slices.DeleteFunc(form.Unset, func(f string) bool { return slices.Contains(w.Unset, f) })
		w.Unset = append(w.Unset, other...)
	}
	for _, h := range s.shared.holders {
		w.Set["h"+suffix(h.number)] = h.stored() // one that was the only one had the document's
	}
	w.Set[fToken] = docstore.Int(least)
	if h := s.shared.latest; h != nil {
		latest := *h
		latest.token = least
		w.Set["h"+suffix(latest.number)] = latest.stored()
	}
	return w
}

// formerLease is what the document remembers of a lease before the latest one.
type formerLease struct {
	Owner, By                         string // cut
	AcquiredAt, ExpiresAt, ReleasedAt time.Time
}

// readFormer reads the registers of leases. Where an owner is missing, nothing is known of the lease.
func readFormer(r *rule.Reader) (former [rememberedLeases]formerLease) {
	for i := range former {
		n := i + 1
		former[i] = formerLease{
			Owner: r.Text(pastOwners[n]), By: r.Text(pastBy[n]),
			AcquiredAt: r.Time(pastAcquired[n]), ExpiresAt: r.Time(pastExpires[n]), ReleasedAt: r.Time(pastReleased[n]),
		}
	}
	return former
}

// before are the leases before the latest of a document in plain form, the latest first.
func (s State) before() (past []Past) {
	next := formerLease{Owner: cut(s.Owner), AcquiredAt: s.AcquiredAt}
	for i, l := range s.Former {
		if l.Owner == "" || l.AcquiredAt.IsZero() {
			break
		}
		past = append(past, l.past(s.Token-int64(i)-1, next))
		next = l
	}
	return past
}

// past says how the lease ended. One that was neither released nor had expired when the next one was acquired was
// replaced by that.
func (l formerLease) past(token int64, next formerLease) Past {
	p := Past{Owner: l.Owner, Token: token, AcquiredAt: l.AcquiredAt, EndedAt: l.ExpiresAt, Ended: EndedExpired}
	switch {
	case !l.ReleasedAt.IsZero() && l.By != "":
		p.Ended, p.EndedAt, p.By = EndedForced, l.ReleasedAt, l.By
	case !l.ReleasedAt.IsZero():
		p.Ended, p.EndedAt = EndedReleased, l.ReleasedAt
	case l.replacedAt(next.AcquiredAt):
		p.Ended, p.EndedAt, p.By = EndedReplaced, next.AcquiredAt, next.Owner
	}
	return p
}

// expired reports whether the lease is remembered, and had expired without a release when the next one was acquired.
func (l formerLease) expired(next time.Time) bool {
	return l.Owner != "" && l.ReleasedAt.IsZero() && !l.ExpiresAt.After(next)
}

// replacedAt reports whether the lease is remembered, and lasted when the next one was acquired, which ended it.
func (l formerLease) replacedAt(next time.Time) bool {
	return l.Owner != "" && l.ReleasedAt.IsZero() && l.ExpiresAt.After(next)
}

// history are the leases that have ended, as a document of either form remembers them, the latest first. In plain form
// the latest lease is one of them if it was released.
func (s State) history() []Past {
	past := append(s.before(), s.past...)
	if s.shared != nil || s.Phase != Released || s.AcquiredAt.IsZero() {
		return past
	}
	return append([]Past{s.latestPast()}, past...)
}

// ended are the leases that have ended at the time now: in plain form the latest one also if it has expired.
func (s State) ended(now time.Time) []Past {
	past := s.history()
	if s.shared == nil && s.PhaseAt(now) == Expired {
		past = append([]Past{s.latestPast()}, past...)
	}
	return past
}

// latestPast is the latest lease of a document in plain form, once it has ended.
func (s State) latestPast() Past {
	l := formerLease{Owner: cut(s.Owner), By: s.EndedBy, AcquiredAt: s.AcquiredAt, ExpiresAt: s.ExpiresAt,
		ReleasedAt: s.ReleasedAt}
	return l.past(s.Token, formerLease{AcquiredAt: s.ExpiresAt})
}
