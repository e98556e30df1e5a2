package dynamodbtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/emulator/internal/awsjson"
)

// Kind is what goes wrong with a request.
type Kind int

const (
	// FailBefore returns 500 InternalServerError without applying the request. The SDK retries.
	FailBefore Kind = iota + 1

	// FailAfter applies the request and then returns 500 InternalServerError. The SDK retries, and a conditional
	// write may then fail on what it wrote itself.
	FailAfter

	// DropBefore closes the connection without applying the request: a request that was lost.
	DropBefore

	// DropAfter applies the request and then closes the connection without a response: a response that was lost.
	DropAfter

	// Throttle returns ProvisionedThroughputExceededException without applying the request.
	Throttle

	// ThrottleAPI returns ThrottlingException without applying the request.
	ThrottleAPI

	// Conflict makes another transaction have hold of the items: TransactionConflictException for PutItem, UpdateItem
	// and DeleteItem, TransactionCanceledException for transactions, with the reason TransactionConflict at each item
	// that the fault's Table and Key select. Nothing is applied.
	Conflict

	// ReplicatedConflict makes a request in another Region modify the items of a table with multi-Region strong
	// consistency: ReplicatedWriteConflictException for PutItem, UpdateItem and DeleteItem. Nothing is applied.
	ReplicatedConflict

	// NoTransactions rejects TransactWriteItems and TransactGetItems with a ValidationException, as a table with
	// multi-Region strong consistency does. The text is this server's own.
	NoTransactions

	// InProgress returns TransactionInProgressException to TransactWriteItems: an earlier attempt with the same token
	// has not ended. Nothing is applied.
	InProgress

	// Delay waits before the request is applied. A request whose client has gone by then is not applied.
	Delay

	// DelayResponse applies the request and waits before the response. A client that goes away meanwhile does not know
	// that its write was applied.
	DelayResponse

	// StaleRead serves GetItem, Query and Scan without ConsistentRead from the past: single items as they
	// were before their latest change, queries and scans as if the table's latest write had not happened.
	StaleRead

	// SkewDate shifts the Date header of the response by Skew. Everything else happens as always.
	SkewDate
)

var kindNames = map[Kind]string{FailBefore: "FailBefore", FailAfter: "FailAfter", DropBefore: "DropBefore",
	DropAfter: "DropAfter", Throttle: "Throttle", ThrottleAPI: "ThrottleAPI", Conflict: "Conflict",
	ReplicatedConflict: "ReplicatedConflict", NoTransactions: "NoTransactions",
	InProgress: "InProgress", Delay: "Delay", DelayResponse: "DelayResponse", StaleRead: "StaleRead", SkewDate: "SkewDate"}

// String returns the name of the constant.
func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// kindOps are the operations that a kind can happen to; kinds that are not listed can happen to all.
var kindOps = map[Kind][]string{
	Conflict:   {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "TransactGetItems"},
	InProgress: {"TransactWriteItems"},

	ReplicatedConflict: {"PutItem", "UpdateItem", "DeleteItem"},
	NoTransactions:     {"TransactWriteItems", "TransactGetItems"},
	StaleRead:          {"GetItem", "Query", "Scan"},
}

// Fault is a rule that makes requests go wrong. A request meets it when all of Op, Table, Key and Match that are set
// agree. Every fault that a request meets happens to it; of those that replace its response, the one injected first.
type Fault struct {
	Kind  Kind
	Op    string            // operation, such as "UpdateItem"; empty: every one that the Kind can happen to
	Table string            // a table that the request touches; empty: any
	Key   map[string]string // key attributes of an item that the request touches, written as in [Item]; nil: any
	Match func(Request) bool
	Skip  int           // how many requests to let through before the first
	Times int           // how many requests to hit; 0: all until removed
	Delay time.Duration // with Delay and DelayResponse: how long; must be positive
	Skew  time.Duration // with SkewDate: how far the header is ahead of the server's clock; negative: behind
}

// Request is what a fault's Match is asked about. It must not call the server.
type Request struct {
	Op    string
	Items []Item // that the request reads or writes by their keys; queries and scans name their table only
	Body  []byte // the JSON that was sent
}

// Item is an item that a request touches.
type Item struct {
	Table string
	Key   map[string]string // text as it is, numbers as the service writes them, binary in base64; nil if unknown
}

// Injection is a fault in force.
type Injection struct{ rule *awsjson.Rule[Fault] }

