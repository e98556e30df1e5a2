package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// History lets clients contend for one lock of a store through the HTTP API, loses requests and responses and lets the
// store fail, and then asks whether what the clients saw can be explained by the rule carried out one command at a time
// (linearizability; Herlihy and Wing, 1990). The same seed makes the same choices. The error is what cannot be
// explained.
//
// Time is the clock's, also for how long the store takes: the speed of the machine plays no part.
func History(ctx context.Context, store docstore.Store, clock *Clock, tenant string, seed uint64) error {
	return lockHistory(ctx, store, clock, tenant, seed, measure{clock.Now, true})
}

// measure is how the rules under test measure the time that a store takes, and whether the model expects late grants.
type measure struct {
	now  func() time.Time
	late bool
}

func lockHistory(ctx context.Context, store docstore.Store, clock *Clock, tenant string, seed uint64, m measure) error {
	// No request is ended by its time limit, which is real time: a store may wait for its disk for longer.
	server := httptest.NewServer(httpapi.New(newFaultyStore(store, seed), httpapi.Development{},
		&httpapi.Options{Now: m.now, Timeout: time.Hour}))
	defer server.Close()
	return record(clock, seed, locksModel(m.late), func(c *caller) func() error {
		l := &client{caller: c, url: server.URL + "/v1/tenants/" + url.PathEscape(tenant) + "/locks/k/",
			http: server.Client()}
		return func() error { return l.command(ctx) }
	})
}

