package cloudtaskstest

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Dispatch is the method of a [Fault] that is about deliveries.
const Dispatch = "Dispatch"

// A Fault is a rule: calls of a method, or deliveries, that match meet an effect. Of several rules that fit the one
// injected first is used.
type Fault struct {
	Method string // "CreateTask", or Dispatch
	// of the request, or of the Task that is delivered; nil matches all; it must not change it
	Match  func(proto.Message) bool
	Skip   int    // those that match and pass unharmed before the first that does not
	Times  int    // those that meet the effect; 0 for all until the rule is removed
	Effect Effect // what happens
}

// An Effect is one of [Fail] and [ApplyThenFail], for calls, and [DeliverTwice], [DeliverAgain], [LoseResponse],
// [CutOff], [ChangeToken] and [NoToken], for deliveries.
type Effect interface {
	// ofDelivery tells the two kinds apart.
	ofDelivery() bool
}

// Fail returns an error and does nothing.
type Fail struct {
	Code    codes.Code
	Message string
}

// ApplyThenFail executes the call and then returns an error: the response is lost. A call that is rejected is rejected
// with the rejection.
type ApplyThenFail struct {
	Code    codes.Code
	Message string
}

// DeliverTwice sends two equal requests at once. The task is acknowledged if one of them is.
type DeliverTwice struct{}

// DeliverAgain sends an equal request after the task was acknowledged. Its response changes nothing.
type DeliverAgain struct{}

// LoseResponse has the worker's response get lost, whatever it was.
type LoseResponse struct{}

// CutOff ends a delivery without a response once the channel is closed, as the task's own deadline would after 15
// seconds or more: the worker sees its connection go, and the task comes again.
type CutOff struct{ When <-chan struct{} }

// ChangeToken changes the claims of the token before it is signed.
type ChangeToken struct{ Change func(claims map[string]any) }

// NoToken leaves the token out.
type NoToken struct{}

func (Fail) ofDelivery() bool          { return false }
func (ApplyThenFail) ofDelivery() bool { return false }
func (DeliverTwice) ofDelivery() bool  { return true }
func (DeliverAgain) ofDelivery() bool  { return true }
func (LoseResponse) ofDelivery() bool  { return true }
func (CutOff) ofDelivery() bool        { return true }
func (ChangeToken) ofDelivery() bool   { return true }
func (NoToken) ofDelivery() bool       { return true }

func failure(code codes.Code, message string) error {
	if message == "" {
		message = "injected fault"
	}
	return status.Error(code, message)
}

// An Injection is a fault at work.
type Injection struct {
	server  *Server
	fault   Fault
	matched int
	hits    int
}

// Inject puts a fault to work, until it is removed or has happened Times times. It panics if the effect does not fit
// the method, or fails nothing: that is a mistake in the test.
func (s *Server) Inject(f Fault) *Injection {
	if f.Method == "" || f.Effect == nil || f.Effect.ofDelivery() != (f.Method == Dispatch) {
		panic(
			"cloud tasks emulator: Inject: Fail and ApplyThenFail are for calls, such as CreateTask, the other effects for Dispatch")
	}
	switch e := f.Effect.(type) {
	case Fail:
		mustFail(e.Code)
	case ApplyThenFail:
		mustFail(e.Code)
	}
	i := &Injection{server: s, fault: f}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, i)
	return i
}

func mustFail(code codes.Code) {
	if code == codes.OK {
		panic("cloud tasks emulator: Inject: the code OK fails nothing: set Code")
	}
}

// Hits returns how many calls or deliveries have met the effect.
func (i *Injection) Hits() int {
	i.server.mu.Lock()
	defer i.server.mu.Unlock()
	return i.hits
}

// hit finds the effect that a call or a delivery meets, nil if none, and counts it.
func (s *Server) hit(method string, m proto.Message) Effect {
	s.mu.Lock()
	faults := slices.Clone(s.faults) // Match may call back
	s.mu.Unlock()
	for _, i := range faults {
		if i.fault.Method == method && (i.fault.Match == nil || i.fault.Match(m)) && i.take() {
			return i.fault.Effect
		}
	}
	return nil
}

// take counts what matches and reports whether it meets the effect.
func (i *Injection) take() bool {
	i.server.mu.Lock()
	defer i.server.mu.Unlock()
	i.matched++
	if i.matched <= i.fault.Skip || i.fault.Times > 0 && i.hits >= i.fault.Times {
		return false
	}
	i.hits++
	return true
}
