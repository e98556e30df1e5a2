package lock

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// told is what the caller of a refused command learns.
type told struct {
	code       Code
	owner      string        // whose lease it is about
	expires    time.Duration // when that expires, since epoch; 0 if it is not told
	retry      time.Duration
	position   int64
	token      int64 // the nth of the lock; 0 if none is told
	detail     string
	mode       Mode
	limit, win int64
}

// tells is what an outcome says.
func tells(o Outcome) told {
	t := told{
		code: o.Code, owner: o.Lease.Owner, retry: o.RetryAfter, position: o.Position, detail: o.Detail,
		mode: o.Lease.Mode, limit: o.Lease.Limit, win: o.Lease.WindowSeconds,
	}
	if !o.Lease.ExpiresAt.IsZero() {
		t.expires = o.Lease.ExpiresAt.Sub(epoch)
	}
	if o.Lease.Token != 0 {
		t.token = o.Lease.Token - epoch.UnixMicro()
	}
	return t
}

// refusal is a command that is refused, and what its caller is told.
type refusal struct {
	name   string
	before func(*stage)
	send   command
	want   told
	shared *told // in shared form, where that is something else
}

// The operations of the contract.
const (
	acquireOne  = "/v1/tenants/{tenant_id}/locks/{lock_key}/acquire"
	renewOne    = "/v1/tenants/{tenant_id}/locks/{lock_key}/renew"
	releaseOne  = "/v1/tenants/{tenant_id}/locks/{lock_key}/release"
	forceOne    = "/v1/tenants/{tenant_id}/locks/{lock_key}/force-release"
	acquireMany = "/v1/tenants/{tenant_id}/lock-sets/acquire"
	renewMany   = "/v1/tenants/{tenant_id}/lock-sets/renew"
	releaseMany = "/v1/tenants/{tenant_id}/lock-sets/release"
)

// operation is the operation of a command.
func operation(c any) string {
	switch c.(type) {
	case Acquire:
		return acquireOne
	case Renew:
		return renewOne
	case Release:
		return releaseOne
	case ForceRelease:
		return forceOne
	case AcquireSet:
		return acquireMany
	case RenewSet:
		return renewMany
	case ReleaseSet:
		return releaseMany
	}
	panic(fmt.Sprintf("%T", c))
}

// put changes an acquire.
func (c Acquire) put(change func(*Acquire)) Acquire {
	change(&c)
	return c
}

func withDelay(c *Acquire)   { c.LockDelaySeconds = 30 }
func withReplace(c *Acquire) { c.Replace = true }

func force(request string) ForceRelease {
	return ForceRelease{ID: subject, By: "root", Reason: "hangs", RequestID: request}
}

// dee asks for several locks.
var dee = Acquire{ID: subject, Owner: "dee", RequestID: "r-dee", TTLSeconds: 60, set: "several"}

// reserves gives the lock a reservation of a request for several locks whose turn has not come: it keeps no one from
// the lock, and is something that only the shared form can say.
func (s *stage) reserves() {
	s.Helper()
	if o := s.send(reserve{acquire: dee}); o.Code != OK {
		s.Fatalf("got %+v", o)
	}
	r, err := s.store.Get(s.Context(), subject.key())
	if err != nil || r.Docs[0][fState] != docstore.Value(docstore.String(shared)) {
		s.Fatalf("the lock is in plain form: %v, %v", r.Docs, err)
	}
}