// Inject puts a fault in force until its Times are over or it is removed. It panics when the fault makes no sense: an
// unknown Kind or Op, a Kind that cannot happen to the Op, a Delay without a duration.
func (s *Server) Inject(f Fault) *Injection {
	ops, limited := kindOps[f.Kind]
	switch {
	case kindNames[f.Kind] == "":
		panic(fmt.Sprintf("dynamodb: Inject: %v is not a kind of fault", f.Kind))
	case f.Op != "" && operations[f.Op] == nil:
		panic(fmt.Sprintf("dynamodb: Inject: there is no operation %q", f.Op))
	case f.Op != "" && limited && !slices.Contains(ops, f.Op):
		panic(fmt.Sprintf("dynamodb: Inject: %v cannot happen to %s, only to %v", f.Kind, f.Op, ops))
	case (f.Kind == Delay || f.Kind == DelayResponse) && f.Delay <= 0:
		panic(fmt.Sprintf("dynamodb: Inject: %v needs a positive Delay, found %v", f.Kind, f.Delay))
	case f.Skip < 0 || f.Times < 0:
		panic(fmt.Sprintf("dynamodb: Inject: Skip %d and Times %d must not be negative", f.Skip, f.Times))
	}
	return &Injection{s.book.Inject(f, f.Skip, f.Times)}
}

// Remove takes the fault out of force. Removing it twice is allowed.
func (in *Injection) Remove() { in.rule.Remove() }

// Hits is the number of requests that the fault has happened to.
func (in *Injection) Hits() int { return in.rule.Hits() }

// plan is what the faults that a request meets make of it.
type plan struct {
	mode
	refusal     *apiError // instead of running it
	lost        *apiError // instead of its response, after running it
	dropBefore  bool
	dropAfter   bool
	delay       time.Duration
	delayAnswer time.Duration
	skew        time.Duration
}

// mode is what a request needs to know of its plan while it runs.
type mode struct{ stale bool }

// plan finds the faults that a request meets and counts them. The server's mutex is held.
func (s *Server) plan(req Request) plan {
	var p plan
	for _, f := range s.book.Hit(func(f *Fault) bool { return f.meets(req) }) {
		p.add(f, req)
	}
	return p
}

func (f *Fault) meets(req Request) bool {
	ops, limited := kindOps[f.Kind]
	switch {
	case f.Op != "" && f.Op != req.Op:
		return false
	case limited && !slices.Contains(ops, req.Op):
		return false
	case (f.Table != "" || f.Key != nil) && !slices.ContainsFunc(req.Items, f.selects):
		return false
	default:
		return f.Match == nil || f.Match(req)
	}
}

// selects reports whether an item has the fault's table and key.
func (f *Fault) selects(item Item) bool {
	if f.Table != "" && f.Table != item.Table {
		return false
	}
	for name, v := range f.Key {
		if found, ok := item.Key[name]; !ok || found != v {
			return false
		}
	}
	return true
}

// settled reports whether an earlier fault has replaced the response already.
func (p *plan) settled() bool {
	return p.refusal != nil || p.lost != nil || p.dropBefore || p.dropAfter
}

func (p *plan) add(f Fault, req Request) {
	switch f.Kind {
	case Delay:
		p.delay += f.Delay
	case DelayResponse:
		p.delayAnswer += f.Delay
	case StaleRead:
		p.stale = true
	case SkewDate:
		p.skew += f.Skew
	default:
		if !p.settled() {
			p.settle(f, req)
		}
	}
}

// settle replaces the response.
func (p *plan) settle(f Fault, req Request) {
	switch f.Kind {
	case FailBefore:
		p.refusal = internalError()
	case FailAfter:
		p.lost = internalError()
	case DropBefore:
		p.dropBefore = true
	case DropAfter:
		p.dropAfter = true
	case Throttle:
		p.refusal = newError(prefixDynamo+"ProvisionedThroughputExceededException",
			"The level of configured provisioned throughput for the table was exceeded. "+
				"Consider increasing your provisioning level with the UpdateTable API.")
	case ThrottleAPI:
		p.refusal = newError(prefixLimits+"ThrottlingException", "Rate of requests exceeds the allowed throughput.")
	case InProgress:
		p.refusal = newError(prefixDynamo+"TransactionInProgressException",
			"The transaction with the given request token is already in progress.")
	case Conflict:
		p.refusal = f.conflict(req)
	case ReplicatedConflict:
		p.refusal = newError(prefixDynamo+"ReplicatedWriteConflictException",
			"One or more items in this request are being modified by a request in another Region.")
	case NoTransactions:
		p.refusal = invalid("Transactions are not supported on tables with multi-Region strong consistency")
	default:
		panic("unreachable: no other kind replaces the response")
	}
}

func (f *Fault) conflict(req Request) *apiError {
	const ongoing = "Transaction is ongoing for the item"
	if req.Op != "TransactWriteItems" && req.Op != "TransactGetItems" {
		return newError(prefixDynamo+"TransactionConflictException", ongoing)
	}
	causes := make([]cause, len(req.Items))
	for i, item := range req.Items {
		causes[i].Code = "None"
		if f.selects(item) {
			causes[i] = cause{Code: "TransactionConflict", Message: ongoing}
		}
	}
	return canceled(causes)
}
