package placement

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Mode says what a [Component] is in its cluster.
type Mode string

// The modes of a component.
const (
	MemberMode Mode = "MEMBER" // hosts identities
	ClientMode Mode = "CLIENT" // looks them up
)

// Running is the state of a [Component].
type Running string

// The states of a component. Requests are accepted in Ready alone.
//
//	Stopped ──▶ Starting ──▶ NotReady ◀──▶ Ready ──▶ Draining ──▶ Stopped
const (
	Stopped  Running = "STOPPED"
	Starting Running = "STARTING"
	NotReady Running = "NOT_READY" // no member is active, the store was not reached for too long, or the lease was lost
	Ready    Running = "READY"
	Closing  Running = "DRAINING" // gives away what it hosts
)

// Notice is what a component reports: a change of its state, or a failure.
type Notice struct {
	At       time.Time
	From, To Running // the same for a failure that changes nothing
	Identity Identity
	Cause    string
	Err      error // of a failure; nil for a change that is none
}

// ComponentOptions are the settings of [NewComponent].
type ComponentOptions struct {
	Cluster    Cluster
	Mode       Mode
	Membership Membership
	Locker     Locker
	Storage    Storage
	Activator  Activator // of a member

	// Join is how a member joins. Cluster and RequestID are filled in.
	Join Join

	// Notify is called with each Notice, in their order; it must not call the component. nil drops them.
	Notify func(Notice)

	// MaxStale is for how long requests are accepted while the store cannot be reached. 0 means the time to live of a lease.
	MaxStale time.Duration

	// Now is the clock by which a lease ends, and of notices; it must be monotonic. nil means time.Now.
	Now func() time.Time
}

// Component is placement in one process: a member that hosts identities, or a client that looks them up. It makes no requests by
// itself: Refresh is to be called three times in each time to live. Its methods may be called from several goroutines.
type Component struct {
	o ComponentOptions

	mu       sync.Mutex
	running  Running
	since    time.Time
	me       Incarnation
	seq      int64
	deadline time.Time // when the lease ends, by the clock of this process
	seen     time.Time // when the topology was read
	hosted   map[Identity]Activation
	begun    map[Identity]bool // that are being activated

	refreshing sync.Mutex     // one Refresh or Stop at a time
	requests   sync.WaitGroup // that are being carried out
}

// Errors of the lifecycle.
var (
	ErrRunning    = errors.New("placement: the component is running already")
	ErrNotRunning = errors.New("placement: the component is not running")
)

// NewComponent returns a component that is Stopped. The error names the option that is missing or cannot work.
func NewComponent(o ComponentOptions) (*Component, error) {
	o.Join.Cluster, o.Join.RequestID = o.Cluster, "start"
	o.Join.TTL = orDefault(o.Join.TTL, DefaultTTL)
	o.MaxStale = orDefault(o.MaxStale, o.Join.TTL)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Notify == nil {
		o.Notify = func(Notice) {}
	}
	switch {
	case o.Mode != MemberMode && o.Mode != ClientMode:
		return nil, fmt.Errorf("placement: mode %q: %s or %s", o.Mode, MemberMode, ClientMode)
	case o.Membership == nil || o.Locker == nil || o.Storage == nil:
		return nil, errors.New("placement: Membership, Locker and Storage are required: a Service is all of them")
	case o.Mode == MemberMode && o.Activator == nil:
		return nil, errors.New("placement: a member needs an Activator")
	case o.Mode == MemberMode:
		if err := o.Join.Validate(); err != nil {
			return nil, err
		}
	}
	return &Component{o: o, running: Stopped, since: o.Now(), hosted: map[Identity]Activation{}, begun: map[Identity]bool{}}, o.Cluster.Validate()
}

// State is the component's state, and since when.
func (c *Component) State() (Running, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running, c.since
}

// Incarnation is the member's, zero for one that is not in the cluster.
func (c *Component) Incarnation() Incarnation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.me
}

// to changes the state and reports it. c.mu is held.
func (c *Component) to(r Running, cause string, err error) {
	if r == c.running && err == nil {
		return
	}
	n := Notice{At: c.o.Now(), From: c.running, To: r, Cause: cause, Err: err}
	if r != c.running {
		c.running, c.since = r, n.At
	}
	c.o.Notify(n)
}

// failed reports a failure that changes no state.
func (c *Component) failed(id Identity, cause string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.o.Notify(Notice{At: c.o.Now(), From: c.running, To: c.running, Identity: id, Cause: cause, Err: err})
}

// Start brings the component into the cluster. A member joins it; after an error the component is Stopped again.
func (c *Component) Start(ctx context.Context) error {
	c.refreshing.Lock()
	defer c.refreshing.Unlock()
	c.mu.Lock()
	if c.running != Stopped {
		c.mu.Unlock()
		return ErrRunning
	}
	c.to(Starting, "start", nil)
	c.mu.Unlock()
	if err := c.join(ctx); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.to(Stopped, "it could not join", err)
		return err
	}
	c.look(ctx)
	return nil
}

