package console

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// facts are the numbers at the top of a screen by their names.
const facts = `JSON.stringify(Object.fromEntries([...document.querySelectorAll('.fact')].slice(0, 3).map(
	(f) => [f.querySelector('dt').innerText, f.querySelector('dd').innerText])))`

// many writes n held locks for an hour, and seven that others wait for, among the last keys, and two about to expire.
func (w *world) many(n int) {
	w.t.Helper()
	locks := lock.New(w.store.Store, nil)
	acquire := func(a lock.Acquire) {
		if _, err := locks.AcquireWithin(w.t.Context(), a, 0); err != nil {
			w.t.Fatal(err)
		}
	}
	for i := range n {
		a := lock.Acquire{ID: lock.ID{Tenant: "acme", Key: fmt.Sprintf("job/%06d", i)}, Owner: fmt.Sprint("worker-", i%7),
			RequestID: "r1", TTLSeconds: 3600}
		switch n - i {
		case 1, 2: // about to expire: two thirds of the lease are over
			w.ago(50 * time.Minute)
			acquire(a)
			w.ago(0)
		case 3, 4, 5, 6, 7, 8, 9:
			acquire(a)
			waits := a
			waits.Owner, waits.RequestID, waits.WaitSeconds, waits.Fair = "waiter", "r2", 20, true
			for range 2 {
				acquire(waits)
			}
		default:
			acquire(a)
		}
	}
}

// TestSizes: with no lock, one, 101, 5000 and 100,000 the screen says how many there are, and shows those that are
// waited for and about to expire first, although their keys are the last; every lock can be reached page by page. With
// more than are looked at for one number, it says so, and goes on when asked to.
func TestSizes(t *testing.T) {
	t.Parallel()
	source := axe(t)
	for _, n := range []int{0, 1, 101, 5000, 5200, 100_000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			w := open(t, httpapi.Development{}, "")
			w.frozen.Store(time.Now().UnixNano()) // places in line last, however slow the machine is
			w.many(n)
			p := w.visit("#/now", look{before: ofAcme})
			has := func(held, contended, ending string) {
				t.Helper()
				want := fmt.Sprintf(`{"Held":%q,"Contended":%q,"About to expire":%q}`, held, contended, ending)
				p.until(facts+` === `+fmt.Sprintf("%q", want), want)
			}
			switch n {
			case 0:
				has("0", "0", "0")
				p.sees("No lock is held")
			case 1:
				has("1", "0", "1")
				p.sees("job/000000")
			default:
				for deep := 5000; deep < n; deep *= 2 { // a page reads 5000
					has(comma(deep)+"+", "0+", "0+")
					p.sees("Of the first " + comma(deep) + " that were looked at")
					p.clicks("Look further")
				}
				has(comma(n), "7", "2")
				for i, key := range p.keys()[:9] { // contended, then about to expire
					if last := fmt.Sprintf("job/%06d", n-9+i); key != last {
						t.Errorf("%d: the key %s comes %dth, want %s", n, key, i+1, last)
					}
				}
			}
			if n == 101 || n == 5000 {
				p.walks(t, n)
			}
			p.fits(source, fmt.Sprint(n, " locks"))
			if nodes := says[int](p, `document.querySelectorAll('*').length`); nodes > 4000 {
				t.Errorf("%d locks: the page has %d elements", n, nodes)
			}
			p.runs(`document.querySelector('button[lang=ja]').click()`)
			p.sees("保持中")
			p.sees("まもなく失効")
			p.fits(source, fmt.Sprint(n, " locks, in Japanese"))
			p.clean()
		})
	}
}

// fits fails the test if the page is wider than a desktop or a phone, or keeps people out on one of them.
func (p *tab) fits(axe, where string) {
	p.t.Helper()
	for _, width := range []int64{1280, 390} {
		call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: width, Height: 800, DeviceScaleFactor: 1, Mobile: width < 800})
		if wide := p.wide(); wide > 0 {
			p.t.Errorf("%s: the page is %d pixels wider than %d", where, wide, width)
		}
		p.accessible(axe, fmt.Sprintf("%s, %d pixels", where, width))
	}
}