// The refusals of a lock that has one holder at a time: they are the same in both forms, but for what the shared form
// knows of leases that have been followed by others.
func exclusiveRefusals() []refusal {
	const (
		otherParameters = "this request_id was used with other parameters, such as ttl_seconds or metadata; use a new request_id"
		hasEnded        = "the lease that this request_id obtained has ended; use a new request_id"
		notReplaceable  = "its holder was acquired without replace, so that no one may replace it"
		annExpired      = "the lease of ann expired at 2026-01-01T00:01:00.000Z; its lock delay of 30 s keeps the lock closed until 2026-01-01T00:01:30.000Z"
		annForced       = "the lease of ann was ended by force at 2026-01-01T00:00:20.000Z; its lock delay of 30 s keeps the lock closed until " +
			"2026-01-01T00:00:50.000Z"
		neverGranted = "there is no lease with this token: none was ever granted with it, or the record of the lock was removed since"
		laterLease   = "a later lease has been granted; stop the work that this token protects"
		laterSince   = "; later leases have been granted since"
		byRoot       = "the lease was ended by root: hangs"
		expired      = "the lease expired at 2026-01-01T00:01:00.000Z; acquire the lock again"
		wasReleased  = "the lease was released at 2026-01-01T00:00:20.000Z; acquire the lock again"
		replacedBy   = "the lease was replaced by bob; stop the work that this token protects"
		notOwner     = "the lease belongs to another owner_id"
		noOne        = "no one holds the lock"
		closedToo    = "no one holds the lock, and it is closed all the same; a force-release without lease_id opens it"
	)
	ann := try("ann", Exclusive)
	holds := func(changes ...func(*Acquire)) func(*stage) {
		c := ann
		for _, change := range changes {
			change(&c)
		}
		return func(s *stage) {
			s.granted(c, 1, 1)
			s.pass(10 * time.Second)
		}
	}
	then := func(steps ...func(*stage)) func(*stage) {
		return func(s *stage) {
			for _, step := range steps {
				step(s)
			}
		}
	}
	passes := func(seconds int) func(*stage) {
		return func(s *stage) { s.pass(time.Duration(seconds) * time.Second) }
	}
	sends := func(c command) func(*stage) {
		return func(s *stage) {
			s.Helper()
			if o := s.send(c); o.Code != OK {
				s.Fatalf("%#v: got %+v", c, o)
			}
			s.pass(10 * time.Second)
		}
	}
	ended, forced := then(holds(), passes(10), sends(give("ann", 1))), then(holds(), passes(10), sends(force("f1")))
	gone, bobHas := then(holds(), passes(60)), sends(try("bob", Exclusive))
	closed, closedByForce := then(holds(withDelay), passes(60)), then(holds(withDelay), passes(10), sends(force("f1")))
	bob := try("bob", Exclusive)
	held := told{code: Held, owner: "ann", expires: time.Minute, retry: 50 * time.Second}
	with := func(t told, change func(*told)) told {
		change(&t)
		return t
	}
	detail := func(text string) func(*told) { return func(t *told) { t.detail = text } }
	inLine := func(t *told) { t.position = 1 }
	named := func(c ForceRelease, leaseID string) ForceRelease {
		c.LeaseID = leaseID
		return c
	}
	delayed := func(expires time.Duration, detail string) told {
		return told{code: Delayed, owner: "ann", expires: expires, retry: 20 * time.Second, detail: detail}
	}
	reused := func(token int64, detail string) told {
		return told{code: RequestIDReused, token: token, detail: detail}
	}
	in := func(t told) *told { return &t }

	return []refusal{
		{"held", holds(), bob, held, nil},
		{"held, and the caller waits", holds(), bob.put(func(c *Acquire) { c.WaitSeconds = 20 }), held,
			in(with(held, inLine))},
		{"held, and the caller waits in line", holds(), wait("bob", Exclusive), with(held, inLine), nil},
		{"held, and a reader asks", holds(), try("bob", Shared), held, nil},
		{"held, and a reader waits in line", holds(), wait("bob", Shared), with(held, inLine), nil},
		{"held with a lock delay", holds(withDelay), bob, with(held, func(t *told) { t.retry += 30 * time.Second }), nil},
		{"held with a lock delay, and the caller waits in line", holds(withDelay), wait("bob", Exclusive),
			with(held, func(t *told) {
				t.retry += 30 * time.Second
				t.position = 1
			}), nil},
		{"held, not to be replaced", holds(), bob.put(withReplace), with(held, detail(notReplaceable)), nil},
		{"held by the same owner", holds(), ann.put(func(c *Acquire) { c.RequestID = "r2" }),
			with(held, detail("this owner_id holds the lock, under another request_id")), nil},
		{"held by a holder that the caller may not replace as it is its own", holds(),
			ann.put(withReplace).put(func(c *Acquire) { c.RequestID = "r2" }), with(held, detail(notReplaceable)), nil},
		{"held in another mode", holds(), try("bob", Permits),
			told{code: ModeDiffers,
				detail: "the lock is held or waited for in mode exclusive or shared; ask for that, or wait until it is free"}, nil},
		{"held at a rate", holds(), try("bob", Rate),
			told{code: ModeDiffers,
				detail: "the lock is held or waited for in mode exclusive or shared; ask for that, or wait until it is free"}, nil},

		{"closed by the delay of a lease that expired", closed, bob, delayed(time.Minute, annExpired), nil},
		{"closed, and the caller replaces", then(holds(withDelay, withReplace), passes(60)), bob.put(withReplace),
			delayed(time.Minute, annExpired), nil},
		{"closed, and the caller waits in line", closed, wait("bob", Exclusive),
			with(delayed(time.Minute, annExpired), inLine), nil},
		{"closed by the delay of a lease that was ended by force", closedByForce, bob,
			delayed(time.Minute, annForced),
			in(delayed(0, annForced))}, // which does not keep when the lease would have expired

		{"a request_id with another ttl", holds(), ann.put(func(c *Acquire) { c.TTLSeconds = 5 }), reused(0, otherParameters),
			nil},
		{"a request_id with a policy", holds(), ann.put(withReplace), reused(0, otherParameters), nil},
		{"a request_id after its lease expired", gone, ann, reused(0, hasEnded), nil},
		{"a request_id after its lease was released", ended, ann, reused(0, hasEnded), nil},
		{"a request_id after its lease was ended by force", forced, ann, reused(0, hasEnded), nil},
		{"a request_id while its lease closes the lock", closed, ann.put(withDelay), reused(0, hasEnded), nil},
		{"a request_id after the lease of another", then(ended, bobHas), ann, reused(0, hasEnded), nil},

		{"renew what was never granted", holds(), extend("ann", 7, "n"),
			told{code: LeaseLost, token: 7, detail: neverGranted}, nil},
		{"renew what expired", gone, extend("ann", 1, "n"), told{code: LeaseExpired, token: 1, expires: time.Minute,
			detail: expired}, nil},
		{"renew what expired, as another", gone, extend("bob", 1, "n"),
			told{code: LeaseExpired, token: 1, expires: time.Minute, detail: expired}, nil},
		{"renew what expired and closes the lock", closed, extend("ann", 1, "n"),
			told{code: LeaseExpired, token: 1, expires: time.Minute, detail: expired}, nil},
		{"renew what was released", ended, extend("ann", 1, "n"), told{code: LeaseReleased, token: 1, detail: wasReleased},
			nil},
		{"renew what was ended by force", forced, extend("ann", 1, "n"), told{code: LeaseReleased, token: 1, detail: byRoot},
			nil},
		{"renew what was ended by force and closes the lock", closedByForce, extend("ann", 1, "n"),
			told{code: LeaseReleased, token: 1, detail: byRoot}, nil},
		{"renew what another has", holds(), extend("bob", 1, "n"), told{code: NotOwner, token: 1, detail: notOwner}, nil},
		{"renew what expires at another time", holds(), Renew{ID: subject, Owner: "ann", Token: token(1), RequestID: "n",
			TTLSeconds: 60, ExpiresAt: epoch},
			told{code: LeaseChanged, token: 1, expires: time.Minute,
				detail: "the lease expires at 2026-01-01T00:01:00.000Z; name this time, or none, to renew it"}, nil},
		{"renew what expired and another has", then(gone, bobHas), extend("ann", 1, "n"),
			told{code: LeaseLost, token: 1, detail: laterLease},
			in(told{code: LeaseExpired, token: 1, expires: time.Minute, detail: expired})},
		{"renew what was replaced", then(holds(withReplace), passes(10), sends(bob.put(withReplace))), extend("ann", 1, "n"),
			told{code: LeaseLost, token: 1, detail: replacedBy}, nil},
		{"renew with another ttl", then(holds(), sends(extend("ann", 1, "n"))),
			Renew{ID: subject, Owner: "ann", Token: token(1), RequestID: "n", TTLSeconds: 5},
			reused(1, "this request_id renewed the lease with another ttl_seconds; use a new request_id"), nil},

		{"release what was never granted", holds(), give("ann", 7), told{code: LeaseLost, token: 7, detail: neverGranted},
			nil},
		{"release what expired", gone, give("ann", 1), told{code: LeaseExpired, token: 1, expires: time.Minute,
			detail: expired}, nil},
		{"release what was ended by force", forced, give("ann", 1), told{code: LeaseReleased, token: 1, detail: byRoot}, nil},
		{"release what was released by another request", ended,
			Release{ID: subject, Owner: "ann", Token: token(1), RequestID: "e2"},
			told{code: LeaseReleased, token: 1, detail: wasReleased}, nil},
		{"release what another has", holds(), give("bob", 1), told{code: NotOwner, token: 1, detail: notOwner}, nil},
		{"release what was released, and another has", then(ended, bobHas),
			Release{ID: subject, Owner: "ann", Token: token(1), RequestID: "e2"},
			told{code: LeaseLost, token: 1,
				detail: "the lease was released at 2026-01-01T00:00:20.000Z, by a request that is no longer remembered" +
					laterSince},
			in(told{code: LeaseReleased, token: 1, detail: wasReleased})},
		{"release what was replaced", then(holds(withReplace), passes(10), sends(bob.put(withReplace))), give("ann", 1),
			told{code: LeaseLost, token: 1, detail: replacedBy}, nil},

		{"end what expired", gone, force("f"), told{code: NotHeld, owner: "ann", token: 1, expires: time.Minute,
			detail: noOne}, nil},
		{"end what was released", ended, force("f"), told{code: NotHeld, owner: "ann", token: 1, expires: time.Minute,
			detail: noOne},
			in(told{code: NotHeld, owner: "ann", token: 1, detail: noOne})},
		{"end what was ended", forced, force("f"), told{code: NotHeld, owner: "ann", token: 1, expires: time.Minute,
			detail: noOne},
			in(told{code: NotHeld, owner: "ann", token: 1, detail: noOne})},
		{"end a lease that expired and closes the lock", closed, named(force("f"), "l-ann"),
			told{code: NotHeld, owner: "ann", token: 1, expires: time.Minute, detail: closedToo}, nil},
		{"end a lease that was ended and closes the lock", closedByForce, named(force("f"), "l-ann"),
			told{code: NotHeld, owner: "ann", token: 1, expires: time.Minute, detail: closedToo},
			in(told{code: NotHeld, owner: "ann", token: 1, detail: closedToo})},
		{"end another lease", holds(), named(force("f"), "l-bob"),
			told{code: LeaseLost, detail: "the lock is held under another lease_id; look at the lock again before ending it"},
			nil},
		{"end for another reason", forced, named(force("f1"), "l-ann"),
			reused(0, "this request_id ended a lease with another reason or lease_id; use a new request_id"), nil},
	}
}

