package httpapi

import (
	"slices"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/term"
	"github.com/leasehold-dev/leasehold/kazahana"
)

// DefaultMaxIDsPerSubject is how many leases of machine IDs one subject has at most by default: a quarter of the
// default namespace.
const DefaultMaxIDsPerSubject = 2048

// idQuota bounds the leases that each subject has of this process. It is kept in memory: a document for each subject
// would be written to by all processes of the subject, and so be the bottleneck that pages avoid.
type idQuota struct {
	most  int
	clock term.Clock // both: on an instance that is frozen the monotonic one may stand still

	mu   sync.Mutex
	held map[string][]heldID
}

// heldID is a lease. It is reserved, with no ID, while it is being granted.
type heldID struct {
	id  int64
	end term.Moment
}

// lasts reports whether the lease is counted at a moment.
func (h heldID) lasts(now term.Moment) bool { return now.Until(h.end) > 0 }

const reserved = -1

func newIDQuota(most int, now func() time.Time) *idQuota {
	if most == 0 {
		most = DefaultMaxIDsPerSubject
	}
	return &idQuota{most: most, clock: clockOf(now), held: make(map[string][]heldID)}
}

// reserve counts n leases that are about to be granted, and returns what records the leases that were. A caller without
// a subject is not counted. The error is MACHINE_ID_LIMIT.
func (q *idQuota) reserve(subject string, n int) (granted func([]kazahana.Lease), err error) {
	if subject == "" || q.most < 0 {
		return func([]kazahana.Lease) {}, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock()
	for s, held := range q.held { // as many subjects as have leases, and few of them at once
		if s != subject && !slices.ContainsFunc(held, func(h heldID) bool { return h.lasts(now) }) {
			delete(q.held, s)
		}
	}
	held := slices.DeleteFunc(q.held[subject], func(h heldID) bool { return !h.lasts(now) })
	q.held[subject] = held
	if len(held)+n > q.most {
		e := contracts.Errorf(contracts.CodeMachineIDLimit,
			"your subject has %d leases of this server and asks for %d, %d at most", len(held), n, q.most)
		for _, h := range held {
			if left := now.Until(h.end); h.id != reserved && (e.RetryAfter == 0 || left < e.RetryAfter) {
				e.RetryAfter = left
			}
		}
		return nil, e
	}
	until := now.Add(time.Minute) // longer than any request
	for range n {
		q.held[subject] = append(q.held[subject], heldID{reserved, until})
	}
	return func(leases []kazahana.Lease) { q.settle(subject, n, leases) }, nil
}

// settle replaces n reservations by the leases that were granted.
func (q *idQuota) settle(subject string, n int, leases []kazahana.Lease) {
	q.mu.Lock()
	defer q.mu.Unlock()
	held := slices.DeleteFunc(q.held[subject], func(h heldID) bool {
		reservation := h.id == reserved && n > 0
		if reservation {
			n--
		}
		return reservation
	})
	now := q.clock()
	for _, l := range leases {
		held = append(held, heldID{l.ID, now.Add(time.Duration(l.Expired-l.Created) * time.Millisecond)})
	}
	q.held[subject] = held
}

// released forgets a lease of the subject.
func (q *idQuota) released(subject string, id int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	held := q.held[subject]
	if i := slices.IndexFunc(held, func(h heldID) bool { return h.id == id }); i >= 0 {
		q.held[subject] = slices.Delete(held, i, i+1)
	}
}