// join joins as a new incarnation, if the component is a member.
func (c *Component) join(ctx context.Context) error {
	if c.o.Mode == ClientMode {
		return nil
	}
	begin, j := c.o.Now(), c.o.Join
	j.RequestID = rand.Text()
	m, err := c.o.Membership.Join(ctx, j)
	if err == nil && m.Code != OK {
		err = fmt.Errorf("placement: %s cannot join: %s: %s", j.Member, m.Code, m.Detail)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.me, c.seq, c.deadline = m.Incarnation, 0, begin.Add(j.TTL)
	return nil
}

// look reads the topology: the component is Ready while it places anything.
func (c *Component) look(ctx context.Context) {
	begin := c.o.Now()
	t, err := c.o.Membership.Topology(ctx, c.o.Cluster)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && t.Ready():
		c.seen = begin
		c.to(Ready, fmt.Sprintf("epoch %d", t.Epoch), nil)
	case err == nil:
		c.to(NotReady, "no member is active", nil)
	case !c.o.Now().Before(c.seen.Add(c.o.MaxStale)):
		c.to(NotReady, "the store was not reached for too long", err)
	default:
		c.to(c.running, "the topology could not be read", err)
	}
}

// Refresh keeps a member alive and looks at the topology. A member that lost its lease deactivates what it hosts and joins again. What
// fails is reported, and tried again by the next call; the error is [ErrNotRunning].
func (c *Component) Refresh(ctx context.Context) error {
	c.refreshing.Lock()
	defer c.refreshing.Unlock()
	c.mu.Lock()
	running, beat := c.running, Heartbeat{Cluster: c.o.Cluster, Incarnation: c.me, Seq: c.seq + 1, TTL: c.o.Join.TTL}
	c.mu.Unlock()
	if running != Ready && running != NotReady {
		return ErrNotRunning
	}
	if c.o.Mode == MemberMode && !c.alive(ctx, beat) {
		return nil
	}
	c.look(ctx)
	return nil
}

// alive sends a heartbeat, or joins again where there is no lease any more. It reports whether the component is a member.
func (c *Component) alive(ctx context.Context, beat Heartbeat) bool {
	if !c.expired() {
		begin := c.o.Now()
		m, err := c.o.Membership.Heartbeat(ctx, beat)
		switch {
		case err == nil && m.Code == OK:
			c.mu.Lock()
			c.seq, c.deadline = beat.Seq, begin.Add(beat.TTL)
			c.mu.Unlock()
			return true
		case err == nil && (m.Code == StaleIncarnation || m.Code == MemberUnknown):
			c.mu.Lock()
			c.deadline = time.Time{}
			c.mu.Unlock()
		default:
			if err == nil {
				err = fmt.Errorf("placement: heartbeat: %s: %s", m.Code, m.Detail)
			}
			c.failed(Identity{}, "a heartbeat failed", err)
			if !c.expired() {
				return true
			}
		}
	}
	c.lose(ctx, "the lease was lost")
	if err := c.join(ctx); err != nil {
		c.failed(Identity{}, "it could not join again", err)
		return false
	}
	return true
}

// expired reports whether the member's lease has ended by the clock of this process.
func (c *Component) expired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.o.Mode == MemberMode && !c.o.Now().Before(c.deadline)
}

// lose ends what the member hosts, after it lost its lease: the store is not asked, because others may have it by now.
func (c *Component) lose(ctx context.Context, cause string) {
	c.mu.Lock()
	lost := slices.Collect(maps.Values(c.hosted))
	clear(c.hosted)
	c.me = Incarnation{} // what is being activated for it is not kept
	if c.running != Closing {
		c.to(NotReady, cause, nil)
	}
	c.mu.Unlock()
	for _, a := range lost {
		if err := c.o.Activator.Deactivate(ctx, a); err != nil {
			c.failed(a.Identity, "what was lost could not be deactivated", err)
		}
	}
}

