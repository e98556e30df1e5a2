package httpapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// byHeader is an identity that believes headers.
type byHeader struct{}

func (byHeader) Identify(r *http.Request) (httpapi.Caller, error) {
	subject, tenant, ok := strings.Cut(r.Header.Get("Authorization"), "@")
	if !ok {
		return httpapi.Caller{}, httpapi.Unauthenticated("no token")
	}
	return httpapi.Caller{Subject: subject, Tenant: tenant, Rights: httpapi.Worker | httpapi.MachineIDs}, nil
}
func (byHeader) Challenge() string { return "" }
func (byHeader) Unverified() bool  { return false }

// ask sends one request of a caller, such as ann@acme, and returns status, code and Retry-After.
func ask(ctx context.Context, h http.Handler, who, path string) (status int, code, after string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:8080"+path, nil)
	r.Header.Set("Authorization", who)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if _, rest, ok := strings.Cut(w.Body.String(), `"code":"`); ok {
		code, _, _ = strings.Cut(rest, `"`)
	}
	return w.Code, code, w.Header().Get("Retry-After")
}

// TestRates: a tenant and a subject have two seconds' worth at once and then their rate, whatever other callers do;
// what is rejected costs nothing of it.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := contracttest.Handler(t, httpapi.New(docstore.NewMemory(nil), byHeader{},
			&httpapi.Options{Limits: httpapi.Limits{PerTenant: 10, PerSubject: 4}}))
		locks := func(who string) (int, string, string) {
			_, tenant, _ := strings.Cut(who, "@")
			return ask(t.Context(), h, who, "/v1/tenants/"+tenant+"/locks")
		}
		until := func(who string) (n int) {
			for n < 1000 {
				status, code, after := locks(who)
				if status == http.StatusOK {
					n++
					continue
				}
				if status != http.StatusTooManyRequests || code != "RATE_LIMITED" || after != "1" {
					t.Errorf("%s: %d %s, Retry-After %q", who, status, code, after)
				}
				break
			}
			return n
		}
		for _, c := range []struct {
			who  string
			want int
		}{
			{"ann@acme", 8}, {"ann@acmf", 8}, {"bob@acme", 8}, {"cid@acme", 4}, {"dan@acme", 0}, {"bob@acmf", 8},
		} {
			if got := until(c.who); got != c.want {
				t.Errorf("%s sent %d requests, want %d", c.who, got, c.want)
			}
		}
		time.Sleep(time.Second)
		if got := until("ann@acme"); got != 4 {
			t.Errorf("after a second ann sent %d, want 4", got)
		}
		if got := until("dan@acme"); got != 6 {
			t.Errorf("after a second the tenant had %d left, want 6", got)
		}
		time.Sleep(time.Hour)
		if got := until("ann@acme"); got != 8 {
			t.Errorf("after an hour ann sent %d at once, want 8", got)
		}
	})
	t.Run("a subject that has the name of what a tenant is called", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := contracttest.Handler(t, httpapi.New(docstore.NewMemory(nil), byHeader{},
				&httpapi.Options{Limits: httpapi.Limits{PerTenant: 10, PerSubject: 4}}))
			for _, c := range []struct {
				who  string
				want int
			}{{"tenant@acme", 8}, {"subject/tenant@acme", 8}, {"bob@acme", 4}, {"tenant@acmf", 8}} {
				_, tenant, _ := strings.Cut(c.who, "@")
				n := 0
				for ; n < 100; n++ {
					if status, _, _ := ask(t.Context(), h, c.who, "/v1/tenants/"+tenant+"/locks"); status != http.StatusOK {
						break
					}
				}
				if n != c.want {
					t.Errorf("%s sent %d requests, want %d", c.who, n, c.want)
				}
			}
		})
	})
	t.Run("analyses and machine IDs count for the caller's tenant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := contracttest.Handler(t, httpapi.New(docstore.NewMemory(nil), byHeader{},
				&httpapi.Options{Limits: httpapi.Limits{PerTenant: 1}}))
			for i, want := range []int{404, 200, 429, 429} {
				if status, _, _ := ask(t.Context(), h, "ann@acme",
					[]string{"/v1/analyses/a1", "/v1/machine-ids"}[i%2]); status != want {
					t.Errorf("request %d: %d, want %d", i, status, want)
				}
			}
			if status, _, _ := ask(t.Context(), h, "ann@acmf", "/v1/machine-ids"); status != 200 {
				t.Errorf("another tenant: %d", status)
			}
		})
	})
}

