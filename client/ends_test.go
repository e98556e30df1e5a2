package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/once"
)

var anEnd = regexp.MustCompile(`,"not_?[aA]fter":"[^"]*"|"not_?[aA]fter":"[^"]*",`)

// withoutEnd is the body of a request without its end.
func withoutEnd(body string) string { return anEnd.ReplaceAllString(body, "") }

// endOf is the end of a request; the zero time if it has none.
func endOf(t *testing.T, body string) time.Time {
	t.Helper()
	var r struct {
		NotAfter string `json:"not_after"`
		Camel    string `json:"notAfter"`
	}
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatal(err)
	}
	if r.NotAfter+r.Camel == "" {
		return time.Time{}
	}
	end, err := time.Parse(contracts.TimeFormat, r.NotAfter+r.Camel)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// judge is a server whose store has another time than the client, and which judges the ends of requests by that.
type judge struct {
	t      *testing.T
	off    time.Duration // of the store's time before the client's
	dated  bool          // responses have the header Date
	date   time.Duration // how far that is ahead of the client's time
	refuse bool          // all ends
	body   string        // of the response
	status int
}

func (j *judge) answer(_ int, r *http.Request) answer {
	now := time.Now().Add(j.off)
	a := reply(j.status, "application/json", j.body)
	body, err := r.GetBody()
	if err != nil {
		j.t.Fatal(err)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		j.t.Fatal(err)
	}
	if len(text) == 0 {
		text = []byte("{}")
	}
	var e *contracts.Error
	switch end := endOf(j.t, string(text)); {
	case end.IsZero():
	case j.refuse || end.Before(now):
		e = contracts.Errorf(contracts.CodeTooLate, "")
	case end.After(now.Add(time.Hour)):
		e = contracts.Errorf(contracts.CodeInvalidArgument, "")
	}
	if e != nil {
		e.Field, e.StoreTime = "not_after", now
		body, err := json.Marshal(e.Problem())
		if err != nil {
			j.t.Fatal(err)
		}
		a = reply(e.Status, "application/problem+json", string(body))
	}
	if j.dated {
		a.header = http.Header{"Date": {time.Now().Add(j.date).UTC().Format(http.TimeFormat)}}
	}
	return a
}

// granting is a call that grants something, and the server's response.
type granting struct {
	do   func(context.Context, *client.Client) error
	body string
}

// grants are all of them.
func grants() map[string]granting {
	const set = `{"tenant_id":"acme","owner_id":"ann","state":"ACTIVE","expires_at":"2026-01-01T00:00:30.000Z",` +
		`"remaining_ms":30000,"leases":[{"lock_key":"a","fencing_token":7},{"lock_key":"b","fencing_token":8}]}`
	const run = `"acquired":true,"owner_id":"w","fencing_token":7,"remaining_ms":30000,` +
		`"expires_at":"2026-01-01T00:00:30.000Z"}`
	all := map[string]granting{
		"acquire": {func(ctx context.Context, c *client.Client) error {
			_, err := c.LockAPI().Acquire(ctx, "acme", "deploy", ask)
			return err
		}, granted},
		"of package locks": {func(ctx context.Context, c *client.Client) error {
			_, err := c.LockAPI().For("acme").Acquire(ctx, "deploy", ask)
			return err
		}, granted},
		"a set": {func(ctx context.Context, c *client.Client) error {
			_, err := c.LockAPI().AcquireSet(ctx, "acme", contracts.LockSetAcquireRequest{LockKeys: []string{"a", "b"},
				OwnerID: "ann", RequestID: "r1", TTLSeconds: 30})
			return err
		}, set},
		"an analysis": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Analyses().Acquire(ctx, once.Acquire{RunID: "a", Owner: "w", RequestID: "r1", TTL: time.Minute})
			return err
		}, `{"analysis_id":"a",` + run},
		"a run": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Runs("acme").Acquire(ctx, once.Acquire{RunID: "a", Owner: "w", RequestID: "r1", TTL: time.Minute})
			return err
		}, `{"run_id":"a",` + run},
		"machine IDs": {func(ctx context.Context, c *client.Client) error {
			_, err := c.MachineIDs().Acquire(ctx, kazahana.AcquireOptions{ServiceID: "s"})
			return err
		}, `{"leases":[{"id":1}]}`},
	}
	for name, p := range placementCalls() {
		switch name {
		case "join", "replace", "claim", "transfer":
			all[name] = granting{func(ctx context.Context, c *client.Client) error {
				_, err := p.do(ctx, c.Placements("acme", "chat"))
				return err
			}, p.right}
		}
	}
	return all
}