// record lets callers send commands at once, and holds what they saw against the model. newCaller gives each a function
// that sends one command.
func record(clock *Clock, seed uint64, m porcupine.Model, newCaller func(*caller) func() error) error {
	const (
		callers  = 4
		commands = 25 // of each caller
	)
	h := &history{clock: clock, begin: time.Now()}
	var done sync.WaitGroup
	errs := make(chan error, callers)
	for n := range callers {
		command := newCaller(&caller{history: h, number: n, random: rand.New(rand.NewPCG(seed, uint64(n)+1))})
		done.Go(func() {
			for range commands {
				if err := command(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	done.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	if !porcupine.CheckOperations(m, h.operations) { // however long it takes: a slow machine is no proof of anything
		return fmt.Errorf("history of seed %d with %d operations is not linearizable", seed, len(h.operations))
	}
	return nil
}

// history is what happened, as the callers saw it.
type history struct {
	clock      *Clock
	begin      time.Time
	mu         sync.Mutex
	operations []porcupine.Operation
}

// input is a command as it was sent, with the store's time before and after: the store decided at some moment between.
type input struct {
	command  any
	from, to time.Time
}

// output is what the client learned: nothing, if the response was lost or the outcome is unknown to the server.
type output struct {
	known    bool
	code     string
	replayed bool
	token    int64
	acquired string
	expires  string
	holder   string

	at time.Time // when the store decided, where the response says so and a model asks

	nothing bool // nothing was done, as the store says who failed: such an attempt is left out of the history
}

// caller sends commands for one owner, and retries after a lost response.
type caller struct {
	*history
	number int
	random *rand.Rand
	tokens []int64 // of what it was granted, newest last
	next   int     // request number

	// told lets the check see the responses that the caller lost. Fewer explanations are possible then, and fewer have to
	// be tried.
	told bool
}

// owner is who the caller says that it is.
func (c *caller) owner() string { return fmt.Sprint("owner ", c.number) }

// request is a new request ID.
func (c *caller) request() string {
	c.next++
	return fmt.Sprintf("%d.%d", c.number, c.next)
}

// anyToken is mostly the newest of the caller's tokens and sometimes an older one, as a late message has. It is 0 while
// there is none.
func (c *caller) anyToken() int64 {
	n := len(c.tokens)
	switch {
	case n == 0:
		return 0
	case c.random.IntN(4) == 0:
		return c.tokens[c.random.IntN(n)]
	default:
		return c.tokens[n-1]
	}
}

// send sends a command until it has a response, lets time pass, and records each attempt and its outcome. The outcome
// is not known if the store failed.
func (c *caller) send(command any, grants bool, once func() (output, error)) error {
	for {
		if c.random.IntN(4) == 0 {
			c.clock.Advance(tick)
		}
		if c.random.IntN(8) == 0 {
			continue // the request was lost
		}
		in := &input{command: command, from: c.clock.Now()}
		called := time.Since(c.begin)
		o, err := once()
		if err != nil {
			return err
		}
		returned := time.Since(c.begin)
		in.to = c.clock.Now()
		seen := o
		if c.random.IntN(6) == 0 {
			o = output{} // the response was lost: the work has been done
		}
		if !c.told {
			seen = o
		}
		if !seen.nothing {
			c.add(in, seen, called, returned)
		}
		if o.known {
			if o.code == "OK" && grants {
				c.tokens = append(c.tokens, o.token)
			}
			return nil
		}
	}
}

// add adds an attempt to the history.
func (c *caller) add(in *input, o output, called, returned time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.operations = append(c.operations, porcupine.Operation{
		ClientId: c.number, Input: in, Output: o, Call: called.Nanoseconds(), Return: returned.Nanoseconds(),
	})
}

// modelled is the lock's name in the model, where it has no meaning.
var modelled = lock.ID{Tenant: "t", Key: "k"}

// client is a caller of locks over HTTP.
type client struct {
	*caller
	url  string
	http *http.Client
	past []func() error // sends an earlier command again

	acquires []string // the requests that it has sent, or given up before
}

// command sends a random command until it has a response: a new one, or one that was sent before, as a late delivery.
func (c *client) command(ctx context.Context) error {
	if n := len(c.past); n > 0 && c.random.IntN(5) == 0 {
		return c.past[n-1-c.random.IntN(min(n, 6))]()
	}
	owner, request, token := c.owner(), c.request(), c.anyToken()
	var (
		verb      string
		body, cmd any
	)
	acquire := lock.Acquire{ID: modelled, Owner: owner, RequestID: request, TTLSeconds: 1}
	switch n := c.random.IntN(20); {
	case n < 2 && len(c.acquires) > 0: // one that has arrived, or arrives later
		acquire.RequestID = c.acquires[len(c.acquires)-1-c.random.IntN(min(3, len(c.acquires)))]
		verb, body, cmd = "acquire", givenUp(acquire), lock.GiveUp{Acquire: acquire}
	case n < 3: // before it is sent
		c.acquires = append(c.acquires, request)
		verb, body, cmd = "acquire", givenUp(acquire), lock.GiveUp{Acquire: acquire}
	case n < 4 && len(c.acquires) > 0: // once more
		acquire.RequestID = c.acquires[len(c.acquires)-1-c.random.IntN(min(3, len(c.acquires)))]
		verb, body, cmd = "acquire", acquireBody(acquire), acquire
	case n < 10 || token == 0:
		c.acquires = append(c.acquires, request)
		verb, body, cmd = "acquire", acquireBody(acquire), acquire
	case n < 14:
		verb, body = "renew", contracts.RenewRequest{RequestID: request, OwnerID: owner, TTLSeconds: 2, FencingToken: token}
		cmd = lock.Renew{ID: modelled, Owner: owner, RequestID: request, TTLSeconds: 2, Token: token}
	default:
		verb, body = "release", contracts.ReleaseRequest{RequestID: request, OwnerID: owner, FencingToken: token}
		cmd = lock.Release{ID: modelled, Owner: owner, RequestID: request, Token: token}
	}
	payload, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, grants := cmd.(lock.Acquire)
	send := func() error {
		return c.send(cmd, grants, func() (output, error) { return c.once(ctx, verb, payload) })
	}
	c.past = append(c.past, send)
	return send()
}

func acquireBody(c lock.Acquire) contracts.AcquireRequest {
	return contracts.AcquireRequest{RequestID: c.RequestID, OwnerID: c.Owner, TTLSeconds: c.TTLSeconds}
}

// givenUp is the request that gives an acquire up.
func givenUp(c lock.Acquire) contracts.AcquireRequest {
	r := acquireBody(c)
	r.GiveUp = true
	return r
}

// once sends a request a single time.
func (c *client) once(ctx context.Context, verb string, payload []byte) (output, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+verb, bytes.NewReader(payload))
	if err != nil {
		return output{}, err
	}
	w, err := c.http.Do(r)
	if err != nil {
		return output{}, err
	}
	content, err := io.ReadAll(w.Body)
	if err := errors.Join(err, w.Body.Close()); err != nil || w.StatusCode == http.StatusServiceUnavailable {
		return output{}, err
	}
	return read(w.StatusCode, content)
}

func read(status int, content []byte) (output, error) {
	if status == http.StatusNoContent {
		return output{known: true, code: "OK"}, nil
	}
	if status == http.StatusOK {
		var l contracts.EndedLease // has all that a Lease has
		if err := json.Unmarshal(content, &l); err != nil {
			return output{}, err
		}
		return output{known: true, code: "OK", replayed: l.Replayed, token: l.FencingToken, acquired: l.AcquiredAt,
			expires: l.ExpiresAt}, nil
	}
	var p contracts.Problem
	if err := json.Unmarshal(content, &p); err != nil || p.Code == "" {
		return output{}, fmt.Errorf("status %d with %q", status, content)
	}
	return output{known: true, code: string(p.Code), holder: p.OwnerID, expires: p.ExpiresAt}, nil
}

// model is the rules themselves, one command at a time, from the first document on. The store's time of a decision and
// how long it took are known only within bounds, and whether a command without a response was carried out is not known
// at all, so a step may lead to several documents. Without late, grants are never too late.
//
// The checker asks for the same steps again and again, in every order that it tries. So the model numbers the documents
// that it meets, and remembers where each command led from each of them.
func model(first docstore.Doc, late bool, step func(docstore.Doc, any, rule.When) (docstore.Doc,
	output)) porcupine.Model {
	var docs []docstore.Doc
	numbers := map[string]int{}
	number := func(d docstore.Doc) int {
		text := fmt.Sprintf("%#v", d) // the fields of a map in order
		n, ok := numbers[text]
		if !ok {
			n = len(docs)
			docs, numbers[text] = append(docs, d), n
		}
		return n
	}
	follow := func(from int, i *input, o output) (next []any) {
		add := func(d docstore.Doc) {
			if n := any(number(d)); !slices.Contains(next, n) {
				next = append(next, n)
			}
		}
		if !o.known {
			add(docs[from]) // a store that failed may have done nothing
		}
		waits := []time.Duration{0}
		if late && i.to.After(i.from) {
			waits = append(waits, i.to.Sub(i.from))
		}
		for at := i.from; !at.After(i.to); at = at.Add(tick) {
			for _, took := range waits {
				after, shown := step(docs[from], i.command, rule.When{At: at, Took: took})
				if !o.known || shown == o {
					add(after)
				}
			}
		}
		return next
	}
	type edge struct {
		from int
		by   *input
	}
	known := map[edge][]any{}
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{number(first)} },
		Step: func(state, in, out any) []any {
			e := edge{state.(int), in.(*input)}
			next, ok := known[e]
			if !ok {
				next = follow(e.from, e.by, out.(output))
				known[e] = next
			}
			return next
		},
		Hash: func(state any) uint64 { return uint64(state.(int)) },
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%+v -> %+v", *in.(*input), out)
		},
		DescribeState: func(state any) string { return fmt.Sprint(docs[state.(int)]) },
	}).ToModel()
}