// enter begins a request; the code is OK, or why it is refused.
func (c *Component) enter() Code {
	if c.expired() {
		c.mu.Lock()
		if c.running == Ready {
			c.to(NotReady, "the lease ended", nil)
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.running {
	case Ready:
		c.requests.Add(1)
		return OK
	case NotReady:
		return Undetermined
	default:
		return NotRunning
	}
}

// Lookup says where an identity is; see [Service.Lookup]. The codes of rejections are also NotRunning, and Undetermined while the
// component is not ready.
func (c *Component) Lookup(ctx context.Context, id Identity, need Need) (Placement, error) {
	if code := c.enter(); code != OK {
		return Placement{Outcome: Outcome{Code: code, At: c.o.Now()}}, nil
	}
	defer c.requests.Done()
	return c.o.Storage.Lookup(ctx, Lookup{Cluster: c.o.Cluster, Identity: id, Need: need})
}

// Activate activates an identity on this member: under the lock, and only if it gets that. The outcome is that of the claim; where it
// is granted, Activated ends the lock, or the error of the Activator does, as [ActivationFailed] with the reason.
func (c *Component) Activate(ctx context.Context, id Identity, need Need, requestID string) (Outcome, error) {
	if code := c.enter(); code != OK {
		return Outcome{Code: code, At: c.o.Now()}, nil
	}
	defer c.requests.Done()
	me := c.Incarnation()
	o, err := c.o.Locker.Claim(ctx, Claim{
		Cluster: c.o.Cluster, Identity: id, Need: need, RequestID: requestID, By: me, LockTTL: DefaultLockTTL,
	})
	if err != nil || o.Code != OK || o.Activation.Phase != Locked {
		return o, err
	}
	if !c.begin(id) { // the same request at the same time
		o.Code, o.RetryAfter = Locking, o.Activation.LockUntil.Sub(o.At)
		return o, nil
	}
	defer c.done(id)
	hold := Hold{Cluster: c.o.Cluster, Identity: id, Owner: me, Token: o.Activation.Token}
	if reason := c.o.Activator.Activate(ctx, o.Activation); reason != nil {
		c.failed(id, "the activation failed", reason)
		f, err := c.o.Locker.Fail(context.WithoutCancel(ctx), Fail{Hold: hold, Reason: shorten(reason.Error())})
		if err == nil && f.Code == OK {
			f.Code = ActivationFailed
		}
		return f, err
	}
	a, err := c.o.Locker.Activated(ctx, Activated{Hold: hold})
	c.mu.Lock()
	kept := err == nil && a.Code == OK && c.me == me
	if kept {
		a.Activation.State, a.Activation.StateVersion, a.Activation.Epoch = o.Activation.State, o.Activation.StateVersion, o.Activation.Epoch
		c.hosted[id] = a.Activation
	}
	c.mu.Unlock()
	if !kept {
		if e := c.o.Activator.Deactivate(context.WithoutCancel(ctx), o.Activation); e != nil {
			c.failed(id, "what was not activated could not be deactivated", e)
		}
	}
	return a, err
}

// begin marks an identity as being activated, and reports whether it was not.
func (c *Component) begin(id Identity) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun[id] {
		return false
	}
	c.begun[id] = true
	return true
}

// done takes the mark off.
func (c *Component) done(id Identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.begun, id)
}

// shorten brings the text of an error into the form of a reason.
func shorten(s string) string {
	clean := []rune{}
	for _, r := range s {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			r = ' '
		}
		if len(string(clean))+len(string(r)) > MaxReasonBytes {
			break
		}
		clean = append(clean, r)
	}
	if len(clean) == 0 {
		return "no reason was given"
	}
	return string(clean)
}

// Deactivate ends an identity that this member hosts: first in the process, then in the store. One that it does not host is
// [StaleToken].
func (c *Component) Deactivate(ctx context.Context, id Identity, reason string) (Outcome, error) {
	if code := c.enter(); code != OK {
		return Outcome{Code: code, At: c.o.Now()}, nil
	}
	defer c.requests.Done()
	return c.end(ctx, id, reason)
}

func (c *Component) end(ctx context.Context, id Identity, reason string) (Outcome, error) {
	c.mu.Lock()
	a, ok := c.hosted[id]
	delete(c.hosted, id)
	c.mu.Unlock()
	if !ok {
		return Outcome{Code: StaleToken, At: c.o.Now(), Detail: "this member does not host the identity"}, nil
	}
	if err := c.o.Activator.Deactivate(ctx, a); err != nil {
		c.failed(id, "it could not be deactivated", err)
	}
	return c.o.Storage.Deactivate(ctx, Deactivate{Hold: Hold{Cluster: c.o.Cluster, Identity: id, Owner: a.Owner, Token: a.Token}, Reason: reason})
}

// Hosted are the identities that this member hosts, in the order of kind and ID.
func (c *Component) Hosted() []Identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(c.hosted), func(a, b Identity) int {
		return slices.Compare([]string{a.Kind, a.ID}, []string{b.Kind, b.ID})
	})
}

// Stop takes the component out of the cluster: it accepts no more requests, lets those that are carried out end, deactivates what
// it hosts, and leaves. It is Stopped afterwards, also if the store could not be reached: then the lease ends by itself. Stopping what is
// stopped does nothing.
func (c *Component) Stop(ctx context.Context) error {
	c.refreshing.Lock()
	defer c.refreshing.Unlock()
	c.mu.Lock()
	if c.running == Stopped {
		c.mu.Unlock()
		return nil
	}
	c.to(Closing, "stop", nil)
	me := c.me
	c.mu.Unlock()
	c.requests.Wait()
	var errs []error
	if c.o.Mode == MemberMode && !c.expired() {
		_, err := c.o.Membership.DrainMember(ctx, c.o.Cluster, me)
		errs = append(errs, err)
		for _, id := range c.Hosted() {
			_, err := c.end(ctx, id, "the member stops")
			errs = append(errs, err)
		}
		_, err = c.o.Membership.Leave(ctx, c.o.Cluster, me)
		errs = append(errs, err)
	} else if c.o.Mode == MemberMode {
		c.lose(ctx, "the lease ended")
	}
	err := errors.Join(errs...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.me, c.deadline, c.seen = Incarnation{}, time.Time{}, time.Time{}
	c.to(Stopped, "stopped", err)
	return err
}