// asks is a client of a server that judges ends.
func asks(t *testing.T, j *judge) (*client.Client, *wire) {
	t.Helper()
	w := &wire{answer: j.answer}
	c, err := client.New("http://127.0.0.1:8080", &client.Options{
		HTTP: &http.Client{Transport: w, Timeout: 15 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	return c, w
}

// TestEnds: each request that grants something has an end, 2 s after its try. A client whose clock is right sends no
// request more, and 60 bytes more at most. One whose clock is wrong by an hour or more sends one more, once.
func TestEnds(t *testing.T) {
	for name, g := range grants() {
		for _, off := range []time.Duration{0, time.Second, time.Hour, -time.Hour, 100 * time.Hour, -100 * time.Hour} {
			t.Run(name+" "+off.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(1000 * time.Hour)
					c, w := asks(t, &judge{t: t, off: off, status: 200, body: g.body})
					want := 1
					if off.Abs() >= time.Hour {
						want = 2
					}
					for range 3 {
						w.sent = nil
						if err := g.do(t.Context(), c); err != nil || len(w.sent) != want {
							t.Errorf("%v, after %d requests, want %d", err, len(w.sent), want)
						}
						last := w.sent[len(w.sent)-1].body
						try := 4 * time.Second
						switch name {
						case "machine IDs":
							try = 12 * time.Second
						case "of package locks": // which has tries of its own
							try = 17 * time.Second
						}
						left := endOf(t, last).Sub(time.Now().Add(off))
						if least := try - time.Second; left < least || left > try {
							t.Errorf("the end is in %v, want %v", left, try)
						}
						if more := len(last) - len(withoutEnd(last)); more > 60 || more == 0 {
							t.Errorf("%d bytes more: %s", more, last)
						}
						if withoutEnd(last) != withoutEnd(w.sent[0].body) {
							t.Errorf("sent %s, then %s", w.sent[0].body, last)
						}
						want = 1
						time.Sleep(time.Minute)
					}
				})
			})
		}
	}
}

// TestEndsFromDate: a client that has had any response knows the server's time from then on, and one that knows the
// store's does not believe a server that says another.
func TestEndsFromDate(t *testing.T) {
	for name, g := range grants() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, off := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
					j := &judge{t: t, off: off, dated: true, date: off, status: 200, body: "{}"}
					c, w := asks(t, j)
					_, _ = c.LockAPI().Get(t.Context(), "acme", "deploy") // whatever it says
					j.body, w.sent = g.body, nil
					if err := g.do(t.Context(), c); err != nil || len(w.sent) != 1 {
						t.Errorf("off by %v: %v, after %d requests", off, err, len(w.sent))
					}

					c, w = asks(t, &judge{t: t, off: off, dated: true, status: 200, body: g.body})
					for want := 2; want > 0; want-- {
						w.sent = nil
						if err := g.do(t.Context(), c); err != nil || len(w.sent) != want {
							t.Errorf("a server that is off by %v from its store: %v, after %d requests, want %d", off, err,
								len(w.sent), want)
						}
					}
				}
			})
		})
	}
}

// TestDateOfAProxy: a page that a proxy has made says the proxy's time, of which the server knows nothing. What has
// come from the server says the server's, with a body or without.
func TestDateOfAProxy(t *testing.T) {
	const page = "<html></html>"
	for name, c := range map[string]struct {
		first   answer
		learned bool
	}{
		"a page that the server is away": {reply(http.StatusBadGateway, "text/html", page), false},
		"a page of success":              {reply(http.StatusOK, "text/html; charset=utf-8", page), false},
		"a page of no resource":          {reply(http.StatusNotFound, "text/plain", page), false},
		"nothing":                        {reply(http.StatusServiceUnavailable, "", ""), false},
		"an error of the server":         {refusal(contracts.CodeNotFound, ""), true},
		"a response without content":     {reply(http.StatusNoContent, "", ""), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &judge{t: t, status: 200, body: granted}
				off := 2 * time.Hour // of the Date before the client's time
				if c.learned {
					j.off = off
				}
				cl, w := asks(t, j)
				w.answer = func(int, *http.Request) answer {
					a := c.first
					a.header = http.Header{"Date": {time.Now().Add(off).UTC().Format(http.TimeFormat)}}
					return a
				}
				_, _ = cl.LockAPI().Get(t.Context(), "acme", "deploy") // whatever it says
				w.answer, w.sent = j.answer, nil
				if err := grants()["acquire"].do(t.Context(), cl); err != nil || len(w.sent) != 1 {
					t.Errorf("%v, after %d requests", err, len(w.sent))
				}
			})
		})
	}
}