// TestRatesOfAllInstances: one tenant that asks for twice its rate, of 1, 8 or 64 instances on one store, has it within
// a fifth over ten seconds, and another one, which asks for half of it, is refused nothing.
func TestRatesOfAllInstances(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 8, 64} {
		synctest.Test(t, func(t *testing.T) {
			const perSecond = 40
			store := docstore.NewMemory(nil)
			all := make([]http.Handler, n)
			for i := range all {
				all[i] = httpapi.New(store, byHeader{}, &httpapi.Options{Limits: httpapi.Limits{PerTenant: perSecond}})
			}
			var accepted, late, refused int
			begin := time.Now()
			for i := 0; time.Since(begin) < 20*time.Second; i++ {
				switch status, _, _ := ask(t.Context(), all[i%n], "ann@greedy", "/v1/tenants/greedy/locks/k"); {
				case status == http.StatusNotFound && time.Since(begin) < 10*time.Second:
					accepted++
				case status == http.StatusNotFound:
					late++
				}
				if i%4 == 0 {
					if status, _, _ := ask(t.Context(), all[i/4%n], "bob@quiet", "/v1/tenants/quiet/locks/k"); status != 404 {
						refused++
					}
				}
				time.Sleep(time.Second / (2 * perSecond))
			}
			if most := 12 * perSecond; accepted > most || accepted < 8*perSecond {
				t.Errorf("%d instances: %d in the first ten seconds", n, accepted)
			}
			if late < 8*perSecond || late > 12*perSecond || refused > 0 {
				t.Errorf("%d instances: %d in the next ten seconds of %d; %d refusals of the quiet tenant", n, late,
					10*perSecond, refused)
			}
		})
	}
}

// TestRateWithoutStore: a store that is away refuses no one by itself, or everyone.
func TestRateWithoutStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		refuse bool
		code   string
		logged int
	}{{false, "", 1}, {true, "UNAVAILABLE", 1}} {
		synctest.Test(t, func(t *testing.T) {
			var lines strings.Builder
			log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelWarn}))
			h := httpapi.New(noWrites{docstore.NewMemory(nil)}, byHeader{}, &httpapi.Options{Log: log,
				Limits: httpapi.Limits{PerTenant: 1000, RefuseWithoutStore: c.refuse}})
			for range 30 {
				if _, code, _ := ask(t.Context(), h, "ann@acme", "/v1/machine-ids"); code != c.code {
					t.Errorf("refuse %v: %q", c.refuse, code)
				}
				time.Sleep(time.Second)
			}
			if n := strings.Count(lines.String(), "cannot be asked for rates"); n != c.logged {
				t.Errorf("refuse %v: logged %d times in half a minute: %s", c.refuse, n, lines.String())
			}
		})
	}
}

// noWrites is a store that is away for writes.
type noWrites struct{ docstore.Store }

func (noWrites) Write(context.Context, ...docstore.Write) (docstore.Result, error) {
	return docstore.Result{}, docstore.ErrUnavailable
}

// TestRatesForgetIdleCallers: a process remembers some thousands of callers, not all that there ever were. Those that
// are busy are not forgotten.
func TestRatesForgetIdleCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := httpapi.New(docstore.NewMemory(nil), byHeader{}, &httpapi.Options{Limits: httpapi.Limits{PerSubject: 1}})
		for i := range 10_002 {
			if i == 10_001 { // those that were remembered did not begin anew
				for _, want := range []int{404, 429} {
					if status, _, _ := ask(t.Context(), h, "0@acme", "/v1/tenants/acme/locks/k"); status != want {
						t.Errorf("the first caller: %d, want %d", status, want)
					}
				}
				time.Sleep(time.Hour)
			}
			if status, _, _ := ask(t.Context(), h, fmt.Sprint(i, "@acme"), "/v1/tenants/acme/locks/k"); status != 404 {
				t.Fatalf("caller %d: %d", i, status)
			}
		}
	})
}

