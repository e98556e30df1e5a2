package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/lease"
)

// State is what a component does.
type State int32

// The states of a component.
const (
	Stopped  State = iota // it holds no resources
	Starting              // it has no answer yet
	NotReady              // it runs, and cannot serve requests
	Ready                 // it serves requests
	Draining              // it hands over what it has, and serves nothing new
)

// String is the state in words.
func (s State) String() string {
	return [...]string{"Stopped", "Starting", "NotReady", "Ready", "Draining"}[s]
}

// Role is what a component is in the cluster.
type Role string

// The roles of a component.
const (
	AsMember Role = "member" // hosts identities
	AsClient Role = "client" // finds them
)

// Status is the state of a component since a time.
type Status struct {
	State State
	Role  Role
	Since time.Time
	Cause error // of the state, nil if it is as intended
}

// What a [StateError] is.
var (
	ErrNotRunning = errors.New("the component is not running")
	ErrNotReady   = errors.New("the component is not ready")
	ErrDraining   = errors.New("the component is draining")
)

// StateError is the error of a request that a component in this state does not serve. errors.Is matches one of
// [ErrNotRunning], [ErrNotReady] and [ErrDraining], and the cause of the state.
type StateError struct{ Status Status }

func (e *StateError) Error() string {
	s := fmt.Sprintf("the %s is %v since %s", e.Status.Role, e.Status.State, e.Status.Since.UTC().Format(time.RFC3339))
	if e.Status.Cause != nil {
		s += ": " + e.Status.Cause.Error()
	}
	return s
}

// Unwrap returns what the error is, and the cause of the state.
func (e *StateError) Unwrap() []error {
	kind := ErrNotRunning
	switch e.Status.State {
	case NotReady:
		kind = ErrNotReady
	case Draining:
		kind = ErrDraining
	default:
	}
	if e.Status.Cause == nil {
		return []error{kind}
	}
	return []error{kind, e.Status.Cause}
}

// What happened, as [Event.What] says it.
const (
	StateChanged     = "StateChanged"     // from Event.From to Event.To
	Activated        = "Activated"        // an identity is served
	ActivationFailed = "ActivationFailed" // Event.Err is why
	ActivationEnded  = "ActivationEnded"  // an identity is not served any more, as intended
	Abandoned        = "Abandoned"        // a call of the host did not return in time: Event.Err is which
	Alarmed          = "Alarmed"          // the host was called for an alarm; Event.Err is why that may be called again
	AlarmFailed      = "AlarmFailed"      // and is to be called again: Event.Err is why
	ActivationLost   = "ActivationLost"   // an identity is not this member's any more: Event.Err is why
	ClaimRefused     = "ClaimRefused"     // an identity was not given to a claim: Event.Err is why
	RequestFailed    = "RequestFailed"    // and is to be tried again: Event.Err is why
	Forwarded        = "Forwarded"        // a request was sent to another member; Event.Err is why that did not serve it
	FailedOver       = "FailedOver"       // a request is served that no member served at first; Event.Err is why
)

// Event is a change of a component, or something that went wrong.
type Event struct {
	At   time.Time
	What string
	Role Role

	From, To State // of StateChanged

	Member      string   // its name; empty for a client
	Peer        string   // the member to which a request was forwarded, or an activation handed over
	Incarnation int64    // of the member, if it has one
	Identity    Identity // of an activation
	Token       int64    // of an activation
	Err         error    // the cause

	// Took is for how long: of Activated since the member learned of it, of Forwarded until there was a response, of
	// FailedOver since the first try, of Alarmed and AlarmFailed that the host took.
	Took time.Duration

	// Dropped is how many events before this one were dropped, because the observer was too far behind.
	Dropped int

	// Lag is, of Activated, how old the claim was when the member learned of it, if that was another's, by the clocks of
	// the store and of this process. Of Alarmed and AlarmFailed, how long after its time the host was called.
	Lag time.Duration
}

// component is the state of a Member or a Locator, and its events.
type component struct {
	role    Role
	name    string
	observe func(Event)
	fast    atomic.Int32         // the state, for requests that must not wait
	left    func() time.Duration // of the lease, for a member that has one; nil for a locator

	mu         sync.Mutex
	status     Status
	queue      []Event
	dropped    int // since the last of the queue
	delivering bool
}

