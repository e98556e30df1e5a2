package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/fence"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// ofAcme makes a tab begin with the tenant acme.
const ofAcme = `sessionStorage.setItem('leasehold.tenant', 'acme')`

// screens are all screens with what each shows of a busy tenant.
var screens = []struct{ name, hash, shows string }{
	{"now", "#/now", "deploy-prod"},
	{"lock", "#/lock/deploy-prod", "ended by an administrator"},
	{"line", "#/lock/orders-db", "compactor"},
	{"work", "#/work", "the model did not converge"},
	{"run", "#/work/run/nightly-report", "kept until"},
	{"ids", "#/ids", "Leases by service"},
	{"placement", "#/placement/rooms", "worker-4"},
	{"happened", "#/happened", "LOCK_HELD"},
	{"code", "#/happened/code/STALE_TOKEN", "This is what the fence is for"},
}

// goes changes the screen of a tab.
func (p *tab) goes(hash, shows string) {
	p.t.Helper()
	p.runs(fmt.Sprintf(`location.hash = %q`, hash))
	p.sees(shows)
}

// wide is how much wider the page is than the window.
func (p *tab) wide() int { return says[int](p, `document.documentElement.scrollWidth - innerWidth`) }

// axe is the source of axe-core, which finds what keeps people out of a page; empty if npm has not installed it.
func axe(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", "..", ".ci", "tmp", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Log(
			"axe-core is not installed, and was not asked: .ci/run installs it, and so does npm ci in a copy of .ci/npm that is named .ci/tmp")
	}
	return string(source)
}

// accessible fails the test for what axe-core calls serious or critical.
func (p *tab) accessible(axe, where string) {
	p.t.Helper()
	if axe == "" {
		return
	}
	if !says[bool](p, `typeof axe === 'object'`) {
		p.runs(axe)
	}
	p.runs(`window.found = null; axe.run(document, { resultTypes: ['violations'] }).then((r) => { window.found =
		r.violations.filter((v) => ['serious', 'critical'].includes(v.impact)).map((v) => v.id + ': ' + v.nodes.map((n) => n.html + ' ' + n.failureSummary).join(' | ')) })`)
	p.until(`window.found !== null`, "the end of axe-core")
	for _, s := range says[[]string](p, `window.found`) {
		p.t.Errorf("%s: axe-core: %.600s", where, s)
	}
}

// TestScreens: each screen shows its data, in the light and in the dark, on a telephone without scrolling sideways, and
// can be read by those who do not see it; no request leaves the machine, and no lease's ID is in the page.
func TestScreens(t *testing.T) {
	t.Parallel()
	w := open(t, httpapi.Development{}, "")
	w.busy()
	w.line("acme")
	p, source := w.visit("#/now", look{before: ofAcme}), axe(t)
	var leases []string
	all, err := w.c.LockAPI().List(t.Context(), "acme", client.LockQuery{})
	if err != nil || len(all.Locks) < 8 {
		t.Fatal(err)
	}
	for _, l := range all.Locks {
		leases = append(leases, l.LeaseID)
		for _, h := range l.Holders {
			leases = append(leases, h.LeaseID)
		}
	}
	for _, x := range screens {
		p.goes(x.hash, x.shows)
		p.accessible(source, x.name+", light")
		for _, width := range []int64{390, 320} {
			call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
				Width: width, Height: 700, DeviceScaleFactor: 1, Mobile: true})
			if wide := p.wide(); wide > 0 {
				t.Errorf("%s is %d pixels wider than %d", x.name, wide, width)
			}
		}
		call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
		if back := says[string](p, `getComputedStyle(document.documentElement).backgroundColor`); back != "rgb(13, 18, 24)" {
			t.Errorf("%s in the dark has the background %s", x.name, back)
		}
		p.accessible(source, x.name+", dark, on a telephone")
		call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}})
		call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: 1280, Height: 900, DeviceScaleFactor: 1})
		html := says[string](p, `document.documentElement.outerHTML`)
		for _, id := range leases {
			if strings.Contains(html, id) {
				t.Errorf("%s: the page has the lease ID %s", x.name, id)
			}
		}
	}
	p.clean()
	p.local(w)
}

// local fails the test if a tab asked anything but its server.
func (p *tab) local(w *world) {
	p.t.Helper()
	// and pictures of the browser's own, of which its fields for times are made
	p.asksOnly(w.url+"/console/", w.url+"/v1/", "data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRo")
}

// asksOnly fails the test if a tab asked for anything that does not begin in one of these ways.
func (p *tab) asksOnly(begin ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.requests) < 6 {
		p.t.Errorf("%d requests were seen", len(p.requests))
	}
	for _, r := range p.requests {
		if _, url, _ := strings.Cut(r, " "); !slices.ContainsFunc(
			begin, func(b string) bool { return strings.HasPrefix(url, b) }) {
			p.t.Errorf("the page asked %s", r)
		}
	}
}

