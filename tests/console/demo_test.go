package console

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
)

// built is the folder of the program, once it is there.
var built string

// program builds the program once for all tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "leasehold-console-")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "leasehold")
	out, err := exec.Command("go", "build", "-C", filepath.Join("..", ".."), "-o", path,
		"./cmd/leasehold").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// playground is "leasehold demo --no-browser", a process with three worker processes.
type playground struct {
	t     *testing.T
	url   string // of the page
	cmd   *exec.Cmd
	ended chan error
}

func play(t *testing.T) *playground {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	d := &playground{t: t, cmd: exec.Command(path, "demo", "--no-browser"), ended: make(chan error, 1)}
	d.cmd.Stderr = os.Stderr
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	d.url = strings.TrimSpace(strings.TrimPrefix(first, "Open "))
	if err != nil || !strings.HasPrefix(d.url, "http://127.0.0.1:") || !strings.HasSuffix(d.url, "/demo/") {
		t.Fatalf("the demonstration printed %q, %v", first, err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		d.ended <- d.cmd.Wait()
	}()
	t.Cleanup(func() {
		if d.cmd.Process.Signal(os.Interrupt) == nil {
			<-d.ended
		}
	})
	return d
}

// played is what the page asks for.
type played struct {
	Workers []struct {
		Name, State string
		PID         int
	}
	Unfenced, Fenced struct{ Balance, Should int64 }
	Turns            int
}

func (d *playground) state() (s played) {
	d.t.Helper()
	got, err := http.Get(d.url + "state")
	if err != nil {
		d.t.Fatal(err)
	}
	defer got.Body.Close()
	if err := json.NewDecoder(got.Body).Decode(&s); err != nil || len(s.Workers) != 3 {
		d.t.Fatalf("%+v, %v", s, err)
	}
	return s
}

// until waits until the state is as a test wants it. It ends with the test's time only.
func (d *playground) until(what string, holds func(played) bool) played {
	d.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		s := d.state()
		if holds(s) {
			return s
		}
		if time.Now().After(end) {
			d.t.Fatalf("the demonstration does not come to %s: %+v", what, s)
		}
	}
}

// process is the state of a process as the system has it: R, S, T if it is stopped; empty if it has ended.
func process(t *testing.T, pid int) string {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("there is no /proc to look at processes")
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	state := string(stat)[strings.LastIndex(string(stat), ")")+2:][:1]
	if state == "Z" || state == "X" { // no one has asked yet how it ended
		return ""
	}
	return state
}

// presses clicks a button by its name.
func (p *tab) presses(name string) {
	p.t.Helper()
	p.until(
		fmt.Sprintf(
			`(window.found = [...document.querySelectorAll('button')].find((b) => (b.ariaLabel || b.innerText) === %q && !b.disabled))`, name), "the button "+name)
	p.runs(`window.found.click()`)
}

