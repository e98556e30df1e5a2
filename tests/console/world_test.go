package console

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/fence"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/setup"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// world is a server with the console on a store in memory, wired as programs do.
type world struct {
	t     *testing.T
	url   string
	store *counted
	c     *client.Client
	ahead atomic.Int64 // of the store's clock, nanoseconds

	frozen atomic.Int64 // when the store's clock stands still, in nanoseconds since 1970; 0 if it does not
}

// counted counts the requests to a store.
type counted struct {
	docstore.Store
	n atomic.Int64
}

func (c *counted) Get(ctx context.Context, k ...docstore.Key) (docstore.Snapshot, error) {
	c.n.Add(1)
	return c.Store.Get(ctx, k...)
}

func (c *counted) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	c.n.Add(1)
	return c.Store.List(ctx, q)
}

func (c *counted) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	c.n.Add(1)
	return c.Store.Write(ctx, w...)
}

// bearers are callers by their tokens. No token: development mode is off and the caller is unknown.
type bearers map[string]httpapi.Caller

func (b bearers) Identify(r *http.Request) (httpapi.Caller, error) {
	c, ok := b[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if !ok {
		return httpapi.Caller{}, httpapi.Unauthenticated("the token is missing or unknown")
	}
	return c, nil
}

func (bearers) Challenge() string { return "Bearer" }
func (bearers) Unverified() bool  { return false }

func open(t *testing.T, identity httpapi.Identity, token string) *world {
	t.Helper()
	w := &world{t: t}
	w.store = &counted{Store: docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time {
		now := time.Now()
		if at := w.frozen.Load(); at != 0 {
			now = time.Unix(0, at)
		}
		return now.Add(time.Duration(w.ahead.Load()))
	}})}
	o := setup.API(&settings.Config{Console: true, RecordRefusals: time.Millisecond, MaxWait: time.Minute}, nil, nil)
	o.History = w.had
	s := httptest.NewServer(httpapi.New(w.store, identity, o))
	t.Cleanup(s.Close)
	w.url = s.URL
	w.c = w.client(token)
	return w
}

// had answers who had something: deploy-prod was ann's from 22:00 to 22:10, of the rest nothing is known; for runs
// there is no file.
func (w *world) had(_ context.Context, q httpapi.HistoryQuery) (contracts.LeaseHistory, error) {
	h := contracts.LeaseHistory{Kind: q.Kind, Key: q.Key, Holders: []contracts.RecordedLease{}}
	switch {
	case q.Kind == "run":
		return h, contracts.Errorf(contracts.CodeNotConfigured, "no file")
	case q.Kind != "lock" || q.Key != "deploy-prod":
		return h, nil
	}
	h.Events, h.First, h.Last = 2, "2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z"
	ann := contracts.RecordedLease{Owner: "ann", FencingToken: 17, GrantedAt: "2026-01-01T22:00:00.000Z",
		EndedAt: "2026-01-01T22:10:00.000Z", Ended: "forced", EndedBy: "root", Reason: "it hangs", Events: []string{"e"}}
	switch from, to := ann.GrantedAt, ann.EndedAt; {
	case q.At.IsZero():
		h.Leases, h.LeftOff = []contracts.RecordedLease{ann}, 3
	case q.At.Format(contracts.TimeFormat) < from:
		h.After = &ann
	case q.At.Format(contracts.TimeFormat) < to:
		certain := false
		ann.Certain = &certain
		h.Holders = append(h.Holders, ann)
	default:
		h.Before = &ann
	}
	if !q.At.IsZero() {
		h.At = q.At.UTC().Format(contracts.TimeFormat)
	}
	return h, nil
}