// tick is what the clock of a history advances by: a model has to try few times.
const tick = 250 * time.Millisecond

func locksModel(late bool) porcupine.Model {
	return model(nil, late, func(d docstore.Doc, command any, w rule.When) (docstore.Doc, output) {
		after, o, err := rule.Step(command.(rule.Command[lock.State, lock.Outcome]), d, w)
		if err != nil {
			return d, output{known: true, code: err.Error()} // no outcome
		}
		delete(after, "released_at") // plays no part in later outcomes, and would only multiply states
		if _, ok := command.(lock.GiveUp); ok && o.Code == lock.OK {
			return after, output{known: true, code: "OK"}
		}
		return after, shown(o)
	})
}

// shown is the part of an outcome that a client sees.
func shown(o lock.Outcome) output {
	switch o.Code {
	case lock.OK:
		return output{known: true, code: "OK", replayed: o.Replayed, token: o.Lease.Token,
			acquired: timeText(o.Lease.AcquiredAt), expires: timeText(o.Lease.ExpiresAt)}
	case lock.Held:
		return output{known: true, code: string(o.Code), holder: o.Lease.Owner, expires: timeText(o.Lease.ExpiresAt)}
	default:
		return output{known: true, code: string(o.Code)}
	}
}

// timeText is the stored form of a time, empty for none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return string(docstore.FormatTime(t))
}

// witness is in the context of a command, and learns what its caller does not.
type witness struct {
	applied time.Time // when the write was applied with which the store failed; zero if none was
	freed   time.Time // when an activation was ended; zero if none was
}

func (o *witness) note(writes []docstore.Write, at time.Time, failed bool) {
	if failed {
		o.applied = at
	}
	for _, w := range writes {
		if w.Set["phase"] == docstore.String("FREE") {
			o.freed = at
		}
	}
}

type witnessKey struct{}

// faultyStore fails now and then: before it does anything, or after it has done everything.
type faultyStore struct {
	through
	mu     sync.Mutex
	random *rand.Rand
}

func newFaultyStore(store docstore.Store, seed uint64) *faultyStore {
	return &faultyStore{through: through{store}, random: rand.New(rand.NewPCG(seed, 0))}
}

func (f *faultyStore) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	f.mu.Lock()
	fate := f.random.IntN(10)
	f.mu.Unlock()
	seen, _ := ctx.Value(witnessKey{}).(*witness)
	if fate == 0 {
		return docstore.Result{}, fmt.Errorf("%w: injected, before", docstore.ErrUnavailable)
	}
	r, err := f.Store.Write(ctx, writes...)
	if seen != nil && err == nil && r.Applied {
		seen.note(writes, r.At, fate == 1)
	}
	if fate == 1 && err == nil {
		return docstore.Result{}, fmt.Errorf("%w: injected, after", docstore.ErrUnavailable)
	}
	return r, err
}