// TestOverload: what is more than the bound waits for a moment, in a queue of the same length, and is rejected then;
// what finds the queue full is rejected at once. Callers who are not known take no place, and health is not asked to
// wait. All times are exact.
func TestOverload(t *testing.T) {
	type result struct {
		what string
		took time.Duration
	}
	// crowd sends n requests at once and returns what they result in, in order of time.
	crowd := func(ctx context.Context, h http.Handler, n int) <-chan result {
		results := make(chan result, n)
		begin := time.Now()
		for i := range n { // each of another tenant: one would have a share of the whole
			go func() {
				tenant := fmt.Sprint("t", i)
				status, code, after := ask(ctx, h, "ann@"+tenant, "/v1/tenants/"+tenant+"/locks/k")
				results <- result{fmt.Sprint(status, code, after), time.Since(begin)}
			}()
		}
		return results
	}
	const overloaded, done = "503OVERLOADED1", "404NOT_FOUND"
	const path = "/v1/tenants/acme/locks/k"
	for _, c := range []struct {
		name          string
		takes, within time.Duration // of the store, Options.Timeout
		n             int
		want          []result
	}{
		{"a burst passes", 100 * time.Millisecond, 0, 8, []result{
			{overloaded, 0}, {overloaded, 0},
			{done, 100 * time.Millisecond}, {done, 100 * time.Millisecond}, {done, 100 * time.Millisecond},
			{done, 200 * time.Millisecond}, {done, 200 * time.Millisecond}, {done, 200 * time.Millisecond},
		}},
		{"a wait ends", 5 * time.Second, 0, 7, []result{
			{overloaded, 0},
			{overloaded, 500 * time.Millisecond}, {overloaded, 500 * time.Millisecond}, {overloaded, 500 * time.Millisecond},
			{done, 5 * time.Second}, {done, 5 * time.Second}, {done, 5 * time.Second},
		}},
		{"a wait leaves time for the work", 300 * time.Millisecond, 400 * time.Millisecond, 4, []result{
			{overloaded, 100 * time.Millisecond}, {done, 300 * time.Millisecond}, {done, 300 * time.Millisecond},
			{done, 300 * time.Millisecond},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := slowReads{&probed{Store: docstore.NewMemory(nil)}, c.takes}
				h := contracttest.Handler(t, httpapi.New(store, byHeader{},
					&httpapi.Options{Limits: httpapi.Limits{Concurrent: 3}, Timeout: c.within}))
				results := crowd(t.Context(), h, c.n)
				synctest.Wait()
				if status, _, _ := ask(t.Context(), h, "unknown", path); status != 401 {
					t.Errorf("an unknown caller: %d", status)
				}
				for _, path := range []string{"/healthz", "/readyz"} {
					if status, _, _ := ask(t.Context(), h, "", path); status != 200 {
						t.Errorf("%s: %d", path, status)
					}
				}
				var got []result
				for range c.n {
					got = append(got, <-results)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("got  %v\nwant %v", got, c.want)
				}
				if status, _, _ := ask(t.Context(), h, "ann@acme", path); status != 404 {
					t.Errorf("afterwards: %d", status)
				}
			})
		})
	}
	t.Run("a caller that leaves gives its place to another", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := slowReads{&probed{Store: docstore.NewMemory(nil)}, 200 * time.Millisecond}
			h := httpapi.New(store, byHeader{}, &httpapi.Options{Limits: httpapi.Limits{Concurrent: 1}})
			first := crowd(t.Context(), h, 1)
			synctest.Wait()
			ctx, leave := context.WithCancel(t.Context())
			waiting := crowd(ctx, h, 1)
			synctest.Wait()
			leave()
			<-waiting
			if status, _, _ := ask(t.Context(), h, "ann@acme", path); status != 404 {
				t.Errorf("in the place of another: %d", status)
			}
			<-first
		})
	})
}

// TestPanicsLeaveNothingBehind: a request that ends with a panic has left its place, and the memory of its page.
func TestPanicsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &panics{Store: docstore.NewMemory(nil)}
		h := httpapi.New(store, byHeader{}, &httpapi.Options{Limits: httpapi.Limits{Concurrent: 1, Lists: 1, PageBytes: 1}})
		for path, want := range map[string]int{"/v1/tenants/acme/locks/k": 404, "/v1/tenants/acme/locks": 200} {
			for range 3 {
				store.next = true
				for _, want := range []int{500, want} {
					if status, code, _ := ask(t.Context(), h, "ann@acme", path); status != want {
						t.Errorf("%s: %d %s, want %d", path, status, code, want)
					}
				}
			}
		}
	})
}

