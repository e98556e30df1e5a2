package sqstest

import (
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/emulator/internal/awsjson"
)

// Kind is what goes wrong with a request.
type Kind int

const (
	// FailBefore returns 500 InternalFailure without applying the request. The SDK retries.
	FailBefore Kind = iota + 1

	// FailAfter applies the request and then returns 500 InternalFailure. The SDK retries: a message may be sent twice,
	// and a received one is hidden from the second attempt.
	FailAfter

	// DropBefore closes the connection without applying the request: a request that was lost.
	DropBefore

	// DropAfter applies the request and then closes the connection without a response: a response that was lost.
	DropAfter

	// Throttle returns RequestThrottled without applying the request.
	Throttle

	// Delay waits before the request is applied. A request whose client has gone by then is not applied.
	Delay

	// Duplicate lets ReceiveMessage of a standard queue hand messages out without hiding them, so that the next receive
	// gets them too: delivery at least once.
	Duplicate
)

var kindNames = map[Kind]string{FailBefore: "FailBefore", FailAfter: "FailAfter", DropBefore: "DropBefore",
	DropAfter: "DropAfter", Throttle: "Throttle", Delay: "Delay", Duplicate: "Duplicate"}

// String returns the name of the constant.
func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// Fault is a rule that makes requests go wrong. A request meets it when all of Op, Queue and Match that are set agree.
// Every fault that a request meets happens to it; of those that replace its response, the one injected first.
type Fault struct {
	Kind  Kind
	Op    string // operation, such as "ReceiveMessage"; empty: every one
	Queue string // name of the queue; empty: any
	Match func(Request) bool
	Skip  int           // how many requests to let through before the first
	Times int           // how many requests to hit; 0: all until removed
	Delay time.Duration // with Delay: how long; must be positive
}

// Request is what a fault's Match is asked about. It must not call the server.
type Request struct {
	Op    string
	Queue string // its name, empty if the request names none
	Body  []byte // the JSON that was sent
}

// Injection is a fault in force.
type Injection struct{ rule *awsjson.Rule[Fault] }

// Inject puts a fault in force until its Times are over or it is removed. It panics when the fault makes no sense: an
// unknown Kind or Op, a Delay without a duration, a Duplicate of anything but ReceiveMessage.
func (s *Server) Inject(f Fault) *Injection {
	switch {
	case kindNames[f.Kind] == "":
		panic(fmt.Sprintf("sqs: Inject: %v is not a kind of fault", f.Kind))
	case f.Op != "" && operations[f.Op] == nil:
		panic(fmt.Sprintf("sqs: Inject: there is no operation %q", f.Op))
	case f.Kind == Duplicate && f.Op != "" && f.Op != "ReceiveMessage":
		panic(fmt.Sprintf("sqs: Inject: %v cannot happen to %s, only to ReceiveMessage", f.Kind, f.Op))
	case f.Kind == Delay && f.Delay <= 0:
		panic(fmt.Sprintf("sqs: Inject: %v needs a positive Delay, found %v", f.Kind, f.Delay))
	case f.Skip < 0 || f.Times < 0:
		panic(fmt.Sprintf("sqs: Inject: Skip %d and Times %d must not be negative", f.Skip, f.Times))
	}
	return &Injection{s.book.Inject(f, f.Skip, f.Times)}
}

// Remove takes the fault out of force. Removing it twice is allowed.
func (in *Injection) Remove() { in.rule.Remove() }

// Hits is how many requests the fault has happened to.
func (in *Injection) Hits() int { return in.rule.Hits() }

// plan is what the faults that a request meets make of it.
type plan struct {
	refusal    *apiError // instead of running it
	lost       bool      // an internal error instead of its response, after running it
	dropBefore bool
	dropAfter  bool
	duplicate  bool
	delay      time.Duration
}

// plan finds the faults that a request meets and counts them. The server's mutex is held.
func (s *Server) plan(req Request) plan {
	var p plan
	for _, f := range s.book.Hit(func(f *Fault) bool { return f.meets(req) }) {
		p.add(f)
	}
	return p
}

func (f *Fault) meets(req Request) bool {
	switch {
	case f.Op != "" && f.Op != req.Op, f.Kind == Duplicate && req.Op != "ReceiveMessage",
		f.Queue != "" && f.Queue != req.Queue:
		return false
	default:
		return f.Match == nil || f.Match(req)
	}
}

func (p *plan) add(f Fault) {
	switch {
	case f.Kind == Delay:
		p.delay += f.Delay
	case f.Kind == Duplicate:
		p.duplicate = true
	case p.refusal != nil || p.lost || p.dropBefore || p.dropAfter: // an earlier fault has replaced the response
	case f.Kind == FailBefore:
		p.refusal = internalError()
	case f.Kind == FailAfter:
		p.lost = true
	case f.Kind == DropBefore:
		p.dropBefore = true
	case f.Kind == DropAfter:
		p.dropAfter = true
	case f.Kind == Throttle:
		p.refusal = newError("RequestThrottled", "Request is throttled.")
	}
}