// keys are the locks on the page, in their order.
func (p *tab) keys() []string {
	p.t.Helper()
	return says[[]string](p, `[...document.querySelectorAll('.lock .key')].map((k) => k.innerText)`)
}

// comma writes a number as the page does.
func comma(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// clicks presses a button when it can be.
func (p *tab) clicks(button string) {
	p.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll('main button')].find((b) => b.innerText.replace(/[\u2068\u2069]/g, '') === %q && !b.disabled)`,
		button)
	p.until(find, "the button "+button)
	p.runs(find + `.click()`)
}

// walks goes through the pages of all locks, or of those of one owner if they are many, and sees each lock once.
func (p *tab) walks(t *testing.T, n int) {
	t.Helper()
	all, most, hash := map[string]bool{}, n, "#/now?state=ALL"
	if n > 1000 {
		most, hash = n/7, "#/now?state=ACTIVE&owner=worker-3"
	}
	p.goes(hash, "Page 1")
	for page := 1; ; page++ {
		p.sees(fmt.Sprintf("Page %d:", page))
		for _, k := range p.keys() {
			if all[k] {
				t.Errorf("%s is on two pages", k)
			}
			all[k] = true
		}
		if !says[bool](p, `!!document.querySelector('a[rel=next]')`) {
			break
		}
		p.runs(`document.querySelector('a[rel=next]').click()`)
	}
	if len(all) < most || len(all) > most+1 {
		t.Errorf("%d locks: the pages have %d, want %d", n, len(all), most)
	}
	if !says[bool](p, `!!document.querySelector('a[rel=prev]')`) {
		t.Error("the last page leads to none before")
	}
	p.runs(`document.querySelector('a[rel=prev]').click()`)
	p.until(fmt.Sprintf(`document.querySelectorAll('.lock .key').length === %d`, 100), "the page before")
}

// TestStatus: the dot and its words are right while the page is paused, when the server is gone, and when it is silent;
// and when it is back.
func TestStatus(t *testing.T) {
	t.Parallel()
	w := open(t, httpapi.Development{}, "")
	w.acquire("acme", "deploy-prod", "ann", 300, nil)
	p := w.visit("#/now", look{before: ofAcme + timers})
	p.sees("deploy-prod")
	p.until(`window.waits.some((w) => w && w.ms >= 1000)`, "the time of the next poll")
	dot := func() string {
		t.Helper()
		return says[string](p, `(() => { const d = document.querySelector('.live .dot'), probe = document.createElement('i')
			document.body.append(probe)
			const of = (v) => (probe.style.color = 'var(--' + v + ')', getComputedStyle(probe).color)
			const is = ['good', 'gone', 'muted'].find((v) => of(v) === getComputedStyle(d).backgroundColor)
			probe.remove()
			return is })()`)
	}
	is := func(want, says string) {
		t.Helper()
		p.sees(says)
		if got := dot(); got != want {
			t.Errorf("%s: the dot is %s, want %s", says, got, want)
		}
	}
	is("good", "Live, every 3 s")
	p.clicks("Pause")
	is("muted", "Paused: as of")
	p.clicks("Resume")
	is("good", "Live, every 3 s")
	p.until(`window.waits.some((w) => w && w.ms >= 1000)`, "the time of the next poll")

	// It takes the request, and says nothing: that is said before the page gives it up.
	p.runs(`window.real = window.fetch; window.fetch = () => new Promise(() => {})
		window.next(); const later = Date.now; Date.now = () => later() + 6000`)
	is("gone", "No answer since")
	p.clicks("Pause")
	is("muted", "Paused: as of") // nothing is asked
	p.runs(`window.fetch = () => Promise.reject(new TypeError('Failed to fetch'))`)
	p.clicks("Resume")
	is("gone", "No answer since")
	p.sees("The server did not respond")
	p.sees("deploy-prod")
	p.clicks("Pause")
	is("muted", "Paused; no answer since")
	p.runs(`window.fetch = window.real`)
	p.clicks("Resume")
	is("good", "Live, every 3 s")
	p.clean()
}

// TestWorkAtAnySize: of 4927 analyses the numbers are those of all, what failed or lost its worker comes first, many
// are retried at once after their names were shown; those that have changed since are left alone.
func TestWorkAtAnySize(t *testing.T) {
	t.Parallel()
	w := open(t, httpapi.Development{}, "")
	put := func(id, status, owner string) {
		t.Helper()
		d := docstore.Doc{"status": docstore.String(status)}
		if owner != "" {
			d["lockOwner"], d["lockToken"] = docstore.String(owner), docstore.Int(1)
			d["lockExpiresAt"] = docstore.FormatTime(time.Now().Add(-time.Minute))
		}
		if status == "FAILED" {
			d["lockFinishedAt"], d["failureReason"] = docstore.FormatTime(time.Now()), docstore.String("the bucket is gone")
		}
		r, err := w.store.Store.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: "analyses", ID: id}, Set: d})
		if err != nil || !r.Applied {
			t.Fatal(r, err)
		}
	}
	for i := range 4900 {
		put(fmt.Sprintf("a%05d", i), "READY", "")
	}
	for i := range 25 {
		put(fmt.Sprintf("z%02d", i), "FAILED", "")
	}
	put("z-lost", "queued", "dead-worker")
	again := docstore.Write{Key: docstore.Key{Kind: "analyses", ID: "z-again"}, Set: docstore.Doc{
		"status": docstore.String("PENDING"), "lockFailures": docstore.Int(1)}}
	if r, err := w.store.Store.Write(t.Context(), again); err != nil || !r.Applied {
		t.Fatal(r, err)
	}
	p := w.visit("#/work", look{before: ofAcme})
	const want = `{"failed":"25","lost its worker":"1","running":"0"}`
	p.until(`(`+facts+`).toLowerCase() === `+fmt.Sprintf("%q", want), want)
	if first := says[[]string](p, `[...document.querySelectorAll('.group')].map((g) => g.innerText.toLowerCase())`); len(
		first) < 3 || first[0] != "failed" || first[1] != "lost its worker" {
		t.Errorf("the groups are %q", first)
	}
	p.sees("z-again") // its last run failed
	p.goes("#/work?state=STALE", "dead-worker")
	p.sees("z-lost")
	p.goes("#/work?state=FAILED", "Retry these")
	p.clicks("Retry these 25…")
	p.until(`document.querySelector('dialog .preview')?.children.length === 25`, "the names of those that will be retried")
	p.accessible(axe(t), "a preview")
	put("z03", "READY", "") // it changes while the question is open
	p.types("#reason", "the bucket is back")
	p.runs(`document.querySelector('dialog form').requestSubmit()`)
	p.sees("Retried: 24.")
	p.sees("NOT_FAILED")
	for id, status := range map[string]string{"z00": "PENDING", "z03": "READY", "z24": "PENDING"} {
		if a, err := w.c.Analyses().Get(t.Context(), id); err != nil || a.Status != status {
			t.Errorf("%s: %+v, %v", id, a, err)
		}
	}
	p.goes("#/work/analysis/z24", "Let run once more by")
	p.sees("the bucket is back")
	p.goes("#/work/analysis/none", "There is no record of none")
	p.clean()
}

// TestWorkIsOneList: the pages go through the runs and on through the analyses, each once, and the numbers are of both;
// a name opens the run, or else the analysis, and offers both if both have it.
func TestWorkIsOneList(t *testing.T) {
	t.Parallel()
	w := open(t, httpapi.Development{}, "")
	all := runs.New(w.store.Store, nil)
	put := func(id string) {
		t.Helper()
		run := runs.ID{Tenant: "acme", ID: id}
		o, err := all.Begin(t.Context(), runs.Begin{ID: run, Owner: "w", RequestID: "r", TTLSeconds: 60})
		if err != nil || o.Code != analysis.OK {
			t.Fatal(o, err)
		}
		if o, err = all.Finish(t.Context(), runs.Finish{ID: run, Owner: "w", Token: o.Grant.Token,
			Status: analysis.Ready}); err != nil || o.Code != analysis.OK {
			t.Fatal(o, err)
		}
	}
	create := func(id string) {
		t.Helper()
		if _, err := w.c.Analyses().Create(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 205 {
		put(fmt.Sprintf("job-%03d", i))
	}
	for i := range 150 {
		create(fmt.Sprintf("a-%03d", i))
	}
	put("both")
	create("both")
	p := w.visit("#/work", look{before: ofAcme})
	p.until(`document.querySelectorAll('.fact dd').length === 5 &&
		[...document.querySelectorAll('.fact dd')].map((d) => d.innerText).join() === '0,0,0,151,206'`, "the numbers of both")
	p.sees("All 357 were looked at")
	seen := map[string]int{}
	for page, want := range []string{"100 0", "100 0", "6 100", "0 51"} {
		p.sees(fmt.Sprintf("Page %d:", page+1))
		keys := says[[]string](p, `[...document.querySelectorAll('.work .key')].map((k) => k.hash)`)
		kinds := map[string]int{}
		for _, k := range keys {
			seen[k]++
			kinds[strings.Split(k, "/")[2]]++
		}
		if got := fmt.Sprint(kinds["run"], kinds["analysis"]); got != want {
			t.Errorf("page %d has %s runs and analyses, want %s", page+1, got, want)
		}
		if tags := says[int](p, `document.querySelectorAll('.work .tag').length`); tags != kinds["analysis"] {
			t.Errorf("page %d has %d tags, want %d", page+1, tags, kinds["analysis"])
		}
		if next := says[bool](p, `!!document.querySelector('a[rel=next]')`); next != (page < 3) {
			t.Errorf("page %d: a next one: %v", page+1, next)
		}
		if page < 3 {
			p.runs(`document.querySelector('a[rel=next]').click()`)
		}
	}
	for k, n := range seen {
		if n != 1 {
			t.Errorf("%s is on %d pages", k, n)
		}
	}
	if len(seen) != 357 {
		t.Errorf("the pages have %d, want 357", len(seen))
	}
	find := func(name, shows string, kinds ...string) {
		t.Helper()
		p.goes("#/work", "By its whole name")
		p.types("#name", name+"\r")
		p.sees(shows)
		got := says[[]string](p, `[...document.querySelectorAll('.work .key')].map((k) => k.hash.split('/')[2])`)
		if !slices.Equal(got, kinds) {
			t.Errorf("%s opens %q, want %q", name, got, kinds)
		}
	}
	find("job-204", "Last requests to this process", "run")
	find("a-149", "Last requests to this process", "analysis")
	find("both", "A run and an analysis have the name both.", "run", "analysis")
	p.goes("#/work/analysis/both", "Last requests to this process")
	find("none", "There is no record of none")
	p.clean()
}

// TestIdentity: an identity has a page, with what happened to it.
func TestIdentity(t *testing.T) {
	t.Parallel()
	w := open(t, httpapi.Development{}, "")
	w.busy()
	p := w.visit("#/placement/rooms/room/lobby", look{before: ofAcme})
	p.sees("Would be placed on")
	p.sees("room/lobby")
	if says[bool](p, `document.querySelector('#events').parentElement.parentElement.innerText.includes('north')`) {
		t.Error("the page of an identity has events of another")
	}
	p.goes("#/work/run/order-1024", "Last requests to this process")
	p.clean()
}
