package suite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// record lets four callers send 25 commands each at once, and holds what they saw against the model. newCaller gives
// each a function that sends one command.
func record(clock *Clock, seed uint64, m porcupine.Model, newCaller func(*caller) func() error) error {
	h, err := recorded(clock, seed, 4, 25, nil, newCaller)
	if err == nil && !porcupine.CheckOperations(m, h.operations) { // however long it takes: a slow machine proves nothing
		err = fmt.Errorf("history of seed %d with %d operations is not linearizable", seed, len(h.operations))
	}
	return err
}

// recorded lets callers send so many commands each at once, and lets each leave b.
func recorded(clock *Clock, seed uint64, callers, commands int, b *between,
	newCaller func(*caller) func() error) (*history, error) {
	h := &history{clock: clock, begin: time.Now()}
	var done sync.WaitGroup
	errs := make([]error, callers)
	for n := range callers {
		command := newCaller(&caller{history: h, number: n, random: rand.New(rand.NewPCG(seed, uint64(n)+1))})
		done.Go(func() {
			defer b.leave()
			for i := 0; i < commands && errs[n] == nil; i++ {
				errs[n] = command()
			}
		})
	}
	done.Wait()
	return h, errors.Join(errs...)
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
func (c *caller) add(in *input, o any, called, returned time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.operations = append(c.operations, porcupine.Operation{
		ClientId: c.number, Input: in, Output: o, Call: called.Nanoseconds(), Return: returned.Nanoseconds(),
	})
}

// numbered is a model for the checker, from the first state on; follow is where a command may lead that had an outcome.
// The checker asks for the same steps again and again, in every order that it tries. So states are numbered, equal ones
// by their keys, and where each command led from each of them is remembered.
func numbered[S any, K comparable, O any](first S, key func(S) K,
	follow func(from S, by *input, o O) []S) *porcupine.NondeterministicModel {
	var states []S
	numbers := map[K]int{}
	number := func(s S) any {
		k := key(s)
		if _, ok := numbers[k]; !ok {
			numbers[k] = len(states)
			states = append(states, s)
		}
		return numbers[k]
	}
	type edge struct {
		from int
		by   *input
	}
	known := map[edge][]any{}
	return &porcupine.NondeterministicModel{
		Init: func() []any { return []any{number(first)} },
		Step: func(state, in, out any) []any {
			e := edge{state.(int), in.(*input)}
			next, ok := known[e]
			if !ok {
				for _, s := range follow(states[e.from], e.by, out.(O)) {
					if n := number(s); !slices.Contains(next, n) {
						next = append(next, n)
					}
				}
				known[e] = next
			}
			return next
		},
		Hash: func(state any) uint64 { return uint64(state.(int)) },
	}
}

// tick is what the clock of a history advances by: a model has to try few times.
const tick = 250 * time.Millisecond

// timeText is the stored form of a time, empty for none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return string(docstore.FormatTime(t))
}

// witness is in the context of a command, and learns what its caller does not.
type witness struct {
	writes  int         // that were sent
	all     []time.Time // when writes were applied
	unknown bool        // the store itself failed: it may have done anything
	applied time.Time   // when the write was applied with which the store failed; zero if none was
	freed   time.Time   // when an activation was ended; zero if none was
}

func (o *witness) note(writes []docstore.Write, r docstore.Result, err error, failed bool) {
	o.unknown = o.unknown || err != nil
	if err != nil || !r.Applied {
		return
	}
	o.all = append(o.all, r.At)
	if failed {
		o.applied = r.At
	}
	for _, w := range writes {
		if w.Set["phase"] == docstore.String("FREE") {
			o.freed = r.At
		}
	}
}

type witnessKey struct{}

// faultyStore fails now and then: before it does anything, or after it has done everything.
//
// With others it lets them go on before some second writes of a command, which rest on a document that was found: so
// those are changed in between in every history that has them, however fast the machine is.
type faultyStore struct {
	through
	others *between
	mu     sync.Mutex
	random *rand.Rand
	often  int // it fails in two of so many writes
}

func newFaultyStore(store docstore.Store, seed uint64) *faultyStore {
	return &faultyStore{through: through{store}, random: rand.New(rand.NewPCG(seed, 0)), often: 10}
}

func (f *faultyStore) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	f.mu.Lock()
	fate := f.random.IntN(f.often)
	wait := f.others != nil && f.random.IntN(2) == 0
	f.mu.Unlock()
	seen, _ := ctx.Value(witnessKey{}).(*witness)
	if seen == nil {
		seen = &witness{}
	}
	if seen.writes++; seen.writes == 2 && wait {
		f.others.wait()
	}
	defer f.others.wrote()
	if fate == 0 {
		return docstore.Result{}, errInjected
	}
	r, err := f.Store.Write(ctx, writes...)
	seen.note(writes, r, err, fate == 1)
	if fate == 1 && err == nil {
		return docstore.Result{}, errInjected
	}
	return r, err
}

// between lets a caller wait until another one has written, unless all of them wait. A nil one lets none wait.
type between struct {
	mu               sync.Mutex
	cond             *sync.Cond
	callers, waiting int
	round            int // of writes
}

func newBetween(callers int) *between {
	b := &between{callers: callers}
	b.cond = sync.NewCond(&b.mu)
	return b
}

func (b *between) wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting++
	for round := b.round; round == b.round && b.waiting < b.callers; {
		b.cond.Wait()
	}
	b.waiting--
	b.round++ // if all of them wait, all go on
	b.cond.Broadcast()
}

// wrote lets those go on that wait.
func (b *between) wrote() { b.goOn(0) }

// leave is for a caller that sends nothing more.
func (b *between) leave() { b.goOn(1) }

func (b *between) goOn(left int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.callers -= left
	b.round++
	b.cond.Broadcast()
}
