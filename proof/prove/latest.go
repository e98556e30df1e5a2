package prove

import "github.com/leasehold-dev/leasehold/repo/lock"

// A lock of the kind [latest] goes from each holder to the next request that comes, and so its requests are judged by
// more than others: what arrives late must not end the lease of one that came after it, however many came in between
// and were given up, and what does not arrive late must.

// settled is the end of a request that was granted or given up: what comes again before it is a copy.
type settled struct {
	id    string
	until int64
}

// settle notes the end of a request that is granted or given up.
func (t *thing) settle(q *request) {
	if t.kind == latest {
		t.copies = append(t.copies, settled{q.id, ms(q.until)})
	}
}

// replaces judges a new lease of a lock of the kind latest: those before it have ended.
func (r *rig) replaces(t *thing, q *request, o lock.Outcome) {
	if t.kind != latest || t.lease(o.Lease.Token) != nil || o.Replayed && !r.again || o.Lease.Token <= t.top {
		return
	}
	now := ms(o.At)
	r.judged(sameAnswer)
	for _, s := range t.copies {
		if s.id != q.id || ms(q.until) > s.until {
			continue
		}
		for _, g := range t.leases {
			if g.request != q.id && g.ends > now+2*r.scene.skew {
				r.breakf(sameAnswer, t.name, "a copy of request %s, which was granted or given up before, ended token %d of request %s",
					q.id, g.token, g.request)
			}
		}
	}
	for len(t.leases) > 0 {
		t.drop(t.leases[0].token)
	}
	t.settle(q)
}

// refusedToReplace judges a refusal because a lock of the kind latest is held: only what may be a copy gets it.
func (r *rig) refusedToReplace(t *thing, q *request, o lock.Outcome) {
	if t.kind != latest {
		return
	}
	r.judged(freeGranted)
	for _, s := range t.copies {
		if ms(q.until) <= s.until {
			return
		}
	}
	r.breakf(freeGranted, t.name, "request %s ends later than all before it, and replaced no one: %s", q.id, o.Detail)
}