// panics is a store with a bug that the next read meets.
type panics struct {
	docstore.Store
	next bool
}

func (p *panics) meet() {
	if p.next {
		p.next = false
		panic("a bug")
	}
}

func (p *panics) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	p.meet()
	return p.Store.Get(ctx, keys...)
}

func (p *panics) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	p.meet()
	return p.Store.List(ctx, q)
}

// TestTenantsTakeTurns: a tenant that has as many requests as it can costs another one nothing, as it has no more than
// its share of the slots; several of them, which have all slots and the whole queue, cost it a turn, and no rejection.
// A subject costs another one of its tenant as little.
func TestTenantsTakeTurns(t *testing.T) {
	const takes = 100 * time.Millisecond
	for name, c := range map[string]struct {
		noisy []string
		quiet string
		most  time.Duration // that a request of the quiet one may take
	}{
		"a tenant":   {[]string{"ann@noisy", "eve@noisy"}, "bob@quiet", takes},
		"tenants":    {[]string{"ann@noisy", "eve@noisy", "ann@loud", "eve@loud"}, "bob@quiet", 2 * takes},
		"a subject":  {[]string{"ann@acme"}, "bob@acme", takes},
		"the others": {[]string{"ann@acme", "ann@loud", "eve@loud"}, "bob@acme", 2 * takes},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := httpapi.New(slowReads{&probed{Store: docstore.NewMemory(nil)}, takes}, byHeader{},
					&httpapi.Options{Limits: httpapi.Limits{Concurrent: 4}}) // three of a tenant, two of a subject
				ctx, stop := context.WithCancel(t.Context())
				var noise sync.WaitGroup
				var done, overloaded atomic.Int64
				send := func(who string) (int, string) {
					_, tenant, _ := strings.Cut(who, "@")
					status, code, _ := ask(t.Context(), h, who, "/v1/tenants/"+tenant+"/locks/k")
					return status, code
				}
				for i := range 40 {
					noise.Go(func() {
						for ctx.Err() == nil {
							if _, code := send(c.noisy[i%len(c.noisy)]); code == "OVERLOADED" {
								overloaded.Add(1)
								time.Sleep(10 * time.Millisecond)
							} else {
								done.Add(1)
							}
						}
					})
				}
				time.Sleep(time.Second) // all have been admitted or rejected
				for i := range 50 {
					begin := time.Now()
					status, code := send(c.quiet)
					if took := time.Since(begin); status != 404 || took > c.most {
						t.Errorf("request %d of the quiet one: %d %s after %v", i, status, code, took)
					}
					time.Sleep(time.Duration(i) * time.Millisecond)
				}
				stop()
				noise.Wait()
				if done.Load() < 100 || overloaded.Load() < 100 {
					t.Errorf("the noisy ones: %d requests, %d rejected", done.Load(), overloaded.Load())
				}
			})
		})
	}
}

// TestPagesCountForRates: a page is as many requests as 64 KiB were read for it, and more than a tenant may send is
// owed.
func TestPagesCountForRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := docstore.NewMemory(nil)
		fillLocks(t, store, 60)
		h := contracttest.Handler(t, httpapi.New(store, byHeader{}, &httpapi.Options{Limits: httpapi.Limits{PerTenant: 10}}))
		list := func() int {
			status, _, _ := ask(t.Context(), h, "ann@acme", "/v1/tenants/acme/locks?page_size=1000")
			return status
		}
		small := func() (n int) {
			for ; ; n++ {
				if status, _, _ := ask(t.Context(), h, "ann@acme", "/v1/tenants/acme/locks/none"); status != 404 {
					return n
				}
			}
		}
		if status, left := list(), small(); status != 200 || left != 20-13 {
			t.Errorf("a page: %d, and %d requests are left of 20", status, left)
		}
		time.Sleep(time.Second) // ten requests' worth
		if first, second := list(), list(); first != 200 || second != 429 {
			t.Errorf("pages: %d, %d", first, second)
		}
		time.Sleep(time.Second)
		if n := small(); n != 10-3 {
			t.Errorf("%d requests are left of 10; 3 were owed", n)
		}
		time.Sleep(time.Minute)
		if status, _, _ := ask(t.Context(), h, "ann@acme", "/v1/tenants/acme/locks?state=RELEASED"); status != 200 {
			t.Errorf("a page by state: %d", status)
		}
		if n := small(); n != 20-16 {
			t.Errorf("%d requests are left of 20 after 60 large locks were passed over", n)
		}
	})
}