// TestHostileNames: what others wrote is text, whatever it is, and changes nothing around it.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	w := open(t, httpapi.Development{}, "")
	const script = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>`
	bidi, emoji := "safe\u202egnp.exe\u2066\u200b", strings.Repeat("🦊", 125)
	key := `"><svg onload=pwned=1>\u202e/` + "\u202eevil"
	w.acquire("acme", key, script, 300, contracts.Metadata{"html": script, "bidi": bidi, "emoji": emoji,
		script[:28]: "key"})
	w.acquire("acme", emoji[:64*4], bidi, 300, nil)
	if _, err := w.c.LockAPI().Acquire(t.Context(), "acme", key, contracts.AcquireRequest{
		OwnerID: bidi, TTLSeconds: 30}); !errors.Is(err, contracts.CodeLockHeld) {
		t.Fatal(err)
	}
	for _, id := range []string{"a-1", "javascript:pwned=1"} {
		if _, err := w.c.Analyses().Create(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	status, text := w.post("/v1/analyses/a-1/lock", `{"owner_id":"w","request_id":"r","ttl_seconds":60}`)
	var g contracts.AnalysisGranted
	if err := json.Unmarshal([]byte(text), &g); err != nil || status != 200 {
		t.Fatal(text, err)
	}
	failed, _ := json.Marshal(script + bidi + emoji)
	if status, text := w.post("/v1/analyses/a-1/finish",
		fmt.Sprintf(`{"owner_id":"w","fencing_token":%d,"status":"FAILED","failure_reason":%s}`, g.FencingToken,
			failed)); status != 200 {
		t.Fatal(text)
	}
	named := strings.ReplaceAll(key, "/", "") // as a run can be
	w.ran("", named, "FAILED", "")
	escaped := says[string](w.visit("#/now", look{before: ofAcme, width: 320, height: 700, phone: true}).check(
		`onload=pwned`), fmt.Sprintf(`encodeURIComponent(%q)`, key))
	p := w.visit("#/lock/"+escaped, look{before: ofAcme, width: 320, height: 700, phone: true})
	p.check(`onerror="window.pwned=1"`).check("safe⟨202E⟩gnp.exe⟨2066⟩⟨200B⟩").check(emoji)
	p.goes("#/work", "onerror")
	p.check("javascript:pwned=1")
	p.goes("#/work/name/"+says[string](p, fmt.Sprintf(`encodeURIComponent(%q)`, named)), "Remove")
	p.check("onload=pwned")
	p.goes("#/happened", "LOCK_HELD")
	p.check("onload=pwned")
	p.goes("#/happened/request/"+escaped, "does not remember")
	p.check("This process")
	p.goes("#/happened/code/%3Cimg%20src=x%20onerror=pwned=1%3E", "<img src=x")
	p.check("does not know the code")
	p.goes("#/placement", "No process has joined")
	p.check("/v1/tenants/acme/clusters/rooms/members/worker-1/join")
	p.goes("#/placement/%2e%2e%2f%2e%2e", "INVALID_ARGUMENT")
	p.check("Begin again")
	p.goes("#/lock/%E0%A4%A", "There is no record of this lock") // no UTF-8
	p.check("It was never held")
	p.goes("#/nowhere/%3Cscript%3E", "About to expire")
	p.clean()
	p.local(w)

	q := visit(t, w.url+"/console/?tenant=rival&token=t0ken&lang=%3Cimg%3E#/now?tenant=rival", look{before: ofAcme})
	q.check("onload=pwned") // a lock of acme: the address chooses neither tenant nor caller
	q.clean()
}

// check fails the test unless the page shows a text, and nothing that others wrote became a part of it.
func (p *tab) check(text string) *tab {
	p.t.Helper()
	p.sees(text)
	if says[bool](
		p, `'pwned' in window || document.querySelectorAll('img').length !== 1 || document.querySelectorAll('script').length !== 1 || !!document.querySelector('[onload], [onerror], a[href^="javascript"]')`) {
		p.t.Errorf("a text became a part of the page: %s", says[string](p, `document.body.innerHTML`))
	}
	if shown := says[string](p, `document.body.innerText`); strings.ContainsAny(
		shown, "\u202a\u202b\u202d\u202e\u2066\u2067\u200b\u200f") {
		p.t.Errorf("a text changes the direction of others: %q", shown)
	}
	if wide := p.wide(); wide > 0 {
		p.t.Errorf("the page is %d pixels too wide", wide)
	}
	return p
}

var people = bearers{
	"t0ken-of-ann":  {Subject: "ann", Tenant: "acme", Rights: httpapi.MachineIDs},
	"t0ken-of-root": {Subject: "root", Tenant: "acme", Rights: httpapi.AllRights},
	"t0ken-of-eve":  {Subject: "eve", Tenant: "acmf", Rights: httpapi.AllRights &^ httpapi.Operate},
}

// signIn types a token.
func (p *tab) signIn(token string) {
	p.t.Helper()
	p.sees("Bearer token")
	p.types("#token", token+"\r")
}

// TestOrderOfFocus: the keyboard and screen readers go down a telephone's screen as the eye does; on a wide page the
// column on the left comes first.
func TestOrderOfFocus(t *testing.T) {
	t.Parallel()
	w := open(t, people, "t0ken-of-root")
	const order = `[...document.querySelectorAll('a, button, input, select')].filter((e) => !e.matches('nav *, .skip'))
		.map((e) => e.closest('header') ? 'head' : e.closest('aside') ? 'you' : 'main').filter((x, i, all) => x !== all[i - 1]).join()`
	for _, c := range []struct {
		look look
		want string
	}{
		{look{width: 390, height: 844, phone: true}, "head,main,you"}, {look{}, "head,you,main"},
	} {
		p := w.visit("#/now", c.look)
		p.sees("Bearer token")
		for _, what := range []string{"signing in", "the screen"} {
			if what == "the screen" {
				p.signIn("t0ken-of-root")
				p.sees("No lock is held")
			}
			if got := says[string](p, order); got != c.want {
				t.Errorf("%s, %d wide: %s, want %s", what, c.look.width, got, c.want)
			}
			if c.look.phone && says[float64](p, `document.querySelector('aside').getBoundingClientRect().top -
				document.querySelector('main').getBoundingClientRect().bottom`) < 0 {
				t.Errorf("%s: what is about the reader is not below the screen", what)
			}
			if what == "signing in" {
				continue
			}
			call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
				Width: 1280, Height: 900, DeviceScaleFactor: 1}) // the telephone is turned, or the window made larger
			p.until(order+` === 'head,you,main'`, "the order of a wide page")
		}
	}
}

