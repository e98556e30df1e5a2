package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/leasehold-dev/leasehold/idempotency"
)

// account is whose payments these are.
const account = "ann"

// tryLimit is how often a caller tries.
const tryLimit = 60

// response is what a caller sees of one try.
type response struct {
	status   int
	replayed bool
	text     string
	busy     bool // the gate did not respond in time, as on a machine with too much to do: the shop was not asked
}

func (r response) String() string {
	if r.replayed {
		return strconv.Itoa(r.status) + " replayed"
	}
	return strconv.Itoa(r.status)
}

// send sends a payment once.
func (w *world) send(ctx context.Context, key string, p payment, kill string) (response, http.Header, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return response{}, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/payments", bytes.NewReader(body))
	if err != nil {
		return response{}, nil, err
	}
	r.Header.Set("X-Account", account)
	r.Header.Set(idempotency.Header, key)
	if kill != "" {
		r.Header.Set(killHeader, kill)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return response{}, nil, err
	}
	said, err := text(got)
	return response{got.StatusCode, got.Header.Get(idempotency.ReplayedHeader) == "true", said,
		strings.Contains(said, idempotency.CodeUnavailable)}, got.Header, err
}

// pay is how a caller makes sure of a payment: it sends the same request with the same key until the response is one
// that will not change, at most tryLimit times. The first try has the process killed at a step, unless that is empty.
func (w *world) pay(ctx context.Context, key string, p payment, kill string) (tries []response, err error) {
	for {
		r, header, err := w.send(ctx, key, p, kill)
		if err != nil {
			return tries, err
		}
		tries = append(tries, r)
		if !again(r, header) {
			return tries, nil
		}
		if len(tries) == tryLimit {
			return tries, fmt.Errorf("%s: no response that lasts after %d tries: %d %s", key, tryLimit, r.status, r.text)
		}
		kill = ""
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return tries, ctx.Err()
		}
	}
}

// again says whether another try can get another response. What was replayed is stored, and stays as it is.
func again(r response, h http.Header) bool {
	switch r.status {
	case http.StatusConflict:
		return h.Get("Retry-After") != ""
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return !r.replayed
	default:
		return false
	}
}

// walk shows one case after the other.
func (w *world) walk(ctx context.Context) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out, "what happens\tresponses\tpayments")
	var all sync.WaitGroup
	var got [64]response
	var errs [64]error
	for i := range got {
		all.Go(func() {
			var tries []response
			if tries, errs[i] = w.pay(ctx, "order-1", payment{"bob", 10}, ""); errs[i] == nil {
				got[i] = tries[len(tries)-1]
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	kinds := map[string]int{}
	for _, r := range got {
		kinds[r.String()+" "+r.text]++
	}
	var said []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		said = append(said, fmt.Sprintf("%d × %s", kinds[kind], strings.TrimSuffix(kind, " payment 1: 10 euros to bob")))
	}
	paid, err := w.bank.payments()
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "64 requests at once with one key\t%s\t%d\n", strings.Join(said, ", "),
		paid[bankKey(account, "order-1")])
	for _, one := range []struct {
		what, key string
		payment   payment
		kill      string
	}{
		{"the same key with another amount", "order-1", payment{"bob", 99}, ""},
		{"killed before the bank is asked", "order-2", payment{"bob", 10}, "before"},
		{"killed after the bank has paid, before the response is stored", "order-3", payment{"bob", 10}, "after"},
		{"killed after the response is stored, before it is sent", "order-4", payment{"bob", 10}, "stored"},
		{"the bank is closed the first time", "order-5", payment{"carol", 5}, ""},
		{"the bank pays and does not say so", "order-6", payment{"dave", 7}, ""},
		{"killed after a bank has paid that does not look at keys", "order-7", payment{"erin", 10}, "after"},
	} {
		tries, err := w.pay(ctx, one.key, one.payment, one.kill)
		if err != nil {
			return err
		}
		var said []string
		for _, r := range tries {
			if !r.busy { // which any case may meet, and none is about
				said = append(said, r.String())
			}
		}
		if paid, err = w.bank.payments(); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "%s\t%s\t%d\n", one.what, strings.Join(said, ", "), paid[bankKey(account, one.key)])
	}
	return out.Flush()
}

// storm is many payments at once.
type storm struct {
	keys, clients int
	seed          uint64
	to            string
}

// count is what became of the payments whose processes were to be killed at a step.
type count struct{ keys, tries, asked, answered, once, twice, never int }

// storm sends payments, each by several callers at once, four payments at a time, has processes killed, and counts the
// ledger. The error says what is wrong with it.
func (w *world) storm(ctx context.Context, s storm) error {
	steps := []string{"", "before", "after", "stored"}
	random := rand.New(rand.NewPCG(s.seed, 0))
	kills, finals := make([]string, s.keys), make([][]response, s.keys)
	tries, errs := make([]int, s.keys), make([]error, s.keys)
	var all sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i := range s.keys {
		kills[i] = steps[random.IntN(len(steps))]
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			finals[i], tries[i], errs[i] = w.many(ctx, s.clients, fmt.Sprint("order-", i), payment{s.to, 1 + i}, kills[i])
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	paid, err := w.bank.payments()
	if err != nil {
		return err
	}
	counts, wrong := map[string]*count{}, []string{}
	for _, step := range steps {
		counts[step] = &count{}
	}
	for i, kill := range kills {
		c, key := counts[kill], fmt.Sprint("order-", i)
		n := paid[bankKey(account, key)]
		answered := slices.ContainsFunc(finals[i], func(r response) bool { return r.status == http.StatusCreated })
		c.keys++
		c.tries += tries[i]
		c.asked += w.bank.asked[bankKey(account, key)] // no one asks it any more
		switch n {
		case 0:
			c.never++
		case 1:
			c.once++
		default:
			c.twice++
		}
		if answered {
			c.answered++
		}
		if n > 1 || answered && n == 0 {
			wrong = append(wrong, fmt.Sprintf("%s was paid %d times", key, n))
		}
		for _, r := range finals[i] {
			if answered && (r.status != http.StatusCreated || r.text != finals[i][0].text) {
				wrong = append(wrong, fmt.Sprintf("%s got %d %q and %d %q", key, finals[i][0].status, finals[i][0].text,
					r.status, r.text))
			}
		}
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out,
		"killed at\tkeys\trequests\tbank asked\tanswered with 201\tpaid once\ttwice or more\tnot at all")
	for _, step := range steps {
		c, name := counts[step], step
		if step == "" {
			name = "no step"
		}
		_, _ = fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", name, c.keys, c.tries, c.asked, c.answered, c.once,
			c.twice, c.never)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	fmt.Printf("%d processes were killed; seed %d\n", w.front.killed.Load(), s.seed)
	if len(wrong) > 0 {
		return errors.New("the ledger is wrong:\n  " + strings.Join(wrong, "\n  "))
	}
	return nil
}

// many is several callers of one payment at once: the last responses of all, and how many requests they sent.
func (w *world) many(ctx context.Context, n int, key string, p payment, kill string) (last []response, sent int,
	err error) {
	last = make([]response, n)
	tries, errs := make([][]response, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { tries[i], errs[i] = w.pay(ctx, key, p, kill) })
	}
	all.Wait()
	for i, t := range tries {
		sent += len(t)
		if len(t) > 0 {
			last[i] = t[len(t)-1]
		}
	}
	return last, sent, errors.Join(errs...)
}