// shows waits until a part of the page shows a text.
func (p *tab) shows(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.querySelector(%q)?.innerText.replace(/[\u2068\u2069]/g, '').includes(%q)`, selector,
		text), selector+" with "+text)
}

// freezes lets a worker be frozen, and go on when another has paid in.
func (p *tab) freezes(d *playground, worker int) {
	p.t.Helper()
	w := d.state().Workers[worker]
	p.presses("Freeze, worker " + w.Name)
	p.sees("Let Worker " + w.Name + " go on")
	turns := d.state().Turns
	d.until("turns of the others", func(s played) bool { return s.Turns >= turns+4 })
	if state := process(p.t, w.PID); state != "T" {
		p.t.Errorf("the process of worker %s is in state %q, want T: stopped", w.Name, state)
	}
	p.presses("Go on, worker " + w.Name)
	p.sees("Worker " + w.Name + " woke up, believed that it still had the lock, and wrote what it had in mind")
	if state := process(p.t, w.PID); state == "T" || state == "" {
		p.t.Errorf("the process of worker %s is in state %q after it was continued", w.Name, state)
	}
}

// TestDemo: a worker is frozen, another goes on, and the frozen one wakes up and writes. Without the fence the account
// is wrong, with it the write is rejected. Nothing is asked but the demonstration itself.
func TestDemo(t *testing.T) {
	t.Parallel()
	d := play(t)
	p := visit(t, d.url, look{})
	p.shows(".story", "Now freeze a worker")
	p.shows("#unfenced", "right")
	p.shows("#fenced", "right")
	p.runs(`window.kept = [...document.querySelectorAll('button, input')]`)
	turns := d.state().Turns
	d.until("turns", func(s played) bool { return s.Turns > turns+3 })
	p.until(`Number(document.querySelector('#fenced strong').innerText) > 30`, "their balance")
	if kept := says[bool](p, `window.kept.length === 16 && window.kept.every((e) => e.isConnected)`); !kept {
		t.Error("the buttons are made anew with each turn, so that they lose the focus")
	}
	p.freezes(d, 0)
	p.shows("#unfenced", "missing")
	p.shows("#unfenced .so", "Worker A woke up and overwrote")
	p.shows("#fenced", "right")
	p.shows("#fenced .so", "STALE_TOKEN: the late write of Worker A was rejected, and nothing is lost")
	if says[bool](
		p, `document.querySelector('#unfenced').innerText.includes('STALE_TOKEN') || document.querySelector('#fenced').innerText.includes('missing')`) {
		t.Error("the accounts are mixed up")
	}
	s := d.state()
	if s.Unfenced.Balance >= s.Unfenced.Should || s.Fenced.Balance != s.Fenced.Should || s.Fenced.Balance == 0 {
		t.Errorf("%+v", s)
	}
	if n, cost := says[string](p, `document.querySelector('#requests').innerText`),
		says[string](p, `document.querySelector('#dollars').innerText`); n == "0" || !strings.HasPrefix(cost, "$0.000") ||
		cost == "$0.000000" {
		t.Errorf("%s requests for %s", n, cost)
	}
	p.presses("Start over")
	p.shows(".story", "Now freeze a worker")
	p.shows("#unfenced", "right")
	p.clean()
	p.asksOnly(d.url)
}

// TestDemoButtons: a worker is killed, its answer is lost, its clock is wrong. The account with the fence is right all
// the time.
func TestDemoButtons(t *testing.T) {
	t.Parallel()
	d := play(t)
	p := visit(t, d.url, look{})
	p.shows(".story", "Now freeze a worker")

	s := d.until("a worker with the lock", func(s played) bool { return s.Workers[1].State == "working" })
	p.presses("Kill, worker B")
	p.sees("Worker B was killed")
	if state := process(t, s.Workers[1].PID); state != "" {
		t.Errorf("the process is in state %q", state)
	}
	turns := d.state().Turns
	d.until("turns of the others", func(s played) bool { return s.Turns > turns+2 })
	p.presses("Start again, worker B")
	d.until("a turn of the new process", func(s played) bool {
		return s.Workers[1].State == "working" && s.Workers[1].PID != 0
	})

	p.presses("Lose the answer, worker C")
	p.shows("#unfenced .so", "received no answer, and paid in twice")
	p.shows("#fenced .so", "it was counted once")
	p.shows("#unfenced", "10 too much")

	p.runs(`{ const s = document.querySelector('#skewA'); s.value = 10; s.dispatchEvent(new Event('change', { bubbles: true })) }`)
	p.sees("clock of Worker A is 10 s ahead")
	p.shows("#unfenced .so", "was dropped, and reported as done")
	p.sees("no clock is asked")
	if s = d.state(); s.Fenced.Balance != s.Fenced.Should {
		t.Errorf("%+v", s)
	}
	p.clean()
	p.asksOnly(d.url)
}

// TestDemoScenes: the scenes of the terminal are played on the page, step by step, and each says what it checked.
func TestDemoScenes(t *testing.T) {
	t.Parallel()
	d := play(t)
	p, source := visit(t, d.url, look{}), axe(t)
	p.shows(".scenes", "leasehold demo --check")
	p.presses("Run the checks")
	p.shows(".scenes ol", "acquire → 200")
	p.shows(".scenes", "11 of 11 promises held")
	if got := says[string](p, `['h3', '.held', '.broken'].map((s) => document.querySelectorAll('.scenes ' + s).length).join()`); got !=
		"4,11,0" {
		t.Errorf("scenes, checks that held, and others: %s, want 4,11,0", got)
	}
	p.accessible(source, "after the checks")
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 320, Height: 700,
		DeviceScaleFactor: 1, Mobile: true})
	if wide := p.wide(); wide > 0 {
		t.Errorf("%d pixels wider than 320", wide)
	}
	p.presses("Run the checks")
	p.shows(".scenes", "The scenes are being played")
	p.clean()
	p.asksOnly(d.url)
}

// TestDemoForEveryone: the page can be read in both languages, in the light and in the dark, on a telephone, by those
// who do not see it, and used with the keyboard alone.
func TestDemoForEveryone(t *testing.T) {
	t.Parallel()
	d := play(t)
	p, source := visit(t, d.url, look{}), axe(t)
	p.shows(".story", "Now freeze a worker")
	p.accessible(source, "light")
	p.freezes(d, 1)
	p.accessible(source, "after a late write, light")
	p.presses("Freeze, worker A")
	p.sees("Let Worker A go on")
	p.presses("Kill, worker C")
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	p.shows(".worker.dead", "killed")
	p.accessible(source, "a frozen and a dead worker, dark")
	for _, lang := range []string{"en", "ja"} {
		p.runs(`document.querySelector('button[lang=` + lang + `]').click()`)
		p.until(`document.documentElement.lang === '`+lang+`'`, "the language")
		for _, width := range []int64{390, 320} {
			call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
				Width: width, Height: 700, DeviceScaleFactor: 1, Mobile: true})
			if wide := p.wide(); wide > 0 {
				t.Errorf("%s: %d pixels wider than %d", lang, wide, width)
			}
		}
		p.accessible(source, lang+", dark, on a telephone")
	}
	p.shows("main", "フェンスなし")
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 1280, Height: 900,
		DeviceScaleFactor: 1})
	p.clean()

	q := visit(t, d.url, look{})
	q.shows(".story", "Worker")
	q.presses("Start over")
	q.shows(".story", "Now freeze a worker")
	var walk []string
	for range 11 {
		q.hits("\t")
		walk = append(walk, says[string](q, `(() => { const e = document.activeElement, s = getComputedStyle(e)
			return (e.ariaLabel || e.innerText || e.tagName).trim() + (s.outlineStyle === 'none' ? ' (unseen)' : '') })()`))
	}
	if got, want := strings.Join(walk, ", "),
		"Skip to the content, Leasehold, Console, English, 日本語, Start over, Freeze, worker A, Kill, worker A, Lose the answer, worker A, Clock of worker A, Freeze, worker B"; got != want {
		t.Errorf("walked\n%s, want\n%s", got, want)
	}
	q.hits("\r")
	d.until("a frozen worker", func(s played) bool { return s.Workers[1].State == "frozen" })
	q.clean()
}

// TestDemoFromElsewhere: only this machine and the page itself can press a button.
func TestDemoFromElsewhere(t *testing.T) {
	t.Parallel()
	d := play(t)
	for name, c := range map[string]struct {
		method, path, body string
		header             map[string]string
		host               string
		want               int
	}{
		"another site": {"POST", "workers/A/kill", "{}", map[string]string{"Sec-Fetch-Site": "cross-site"}, "",
			403},
		"another port": {"POST", "workers/A/kill", "{}", map[string]string{"Sec-Fetch-Site": "same-site"}, "",
			403},
		"an origin, an old browser": {"POST", "workers/A/kill", "{}", map[string]string{"Origin": "https://evil.example"},
			"", 403},
		"a name that leads here": {"POST", "workers/A/kill", "{}", nil, "evil.example", 403},
		"the same, to read":      {"GET", "state", "", nil, "evil.example", 403},
		"a proxy": {"POST", "workers/A/kill", "{}", map[string]string{"X-Forwarded-For": "192.0.2.1"}, "",
			403},
		"another site, a deposit": {"POST", "account/write", `{"worker":"A"}`,
			map[string]string{"Sec-Fetch-Site": "cross-site"}, "", 403},
		"another site, to start over": {"POST", "reset", "{}", map[string]string{"Sec-Fetch-Site": "cross-site"}, "", 403},
		"a link":                      {"GET", "workers/A/kill", "", nil, "", 405},
		"no worker":                   {"POST", "workers/Z/kill", "{}", nil, "", 404},
		"no action":                   {"POST", "workers/A/explode", "{}", nil, "", 404},
		"no JSON":                     {"POST", "workers/A/kill", "kill", nil, "", 400},
		"a clock beyond the slider":   {"POST", "workers/A/skew", `{"ms":10001}`, nil, "", 400},
		"a program of this machine":   {"POST", "workers/A/lose", "{}", nil, "", 200},
		"the page itself": {"POST", "workers/B/lose", "{}", map[string]string{"Sec-Fetch-Site": "same-origin"},
			"", 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, d.url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
		r.Host = c.host
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if got.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, got.StatusCode, c.want)
		}
	}
	for _, w := range d.state().Workers {
		if w.State == "dead" {
			t.Errorf("worker %s is dead", w.Name)
		}
	}
}

// TestDemoEnds: no worker process stays, whether the demonstration is ended or killed, and not one that is frozen then.
func TestDemoEnds(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]os.Signal{"Ctrl-C": os.Interrupt, "SIGTERM": syscall.SIGTERM,
		"SIGKILL": os.Kill} {
		t.Run(name, func(t *testing.T) {
			d := play(t)
			got, err := http.Post(d.url+"workers/C/freeze", "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			_ = got.Body.Close()
			s := d.until("a frozen worker", func(s played) bool { return s.Workers[2].State == "frozen" })
			for _, w := range s.Workers {
				if process(t, w.PID) == "" {
					t.Fatalf("worker %s has no process", w.Name)
				}
			}
			if err := d.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := <-d.ended; err != nil && signal != os.Kill {
				t.Errorf("it ended with %v", err)
			}
			for _, w := range s.Workers {
				for end := time.Now().Add(time.Minute); process(t, w.PID) != "" && signal == os.Kill && time.Now().Before(end); {
					time.Sleep(10 * time.Millisecond) // the system ends them
				}
				if state := process(t, w.PID); state != "" {
					t.Errorf("the process of worker %s is in state %s", w.Name, state)
				}
			}
		})
	}
}

// TestDemoPictures writes docs/pictures/console/demo*.png. It runs only when it is asked to.
func TestDemoPictures(t *testing.T) {
	if os.Getenv("LEASEHOLD_SCREENSHOTS") == "" {
		t.Skip("LEASEHOLD_SCREENSHOTS is not set")
	}
	d := play(t)
	p := visit(t, d.url, look{height: 1280, width: 1280})
	d.until("some turns", func(s played) bool { return s.Turns > 14 })
	p.freezes(d, 0)
	turns := d.state().Turns
	d.until("turns after that", func(s played) bool { return s.Turns > turns+1 && s.Workers[2].State == "working" })
	p.until(`document.querySelector('.worker.working')`, "a worker at work")
	shoot(p, "demo")
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	p.presses("Freeze, worker B")
	p.sees("Let Worker B go on")
	turns = d.state().Turns
	d.until("a worker at work", func(s played) bool {
		return s.Turns > turns+1 && (s.Workers[0].State == "working" || s.Workers[2].State == "working")
	})
	shoot(p, "demo-frozen-dark")
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 1500,
		DeviceScaleFactor: 1, Mobile: true})
	p.runs(`document.querySelector('button[lang=ja]').click()`)
	shoot(p, "demo-phone-ja")
}
