package idsim

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// FirstDesign is the mutant that is no invention.
const FirstDesign = "expiry by the caller's clock, release by deletion"

// Mutants are servers and clients that do not keep the rule that a lease owns its interval of timestamps: each is a
// plausible mistake. They get servers that keep it, which all but the first use.
var Mutants = map[string]func(s Setting, sound Servers) Servers{
	// The table of the first design: a lease has expired when its end is before the caller's clock, and begins by that
	// clock; a release forgets all about it.
	FirstDesign: func(s Setting, _ Servers) Servers {
		t := newTable(s)
		return func(caller *Clock) kazahana.LeaseProvider { return seat{t, caller} }
	},
	// A client that makes IDs after its lease's end, as one does that allows for the clocks to differ.
	"stamps beyond the end": func(_ Setting, sound Servers) Servers {
		return func(caller *Clock) kazahana.LeaseProvider {
			return altered{sound(caller), late}
		}
	},
	// A client that takes no notice of when its lease begins.
	"stamps before the beginning": func(_ Setting, sound Servers) Servers {
		return func(caller *Clock) kazahana.LeaseProvider {
			return altered{sound(caller), early}
		}
	},
	// A client that signs its release with an earlier time than that of its last ID.
	"signs too early": func(_ Setting, sound Servers) Servers {
		return func(caller *Clock) kazahana.LeaseProvider {
			return &hasty{LeaseProvider: sound(caller), by: 20, secrets: make(map[int64]string)}
		}
	},
}

// early and late are about how far clocks are apart, and how long IDs take to be made.
func early(l *kazahana.Lease) { l.Created -= 2 * maxSkew.Milliseconds() }
func late(l *kazahana.Lease)  { l.Expired += 10 }

// altered changes leases on their way to the generator.
type altered struct {
	kazahana.LeaseProvider
	alter func(*kazahana.Lease)
}

func (a altered) Acquire(ctx context.Context, o kazahana.AcquireOptions) (kazahana.AcquireResponse, error) {
	r, err := a.LeaseProvider.Acquire(ctx, o)
	for i := range r.Leases {
		a.alter(&r.Leases[i])
	}
	return r, err
}

// hasty signs releases anew, some milliseconds earlier.
type hasty struct {
	kazahana.LeaseProvider
	by int64

	mu      sync.Mutex
	secrets map[int64]string
}

func (h *hasty) Acquire(ctx context.Context, o kazahana.AcquireOptions) (kazahana.AcquireResponse, error) {
	r, err := h.LeaseProvider.Acquire(ctx, o)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range r.Leases {
		h.secrets[l.ID] = l.Secret
	}
	return r, err
}

func (h *hasty) Release(ctx context.Context, o kazahana.ReleaseOptions) error {
	h.mu.Lock()
	o.Timestamp -= h.by
	o.Signature = kazahana.Sign(h.secrets[o.ID], o.ID, o.Timestamp)
	h.mu.Unlock()
	return h.LeaseProvider.Release(ctx, o)
}

// table keeps leases of units of 256 IDs in a millisecond, as the first design did: it knows the end of the last one.
type table struct {
	services map[string]machineid.ServiceConfig

	mu     sync.Mutex
	units  []unit
	cursor int // behind the unit that was leased last
	random *rand.Rand
}

// unit is what is known of a unit; the zero unit is free.
type unit struct {
	secret  string
	expired int64
}

func newTable(s Setting) *table {
	t := &table{
		services: make(map[string]machineid.ServiceConfig), units: make([]unit, s.Units),
		random: rand.New(rand.NewPCG(s.Random.Uint64(), s.Random.Uint64())),
	}
	for _, service := range s.Services {
		t.services[service.ServiceID] = service
	}
	return t
}

// seat is the table as a caller with that clock sees it.
type seat struct {
	*table
	caller *Clock
}

func (s seat) Acquire(_ context.Context, o kazahana.AcquireOptions) (r kazahana.AcquireResponse, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	service := s.services[o.ServiceID]
	now := s.caller.Wall().UnixMilli()
	width := int(service.Throughput() / blockSize)
	want := int((o.ThroughputPerMs + service.Throughput() - 1) / service.Throughput())
	start := (s.cursor + width - 1) / width * width
	for i := 0; i < len(s.units) && len(r.Leases) < want; i += width {
		at := (start + i) % len(s.units)
		free := true
		for _, u := range s.units[at : at+width] {
			free = free && (u.secret == "" || u.expired < now)
		}
		if !free {
			continue
		}
		l := kazahana.Lease{
			ID: int64(at / width), Created: now, Expired: now + service.LeaseDuration,
			Secret: fmt.Sprintf("%016x", s.random.Uint64()), Layout: service.Layout,
		}
		for n := range width {
			s.units[at+n] = unit{l.Secret, l.Expired}
		}
		s.cursor = at + width
		r.Leases = append(r.Leases, l)
	}
	if len(r.Leases) == 0 {
		return r, kazahana.ErrExhausted
	}
	return r, nil
}

func (s seat) Release(_ context.Context, o kazahana.ReleaseOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if off := time.Duration(
		s.caller.Wall().UnixMilli()-o.Timestamp) * time.Millisecond; off.Abs() > machineid.ReleaseWindow {
		return errors.New("the timestamp is too far from now")
	}
	width := int(s.services[o.ServiceID].Throughput() / blockSize)
	leased := s.units[int(o.ID)*width : int(o.ID+1)*width]
	signature := kazahana.Sign(leased[0].secret, o.ID, o.Timestamp)
	if leased[0].secret == "" || !hmac.Equal([]byte(signature), []byte(o.Signature)) {
		return errors.New("there is no such lease")
	}
	clear(leased)
	return nil
}