// TestRefusals: what the caller of each command is told when it is refused, in both forms of the document.
func TestRefusals(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range exclusiveRefusals() {
		want := r.want
		for _, form := range []string{"plain", "shared"} {
			t.Run(r.name+"/"+form, func(t *testing.T) {
				s := newStage(t)
				r.before(s)
				if form == "shared" {
					s.reserves()
					if r.shared != nil {
						want = *r.shared
					}
				}
				if got := tells(s.send(r.send)); got != want {
					t.Errorf("%#v:\ngot  %+v\nwant %+v", r.send, got, want)
				}
				seen[operation(r.send)+" "+string(want.code)] = true
				promised(t, operation(r.send), want)
			})
		}
	}
	for _, c := range []struct {
		operation string
		codes     []Code
	}{
		{acquireOne, []Code{Held, ModeDiffers, Delayed, RequestIDReused}},
		{renewOne, []Code{LeaseLost, LeaseExpired, LeaseReleased, NotOwner, LeaseChanged, RequestIDReused}},
		{releaseOne, []Code{LeaseLost, LeaseExpired, LeaseReleased, NotOwner}},
		{forceOne, []Code{NotHeld, LeaseLost, RequestIDReused}},
	} {
		for _, code := range c.codes {
			if !seen[c.operation+" "+string(code)] {
				t.Errorf("no case of %s of %s", code, c.operation)
			}
		}
	}
}