// TestEndIsRefusedTwice: a request is sent once more after a refusal of its end, and not again.
func TestEndIsRefusedTwice(t *testing.T) {
	for name, g := range grants() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, w := asks(t, &judge{t: t, refuse: true, status: 200, body: g.body})
				err := g.do(t.Context(), c)
				if !errors.Is(err, contracts.CodeTooLate) || len(w.sent) != 2 {
					t.Errorf("%v, after %d requests", err, len(w.sent))
				}
			})
		})
	}
}

// TestEndOfTheCaller: an end that the caller has named is the caller's: it is sent as it is, with each try, and
// TOO_LATE is the caller's, too.
func TestEndOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const end = "1999-12-31T23:59:59.000Z"
		for name, do := range map[string]func(c *client.Client) error{
			"acquire": func(c *client.Client) error {
				_, err := c.LockAPI().Acquire(t.Context(), "acme", "deploy", contracts.AcquireRequest{RequestID: "r", NotAfter: end})
				return err
			},
			"a set": func(c *client.Client) error {
				_, err := c.LockAPI().AcquireSet(t.Context(), "acme", contracts.LockSetAcquireRequest{RequestID: "r", NotAfter: end})
				return err
			},
			"join": func(c *client.Client) error {
				_, err := c.Placements("t", "c").Join(t.Context(), "m", contracts.MemberJoinRequest{NotAfter: end})
				return err
			},
			"replace": func(c *client.Client) error {
				_, err := c.Placements("t", "c").Replace(t.Context(), "m", contracts.MemberReplaceRequest{NotAfter: end})
				return err
			},
			"claim": func(c *client.Client) error {
				_, err := c.Placements("t", "c").Claim(t.Context(), "k", "i", contracts.ActivationClaimRequest{NotAfter: end})
				return err
			},
			"transfer": func(c *client.Client) error {
				_, err := c.Placements("t", "c").Transfer(t.Context(), "k", "i",
					contracts.ActivationTransferRequest{NotAfter: end})
				return err
			},
		} {
			c, w := asks(t, &judge{t: t, status: 200, body: granted})
			err := do(c)
			if !errors.Is(err, contracts.CodeTooLate) || len(w.sent) != 1 ||
				endOf(t, w.sent[0].body).Format(contracts.TimeFormat) != end {
				t.Errorf("%s: %v, sent %v", name, err, w.sent)
			}
			if e, ok := errors.AsType[*contracts.Error](err); !ok || !e.StoreTime.Equal(time.Now().Truncate(time.Millisecond)) {
				t.Errorf("%s: %v does not say the store's time", name, err)
			}
		}
	})
}

// TestEachTryHasAnEnd: a try that follows a lost one has an end of its own, and a wait and the caller's deadline count.
func TestEachTryHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &judge{t: t, status: 200, body: granted}
		c, w := asks(t, j)
		w.answer = func(try int, r *http.Request) answer {
			time.Sleep(5 * time.Second)
			if try < 3 {
				return answer{lost: errors.New("connection reset")}
			}
			return j.answer(try, r)
		}
		waits := ask
		waits.WaitSeconds = 20
		long, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := c.LockAPI().Acquire(long, "acme", "deploy", waits); err != nil || len(w.sent) != 3 {
			t.Fatalf("%v, after %d requests", err, len(w.sent))
		}
		for i, s := range w.sent {
			want := []time.Duration{24 * time.Second, 26 * time.Second, 30 * time.Second}[i]
			if got := endOf(t, s.body).Sub(s.at).Round(10 * time.Millisecond); got != want {
				t.Errorf("try %d ends after %v, want %v", i, got, want)
			}
		}
		w.sent = nil
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := c.LockAPI().Acquire(ctx, "acme", "deploy", waits); err != nil {
			t.Fatal(err)
		}
		end, _ := ctx.Deadline()
		for i, s := range w.sent {
			if got := endOf(t, s.body).Sub(end).Round(10 * time.Millisecond); got != 2*time.Second {
				t.Errorf("try %d ends %v after the caller's deadline", i, got)
			}
		}
	})
}
