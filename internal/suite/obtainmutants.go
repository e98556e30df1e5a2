package suite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// obtainMutants are servers with a fault: each is a way in which what is free cannot be had. [obtaining] notices all of
// them.
var obtainMutants = map[string]func(faultyServer) lockServer{
	"at most twenty are cleared, and a refusal writes nothing": func(f faultyServer) lockServer {
		return asksFirst{f, func(_ context.Context, d docstore.Doc, _ lock.Acquire) (bool,
			error) {
			return f.dead(d, 0) > 20, nil
		}}
	},
	"a refusal clears twenty, and one that asks once is refused": func(f faultyServer) lockServer {
		return asksFirst{f, func(ctx context.Context, d docstore.Doc, c lock.Acquire) (bool, error) {
			if f.dead(d, 0) <= 20 {
				return false, nil
			}
			return true, f.clear(ctx, d, c.ID, 20)
		}}
	},
	"a lease counts a second longer": func(f faultyServer) lockServer {
		return asksFirst{f, func(_ context.Context, d docstore.Doc, _ lock.Acquire) (bool, error) {
			return f.dead(d, 0) > f.dead(d, time.Second), nil
		}}
	},
	"places whose end is not looked at": func(f faultyServer) lockServer {
		return asksFirst{f, func(_ context.Context, d docstore.Doc, _ lock.Acquire) (bool,
			error) {
			return d["q"] != nil, nil
		}}
	},
	"a line that waits for the dead": func(f faultyServer) lockServer {
		return asksFirst{f, func(_ context.Context, d docstore.Doc, c lock.Acquire) (bool, error) {
			return c.WaitSeconds > 0 && f.dead(d, 0) > 0, nil
		}}
	},
	"the mode of the dead stays": func(f faultyServer) lockServer {
		return asksFirst{f, func(_ context.Context, d docstore.Doc, c lock.Acquire) (bool, error) {
			mode, _ := d["mode"].(docstore.String)
			return mode == "permits" && c.Mode != lock.Permits, nil
		}}
	},
	"the limit of the dead stays": func(f faultyServer) lockServer {
		return asksFirst{f, func(_ context.Context, d docstore.Doc, c lock.Acquire) (bool, error) {
			limit, had := d["limit"].(docstore.Int)
			return had && c.Mode == lock.Permits && int64(limit) != c.Limit, nil
		}}
	},
	"grants count for two windows": func(f faultyServer) lockServer {
		return asksFirst{f, func(_ context.Context, d docstore.Doc, _ lock.Acquire) (bool, error) {
			at, _ := d["g"].(docstore.String)
			window, _ := d["window"].(docstore.Int)
			return at > docstore.FormatTime(f.clock.Now().Add(-2*seconds(int64(window)))), nil
		}}
	},
	"metadata of the dead takes the room": func(f faultyServer) lockServer {
		return asksFirst{f, func(_ context.Context, d docstore.Doc, _ lock.Acquire) (bool, error) {
			bytes := 0
			for name, v := range d {
				if b, ok := v.(docstore.Bytes); ok && isField(name, "h") {
					bytes += len(b)
				}
			}
			return bytes > 16<<10, nil
		}}
	},
	"a set that takes no lock with dead holders": func(f faultyServer) lockServer { return setsOf{f} },
	"a force-release that does not get past the dead": func(f faultyServer) lockServer {
		return forces{f, func(_ context.Context, d docstore.Doc, _ lock.ID) (bool, error) { return f.dead(d, 0) > 0, nil }}
	},
	"a force-release that closes the lock for a while": func(f faultyServer) lockServer {
		return forces{f, func(ctx context.Context, d docstore.Doc, id lock.ID) (bool, error) {
			if d == nil {
				return false, nil
			}
			_, err := f.store.Write(ctx, docstore.Write{Key: docstore.Key{Kind: lock.Kind, Tenant: id.Tenant, ID: id.Key},
				Set: docstore.Doc{
					"state": docstore.String("RELEASED"), "released_at": docstore.Now, "lock_delay_seconds": docstore.Int(60),
				}})
			return true, err
		}}
	},
	"those who died are shown": func(f faultyServer) lockServer { return shows{f} },
	"two grants for one":       func(f faultyServer) lockServer { return twice{f} },
}