// promise is the part of the contract that says what refusals are.
type promise struct {
	Paths map[string]struct {
		Post struct{ Responses map[string]json.RawMessage }
	}
	Components struct {
		Responses map[string]json.RawMessage
		Schemas   struct {
			Problem struct {
				Properties map[string]struct{ Description string }
			}
		}
	}
}

var promises = func() (p promise) {
	if err := json.Unmarshal(contracts.OpenAPIJSON, &p); err != nil {
		panic(err)
	}
	return p
}()

// promised fails the test unless the contract names the code among the responses of the operation, and what it says of
// the fields of a problem is so for the refusal.
func promised(t *testing.T, operation string, r told) {
	t.Helper()
	named := false
	for _, response := range promises.Paths[operation].Post.Responses {
		var ref struct {
			Ref string `json:"$ref"`
		}
		if json.Unmarshal(response, &ref) == nil && ref.Ref != "" {
			response = promises.Components.Responses[ref.Ref[strings.LastIndex(ref.Ref, "/")+1:]]
		}
		named = named || strings.Contains(string(response), "`"+string(r.code)+"`")
	}
	if !named {
		t.Errorf("the contract does not say that %s may be the code of %s", r.code, operation)
	}
	says := func(field string) bool {
		return describes(promises.Components.Schemas.Problem.Properties[field].Description, r.code)
	}
	if says("owner_id") && r.owner == "" {
		t.Errorf("owner_id is missing")
	}
	if says("retry_after_ms") != (r.retry > 0) {
		t.Errorf("retry_after_ms is %v: %s", r.retry,
			promises.Components.Schemas.Problem.Properties["retry_after_ms"].Description)
	}
	if says("expires_at") && r.expires == 0 && r.mode != Rate {
		t.Errorf("expires_at is missing")
	}
}