// TestListsHaveTheirOwnBound: lists are read a few at a time, half of them of one tenant, and take no slot from other
// requests.
func TestListsHaveTheirOwnBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowLists{Store: docstore.NewMemory(nil)}
		h := contracttest.Handler(t, httpapi.New(store, byHeader{},
			&httpapi.Options{Limits: httpapi.Limits{Concurrent: 1, Lists: 4}}))
		var lists sync.WaitGroup
		list := func(who, path string) {
			lists.Go(func() {
				if status, code, _ := ask(t.Context(), h, who, path); status != 200 {
					t.Errorf("%s %s: %d %s", who, path, status, code)
				}
			})
			synctest.Wait()
		}
		reads := func(want int64) {
			t.Helper()
			if n := store.reading.Load(); n != want {
				t.Errorf("%d lists are read at once, want %d", n, want)
			}
		}
		for _, path := range []string{"/v1/analyses", "/v1/tenants/acme/locks", "/v1/tenants/acme/locks", "/v1/analyses"} {
			list("ann@acme", path)
		}
		reads(2)
		list("bob@acmf", "/v1/tenants/acmf/locks")
		reads(3)
		if status, code, _ := ask(t.Context(), h, "ann@acme", "/v1/tenants/acme/locks/k"); status != 404 {
			t.Errorf("beside the lists: %d %s", status, code)
		}
		time.Sleep(150 * time.Millisecond) // one list and a half
		synctest.Wait()
		reads(2) // those that have waited
		lists.Wait()
	})
}

// slowLists is a store whose lists take 100 ms, of a bubble's time.
type slowLists struct {
	docstore.Store

	reading atomic.Int64
}

func (s *slowLists) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	s.reading.Add(1)
	time.Sleep(100 * time.Millisecond)
	s.reading.Add(-1)
	return s.Store.List(ctx, q)
}

// TestRateThatIsAlmostKept: who is early by less than a millisecond is told when to come, too.
func TestRateThatIsAlmostKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := httpapi.New(docstore.NewMemory(nil), byHeader{}, &httpapi.Options{Limits: httpapi.Limits{PerTenant: 4}})
		for range 8 {
			if status, _, _ := ask(t.Context(), h, "ann@acme", "/v1/machine-ids"); status != 200 {
				t.Fatalf("within the rate: %d", status)
			}
		}
		time.Sleep(250*time.Millisecond - time.Microsecond)
		if status, code, after := ask(t.Context(), h, "ann@acme", "/v1/machine-ids"); status != 429 ||
			code != "RATE_LIMITED" || after != "1" {
			t.Errorf("%d %s, Retry-After %q", status, code, after)
		}
	})
}

// slowReads is a store whose reads take a while, of a bubble's time.
type slowReads struct {
	docstore.Store

	takes time.Duration
}

func (s slowReads) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	time.Sleep(s.takes)
	return s.Store.Get(ctx, keys...)
}

// TestPlacementPerTenant: a cluster or an identity too many has its code.
func TestPlacementPerTenant(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.handler = contracttest.Handler(t, httpapi.New(d.store, httpapi.Development{}, &httpapi.Options{
		Now: d.clock.Now, Limits: httpapi.Limits{ClustersPerTenant: 1, IdentitiesPerCluster: 1},
	}))
	const join, claim = `{"request_id":"j1","kinds":["room"],"ttl_seconds":60}`, `{"request_id":"c1"}`
	for _, c := range []struct {
		target, body, says, after string
		limited                   bool
	}{
		{"chat/members/ann/join", join, "", "", false},
		{"other/members/ann/join", join, "the tenant has 1 clusters", "300", true},
		{"chat/activations/room/1/claim", claim, "", "", false},
		{"chat/activations/room/2/claim", claim, "the cluster has 1 identities", "300", true},
	} {
		a := d.post("/v1/tenants/acme/clusters/"+c.target, c.body)
		if !c.limited {
			if a.status != http.StatusOK {
				t.Errorf("%s: %d %s", c.target, a.status, a.raw)
			}
			continue
		}
		a.refuses(t, http.StatusTooManyRequests, "PLACEMENT_LIMIT", "")
		if detail, _ := a.body["detail"].(string); a.header.Get("Retry-After") != c.after ||
			!strings.Contains(detail, c.says) {
			t.Errorf("%s: Retry-After %q, %s", c.target, a.header.Get("Retry-After"), detail)
		}
	}
}

