// Package fence rejects what a holder that lost its lock still writes. Each lease of a lock has a fencing token, a
// number above those of all earlier leases. What the lock protects keeps the highest token that it has seen, and
// rejects a lower one: STALE_TOKEN.
//
// Compare tokens as near to the effect as possible:
//
//	the effect is              use                                      compared
//	a row of a database        SQL.Update                               in the statement of the effect
//	a transaction              SQL.Do                                   in the transaction of the effect
//	an object of a bucket      PutObject                                in the conditional write
//	an HTTP service            NewHandler there, Transport in its       before the effect
//	                           callers
//
// Before the effect means that a program can still be paused in between, and write too late. For a transaction of
// Firestore or an item of DynamoDB, packages gcpfirestore and awsdynamodb have conditions.
//
// Tokens of two locks, or of two runs, have no order. So a fence keeps beside the token what it is one of, its subject,
// and compares no lease of another one: OTHER_SUBJECT, with both in the error. An effect that is made once, such as the
// payment of a request, needs no token: a row with a unique key in its own transaction is simpler.
//
// One rule holds everywhere. A token that equals the highest passes, because a holder does more than one thing. A lower
// one is stale. One that lies more than [MaxAhead] in the future was given by no lock, and would close the fence to all
// that were: it is an INVALID_ARGUMENT, as is a token of 0, which a lease has that can have none (one of a lock in a
// file, which reaches as far as the file); AllowNone in the options lets that one pass unchecked. Errors are those of
// package contracts: ask errors.Is(err, contracts.CodeStaleToken).
package fence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/fencing"
)

// MaxAhead is how far a token may lie in the future of the clock that checks it: tokens start at the time in
// microseconds.
const MaxAhead = fencing.MaxAhead

// MaxResourceBytes bounds the name of a resource.
const MaxResourceBytes = 256

// ErrNoToken is the cause of an INVALID_ARGUMENT for a lease without a token.
var ErrNoToken = errors.New("the lease has no fencing token")

// Store remembers the lease with the highest token of each resource. [Memory] does for one process, [SQL.Store] in a
// database, the fences of a server (client.Fences.For) and of a store of Leasehold (direct.Fences) for all that use it.
type Store interface {
	// Check lets a lease pass whose token is not lower than the highest of the resource so far, and remembers it. The
	// error STALE_TOKEN has the highest one; OTHER_SUBJECT means that leases of another lock or run were checked before.
	// After any other error the lease must not be relied on; checking again is harmless.
	Check(ctx context.Context, resource string, l Lease) error
}

// With returns a context that carries a lease, for [Transport]. The context of a lock or a run has its own already.
func With(ctx context.Context, l Lease) context.Context { return fencing.With(ctx, l) }

// Lease is a fencing token, and what it is a token of: the lock "lock/orders", its second permit "lock/orders#2", the
// run "run/invoice-7". Locks and runs have it: locks.Lock.Lease, once.Lock.Lease.
type Lease = fencing.Lease

// From returns the lease that the context carries: that of the lock or run whose context it is, or of [With], or, in a
// handler behind [NewHandler], the one of the request. Of several it is the innermost. A request with an
// Idempotency-Key has the one of its run.
func From(ctx context.Context) (l Lease, ok bool) { return fencing.From(ctx) }

// MaxSubjectBytes bounds the subject of a lease: a key of a lock with its permit.
const MaxSubjectBytes = fencing.MaxSubjectBytes

// refused says why a lease does not pass after another one; nil if it does.
func refused(l, before Lease) error {
	switch {
	case before.Subject == "":
		return nil
	case before.Subject != l.Subject:
		return contracts.Errorf(contracts.CodeOtherSubject, "%s", fencing.OtherSubject(l, before.Subject))
	case before.Token > l.Token:
		return stale(l.Token, before.Token)
	default:
		return nil
	}
}

// checkSubject reports whether a lease says what it is one of.
func checkSubject(l Lease) error {
	switch {
	case l.Subject == "":
		return invalid("subject", "is missing: take the lease of a lock or a run (Lease), or fence.From(ctx)")
	case len(l.Subject) > MaxSubjectBytes, !utf8.ValidString(l.Subject),
		strings.ContainsFunc(l.Subject, unicode.IsControl):
		return invalid("subject", fmt.Sprintf("must be UTF-8 of at most %d bytes without control characters", MaxSubjectBytes))
	default:
		return nil
	}
}

// rule is what every check begins with.
type rule struct {
	allowNone bool
	now       func() time.Time // nil means time.Now
}

// check reports whether a lease is to be compared; the error, INVALID_ARGUMENT, says why it cannot be.
func (r rule) check(l Lease) (compare bool, err error) {
	if l.Token == 0 {
		if r.allowNone {
			return false, nil
		}
		return false, noToken()
	}
	now := time.Now
	if r.now != nil {
		now = r.now
	}
	if err := fencing.Given(l.Token, now()); err != nil {
		return false, invalid("fencing_token", err.Error())
	}
	return true, checkSubject(l)
}

func noToken() error {
	e := invalid("fencing_token",
		"is missing: the lease has none, so nothing tells its holder from the next one. Set AllowNone if that is to pass")
	e.Cause = ErrNoToken
	return e
}

func invalid(field, problem string) *contracts.Error {
	e := contracts.Errorf(contracts.CodeInvalidArgument, "%s %s", field, problem)
	e.Field = field
	return e
}

// stale is the rejection of a token.
func stale(token, highest int64) error {
	e := contracts.Errorf(contracts.CodeStaleToken, "token %d, after %d: its holder has lost the lock and must stop",
		token, highest)
	e.HighestToken = highest
	return e
}

func checkResource(name string) error {
	switch {
	case name == "" || len(name) > MaxResourceBytes:
		e := contracts.Errorf(contracts.CodeInvalidArgument, "resource must have 1 to %d bytes, not %d",
			MaxResourceBytes, len(name))
		e.Field = "resource"
		return e
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return invalid("resource", "must be UTF-8 without control characters")
	}
	return nil
}

// Memory is a [Store] for one process: it forgets all when the process ends. Tokens that were rejected before can pass
// then, until a current one has come.
type Memory struct {
	rule rule
	most int

	mu      sync.Mutex
	highest map[string]Lease
}

var _ Store = (*Memory)(nil)

// MemoryOptions are the settings of [NewMemory]. The zero value works.
type MemoryOptions struct {
	// MaxResources is how many resources are remembered, 100 000 if it is 0. The first token of another one is an error,
	// LOCK_LIMIT: to forget one for it would let stale tokens pass.
	MaxResources int

	Now func() time.Time // the time, for [MaxAhead]; nil means time.Now
}

// NewMemory returns an empty memory. Options may be nil.
func NewMemory(o *MemoryOptions) *Memory {
	m := &Memory{most: 100_000, highest: map[string]Lease{}}
	if o != nil {
		m.rule.now = o.Now
		if o.MaxResources > 0 {
			m.most = o.MaxResources
		}
	}
	return m
}

// Check implements [Store].
func (m *Memory) Check(_ context.Context, resource string, l Lease) error {
	if err := checkResource(resource); err != nil {
		return err
	}
	if _, err := m.rule.check(l); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	highest, known := m.highest[resource]
	if !known && len(m.highest) >= m.most {
		return contracts.Errorf(contracts.CodeLockLimit,
			"tokens of %d resources are remembered, and no more: raise MaxResources", m.most)
	}
	if err := refused(l, highest); err != nil {
		return err
	}
	m.highest[resource] = l
	return nil
}