func newComponent(role Role, name string, observe func(Event)) *component {
	return &component{role: role, name: name, observe: observe,
		status: Status{State: Stopped, Role: role, Since: time.Now()}}
}

// Status returns the state, since when, and why.
func (c *component) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// ready is the error of a request unless the component is Ready.
func (c *component) ready() error {
	if State(c.fast.Load()) == Ready {
		return nil
	}
	if s := c.Status(); s.State != Ready {
		return &StateError{s}
	}
	return nil
}

// change goes to a state from one of others, and reports whether it did.
func (c *component) change(to State, incarnation int64, cause error, from ...State) bool {
	c.mu.Lock()
	was := c.status.State
	ok := false
	for _, f := range from {
		ok = ok || was == f
	}
	if !ok {
		c.mu.Unlock()
		return false
	}
	c.status = Status{State: to, Role: c.role, Since: time.Now(), Cause: cause}
	c.fast.Store(int32(to))
	c.enqueue(Event{
		At: c.status.Since, What: StateChanged, Role: c.role, From: was, To: to, Member: c.name, Incarnation: incarnation,
		Err: cause,
	})
	c.mu.Unlock()
	c.deliver()
	return true
}

// emit tells the observer.
func (c *component) emit(e Event) {
	c.mu.Lock()
	e.At, e.Role, e.Member = time.Now(), c.role, c.name // with the lock, so that times are in the order of events
	c.enqueue(e)
	c.mu.Unlock()
	c.deliver()
}

// observeWithin is for how long an event waits for the observer, which has those before it as well. mostEvents is how
// many wait for one that is slow.
const (
	observeWithin = time.Second
	mostEvents    = 1000
)

// enqueue has an event delivered, with the lock.
func (c *component) enqueue(e Event) {
	if c.observe == nil {
		return
	}
	if len(c.queue) >= mostEvents {
		c.dropped++
		return
	}
	e.Dropped, c.dropped = c.dropped, 0
	c.queue = append(c.queue, e)
}

// deliver calls the observer with all events in their order, one at a time, and without a lock: it may ask the
// component. Who has an event waits for that, but goes on without an observer that takes too long.
func (c *component) deliver() {
	c.mu.Lock()
	begins := !c.delivering && len(c.queue) > 0
	c.delivering = c.delivering || begins
	c.mu.Unlock()
	if !begins {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.mu.Lock()
		defer c.mu.Unlock()
		for len(c.queue) > 0 {
			e := c.queue[0]
			c.queue = c.queue[1:]
			c.mu.Unlock()
			c.observe(e)
			c.mu.Lock()
		}
		c.delivering = false
	}()
	end := time.NewTimer(observeWithin)
	defer end.Stop()
	select {
	case <-done:
	case <-end.C:
	}
}

// waits are those between the tries of a request.
var waits = backoff.Policy{First: 200 * time.Millisecond, Max: 5 * time.Second, Min: 50 * time.Millisecond}

// insist sends a request as i says. Each try that is to be followed by another is an event; what names the request, if
// it is not empty. told reports that the error, which is that of the last try, has been one. If ctx ended before that
// was final, the error is its cause as well.
func (c *component) insist(ctx context.Context, e Event, what string, i hold.Insist,
	request func(context.Context) error) (told bool, err error) {
	i.Left, i.Each, i.Pauses = c.left, cmp.Or(i.Each, hold.LongTry), cmp.Or(i.Pauses, waits)
	i.Failed = func(err error) {
		told = true
		c.failed(e, what, err)
	}
	err = i.Do(ctx, func(ctx context.Context) error {
		told = false
		return request(ctx)
	})
	if err != nil && ctx.Err() != nil && !i.IsFinal(err) {
		err = errors.Join(context.Cause(ctx), err)
	}
	return told, err
}

// answered judges requests whose callers act on whatever a provider says: only one that may have been lost is sent
// again.
func answered(err error) bool { return lease.Final(err) || !lease.Unsettled(err) }

// failed tells the observer of a request that failed.
func (c *component) failed(e Event, what string, err error) {
	if what != "" {
		err = fmt.Errorf("%s: %w", what, err)
	}
	e.What, e.Err = RequestFailed, err
	c.emit(e)
}