// faultyServer is a server, and what a fault needs to know.
type faultyServer struct {
	*lock.Locks

	store docstore.Store
	clock *Clock
}

// dead is how many leases of the shared form ended at least so long ago.
func (f faultyServer) dead(d docstore.Doc, ago time.Duration) (n int) {
	for name, v := range d {
		if end, ok := v.(docstore.String); ok && isField(name, "x") && end <= docstore.FormatTime(f.clock.Now().Add(-ago)) {
			n++
		}
	}
	return n
}

// clear removes some dead holders from the document, and changes nothing else.
func (f faultyServer) clear(ctx context.Context, d docstore.Doc, id lock.ID, most int) error {
	w := docstore.Write{Key: docstore.Key{Kind: lock.Kind, Tenant: id.Tenant, ID: id.Key}, Add: map[string]int64{"rev": 1}}
	for name := range d {
		if number, ok := strings.CutPrefix(name, "x"); ok && isField(name, "x") && len(w.Unset) < 2*most {
			w.Unset = append(w.Unset, name, "h"+number)
		}
	}
	_, err := f.store.Write(ctx, w)
	return err
}

// asksFirst is a server that refuses an acquire for a reason of its own.
type asksFirst struct {
	faultyServer
	refuses func(context.Context, docstore.Doc, lock.Acquire) (bool, error)
}

func (s asksFirst) AcquireWithin(ctx context.Context, c lock.Acquire, most time.Duration) (lock.Outcome, error) {
	d, err := lockDoc(ctx, s.store, c.ID)
	if err != nil {
		return lock.Outcome{}, err
	}
	if refuses, err := s.refuses(ctx, d, c); refuses || err != nil {
		return lock.Outcome{Code: lock.Held, At: s.clock.Now()}, err
	}
	return s.Locks.AcquireWithin(ctx, c, most)
}

// setsOf is a server whose sets do not clear.
type setsOf struct{ faultyServer }

func (s setsOf) AcquireSet(ctx context.Context, c lock.AcquireSet) (lock.SetOutcome, error) {
	for _, key := range c.Keys {
		if d, err := lockDoc(ctx, s.store, lock.ID{Tenant: c.Tenant, Key: key}); err != nil || s.dead(d, 0) > 0 {
			return lock.SetOutcome{Code: lock.Held, At: s.clock.Now()}, err
		}
	}
	return s.Locks.AcquireSet(ctx, c)
}

// forces is a server that says of a force-release that nothing is held, for a reason of its own, or does something else
// before it.
type forces struct {
	faultyServer
	refuses func(context.Context, docstore.Doc, lock.ID) (bool, error)
}

func (s forces) ForceRelease(ctx context.Context, c lock.ForceRelease) (lock.Outcome, error) {
	d, err := lockDoc(ctx, s.store, c.ID)
	if err != nil {
		return lock.Outcome{}, err
	}
	if refuses, err := s.refuses(ctx, d, c.ID); refuses || err != nil {
		return lock.Outcome{Code: lock.NotHeld, At: s.clock.Now()}, err
	}
	return s.Locks.ForceRelease(ctx, c)
}

// shows is a server that shows holders who died.
type shows struct{ faultyServer }

func (s shows) Get(ctx context.Context, id lock.ID) (lock.Status, bool, error) {
	status, found, err := s.Locks.Get(ctx, id)
	if err != nil {
		return status, found, err
	}
	d, err := lockDoc(ctx, s.store, id)
	for n := range s.dead(d, 0) {
		status.Holders = append(status.Holders, lock.Holder{Owner: fmt.Sprint("dead ", n)})
	}
	return status, found, err
}

// twice is a server that grants what others may have beside it as well.
type twice struct{ faultyServer }

func (s twice) AcquireWithin(ctx context.Context, c lock.Acquire, most time.Duration) (lock.Outcome, error) {
	o, err := s.Locks.AcquireWithin(ctx, c, most)
	if err == nil && o.Code == lock.OK && c.Mode != lock.Exclusive {
		c.RequestID, c.LeaseID = c.RequestID+" again", ""
		_, err = s.Locks.AcquireWithin(ctx, c, most)
	}
	return o, err
}