// describes reports whether the description of a field names a code as one that the field comes with.
func describes(description string, code Code) bool {
	return strings.Contains(strings.NewReplacer(",", " ", ":", " ").Replace(description)+" ", " "+string(code)+" ")
}

// sharedRefusals are those of locks that only the shared form can describe.
func sharedRefusals() []refusal {
	const (
		rateIsNotHeld = "grants of a rate are not held, renewed or released"
		usedUp        = "the rate of 2 in 10s is used up; the next grant is possible at 2026-01-01T00:00:10.000Z"
	)
	grants := func(cs ...Acquire) func(*stage) {
		return func(s *stage) {
			s.Helper()
			for i, c := range cs {
				s.granted(c, int64(i+1), min(i+1, 2))
				s.pass(time.Second)
			}
		}
	}
	two := func(mode Mode) func(*stage) { return grants(try("ann", mode), try("bob", mode)) }
	line := func(s *stage) {
		s.granted(try("ann", Exclusive), 1, 1)
		s.waits(wait("kim", Exclusive), 1, 2)
	}
	rate := func(t told) told {
		t.mode, t.limit, t.win = Rate, 2, 10
		return t
	}
	another := try("eve", Permits).put(func(c *Acquire) { c.Limit = 3 })
	return []refusal{
		{"readers, and a writer asks", two(Shared), try("eve", Exclusive),
			told{code: Held, owner: "ann", expires: 60 * time.Second, retry: 58 * time.Second, mode: Shared}, nil},
		{"readers, and one of them asks again", two(Shared),
			try("ann", Exclusive).put(func(c *Acquire) { c.RequestID = "r2" }),
			told{code: Held, owner: "ann", expires: 60 * time.Second, retry: 58 * time.Second, mode: Shared,
				detail: "this owner_id holds the lock, under another request_id"}, nil},
		{"readers, and a writer would replace them", two(Shared), try("eve", Exclusive).put(withReplace),
			told{code: Held, owner: "ann", expires: 60 * time.Second, retry: 58 * time.Second, mode: Shared,
				detail: "its holder was acquired without replace, so that no one may replace it"}, nil},
		{"all permits", two(Permits), try("eve", Permits),
			told{code: Held, owner: "ann", expires: 60 * time.Second, retry: 58 * time.Second, mode: Permits, limit: 2}, nil},
		{"all permits, one of which a lock delay keeps", func(s *stage) {
			s.granted(try("ann", Permits).put(func(c *Acquire) { c.TTLSeconds, c.LockDelaySeconds = 5, 30 }), 1, 1)
			s.granted(try("bob", Permits), 2, 2)
			s.pass(10 * time.Second)
		}, try("eve", Permits),
			told{code: Held, owner: "bob", expires: 60 * time.Second, retry: 25 * time.Second, mode: Permits, limit: 2}, nil},
		{"all permits, kept by lock delays", func(s *stage) {
			for i, owner := range []string{"ann", "bob"} {
				c := try(owner, Permits)
				c.TTLSeconds, c.LockDelaySeconds = 5, int64(30-10*i)
				s.granted(c, int64(i+1), i+1)
			}
			s.pass(10 * time.Second)
		}, try("eve", Permits),
			told{code: Delayed, owner: "bob", expires: 5 * time.Second, retry: 15 * time.Second, mode: Permits, limit: 2,
				detail: "the lease of bob expired at 2026-01-01T00:00:05.000Z; its lock delay of 20 s keeps the lock closed until " +
					"2026-01-01T00:00:25.000Z"}, nil},
		{"permits with another limit", two(Permits), another, told{code: ModeDiffers, mode: Permits, limit: 2,
			detail: "the lock is held or waited for in mode permits with limit 2; ask for that, or wait until it is free"}, nil},
		{"a rate that is used up", two(Rate), try("eve", Rate),
			rate(told{code: Held, owner: "bob", expires: 10 * time.Second, retry: 8 * time.Second, detail: usedUp}), nil},
		{"a rate, and another mode is asked for", two(Rate), try("eve", Exclusive).put(func(c *Acquire) { c.Fair = true }),
			rate(told{code: ModeDiffers,
				detail: "the lock has grants in mode rate with limit 2 and window_seconds 10; ask for that, or wait until it is free"}), nil},
		{"renew a grant of a rate", two(Rate), extend("ann", 1, "n"),
			rate(told{code: ModeDiffers, token: 1, detail: rateIsNotHeld}), nil},
		{"release a grant of a rate", two(Rate), give("ann", 1),
			rate(told{code: ModeDiffers, token: 1, detail: rateIsNotHeld}), nil},
		{"end one grant of a rate", two(Rate), ForceRelease{ID: subject, By: "root", Reason: "hangs", RequestID: "f",
			LeaseID: "l-ann"},
			told{code: NotHeld,
				detail: "no one holds the lock, and it is closed all the same; a force-release without lease_id opens it"}, nil},
		{"the line is full", line, wait("eve", Exclusive).put(func(c *Acquire) { c.MaxWaiting = 1 }),
			told{code: QueueFull, owner: "ann", expires: 60 * time.Second, retry: 60 * time.Second,
				detail: "1 wait in line already"}, nil},
		{"the second in line", line, wait("eve", Exclusive), told{code: Held, owner: "ann", expires: 60 * time.Second,
			retry: 60 * time.Second, position: 2}, nil},
		{"kept for a request for several locks", func(s *stage) {
			s.granted(try("ann", Exclusive), 1, 1)
			s.reserves()
			s.gets(reserve{acquire: dee, turn: true}, OK, 2)
			s.gets(give("ann", 1), OK, 2)
			s.pass(time.Second)
		}, try("eve", Exclusive), told{code: Held, owner: "dee", retry: 9 * time.Second,
			detail: "no one holds the lock: it is kept until 2026-01-01T00:00:10.000Z for a request for several locks"}, nil},
		{"renew one of several that has ended", func(s *stage) {
			two(Shared)(s)
			s.gets(give("ann", 1), OK, 2)
		}, extend("ann", 1, "n"),
			told{code: LeaseReleased, token: 1,
				detail: "the lease was released at 2026-01-01T00:00:02.000Z; acquire the lock again"}, nil},
		{"end none of several", two(Shared), ForceRelease{ID: subject, By: "root", Reason: "hangs", RequestID: "f",
			LeaseID: "l-eve"},
			told{code: LeaseLost, detail: "the lock is held under another lease_id; look at the lock again before ending it"},
			nil},
	}
}