// TestLocksPerTenant: a lock or a fence too many has its code, says what the bound is and when to try again, and is not
// there.
func TestLocksPerTenant(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.handler = contracttest.Handler(t, httpapi.New(d.store, httpapi.Development{},
		&httpapi.Options{Now: d.clock.Now, Limits: httpapi.Limits{LocksPerTenant: 2}}))
	const body = `{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`
	for _, key := range []string{"a", "b"} {
		if a := d.post("/v1/tenants/acme/locks/"+key+"/acquire", body); a.status != 200 {
			t.Fatalf("%s: %d %s", key, a.status, a.raw)
		}
		if a := d.post("/v1/tenants/acme/fences/"+key+"/check", `{"fencing_token":7,"subject":"lock/db"}`); a.status != 200 {
			t.Fatalf("%s: %d %s", key, a.status, a.raw)
		}
	}
	for target, c := range map[string]struct{ body, after, says string }{
		"locks/c/acquire": {body, "300", "the tenant has 2 locks"},
		"fences/c/check":  {`{"fencing_token":7,"subject":"lock/db"}`, "60", "as many fences as this server allows"},
	} {
		a := d.post("/v1/tenants/acme/"+target, c.body)
		a.refuses(t, http.StatusTooManyRequests, "LOCK_LIMIT", "")
		if detail, _ := a.body["detail"].(string); a.header.Get("Retry-After") != c.after ||
			!strings.Contains(detail, c.says) {
			t.Errorf("%s: Retry-After %q, %s", target, a.header.Get("Retry-After"), detail)
		}
	}
	if a := d.get("/v1/tenants/acme/locks/c"); a.status != 404 {
		t.Errorf("the lock is there: %s", a.raw)
	}
	if a := d.post("/v1/tenants/acme/locks/a/release",
		`{"request_id":"e1","owner_id":"ann","fencing_token":1767225600000001}`); a.status != 200 {
		t.Errorf("a release at the bound: %d %s", a.status, a.raw)
	}
}

// TestRunsPerTenant: a run too many has its code, also where it is given up, says what the bound is and when to try
// again, and is not there; those that there are go on, and their results can be had.
func TestRunsPerTenant(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.handler = contracttest.Handler(t, httpapi.New(d.store, httpapi.Development{},
		&httpapi.Options{Now: d.clock.Now, Limits: httpapi.Limits{RunsPerTenant: 2}}))
	const tenant, body = "/v1/tenants/acme/runs/", `{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`
	for _, id := range []string{"a", "b"} {
		if a := d.post(tenant+id+"/begin", body); a.status != 200 {
			t.Fatalf("%s: %d %s", id, a.status, a.raw)
		}
	}
	for _, b := range []string{body, strings.Replace(body, "{", `{"give_up":true,`, 1)} {
		a := d.post(tenant+"c/begin", b)
		a.refuses(t, http.StatusTooManyRequests, "RUN_LIMIT", "")
		if detail, _ := a.body["detail"].(string); a.header.Get("Retry-After") != "300" ||
			!strings.Contains(detail, "the tenant has 2 runs") {
			t.Errorf("Retry-After %q, %s", a.header.Get("Retry-After"), detail)
		}
	}
	if a := d.get(tenant + "c"); a.status != 404 {
		t.Errorf("the run is there: %s", a.raw)
	}
	if a := d.post(tenant+"a/finish", `{"owner_id":"ann","fencing_token":1767225600000001,"status":"READY","result":"x"}`); a.
		status != 200 {
		t.Errorf("a finish at the bound: %d %s", a.status, a.raw)
	}
	if a := d.post(tenant+"a/begin", strings.Replace(body, "r1", "r2", 1)); a.status != 200 || a.body["result"] != "x" {
		t.Errorf("its result: %d %s", a.status, a.raw)
	}
	if a := d.post("/v1/tenants/acmf/runs/c/begin", body); a.status != 200 {
		t.Errorf("another tenant: %d %s", a.status, a.raw)
	}
}