// danger is how many buttons change something.
const danger = `document.querySelectorAll('button.danger, .work button, .actions button').length`

// TestReadOnly: who is no administrator sees what the API shows, and has no button that changes anything but runs; the
// token is nowhere in the page.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	w := open(t, people, "t0ken-of-root")
	w.acquire("acme", "deploy-prod", "", 300, contracts.Metadata{"build": "991"})
	if _, err := w.c.Analyses().Create(t.Context(), "a-1"); err != nil {
		t.Fatal(err)
	}
	p := w.visit("#/now", look{})
	p.signIn("t0ken-of-no-one")
	p.sees("the token is missing or unknown")
	p.signIn("t0ken-of-ann")
	p.sees("May change runs")
	p.sees("deploy-prod")
	p.sees("Who was refused is shown to administrators")
	for _, x := range []struct{ hash, shows string }{
		{"#/lock/deploy-prod", "needs the administrator’s scope"}, {"#/work", "No work is on record"},
		{"#/ids", "Decode"},
		{"#/happened", "Your token lacks their scope"}, {"#/lock/other", "There is no record"}, {"#/now", "deploy-prod"},
	} {
		p.goes(x.hash, x.shows)
		if n := says[int](p, danger); n != 0 {
			t.Errorf("%s has %d buttons that change something", x.hash, n)
		}
		if kept := says[string](
			p, `document.documentElement.outerHTML + JSON.stringify({ ...sessionStorage, 'leasehold.token': null }) + JSON.stringify(localStorage) + document.cookie + location + [...document.querySelectorAll('input')].map((i) => i.value)`); strings.Contains(kept, "t0ken") {
			t.Errorf("%s: the token is in the page, or in a storage beside the one of the tab", x.hash)
		}
	}
	p.reload()
	p.sees("May change runs") // who signed in need not do it again
	p.sees("deploy-prod")
	if kept := says[string](p, `JSON.stringify(sessionStorage)`); strings.Contains(kept, "no-one") ||
		strings.Count(kept, "t0ken") != 1 {
		t.Errorf("the tab keeps %s", kept)
	}
	const cleared = `JSON.stringify(sessionStorage).includes('t0ken')`
	p.runs(`[...document.querySelectorAll('button')].find((b) => b.innerText === 'Sign out').click()`)
	p.sees("Bearer token")
	if says[bool](p, `document.body.innerText.includes('deploy-prod')`) {
		t.Error("who signed out still sees locks")
	}
	if says[bool](p, cleared) {
		t.Error("the tab keeps the token of who signed out")
	}
	p.reload()
	p.sees("Bearer token")
	// A token that the server accepts no longer is forgotten as well.
	p.runs(`sessionStorage.setItem('leasehold.token', 't0ken-that-expired')`)
	p.reload()
	p.sees("the token is missing or unknown")
	if says[bool](p, cleared) {
		t.Error("the tab keeps a token that was not accepted")
	}
	p.clean()
	p.local(w)
}

// asks presses a button that asks for a reason, gives one, and waits until the question is gone: what was done may be
// seen before that, and another button that is pressed then has its question closed by the first one's answer.
func (p *tab) asks(button, reason string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`[...document.querySelectorAll('main button')].some((b) => b.innerText.startsWith(%q))`, button),
		"the button "+button)
	p.runs(fmt.Sprintf(
		`[...document.querySelectorAll('main button')].find((b) => b.innerText.startsWith(%q)).click()`, button))
	p.until(`document.querySelector('dialog')?.open && document.activeElement.id === 'reason'`,
		"a question for the reason")
	p.types("#reason", reason)
	p.runs(`document.querySelector('dialog form').requestSubmit()`)
	p.until(`!document.querySelector('dialog')`, "the end of the question")
}