func (w *world) client(token string) *client.Client {
	w.t.Helper()
	o := &client.Options{}
	if token != "" {
		o.Token = func(context.Context) (string, error) { return token, nil }
	}
	c, err := client.New(w.url, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// must ends the test after an error that the test does not ask for.
func must[T any](t *testing.T, got T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// post sends a body of JSON, and returns what came back.
func (w *world) post(path, body string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.exchange(r)
}

func (w *world) exchange(r *http.Request) (int, string) {
	w.t.Helper()
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return got.StatusCode, string(text)
}

// sent sends a request that must succeed, and returns the body of the response.
func (w *world) sent(r *http.Request) string {
	w.t.Helper()
	status, text := w.exchange(r)
	if status != http.StatusOK {
		w.t.Fatalf("%s %s: %d %s", r.Method, r.URL, status, text)
	}
	return text
}

// acquire acquires a lock of a tenant.
func (w *world) acquire(tenant, key, owner string, ttl int64, labels contracts.Metadata) client.Lease {
	w.t.Helper()
	l, err := w.c.LockAPI().Acquire(w.t.Context(), tenant, key, contracts.AcquireRequest{
		OwnerID: owner, TTLSeconds: ttl, Metadata: labels})
	return must(w.t, l, err)
}

// ago sets the store's clock to a time before now, so that what comes happened then.
func (w *world) ago(d time.Duration) { w.ahead.Store(int64(-d)) }

// ran begins a run of acme, and ends it if status says how. more is what else the begin says, of JSON.
func (w *world) ran(token, id, status, more string) {
	w.t.Helper()
	about := "/v1/tenants/acme/runs/" + url.PathEscape(id)
	var g contracts.RunGranted
	if err := json.Unmarshal([]byte(w.send(token, about+"/begin",
		`{"owner_id":"web-2","request_id":"`+rand.Text()+`","ttl_seconds":300`+more+`}`)), &g); err != nil || !g.Acquired {
		w.t.Fatal(g, err)
	}
	ends := map[string]string{"READY": `"result":"s3://` + id + `"`, "FAILED": `"failure_reason":"the bank does not respond"`}
	if status != "" {
		w.send(token, about+"/finish", fmt.Sprintf(`{"owner_id":%q,"fencing_token":%d,"status":%q,%s}`, g.OwnerID,
			g.FencingToken, status, ends[status]))
	}
}

// due says that a run is that of a minute ago, and the next an hour later.
func due() string {
	at := time.Now().Add(-time.Minute)
	return fmt.Sprintf(`,"due_at":%q,"next_due_at":%q`, at.UTC().Format(contracts.TimeFormat),
		at.Add(time.Hour).UTC().Format(contracts.TimeFormat))
}

// busy is a tenant in the middle of its work: locks that are held, contended, shared, waited for and ended by force;
// analyses in all states; machine IDs; a cluster.
func (w *world) busy() {
	const tenant = "acme"
	t, ctx := w.t, w.t.Context()
	t.Helper()
	locks := w.c.LockAPI()
	refused := func(key, owner string) {
		if _, err := locks.Acquire(ctx, tenant, key, contracts.AcquireRequest{OwnerID: owner, TTLSeconds: 60}); !errors.Is(
			err, contracts.CodeLockHeld) {
			t.Fatalf("%s: %v", key, err)
		}
	}
	for i, owner := range []string{"ci-38", "ci-39", "ci-40", "ci-41"} {
		w.ago(time.Duration(17-5*i) * time.Minute)
		l := w.acquire(tenant, "deploy-prod", owner, 600, contracts.Metadata{"build": strconv.Itoa(987 + i)})
		w.ago(time.Duration(14-5*i) * time.Minute)
		switch i {
		case 1:
			w.force(tenant, "deploy-prod", "ann", "the runner was terminated")
		case 3: // it is the current one
		default:
			_, err := locks.Release(ctx, tenant, "deploy-prod", contracts.ReleaseRequest{
				OwnerID: owner, FencingToken: l.FencingToken})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	w.ago(time.Minute)
	for i := range 40 {
		w.ago(time.Duration(9-i/5) * time.Minute)
		r, err := w.c.MachineIDs().Acquire(ctx, kazahana.AcquireOptions{ThroughputPerMs: int64(256 * (1 + (i*i)%37))})
		if err != nil || len(r.Leases) == 0 {
			t.Fatal(err)
		}
	}
	w.ago(20 * time.Second)
	for _, x := range []struct {
		key, owner string
		ttl        int64
	}{
		{"invoices/2026-11", "billing-7f4c", 240}, {"nightly-report", "reporter-1", 900}, {"migrate-users", "migrator", 120},
		{"leader/scheduler", "scheduler-b", 45},
		{"cache-warmup", "web-3", 34}, {"import:customers", "etl-2", 300},
	} {
		w.acquire(tenant, x.key, x.owner, x.ttl, nil)
	}
	for i := range 3 {
		status, text := w.post("/v1/tenants/"+tenant+"/locks/gpu-pool/acquire",
			fmt.Sprintf(`{"request_id":"p%d","owner_id":"trainer-%d","ttl_seconds":%d,"mode":"permits","limit":3}`,
				i, i+1, 200+90*i))
		if status != 200 {
			t.Fatal(text)
		}
	}
	if status, text := w.post("/v1/tenants/"+tenant+"/locks/orders-db/acquire",
		`{"request_id":"o1","owner_id":"compactor","ttl_seconds":300}`); status != 200 {
		t.Fatal(text)
	}
	if _, err := w.c.Fences().Check(ctx, tenant, "orders-db", fence.Lease{Subject: "lock/orders", Token: 1767229200000007}); err != nil {
		t.Fatal(err)
	}

	a := w.c.Analyses()
	for _, id := range []string{"a-1021", "a-1022", "a-1023", "a-1024", "a-1025", "a-1026", "a-1027"} {
		if _, err := a.Create(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	run := func(id, owner string) string {
		status, text := w.post("/v1/analyses/"+id+"/lock",
			fmt.Sprintf(`{"owner_id":%q,"request_id":"r-%s-%s","ttl_seconds":300}`, owner, id, owner))
		var g contracts.AnalysisGranted
		if err := json.Unmarshal([]byte(text), &g); err != nil || status != 200 || g.FencingToken == 0 {
			t.Fatal(status, text, err)
		}
		return fmt.Sprintf(`"owner_id":%q,"fencing_token":%d`, owner, g.FencingToken)
	}
	send := func(path, body string) {
		if status, text := w.post(path, body); status != 200 {
			t.Fatal(path, text)
		}
	}
	send("/v1/analyses/a-1021/finish", "{"+run("a-1021", "worker-1")+`,"status":"READY","result":"{\"score\":0.93}"}`)
	send("/v1/analyses/a-1022/finish", "{"+run("a-1022", "worker-2")+
		`,"status":"FAILED","failure_reason":"the model did not converge after 500 rounds"}`)
	for i, owner := range []string{"worker-1", "worker-2", "worker-3"} { // the first two die
		w.ago(time.Duration(13-6*i) * time.Minute)
		run("a-1023", owner)
	}
	w.ago(12 * time.Minute)
	run("a-1026", "worker-2")
	w.ago(time.Minute)
	run("a-1024", "worker-4")
	send("/v1/analyses/a-1025/release", "{"+run("a-1025", "worker-5")+`,"failure_reason":"the bucket does not respond"}`)

	w.ago(0)
	for id, status := range map[string]string{"order-1024": "", "order-1025": "READY", "refund-88": "FAILED"} {
		w.ran("", id, status, "")
	}
	w.ran("", "nightly-report", "READY", due())

	w.ago(4 * time.Minute)
	for i, zone := range []string{"a", "b", "c", "a"} {
		_, err := w.c.Placements(tenant, "rooms").Join(ctx, fmt.Sprint("worker-", i+1), contracts.MemberJoinRequest{
			Kinds: []string{"room"}, TTLSeconds: 600, Labels: contracts.Labels{"zone": zone},
			Address: fmt.Sprintf("10.0.0.%d:9000", i+5), Partitions: 1024,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, room := range []string{"lobby", "north", "south"} {
		if status, text := w.post("/v1/tenants/"+tenant+"/clusters/rooms/activations/room/"+room+"/claim",
			`{"request_id":"c-`+room+`"}`); status != 200 {
			t.Fatal(text)
		}
	}

	w.ago(0)
	refused("deploy-prod", "ci-42")
	refused("deploy-prod", "ci-43")
	refused("deploy-prod", "ci-42")
}

// line has two callers wait for the lock orders-db, for twenty seconds.
func (w *world) line(tenant string) {
	var waiting sync.WaitGroup
	stop, end := context.WithCancel(context.Background())
	w.t.Cleanup(func() { end(); waiting.Wait() })
	for i := range 2 {
		waiting.Go(func() {
			_, _ = w.c.LockAPI().Acquire(stop, tenant, "orders-db", contracts.AcquireRequest{OwnerID: fmt.Sprint("writer-", i+1),
				TTLSeconds: 60, WaitSeconds: 20, Fair: true})
		})
	}
}

// force ends a lease as an administrator does.
func (w *world) force(tenant, key, by, reason string) {
	w.t.Helper()
	status, text := w.post("/v1/tenants/"+tenant+"/locks/"+key+"/force-release",
		fmt.Sprintf(`{"request_id":"f1","owner_id":%q,"reason":%q}`, by, reason))
	if status != http.StatusOK {
		w.t.Fatal(text)
	}
}

// browsers starts Chromium once for all tests.
var browsers = sync.OnceValues(func() (context.Context, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		o := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
		allocator, _ := chromedp.NewExecAllocator(context.Background(), o...) // ends with the tests
		first, cancel := chromedp.NewContext(allocator)
		return first, opens(first, cancel)
	}
	return nil, errNoBrowser
})

// opens opens a tab, and the browser if it is the first. What is opened lives as long as the context: so that one is
// cancelled if it takes too long.
func opens(ctx context.Context, cancel context.CancelFunc) error {
	late := time.AfterFunc(patience, cancel)
	err := chromedp.Do(ctx)
	if !late.Stop() && err != nil {
		err = fmt.Errorf("it took more than %v: %w", patience, err)
	}
	return err
}

var errNoBrowser = errors.New("no Chromium is installed: apt-get install chromium")

// tab is a page in a profile of its own.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // the tab itself, as chromedp has it

	mu       sync.Mutex
	requests []string // that the tab sent
	problems []string // that its console had, and what its policy forbade
}

// look says how a tab looks at the page.
type look struct {
	width, height int64 // 1280 × 900 unless it says otherwise
	dark, phone   bool
	lang          string // en-US unless it says otherwise
	before        string // script that runs before the page's
}

// visit opens a page of the console.
func (w *world) visit(hash string, l look) *tab {
	w.t.Helper()
	return visit(w.t, w.url+"/console/"+hash, l)
}

// visit opens a page.
func visit(t *testing.T, url string, l look) *tab {
	t.Helper()
	b, err := browsers()
	if errors.Is(err, errNoBrowser) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(b, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx}
	if err := opens(ctx, cancel); err != nil {
		t.Fatalf("no tab was opened: %v", err)
	}
	call(p, network.Enable, network.EnableParams{})
	call(p, runtime.Enable, cdp.Empty{})
	call(p, log.Enable, cdp.Empty{})
	watch(p, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) {
		p.requests = append(p.requests, e.Request.Method+" "+e.Request.URL)
	})
	watch(p, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) {
		p.problems = append(p.problems, e.ExceptionDetails.Exception.Description)
	})
	watch(p, log.EntryAdded, func(e log.EventEntryAdded) { // also what the policy forbids
		if e.Entry.Source != log.EntrySourceNetwork {
			p.problems = append(p.problems, e.Entry.Text)
		}
	})
	watch(p, runtime.ConsoleAPICalled, func(e runtime.EventConsoleAPICalled) {
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			for _, a := range e.Args {
				p.problems = append(p.problems, string(e.Type)+" "+a.Description+string(a.Value))
			}
		}
	})
	scheme := map[bool]string{false: "light", true: "dark"}[l.dark]
	scale := map[bool]float64{false: 1, true: 2}[l.phone]
	if l.width == 0 {
		l.width, l.height = 1280, 900
	}
	if l.lang == "" {
		l.lang = "en-US"
	}
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: l.width, Height: l.height,
		DeviceScaleFactor: scale, Mobile: l.phone})
	call(p, emulation.SetLocaleOverride, emulation.SetLocaleOverrideParams{Locale: l.lang})
	call(p, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: "leasehold-test",
		AcceptLanguage: l.lang})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	if l.before != "" {
		call(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: l.before})
	}
	ask(p, "the end of loading "+url, chromedp.Navigate(url))
	return p
}

// call sends a command of the browser's protocol.
func call[P, R any](p *tab, c cdp.Command[P, R], params P) R {
	p.t.Helper()
	return ask(p, c.Method, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, params) })
}

