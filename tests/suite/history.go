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
	"reflect"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// History lets clients contend for one lock of a store through the HTTP API, loses requests and answers on the way and
// lets the store fail, and then asks whether what the clients saw can be explained by the rule carried out one command at
// a time (linearizability; Herlihy and Wing, 1990). The same seed makes the same choices. The error is what cannot be
// explained.
func History(ctx context.Context, store docstore.Store, clock *Clock, tenant string, seed uint64) error {
	const (
		clients  = 4
		commands = 25 // of each client
	)
	h := &history{clock: clock, begin: time.Now()}
	faulty := &faultyStore{Store: store, random: rand.New(rand.NewPCG(seed, 0))}
	server := httptest.NewServer(httpapi.New(faulty, httpapi.Development{}, nil))
	defer server.Close()

	var clientsDone sync.WaitGroup
	errs := make(chan error, clients)
	for n := range clients {
		c := &client{
			history: h, number: n, url: server.URL + "/v1/tenants/" + url.PathEscape(tenant) + "/locks/k/", http: server.Client(),
			random: rand.New(rand.NewPCG(seed, uint64(n)+1)),
		}
		clientsDone.Go(func() {
			for range commands {
				if err := c.command(ctx); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	clientsDone.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	switch r := porcupine.CheckOperationsTimeout(model(tenant), h.operations, time.Minute); r {
	case porcupine.Ok:
		return nil
	default:
		return fmt.Errorf("history of seed %d with %d operations is not linearizable (%s)", seed, len(h.operations), r)
	}
}

// history is what happened, as the clients saw it.
type history struct {
	clock      *Clock
	begin      time.Time
	mu         sync.Mutex
	operations []porcupine.Operation
}

// input is a command as it was sent, with the store's time before and after: the store decided at some moment between.
type input struct {
	command  interface{ isCommand() }
	from, to time.Time
}

type (
	acquire struct{ lock.Acquire }
	renew   struct{ lock.Renew }
	release struct{ lock.Release }
)

func (acquire) isCommand() {}
func (renew) isCommand()   {}
func (release) isCommand() {}

// output is what the client learned. Nothing, if the answer was lost or the server could not say.
type output struct {
	known    bool
	code     string
	replayed bool
	token    int64
	acquired string
	expires  string
	holder   string
}

// client sends commands for one owner, as a careful caller would: after a lost answer it sends the same again.
type client struct {
	*history
	number int
	url    string
	http   *http.Client
	random *rand.Rand
	tokens []int64 // of the leases it got, newest last
	next   int     // request number
}

// command sends a random command until it has an answer.
func (c *client) command(ctx context.Context) error {
	owner := fmt.Sprint("owner ", c.number)
	c.next++
	request := fmt.Sprintf("%d.%d", c.number, c.next)
	var (
		verb string
		body any
		cmd  interface{ isCommand() }
	)
	token := c.anyToken()
	switch n := c.random.IntN(10); {
	case n < 5 || token == 0:
		verb, body = "acquire", contracts.AcquireRequest{RequestID: request, OwnerID: owner, TTLSeconds: 1}
		cmd = acquire{lock.Acquire{Owner: owner, RequestID: request, TTLSeconds: 1}}
	case n < 7:
		verb, body = "renew", contracts.RenewRequest{RequestID: request, OwnerID: owner, TTLSeconds: 2, FencingToken: token}
		cmd = renew{lock.Renew{Owner: owner, RequestID: request, TTLSeconds: 2, Token: token}}
	default:
		verb, body = "release", contracts.ReleaseRequest{RequestID: request, OwnerID: owner, FencingToken: token}
		cmd = release{lock.Release{Owner: owner, RequestID: request, Token: token}}
	}
	payload, err := json.Marshal(body)
	if err != nil {
		return err
	}
	for {
		if c.random.IntN(4) == 0 {
			c.clock.Advance(250 * time.Millisecond)
		}
		if c.random.IntN(8) == 0 {
			continue // the request was lost on the way: the server never saw it
		}
		o, err := c.once(ctx, verb, payload, cmd)
		if err != nil {
			return err
		}
		if o.known {
			if o.code == "OK" && verb == "acquire" {
				c.tokens = append(c.tokens, o.token)
			}
			return nil
		}
	}
}

// anyToken is mostly the newest of the client's tokens and sometimes an older one, as a message that was under way for
// long has. It is 0 while there is none.
func (c *client) anyToken() int64 {
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

// once sends a request a single time and writes down what came of it.
func (c *client) once(ctx context.Context, verb string, payload []byte, cmd interface{ isCommand() }) (output, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+verb, bytes.NewReader(payload))
	if err != nil {
		return output{}, err
	}
	in := input{command: cmd, from: c.clock.Now()}
	called := time.Since(c.begin)
	w, err := c.http.Do(r)
	if err != nil {
		return output{}, err
	}
	content, err := io.ReadAll(w.Body)
	if err := errors.Join(err, w.Body.Close()); err != nil {
		return output{}, err
	}
	returned := time.Since(c.begin)
	in.to = c.clock.Now()

	var o output
	lost := c.random.IntN(6) == 0 // the answer was lost on the way: the server has done its work
	if w.StatusCode != http.StatusServiceUnavailable && !lost {
		if o, err = read(w.StatusCode, content); err != nil {
			return output{}, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.operations = append(c.operations, porcupine.Operation{
		ClientId: c.number, Input: in, Output: o, Call: called.Nanoseconds(), Return: returned.Nanoseconds(),
	})
	return o, nil
}

func read(status int, content []byte) (output, error) {
	if status == http.StatusOK {
		var l contracts.EndedLease // has all that a Lease has
		if err := json.Unmarshal(content, &l); err != nil {
			return output{}, err
		}
		return output{known: true, code: "OK", replayed: l.Replayed, token: l.FencingToken, acquired: l.AcquiredAt, expires: l.ExpiresAt}, nil
	}
	var p contracts.Problem
	if err := json.Unmarshal(content, &p); err != nil || p.Code == "" {
		return output{}, fmt.Errorf("status %d with %q", status, content)
	}
	return output{known: true, code: string(p.Code), holder: p.OwnerID, expires: p.ExpiresAt}, nil
}

// model is the rule itself, one command at a time. What the store's clock showed is known only within bounds, and whether
// a command without an answer was carried out is not known at all, so a step may lead to several states.
func model(tenant string) porcupine.Model {
	id := lock.ID{Tenant: tenant, Key: "k"}
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{lock.State{}} },
		Step: func(state, in, out any) []any {
			s, i, o := state.(lock.State), in.(input), out.(output)
			var next []any
			add := func(s lock.State) {
				for _, n := range next {
					if reflect.DeepEqual(n, s) {
						return
					}
				}
				next = append(next, s)
			}
			if !o.known {
				add(s) // a store that failed may have done nothing
			}
			for now := i.from; !now.After(i.to); now = now.Add(250 * time.Millisecond) {
				after, outcome := decide(i.command, id, s, now)
				if !o.known || shown(outcome) == o {
					add(after)
				}
			}
			return next
		},
		Equal: reflect.DeepEqual,
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%+v -> %+v", in, out)
		},
	}).ToModel()
}

func decide(command any, id lock.ID, s lock.State, now time.Time) (lock.State, lock.Outcome) {
	var (
		next lock.State
		o    lock.Outcome
	)
	switch c := command.(type) {
	case acquire:
		c.ID = id
		next, o = c.Decide(s, now)
	case renew:
		c.ID = id
		next, o = c.Decide(s, now)
	case release:
		c.ID = id
		next, o = c.Decide(s, now)
	}
	next.ReleasedAt = time.Time{} // plays no part in later answers, and would only multiply states
	return next, o
}

// shown is the part of an outcome that a client sees.
func shown(o lock.Outcome) output {
	text := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return string(docstore.FormatTime(t))
	}
	switch o.Code {
	case lock.OK:
		return output{known: true, code: "OK", replayed: o.Replayed, token: o.Lease.Token,
			acquired: text(o.Lease.AcquiredAt), expires: text(o.Lease.ExpiresAt)}
	case lock.Held:
		return output{known: true, code: string(o.Code), holder: o.Lease.Owner, expires: text(o.Lease.ExpiresAt)}
	default:
		return output{known: true, code: string(o.Code)}
	}
}

// faultyStore fails now and then: before it does anything, or after it has done everything.
type faultyStore struct {
	docstore.Store
	mu     sync.Mutex
	random *rand.Rand
}

func (f *faultyStore) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	f.mu.Lock()
	fate := f.random.IntN(10)
	f.mu.Unlock()
	if fate == 0 {
		return docstore.Result{}, fmt.Errorf("%w: planted, before", docstore.ErrUnavailable)
	}
	r, err := f.Store.Write(ctx, writes...)
	if fate == 1 && err == nil {
		return docstore.Result{}, fmt.Errorf("%w: planted, after", docstore.ErrUnavailable)
	}
	return r, err
}
