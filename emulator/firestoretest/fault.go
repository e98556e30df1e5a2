package firestoretest

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// A Fault is a rule: requests of a method that match meet an effect. Of several rules that fit a request the one
// injected first is used.
type Fault struct {
	Method string                   // "Commit"; empty for every method
	Match  func(proto.Message) bool // nil matches every request; it must not change the request
	Skip   int                      // requests that match and pass unharmed before the first that does not
	Times  int                      // requests that meet the effect; 0 for all until the rule is removed
	Effect Effect                   // what happens
}

// An Effect is one of [Fail], [ApplyThenFail], [ApplyLate] and [Delay].
type Effect interface {
	// before runs before the request is handled: it may end the request with an error.
	before(context.Context) error
	// after turns the outcome of a request that was handled into what the client receives.
	after(error) error
}

// Fail returns an error and does nothing.
type Fail struct {
	Code    codes.Code
	Message string
}

func (f Fail) before(context.Context) error { return failure(f.Code, f.Message) }

func (Fail) after(err error) error { return err }

// ApplyThenFail handles the request and then returns an error, whatever its outcome was: the response is lost. A stream
// loses its end, not the messages before it. With UNAVAILABLE or RESOURCE_EXHAUSTED the generated client code sends a
// Commit again by itself, and meets its own first one.
type ApplyThenFail struct {
	Code    codes.Code
	Message string
}

func (ApplyThenFail) before(context.Context) error { return nil }

func (f ApplyThenFail) after(error) error { return failure(f.Code, f.Message) }

// ApplyLate responds first and handles the request later, out of reach of the client: after the time After, and not
// before Until is closed (nil: at once). With the Code OK it does not respond at all, so that the client runs into its
// own deadline. It applies to unary methods; streams pass it unharmed. See [Injection.Wait].
type ApplyLate struct {
	Code    codes.Code
	Message string
	After   time.Duration
	Until   <-chan struct{}
}

func (ApplyLate) before(context.Context) error { return nil }

func (ApplyLate) after(err error) error { return err }

// run responds in place of call and calls it later.
func (a ApplyLate) run(ctx context.Context, s *Server, hit *Injection, call func(context.Context) error) error {
	go func() {
		defer s.late.Done()
		defer hit.lateDone()
		later, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		go func() {
			select {
			case <-s.stopping:
				cancel()
			case <-later.Done():
			}
		}()
		if (Delay{For: a.After, Until: a.Until}).wait(later) == nil {
			_ = call(later) // its outcome is no one's business any more
		}
	}()
	if a.Code != codes.OK {
		return failure(a.Code, a.Message)
	}
	<-ctx.Done()
	return status.FromContextError(ctx.Err()).Err()
}

// Delay handles the request after the time For, and not before Until is closed (nil: at once). A client that gives up
// meanwhile has its request dropped.
type Delay struct {
	For   time.Duration
	Until <-chan struct{}
}

func (d Delay) before(ctx context.Context) error { return d.wait(ctx) }

func (Delay) after(err error) error { return err }

func (d Delay) wait(ctx context.Context) error {
	timer := time.NewTimer(d.For)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	if d.Until == nil {
		return nil
	}
	select {
	case <-d.Until:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func failure(code codes.Code, message string) error {
	if message == "" {
		message = "injected fault"
	}
	return status.Error(code, message)
}

// An Injection is a fault at work.
type Injection struct {
	server *Server
	fault  Fault

	mu      sync.Mutex
	matched int
	hits    int
	pending int           // late applications not yet done
	idle    chan struct{} // closed while pending is 0
}

// Inject puts a fault to work, until it is removed or has happened Times times. It panics if the fault has no effect,
// or one of [Fail] and [ApplyThenFail] with the code OK: that is a mistake in the test.
func (s *Server) Inject(f Fault) *Injection {
	switch e := f.Effect.(type) {
	case nil:
		panic("firestore emulator: Inject: Fault.Effect is nil: give Fail, ApplyThenFail, ApplyLate or Delay")
	case Fail:
		mustFail("Fail", e.Code)
	case ApplyThenFail:
		mustFail("ApplyThenFail", e.Code)
	}
	i := &Injection{server: s, fault: f, idle: make(chan struct{})}
	close(i.idle)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, i)
	return i
}

func mustFail(effect string, code codes.Code) {
	if code == codes.OK {
		panic("firestore emulator: Inject: " + effect + " with the code OK fails nothing: set Code")
	}
}

// Remove ends the fault. Requests that have met it already are not changed by that.
func (i *Injection) Remove() {
	i.server.mu.Lock()
	defer i.server.mu.Unlock()
	if at := slices.Index(i.server.faults, i); at >= 0 {
		i.server.faults = slices.Delete(i.server.faults, at, at+1)
	}
}

// Hits returns how many requests have met the effect.
func (i *Injection) Hits() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hits
}

// Wait waits until every request that the fault has put off ([ApplyLate]) was handled or dropped.
func (i *Injection) Wait(ctx context.Context) error {
	i.mu.Lock()
	idle := i.idle
	i.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (i *Injection) lateDone() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pending--; i.pending == 0 {
		close(i.idle)
	}
}

// hit finds the fault that a request meets, nil if none, and counts it.
func (s *Server) hit(method string, m proto.Message, unary bool) *Injection {
	s.mu.Lock()
	faults := slices.Clone(s.faults) // Match may call back
	s.mu.Unlock()
	for _, i := range faults {
		if i.fault.Method != "" && i.fault.Method != method || i.fault.Match != nil && !i.fault.Match(m) {
			continue
		}
		if i.take(unary) {
			return i
		}
	}
	return nil
}

// take counts a request that matches and reports whether it meets the effect.
func (i *Injection) take(unary bool) bool {
	_, late := i.fault.Effect.(ApplyLate)
	if late && !unary {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.matched++
	if i.matched <= i.fault.Skip || i.fault.Times > 0 && i.hits >= i.fault.Times {
		return false
	}
	i.hits++
	if late {
		i.server.late.Add(1)
		if i.pending++; i.pending == 1 {
			i.idle = make(chan struct{})
		}
	}
	return true
}