// watch hands events of a tab to a function, one at a time.
func watch[E any](p *tab, e cdp.Event[E], do func(E)) {
	events := chromedp.Events(p.ctx, e)
	go func() {
		for e, err := range events {
			if err != nil {
				return
			}
			p.mu.Lock()
			do(e)
			p.mu.Unlock()
		}
	}()
}

// patience is how long anything may take that a browser is asked for, or that a page is to come to: only a page that
// hangs, or an answer that is lost, needs it.
const patience = time.Minute

// ask has the tab do something. All that tests ask of a tab goes through here, so that none of it waits for ever.
func ask[R any](p *tab, what string, do chromedp.Action[R]) R {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	r, err := chromedp.Run(ctx, do)
	if err != nil {
		p.fails(what, err)
	}
	return r
}

// fails ends the test, and says what the page shows and what it asked last.
func (p *tab) fails(what string, err error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second) // it may hang
	defer cancel()
	shown, unknown := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + ', ' + document.readyState +
		(document.querySelector('dialog') ? ', a question is open' : '') + '\n' + document.body?.innerText.replace(/\s+/g, ' ').slice(0, 1500)`))
	if unknown != nil {
		shown = "what it shows is unknown: " + unknown.Error()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.t.Fatalf("waiting for %s: %v\nthe page: %s\nproblems: %q\nthe last of %d requests: %q", what, err, shown,
		p.problems, len(p.requests), p.requests[max(0, len(p.requests)-5):])
}

// sees waits until the page shows a text.
func (p *tab) sees(text string) {
	p.t.Helper()
	// without the marks around names
	p.until(fmt.Sprintf(`document.body.innerText.replace(/[\u2068\u2069]/g, '').includes(%q)`, text), "the text "+text)
}

// until waits until an expression holds. It asks from outside, because tests take the page's timers away.
func (p *tab) until(expression, what string) {
	p.t.Helper()
	holds := chromedp.Evaluate[bool]("!!(" + expression + ")")
	ask(p, what, func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		for {
			if ok, err := holds(ctx, t); ok || err != nil {
				return chromedp.Void{}, err
			}
			select {
			case <-ctx.Done():
				return chromedp.Void{}, ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
}

// says is the value of an expression.
func says[T any](p *tab, expression string) T {
	p.t.Helper()
	return ask(p, "the value of "+expression, chromedp.Evaluate[T](expression))
}

// runs runs statements in the page.
func (p *tab) runs(statements string) {
	p.t.Helper()
	ask(p, fmt.Sprintf("the end of %.200s", statements), chromedp.Evaluate[chromedp.Void](statements+"; undefined"))
}

// hits presses and releases keys.
func (p *tab) hits(keys string) {
	p.t.Helper()
	ask(p, fmt.Sprintf("the keys %q", keys), chromedp.KeyEvent(keys))
}

// types writes into a field. It looks for the field itself: chromedp has a copy of the page for that, and looks in it
// for ever, also when the field has gone.
func (p *tab) types(field, keys string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`((e) => e?.checkVisibility() && (e.focus(), document.activeElement === e))(document.querySelector(%q))`, field),
		"the field "+field)
	p.hits(keys)
}

// reload loads the page once more.
func (p *tab) reload() {
	p.t.Helper()
	ask(p, "the end of loading once more", chromedp.Reload())
}

// clean fails the test if the page had an error, or its policy forbade something.
func (p *tab) clean() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.problems {
		p.t.Errorf("the page: %s", s)
	}
}