// TestAdministrator: an administrator ends a lease, and no later one; resets a fence; retries an analysis. Each needs a
// reason and is seen in what happened.
func TestAdministrator(t *testing.T) {
	t.Parallel()
	w := open(t, people, "t0ken-of-root")
	ctx := t.Context()
	first := w.acquire("acme", "deploy-prod", "", 300, nil)
	if _, err := w.c.Fences().Check(ctx, "acme", "deploy-prod", fence.Lease{Subject: "lock/deploy-prod", Token: 9}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.c.Analyses().Create(ctx, "a-1"); err != nil {
		t.Fatal(err)
	}
	w.fail("t0ken-of-root", "a-1")
	p := w.visit("#/lock/deploy-prod", look{})
	p.signIn("t0ken-of-root")
	p.asks("End this lease", "the runner is gone")
	p.sees("released")
	if l, err := w.c.LockAPI().Get(ctx, "acme", "deploy-prod"); err != nil || l.LeaseID != first.LeaseID ||
		l.State != contracts.StateReleased || l.ForceRelease == nil || l.ForceRelease.Reason != "the runner is gone" ||
		l.ForceRelease.By != "root" {
		t.Errorf("%+v, %v", l, err)
	}

	// Another lease begins while the question is open: it stays.
	w.acquire("acme", "other", "", 300, nil)
	p.goes("#/lock/other", "End this lease")
	p.runs(`[...document.querySelectorAll('main button')].find((b) => b.innerText.startsWith('End this')).click()`)
	p.until(`document.querySelector('dialog')?.open`, "a question")
	w.evict("t0ken-of-root", "other")
	w.acquire("acme", "other", "", 300, nil)
	p.types("#reason", "too late")
	p.runs(`document.querySelector('dialog form').requestSubmit()`)
	p.until(`document.querySelector('dialog .failure')`, "the reason why nothing was done")
	if l, err := w.c.LockAPI().Get(ctx, "acme", "other"); err != nil || l.State != contracts.StateActive {
		t.Errorf("the later lease: %+v, %v", l, err)
	}
	p.hits("\x1b")
	p.until(`!document.querySelector('dialog')`, "the end of the question")

	p.goes("#/lock/deploy-prod", "Fence")
	p.runs(`document.querySelector('#resource').form.requestSubmit()`)
	p.sees("Highest token: 9 of lock/deploy-prod")
	p.asks("Reset the fence", "a token of the test system")
	p.sees("is remembered")
	if _, err := w.c.Fences().Get(ctx, "acme", "deploy-prod"); !errors.Is(err, contracts.CodeNotFound) {
		t.Errorf("the fence: %v", err)
	}

	p.goes("#/work", "a-1")
	p.asks("Retry", "the bucket is back")
	p.until(`[...document.querySelectorAll('.group')].some((h) => h.innerText === 'Pending' || h.innerText === 'pending')`,
		"an analysis that is pending")
	if a, err := w.c.Analyses().Get(ctx, "a-1"); err != nil || a.Status != "PENDING" || a.Retry == nil ||
		a.Retry.Reason != "the bucket is back" {
		t.Errorf("%+v, %v", a, err)
	}
	p.goes("#/happened", "force release")
	p.runs(`document.querySelectorAll('.outcomes summary').forEach((s) => s.click())`)
	p.sees("the bucket is back")
	for _, reason := range []string{"the runner is gone", "a token of the test system", "the bucket is back"} {
		if !says[bool](p, fmt.Sprintf(`document.body.textContent.includes(%q)`, reason)) {
			t.Errorf("what happened does not say %q", reason)
		}
	}
	p.clean()
}

// TestWhoHadIt: administrators ask who had a lock or a run; the page says what is known, and what to do without a file.
func TestWhoHadIt(t *testing.T) {
	t.Parallel()
	w := open(t, people, "t0ken-of-root")
	w.acquire("acme", "deploy-prod", "", 300, nil)
	p := w.visit("#/lock/deploy-prod", look{})
	p.signIn("t0ken-of-root")
	p.sees("Who had it")
	ask := func(at string) {
		p.runs(fmt.Sprintf(`{ const f = document.querySelector('#at').form
			f.elements.at.value = %q && new Date(new Date(%[1]q) - new Date(%[1]q).getTimezoneOffset() * 60e3).toISOString().slice(0, 19)
			f.requestSubmit() }`, at))
	}
	ask("2026-01-01T22:05:00Z")
	p.sees("possibly: if it was renewed until then")
	p.sees("ended by an administrator")
	p.sees("it hangs")
	p.accessible(axe(t), "who had it")
	ask("2026-01-01T23:00:00Z")
	p.sees("No one had it then.")
	p.sees("The lease before")
	ask("2025-12-31T23:00:00Z")
	p.sees("This is before the first event")
	ask("")
	p.sees("3 older leases are left off.")
	p.goes("#/lock/other", "Who had it")
	ask("")
	p.sees("There is no event about it.")
	p.goes("#/work/run/it's-one", "Who had it")
	ask("2026-01-01T22:05:00Z")
	p.sees(`leasehold audit --file - --tenant acme --run 'it'\''s-one' --at 2026-01-01T22:05:00.000Z <server.log`)
	p.clean()
}

// TestRuns: whoever may use a tenant retries its runs, has them run again and removes them, each with a reason; not
// those that run, nor those that have changed since they were shown. Analyses are not shown.
func TestRuns(t *testing.T) {
	t.Parallel()
	w := open(t, people, "t0ken-of-ann")
	ctx, runs := t.Context(), w.c.Runs("acme")
	const ann = "t0ken-of-ann"
	if _, err := w.client("t0ken-of-root").Analyses().Create(ctx, "a-1"); err != nil {
		t.Fatal(err)
	}
	for id, status := range map[string]string{"bill": "FAILED", "bill-2": "FAILED", "bill-3": "FAILED", "busy": "",
		"report": "READY"} {
		w.ran(ann, id, status, "")
	}
	w.ran(ann, "nightly", "READY", due())
	p := w.visit("#/work", look{})
	p.signIn(ann)
	p.until(facts+` === `+fmt.Sprintf("%q", `{"Failed":"3","Lost its worker":"0","Running":"1"}`), "the numbers")
	if says[bool](p, `document.body.textContent.includes('a-1')`) {
		t.Error("the page shows an analysis to who may not see it")
	}
	p.sees("due ")
	can := func(id, shows, want string) {
		t.Helper()
		p.goes("#/work/run/"+id, shows)
		if got := says[string](p, `[...document.querySelectorAll('.actions button')].map((b) => b.firstChild.data).join()`); got != want {
			t.Errorf("%s: the buttons are %q, want %q", id, got, want)
		}
	}
	can("busy", "running", "")
	can("nightly", "kept until", "Run again,Remove")
	p.sees("due ")
	can("bill", "the bank does not respond", "Retry,Remove")
	p.asks("Retry", "the bank is back")
	p.sees("pending")
	p.sees("Let run once more by")
	if r, err := runs.Get(ctx, "bill"); err != nil || r.Finished || r.Retry == nil || r.Retry.By != "ann" ||
		r.Retry.Reason != "the bank is back" {
		t.Errorf("%+v, %v", r, err)
	}
	can("bill", "the bank is back", "Remove")

	can("report", "Result", "Run again,Remove")
	p.asks("Run again", "the prices were wrong")
	p.sees("pending")
	if r, err := runs.Get(ctx, "report"); err != nil || r.Finished || r.Result != "" || r.Retry == nil ||
		r.Retry.Reason != "the prices were wrong" {
		t.Errorf("%+v, %v", r, err)
	}
	p.asks("Remove", "the customer has left")
	p.sees("There is no record of report")
	if _, err := runs.Get(ctx, "report"); !errors.Is(err, contracts.CodeNotFound) {
		t.Error(err)
	}

	// It ends once more while the question is open: that result stays.
	can("nightly", "Result", "Run again,Remove")
	p.runs(`[...document.querySelectorAll('main button')].find((b) => b.innerText.startsWith('Run again')).click()`)
	p.until(`document.querySelector('dialog')?.open`, "a question")
	p.sees("its work is done once more, and its result is forgotten")
	if _, err := runs.Again(ctx, "nightly", contracts.RunRetryRequest{Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	w.ran(ann, "nightly", "READY", due())
	p.types("#reason", "too late")
	p.runs(`document.querySelector('dialog form').requestSubmit()`)
	p.until(`document.querySelector('dialog .failure')`, "the reason why nothing was done")
	if r, err := runs.Get(ctx, "nightly"); err != nil || r.Result == "" || r.Retry == nil || r.Retry.Reason != "test" {
		t.Errorf("%+v, %v", r, err)
	}
	p.hits("\x1b")
	p.until(`!document.querySelector('dialog')`, "the end of the question")

	p.goes("#/work", "bill-3")
	p.clicks("Retry these 2…")
	p.until(`document.querySelector('dialog .preview')?.children.length === 2`, "the names of those that will be retried")
	p.types("#reason", "the bank is back")
	p.runs(`document.querySelector('dialog form').requestSubmit()`)
	p.sees("Retried: 2.")
	for _, id := range []string{"bill-2", "bill-3"} {
		if r, err := runs.Get(ctx, id); err != nil || r.Finished {
			t.Errorf("%+v, %v", r, err)
		}
	}
	p.clean()
}

// send sends a body of JSON with a token.
func (w *world) send(token, path, body string) string {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return w.sent(r)
}

// evict ends the lease of a lock of acme.
func (w *world) evict(token, key string) {
	w.t.Helper()
	w.send(token, "/v1/tenants/acme/locks/"+key+"/force-release", `{"request_id":"f9","reason":"test"}`)
}

// fail ends an analysis as FAILED.
func (w *world) fail(token, id string) {
	w.t.Helper()
	var g contracts.AnalysisGranted
	if err := json.Unmarshal([]byte(w.send(token, "/v1/analyses/"+id+"/lock", `{"request_id":"r","ttl_seconds":60}`)),
		&g); err != nil {
		w.t.Fatal(err)
	}
	w.send(token, "/v1/analyses/"+id+"/finish", fmt.Sprintf(`{"fencing_token":%d,"status":"FAILED","failure_reason":"no"}`,
		g.FencingToken))
}

// TestTenants: a change of the tenant takes all of the other one from the page, also what is still on its way.
func TestTenants(t *testing.T) {
	t.Parallel()
	w := open(t, httpapi.Development{}, "")
	w.acquire("acme", "lock-of-acme", "ann", 300, nil)
	w.acquire("other", "lock-of-other", "bob", 300, nil)
	// What is asked about acme is answered late: after the page has moved on.
	p := w.visit("#/now", look{before: ofAcme + `
		const send = window.fetch
		window.held = []
		window.fetch = (u, o) => String(u).includes('/acme/locks') && window.hold ? new Promise((r) => window.held.push(() => r(send(u, { ...o, signal: undefined })))) : send(u, o)`})
	p.sees("lock-of-acme")
	p.runs(`window.hold = true`)
	p.until(`window.held.length > 0`, "a request about acme")
	p.runs(`{ const f = document.querySelector('#tenant'); f.value = 'other'; f.form.requestSubmit() }`)
	p.sees("lock-of-other")
	p.runs(`window.late = Promise.all(window.held.map((f) => f()))`)
	p.until(
		`(window.polls = performance.getEntriesByType('resource').filter((e) => e.name.includes('/tenants/other/locks')).length) > 1`, "another poll")
	if says[bool](p, `document.documentElement.textContent.includes('acme')`) {
		t.Error("the page still shows the other tenant")
	}
	p.clean()

	// With authentication there is one tenant, and no way to another.
	v := open(t, people, "t0ken-of-root")
	v.acquire("acme", "lock-of-acme", "", 300, nil)
	if err := v.client("t0ken-of-eve"); err == nil {
		t.Fatal("no client")
	}
	q := v.visit("#/now", look{before: ofAcme})
	q.sees("Bearer token")
	if says[bool](q, `!!document.querySelector('.failure')`) {
		t.Error("who has not tried a token is told that it is wrong")
	}
	q.signIn("t0ken-of-eve")
	q.sees("No lock is held")
	q.goes("#/happened", "Nothing yet")
	if says[bool](q, `!!document.querySelector('#tenant') || document.body.textContent.includes('lock-of-acme')`) {
		t.Error("a caller of another tenant sees it")
	}
	q.clean()
}

// timers puts the page's timers into the hands of the test: next() carries out the one that reads again, and resolves
// to how long it would have waited.
const timers = `
	window.waits = []
	window.setTimeout = (f, ms, ...a) => { window.waits.push({ f, ms: ms || 0, a }); return window.waits.length }
	window.clearTimeout = (n) => { if (n) window.waits[n - 1] = null }
	window.next = async () => {
		const w = window.waits.findLast((w) => w && w.ms >= 1000)
		window.waits[window.waits.indexOf(w)] = null
		await w.f(...w.a)
		return w.ms
	}`

// TestStoreRequests: a page that is looked at costs the store what docs/guides/console.md says, and one that is hidden
// nothing.
func TestStoreRequests(t *testing.T) {
	t.Parallel()
	w := open(t, httpapi.Development{}, "")
	w.busy()
	documented, err := os.ReadFile("../../docs/guides/console.md")
	if err != nil {
		t.Fatal(err)
	}
	p := w.visit("#/now", look{before: ofAcme + timers})
	for _, x := range []struct {
		hash, shows, row string
		every            int
		requests         int64
	}{
		{"#/now", "deploy-prod", "Now", 3000, 1}, {"#/lock/deploy-prod", "Earlier leases", "One lock", 3000, 1},
		{"#/work", "a-1022", "Work", 5000, 2},
		{"#/ids", "Decode", "IDs", 15000, 1}, {"#/placement/rooms", "worker-4", "Placement", 5000, 2},
		{"#/happened", "LOCK_HELD", "What happened", 3000, 0},
	} {
		if row := fmt.Sprintf("| *%s* | %d s | %d |", x.row, x.every/1000, x.requests); !strings.Contains(string(documented),
			row) {
			t.Errorf("docs/guides/console.md has no row that begins with %s", row)
		}
		p.goes(x.hash, x.shows)
		p.until(`window.waits.some((w) => w && w.ms >= 1000)`, "the time of the next poll")
		for range 3 {
			before := w.store.n.Load()
			every := poll(p)
			if got := w.store.n.Load() - before; got != x.requests || every != x.every {
				t.Errorf("%s: %d requests to the store every %d ms, want %d every %d", x.hash, got, every, x.requests, x.every)
			}
		}
	}
	p.goes("#/now", "deploy-prod")
	p.until(`window.waits.some((w) => w && w.ms >= 1000)`, "the time of the next poll")
	p.runs(`Object.defineProperty(document, 'hidden', { value: true, configurable: true })`)
	before := w.store.n.Load()
	poll(p)
	if n := w.store.n.Load() - before; n != 0 || says[bool](p, `window.waits.some((w) => w && w.ms >= 1000)`) {
		t.Errorf("a hidden page sent %d requests to the store, or is about to", n)
	}
	p.clean()
}

// poll carries out the next poll, and returns how long the page would have waited for it.
func poll(p *tab) int {
	p.t.Helper()
	p.runs(`window.waited = 0; window.next().then((ms) => { window.waited = ms })`)
	p.until(`window.waited > 0`, "the end of a poll")
	return says[int](p, `window.waited`)
}

// TestFailures: a server that does not respond is said, what was read stays, and the page waits longer and longer.
func TestFailures(t *testing.T) {
	t.Parallel()
	w := open(t, httpapi.Development{}, "")
	w.acquire("acme", "deploy-prod", "ann", 300, nil)
	p := w.visit("#/now", look{before: ofAcme + timers})
	p.sees("deploy-prod")
	p.until(`window.waits.some((w) => w && w.ms >= 1000)`, "the time of the next poll")
	p.runs(`window.real = window.fetch; window.fetch = () => Promise.reject(new TypeError('Failed to fetch'))`)
	var waited []int
	for range 3 {
		waited = append(waited, poll(p))
	}
	p.sees("The server did not respond")
	p.sees("No answer since")
	p.sees("deploy-prod")
	p.runs(`window.fetch = window.real`)
	waited = append(waited, poll(p), poll(p))
	if fmt.Sprint(waited) != "[3000 6000 12000 24000 3000]" {
		t.Errorf("waited %v", waited)
	}
	p.until(`!document.querySelector('.failure')`, "the end of the failure")
	p.clean()

	// What the page does not expect keeps one screen from being shown, and says so.
	p.runs(`window.fetch = async (u, o) => String(u).includes('/locks') ? new Response('{"at":"2026-01-01T00:00:00.000Z","locks":[null]}') : window.real(u, o)`)
	poll(p)
	p.sees("The page itself failed")
	p.goes("#/ids", "Decode an ID")
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.problems) == 0 || !strings.Contains(p.problems[0], "TypeError") {
		t.Errorf("the browser's console has %q", p.problems)
	}
}

// TestAnotherToken: who is known and not admitted can sign in with another token.
func TestAnotherToken(t *testing.T) {
	t.Parallel()
	w := open(t, admitted{people}, "t0ken-of-root")
	p := w.visit("#/now", look{})
	p.signIn("t0ken-of-ann")
	p.sees("ann is not admitted")
	p.signIn("t0ken-of-root")
	p.sees("No lock is held")
	p.clean()
}

// admitted are people without ann.
type admitted struct{ bearers }

func (a admitted) Identify(r *http.Request) (httpapi.Caller, error) {
	c, err := a.bearers.Identify(r)
	if c.Subject == "ann" {
		return httpapi.Caller{}, fmt.Errorf("%w: ann is not admitted", httpapi.ErrForbidden)
	}
	return c, err
}

// TestMoves: which partitions the last epoch moved, and where, also of epochs that began before the page was opened;
// and that an earlier one is kept no longer.
func TestMoves(t *testing.T) {
	t.Parallel()
	w := open(t, httpapi.Development{}, "")
	join := func(member string) {
		_, err := w.c.Placements("acme", "rooms").Join(t.Context(), member,
			contracts.MemberJoinRequest{Kinds: []string{"room"}, TTLSeconds: 600, Partitions: 64})
		if err != nil {
			t.Fatal(err)
		}
	}
	join("left")
	p := w.visit("#/placement", look{before: ofAcme + timers})
	p.sees("64 — → left")
	p.until(`window.waits.some((w) => w && w.ms >= 1000)`, "the time of the next poll")
	join("right")
	poll(p)
	p.sees("32 left → right")
	p.sees("32 partitions changed hands")

	q := w.visit("#/placement", look{before: ofAcme + timers}) // opened later
	q.sees("32 left → right")
	q.until(`window.waits.some((w) => w && w.ms >= 1000)`, "the time of the next poll")
	join("third")
	join("last") // the page sees none of the epoch in between
	poll(q)
	q.sees("16 partitions changed hands")
	if says[bool](q, `document.querySelector('#epoch').innerText.includes('→ third')`) {
		t.Error("the page shows what an earlier epoch moved")
	}
	r, err := w.store.Write(t.Context(), docstore.Write{
		Key: docstore.Key{Kind: "placement_epochs", Tenant: "acme/rooms", ID: w.epoch(3)},
		If:  docstore.Not{Cond: docstore.Absent{}}, Delete: true,
	})
	if err != nil || !r.Applied {
		t.Fatal(r, err)
	}
	late := w.visit("#/placement", look{before: ofAcme})
	late.sees("is on record no longer")
	late.sees("16 partitions changed hands")
	p.clean()
	q.clean()
}

// epoch is the name of the document of an epoch.
func (w *world) epoch(number int) string {
	w.t.Helper()
	all, err := w.store.List(w.t.Context(), docstore.Query{Kind: "placement_epochs", Tenant: "acme/rooms",
		Limit: docstore.MaxLimit})
	if err != nil || len(all.Entries) < number {
		w.t.Fatal(len(all.Entries), err)
	}
	return all.Entries[number-1].Key.ID
}

// TestKeyboard: everything can be reached and done with the keyboard alone, and what has the focus is seen.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	w := open(t, httpapi.Development{}, "")
	w.acquire("acme", "deploy-prod", "ann", 300, nil)
	p := w.visit("#/now", look{before: ofAcme})
	p.sees("deploy-prod")
	const focus = `(() => { const e = document.activeElement, s = getComputedStyle(e)
		return (e.tagName !== 'SELECT' && e.innerText || e.labels?.[0]?.innerText || e.getAttribute('aria-label') || e.tagName).trim() + (s.outlineStyle === 'none' ? ' (unseen)' : '') })()`
	var walk []string
	for range 17 {
		p.hits("\t")
		walk = append(walk, says[string](p, focus))
	}
	if got, want := strings.Join(walk, ", "),
		"Skip to the content, Leasehold, Now, One lock, Work, IDs, Placement, What happened, Tenant, Go, English, 日本語, Pause, Keys that begin with, Owner, State, Filter"; got != want {
		t.Errorf("walked\n%s, want\n%s", got, want)
	}
	p.hits("\t\r") // the lock
	p.sees("End this lease")
	if at := says[string](p, `document.activeElement.id`); at != "main" {
		t.Errorf("after a change of the screen the focus is at %q", at)
	}
	p.runs(`[...document.querySelectorAll('main button')].find((b) => b.innerText.startsWith('End this')).focus()`)
	p.hits("\r")
	p.until(`document.querySelector('dialog')?.open && document.activeElement.id === 'reason'`, "a question")
	p.hits("\x1b")
	p.until(`!document.querySelector('dialog') && document.activeElement.innerText === 'End this lease'`,
		"the button, when the question is closed")
	p.clean()
}

// TestLanguages: the page speaks the browser's language until its reader chooses another, and keeps that.
func TestLanguages(t *testing.T) {
	t.Parallel()
	w := open(t, httpapi.Development{}, "")
	w.acquire("acme", "deploy-prod", "ann", 300, nil)
	p := w.visit("#/now", look{lang: "ja-JP", before: ofAcme})
	p.sees("保持中")
	for _, x := range []struct{ hash, shows string }{
		{"#/lock/deploy-prod", "このリースを終了"}, {"#/work", "記録された処理はありません"}, {"#/ids", "解読"}, {"#/placement", "参加したプロセスはありません"},
		{"#/happened", "監査ログ"}, {"#/happened/code/LOCK_HELD", "別の所有者"},
	} {
		p.goes(x.hash, x.shows)
	}
	if lang := says[string](p, `document.documentElement.lang`); lang != "ja" {
		t.Errorf("the page says that it is in %q", lang)
	}
	p.runs(`document.querySelector('button[lang=en]').click()`)
	p.sees("Another owner holds the lock")
	p.reload()
	p.sees("Another owner holds the lock")
	p.clean()
}

// TestDecode: the page reads an ID as Go does.
func TestDecode(t *testing.T) {
	t.Parallel()
	w := open(t, httpapi.Development{}, "")
	p := w.visit("#/ids", look{})
	p.sees("Decode an ID")
	decode := func(id, want string) {
		t.Helper()
		p.runs(fmt.Sprintf(`{ const f = document.querySelector('#id'); f.value = %q; f.form.requestSubmit() }`, id))
		p.sees(want)
	}
	// 1000 ms after the epoch, machine ID 5, sequence 7: 1000<<22 | 5<<8 | 7
	decode("4194305287", "+0 ms")
	if text := says[string](
		p, `document.querySelector('#decode').parentElement.parentElement.innerText.replace(/\s+/g, ' ')`); !strings.Contains(
		text, "Machine ID 5 of a lease") || !strings.Contains(text, "Sequence 7 / 256") {
		t.Errorf("%s", text)
	}
	decode("4196401415", "made without a lease")
	decode("9223372036854775808", "its highest bits are not zero")
	decode("x1", "up to 20 digits")
	p.clean()
}

// shoot writes a picture for the documentation.
func shoot(p *tab, name string) {
	p.t.Helper()
	p.until(`document.getAnimations().length >= 0 && !document.querySelector('main > p[role=status]')`, "its data")
	b := ask(p, "a picture", chromedp.CaptureScreenshot())
	if err := os.WriteFile("../../docs/pictures/console/"+name+".png", b, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// TestPictures writes docs/pictures/console/*.png, for the documentation. It runs only when it is asked to: the
// pictures are never the same twice.
func TestPictures(t *testing.T) {
	if os.Getenv("LEASEHOLD_SCREENSHOTS") == "" {
		t.Skip("LEASEHOLD_SCREENSHOTS is not set")
	}
	w := open(t, httpapi.Development{}, "")
	w.busy()
	p := w.visit("#/now", look{before: ofAcme})
	w.line("acme")
	p.sees("2 waiting")
	shoot(p, "now")
	for _, x := range screens {
		if x.name == "code" || x.name == "now" || x.name == "run" {
			continue
		}
		p.goes(x.hash, x.shows)
		switch x.name {
		case "placement":
			p.types("#kind", "room")
			p.types("#kind2", "lobby\r")
			p.sees("Would be placed on")
		case "happened":
			p.runs(`[...document.querySelectorAll('.outcomes summary')].find((s) => s.innerText.includes('LOCK_HELD')).click()`)
			p.sees("Held by")
		}
		shoot(p, x.name)
	}
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	p.goes("#/now", "deploy-prod")
	shoot(p, "now-dark")
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: 390, Height: 844, DeviceScaleFactor: 1, Mobile: true})
	shoot(p, "now-phone-dark")
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}})
	p.runs(`document.querySelector('button[lang=ja]').click()`)
	p.goes("#/happened", "監査ログ")
	shoot(p, "happened-phone-ja")
}