// TestRefusalsOfSeveral: what the caller of a lock with several holders, a line or a rate is told.
func TestRefusalsOfSeveral(t *testing.T) {
	for _, r := range sharedRefusals() {
		t.Run(r.name, func(t *testing.T) {
			s := newStage(t)
			r.before(s)
			if got := tells(s.send(r.send)); got != r.want {
				t.Errorf("%#v:\ngot  %+v\nwant %+v", r.send, got, r.want)
			}
			if r.want.code != Held || r.want.expires != 0 { // while a lock is kept for a request, no lease lasts
				promised(t, operation(r.send), r.want)
			}
		})
	}
}

// TestRefusalsOfALateResponse: what hands out time that has passed by the time of the response is no grant, in both
// forms.
func TestRefusalsOfALateResponse(t *testing.T) {
	const detail = "the store took 1m0s to respond, longer than the lease lasts; ask for a longer ttl_seconds"
	for _, form := range []string{"plain", "shared"} {
		s := newStage(t)
		s.granted(try("ann", Exclusive), 1, 1)
		s.gets(extend("ann", 1, "n"), OK, 1)
		if form == "shared" {
			s.reserves()
		}
		r, err := s.store.Get(t.Context(), subject.key())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []command{try("ann", Exclusive), extend("ann", 1, "n"), extend("ann", 1, "n2")} {
			_, o, err := rule.Step(c, r.Docs[0], rule.When{At: s.now, Took: time.Minute})
			want := told{code: LeaseExpired, expires: time.Minute, token: 1, detail: detail}
			if err != nil || tells(o) != want {
				t.Errorf("%s, %T:\ngot  %+v, %v\nwant %+v", form, c, tells(o), err, want)
			}
			promised(t, operation(c), want)
		}
	}
}

