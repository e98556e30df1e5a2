//go:build unix

package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/proof/chaos"
	"github.com/leasehold-dev/leasehold/proof/suite"
)

func init() { children["chaos worker"] = chaosWorker } //nolint:gochecknoinits // before TestMain, on systems that can

// crashTTL is so short because after a crash the takeover waits as long, and so long that a run on a busy machine keeps
// its lock.
const crashTTL = 2 * time.Second

// crash is what happens to a worker's process at a point of a run.
type crash string

const (
	beforeAcquire crash = "killed before the acquire"
	afterAcquire  crash = "killed after the acquire"
	duringWork    crash = "killed during the work"
	beforeFinish  crash = "killed between the work and the finish"
	afterFinish   crash = "killed between the finish and the acknowledgment"
	whileLooking  crash = "stopped beyond the ttl between look and step"
)

// crashGate is the gate of a worker that crashes where the seed says, and reports to the referee what it learns.
type crashGate struct {
	once.Gate
	get func(ctx context.Context, analysisID string) (contracts.Analysis, error)

	seed    uint64
	referee string // its URL
	number  string // of the process
	client  *http.Client
}

// chaosWorker is a worker behind the endpoint of a queue that pushes.
func chaosWorker() int {
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	if err != nil {
		return complain(err)
	}
	hc := &http.Client{Timeout: failAfter, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	c, err := client.New(os.Getenv("SERVER"), &client.Options{HTTP: hc})
	if err != nil {
		return complain(err)
	}
	m := &crashGate{Gate: c.Analyses(), get: c.Analyses().Get, seed: seed, referee: os.Getenv("REFEREE"),
		number: os.Getenv("NUMBER"), client: hc}
	route, err := tasks.Endpoint{
		Worker: &tasks.Worker{Gate: m, Work: m.work, TTL: crashTTL, Heartbeat: crashTTL / 5}, Guard: tasks.Development{},
		Timeout: time.Minute,
	}.Route(context.Background())
	if err != nil {
		return complain(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return complain(err)
	}
	m.tell(told{Up: "http://" + l.Addr().String()})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the process that started this one
		os.Exit(0)
	}()
	return complain(http.Serve(l, httpapi.Handler([]httpapi.Route{route}, nil)))
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// told is something that a worker tells the referee: that it is up, that a crash would be here, that something is to be
// counted, a step, or otherwise an event.
type told struct {
	Worker, Up, Subject, Count string
	Crash                      crash
	Step                       bool
	Event                      chaos.Event
}

// tell tells the referee something and waits until it knows. It returns false if the referee rejects it.
func (m *crashGate) tell(what told) bool {
	what.Worker = m.number
	body, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	r, err := m.client.Post(m.referee, "application/json", bytes.NewReader(body))
	if err != nil {
		os.Exit(complain(err)) // the test has ended
	}
	_ = r.Body.Close()
	return r.StatusCode == http.StatusOK
}

func (m *crashGate) note(e chaos.Event) { m.tell(told{Event: e}) }

func (m *crashGate) count(what string) { m.tell(told{Count: what}) }

// reached reports whether a crash of the process is planned at this point. Each planned one is reported once.
func (m *crashGate) reached(d crash, subject string) bool {
	return m.tell(told{Crash: d, Subject: subject})
}

// dies ends the process, if this is where that happens.
func (m *crashGate) dies(d crash, subject string) {
	if m.reached(d, subject) {
		die()
	}
}

// die ends the process the hard way.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until the signal is here
}

// Acquire implements [once.Gate].
func (m *crashGate) Acquire(ctx context.Context, r once.Acquire) (once.Grant, error) {
	message, _, _ := strings.Cut(r.Owner, "#") // it has the names of the queue and the message in it: "chaos/m27#1.1"
	m.dies(beforeAcquire, message)
	g, err := m.Gate.Acquire(ctx, r)
	if err != nil || !g.Acquired {
		return g, err
	}
	l := g.Lock
	m.note(chaos.Event{Kind: chaos.Granted, Subject: l.RunID, Token: l.Token, Owner: l.Owner,
		At: l.ExpiresAt.Add(-crashTTL), Until: l.ExpiresAt})
	if g.Runs > 1 {
		m.count("takeovers")
	}
	m.dies(afterAcquire, l.RunID)
	return g, nil
}

// Refresh implements [once.Gate].
func (m *crashGate) Refresh(ctx context.Context, l once.Lock, ttl time.Duration) (time.Time, error) {
	end, err := m.Gate.Refresh(ctx, l, ttl)
	if err == nil {
		m.note(chaos.Event{Kind: chaos.Extended, Subject: l.RunID, Token: l.Token, Until: end})
	}
	return end, m.rejected(err)
}

// Release implements [once.Gate].
func (m *crashGate) Release(ctx context.Context, l once.Lock, failed string) error {
	return m.rejected(m.Gate.Release(ctx, l, failed))
}

// Finish implements [once.Gate].
func (m *crashGate) Finish(ctx context.Context, l once.Lock, r once.Result) error {
	m.dies(beforeFinish, l.RunID)
	last := m.reached(afterFinish, l.RunID)
	err := m.Gate.Finish(ctx, l, r)
	if err == nil {
		m.note(chaos.Event{Kind: chaos.Finished, Subject: l.RunID, Token: l.Token, At: time.Now()})
	}
	if last {
		die()
	}
	return m.rejected(err)
}

// rejected counts what the gate rejects because the lock is lost.
func (m *crashGate) rejected(err error) error {
	if once.IsLost(err) {
		m.count("stale writes rejected")
	}
	return err
}

// work is a body of several steps, some of them longer together than a lock without a heartbeat.
func (m *crashGate) work(ctx context.Context, l once.Lock) (string, error) {
	number, err := strconv.ParseUint(strings.TrimPrefix(l.RunID, "a"), 10, 64)
	if err != nil {
		return "", once.Permanent(err)
	}
	random := rand.New(rand.NewPCG(m.seed, number<<32|uint64(l.Token)))
	e := func(k chaos.EventKind) chaos.Event {
		return chaos.Event{Kind: k, Subject: l.RunID, Token: l.Token, At: time.Now()}
	}
	m.note(e(chaos.Begun))
	defer func() { m.note(e(chaos.Over)) }()
	steps := 2 + random.IntN(4)
	last := random.IntN(steps)
	for i := range steps {
		pauseFor(ctx, time.Duration(20+random.IntN(300))*time.Millisecond)
		if i == last {
			m.dies(duringWork, l.RunID)
		}
		looked := e(chaos.Looked)
		if err := once.Check(ctx); err != nil {
			m.sendStale(ctx, l, err)
			return "", err
		}
		m.note(looked)
		if i == last && m.reached(whileLooking, l.RunID) {
			if err := standStill(); err != nil { // the referee lets it go on, beyond its lock's end
				return "", err
			}
		}
		if !m.tell(told{Step: true, Event: e("")}) {
			m.count("stale steps rejected")
		}
	}
	if err := once.Check(ctx); err != nil {
		m.sendStale(ctx, l, err)
	}
	if l.RunID == failingAnalysis {
		return "", once.Permanent(errors.New("it cannot succeed"))
	}
	return "done", nil
}

// failingAnalysis cannot succeed.
const failingAnalysis = "a7"

// sendStale sends what a worker would send that does not check its lock. Before a takeover the gate accepts a late
// finish, so it sends that only after one.
func (m *crashGate) sendStale(ctx context.Context, l once.Lock, cause error) {
	if !errors.Is(cause, once.ErrLost) {
		return // stopped, and still the holder
	}
	late := context.WithoutCancel(ctx)
	// The worker counts its lock from before the request, the gate from the decision: it may still be held there. One that
	// has ended there stays ended, whatever is still on its way.
	before, readErr := m.get(late, l.RunID)
	_, err := m.Refresh(late, l, crashTTL)
	if err == nil && readErr == nil && !before.Locked {
		m.count("expired locks extended")
	}
	if errors.Is(err, contracts.CodeLeaseLost) {
		if m.rejected(m.Gate.Finish(late, l, once.Result{Result: "stale"})) == nil {
			m.count("stale finishes accepted")
		}
	}
}

// crashRun is the test's side: the queue, the referee, and the starter of workers.
type crashRun struct {
	t       *testing.T
	seed    uint64
	server  string
	url     string // of the referee
	client  *http.Client
	referee *chaos.Referee
	tally   *chaos.Tally
	life    context.Context //nolint:containedctx // of workers and messages

	mu        sync.Mutex
	plan      map[string][]crash   // what is still to happen, by analysis or message
	workers   map[string]*exec.Cmd // by number
	endpoints map[string]string    // URLs by number
}

// TestChaosOfProcesses (BE-041-DOD-1, BE-041-DOD-3, BE-041-DOD-4): 200 messages about 20 analyses are pushed at once to
// workers, each a process of its own with many deliveries, in front of `leasehold serve`. Processes are killed by
// SIGKILL, or stopped for longer than their locks last, at points that the seed chooses. CHAOS_SEED repeats the choices
// of a run.
func TestChaosOfProcesses(t *testing.T) {
	t.Parallel()
	processes, messages, analyses := suite.AtDepth(3, 6), suite.AtDepth(40, 200), suite.AtDepth(8, 20)
	seed := seedOf(t, "CHAOS_SEED")
	ids := make([]string, analyses)
	for i := range ids {
		ids[i] = fmt.Sprint("a", i)
	}
	p, gate := ordered(t, ids...)
	life, end := context.WithTimeout(t.Context(), 5*time.Minute)
	defer end()
	c := &crashRun{
		t: t, seed: seed, server: p.url, referee: chaos.NewReferee(), tally: &chaos.Tally{}, life: life,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
		plan:   plan(seed, messages, ids), workers: map[string]*exec.Cmd{}, endpoints: map[string]string{},
	}
	planned := map[crash]int{}
	for _, crashes := range c.plan {
		for _, d := range crashes {
			planned[d]++
		}
	}
	listener := httptest.NewServer(c)
	defer listener.Close()
	c.url = listener.URL

	begin := time.Now()
	var workers, queue sync.WaitGroup
	for n := range processes {
		workers.Go(func() { c.worker(strconv.Itoa(n)) })
	}
	for n := range messages {
		queue.Go(func() { c.message(n, ids[n%analyses]) })
	}
	queue.Wait()
	took := time.Since(begin)
	if life.Err() != nil {
		t.Error("the queue did not become empty in time")
	}
	end()
	workers.Wait()

	if err := c.referee.Err(); err != nil {
		t.Error(err)
	}
	latest := map[string]int64{}
	grants := c.referee.Of(chaos.Granted)
	for _, g := range grants {
		latest[g.Subject] = max(latest[g.Subject], g.Token)
	}
	want := func(id string) string {
		if id == failingAnalysis {
			return "FAILED"
		}
		return "READY"
	}
	for _, id := range ids {
		if a, err := gate.Get(t.Context(), id); err != nil || a.Status != want(id) || a.Locked || a.OwnerID != "" {
			t.Errorf("in the end %s should be %s: %+v, %v", id, want(id), a, err)
		}
	}
	for _, g := range grants {
		l := once.Lock{RunID: g.Subject, Owner: g.Owner, Token: g.Token}
		if err := chaos.Replay(t.Context(), gate, l, g.Token == latest[g.Subject], want(g.Subject), c.tally); err != nil {
			t.Error(err)
		}
	}
	c.tally.Add("runs granted", len(grants))
	t.Logf("the queue was empty after %v\n%s", took.Round(time.Millisecond), c.tally)
	for d, n := range planned {
		if c.tally.Of(string(d)) != n {
			t.Errorf("%d processes were %s, %d were to be", c.tally.Of(string(d)), d, n)
		}
	}
	for _, what := range []string{"takeovers", "stale writes rejected"} {
		if c.tally.Of(what) == 0 {
			t.Errorf("no %s", what)
		}
	}
	for _, what := range []string{"expired locks extended", "stale finishes accepted"} {
		if n := c.tally.Of(what); n > 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}

// plan is what happens to processes: at two points of each analysis' runs, in this order, to every other one right
// after its finish, and to every 25th message before its acquire.
func plan(seed uint64, messages int, analyses []string) map[string][]crash {
	plan, random := map[string][]crash{}, rand.New(rand.NewPCG(seed, 0))
	var deck []crash
	for range (len(analyses) + 1) / 2 {
		deck = append(deck, afterAcquire, duringWork, beforeFinish, whileLooking)
	}
	random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	for i, id := range analyses {
		plan[id] = deck[2*i : 2*i+2 : 2*i+2]
		if i%2 == 0 {
			plan[id] = append(plan[id], afterFinish)
		}
	}
	for n := 0; n < messages; n += 25 {
		plan[fmt.Sprint("chaos/m", n)] = []crash{beforeAcquire}
	}
	return plan
}

// ServeHTTP is what workers tell.
func (c *crashRun) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var what told
	if err := json.NewDecoder(r.Body).Decode(&what); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	rejected := false
	switch e := what.Event; {
	case what.Up != "":
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endpoints[what.Worker] = what.Up
	case what.Crash != "":
		rejected = !c.next(what.Crash, what.Subject, what.Worker)
	case what.Count != "":
		c.tally.Add(what.Count, 1)
	case what.Step:
		rejected = !c.referee.Step(e)
	default:
		c.referee.Note(e)
	}
	if rejected {
		w.WriteHeader(http.StatusConflict)
	}
}

// next reports whether this crash is the next one that is planned for an analysis or a message.
func (c *crashRun) next(d crash, subject, worker string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	crashes := c.plan[subject]
	if len(crashes) == 0 || crashes[0] != d {
		return false
	}
	c.plan[subject] = crashes[1:]
	c.tally.Add(string(d), 1)
	if d == whileLooking {
		process := c.workers[worker].Process
		go func() {
			// a signal to go on that came before would be lost
			for c.life.Err() == nil && processState(c.t, process.Pid) != "T" {
				pauseFor(c.life, 10*time.Millisecond)
			}
			pauseFor(c.life, 2*crashTTL)
			_ = process.Signal(syscall.SIGCONT)
		}()
	}
	return true
}

// worker keeps a process running, one after the other.
func (c *crashRun) worker(number string) {
	for c.life.Err() == nil {
		c.mu.Lock()
		cmd, done := childProcess(c.life, c.t, "chaos worker", "SERVER="+c.server, "REFEREE="+c.url, "NUMBER="+number,
			"SEED="+strconv.FormatUint(c.seed, 10))
		c.workers[number] = cmd
		c.mu.Unlock()
		if cmd.Process == nil {
			return
		}
		c.tally.Add("processes", 1)
		done()
		c.mu.Lock()
		delete(c.endpoints, number)
		c.mu.Unlock()
	}
}

// message pushes a message until a worker says that it is done, as Cloud Tasks does.
func (c *crashRun) message(n int, analysis string) {
	random := rand.New(rand.NewPCG(c.seed, uint64(n)))
	for try := 0; c.life.Err() == nil; {
		if endpoint := c.endpoint(random); endpoint != "" {
			c.tally.Add("deliveries", 1)
			if c.push(endpoint, n, try, analysis) {
				return
			}
			try++
		}
		pauseFor(c.life, time.Duration(300+random.IntN(600))*time.Millisecond)
	}
}

// endpoint is that of a random worker, if there is one.
func (c *crashRun) endpoint(random *rand.Rand) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	number := strconv.Itoa(random.IntN(max(1, len(c.workers))))
	return c.endpoints[number]
}

// push delivers a message once, and gives up when the queue's timeout has passed.
func (c *crashRun) push(endpoint string, n, try int, analysis string) (done bool) {
	ctx, cancel := context.WithTimeout(c.life, 4*crashTTL)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+tasks.TaskPath,
		strings.NewReader(`{"analysisId":"`+analysis+`"}`))
	if err != nil {
		c.t.Error(err)
		return false
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-CloudTasks-QueueName", "chaos")
	r.Header.Set("X-CloudTasks-TaskName", fmt.Sprint("m", n))
	r.Header.Set("X-CloudTasks-TaskRetryCount", strconv.Itoa(try))
	r.Header.Set("X-CloudTasks-TaskExecutionCount", strconv.Itoa(try))
	a, err := c.client.Do(r)
	if err != nil {
		return false // the worker was killed or is stopped
	}
	defer func() { _ = a.Body.Close() }()
	body, err := io.ReadAll(a.Body)
	switch {
	case err != nil:
		return false
	case a.StatusCode == http.StatusOK:
		return true
	case a.StatusCode != http.StatusConflict && a.StatusCode != http.StatusServiceUnavailable:
		c.t.Errorf("delivery %d of message %d: %s %s", try, n, a.Status, body)
	}
	return false
}