// TestRefusalsOfSets: a request for several locks is told of one of them what a request for that alone is told, in both
// forms.
func TestRefusalsOfSets(t *testing.T) {
	keys := []SetLease{{Key: "account", Token: token(0)}, {Key: subject.Key, Token: token(1)}}
	take := AcquireSet{Tenant: subject.Tenant, Keys: []string{"account", subject.Key}, Owner: "bob",
		RequestID: "s", TTLSeconds: 60}
	renew := RenewSet{Tenant: subject.Tenant, Leases: keys[1:], Owner: "ann", RequestID: "s", TTLSeconds: 60}
	give := ReleaseSet{Tenant: subject.Tenant, Leases: keys[1:], Owner: "ann", RequestID: "s"}
	const expired = "the lease expired at 2026-01-01T00:01:00.000Z; acquire the lock again"
	for _, form := range []string{"plain", "shared"} {
		for _, c := range []struct {
			name  string
			after time.Duration // since ann acquired the lock
			send  any
			want  told
		}{
			{"held", 10 * time.Second, take, told{code: Held, owner: "ann", expires: time.Minute, retry: 80 * time.Second}},
			{"closed", 70 * time.Second, take, told{code: Delayed, owner: "ann", expires: time.Minute, retry: 20 * time.Second,
				detail: "the lease of ann expired at 2026-01-01T00:01:00.000Z; its lock delay of 30 s keeps the lock closed until 2026-01-01T00:01:30.000Z"}},
			{"renew what expired", 70 * time.Second, renew, told{code: LeaseExpired, token: 1, expires: time.Minute,
				detail: expired}},
			{"release what expired", 70 * time.Second, give, told{code: LeaseExpired, token: 1, expires: time.Minute,
				detail: expired}},
		} {
			t.Run(c.name+"/"+form, func(t *testing.T) {
				s := newStage(t)
				s.granted(try("ann", Exclusive).put(withDelay), 1, 1)
				s.pass(c.after)
				if form == "shared" {
					s.reserves()
				}
				locks := New(s.store, &Options{Now: func() time.Time { return s.now }})
				var o SetOutcome
				var err error
				switch c := c.send.(type) {
				case AcquireSet:
					o, err = locks.AcquireSet(t.Context(), c)
				case RenewSet:
					o, err = locks.RenewSet(t.Context(), c)
				case ReleaseSet:
					o, err = locks.ReleaseSet(t.Context(), c)
				}
				if err != nil || o.Code != c.want.code || tells(o.Refusal) != c.want || o.Refusal.Lease.Key != subject.Key {
					t.Errorf("got  %+v of %s, %v\nwant %+v", tells(o.Refusal), o.Refusal.Lease.Key, err, c.want)
				}
				promised(t, operation(c.send), c.want)
			})
		}
	}
}
