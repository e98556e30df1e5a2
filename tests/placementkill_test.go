//go:build unix

package tests

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/proof/chaos"
	"github.com/leasehold-dev/leasehold/proof/suite"
)

func init() { //nolint:gochecknoinits // before TestMain, on systems that can
	children["placement member"] = placementMember
}

// killTTL is the shortest lease that a member may have: after its death others wait as long.
const killTTL = 3 * time.Second

// logger is the host of a member whose activations append to a log that all processes share.
type logger struct {
	name string
	url  string // of the log
	http *http.Client
}

// placementMember is a member in a process of its own, until that is killed.
func placementMember() int {
	h := &logger{name: os.Getenv("NAME"), url: os.Getenv("LOG"),
		http: &http.Client{Timeout: failAfter, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	c, err := client.New(os.Getenv("SERVER"), nil)
	if err != nil {
		return complain(err)
	}
	m, err := cluster.NewMember(c.Placements("default", "chat"), h.name, h,
		&cluster.Options{Kinds: []string{"room"}, Partitions: 64, TTL: killTTL})
	if err != nil {
		return complain(err)
	}
	if err := m.Start(context.Background()); err != nil {
		return complain(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the process that started this one
	return 0
}

// Activate implements [cluster.Host]: from now on the activation appends, until its context ends.
func (h *logger) Activate(ctx context.Context, a cluster.Activation) error {
	go func() {
		for {
			looked := time.Now() // before the question, so that the answer is about a later time
			if cluster.Check(ctx) != nil {
				return
			}
			time.Sleep(45 * time.Millisecond) // a process that is stopped here, as most are, appends too late
			q := url.Values{"room": {a.ID}, "token": {strconv.FormatInt(a.Token, 10)}, "member": {h.name},
				"looked": {strconv.FormatInt(looked.UnixNano(), 10)}}
			r, err := h.http.Post(h.url+"?"+q.Encode(), "", nil)
			if err != nil {
				os.Exit(complain(err)) // the test has ended
			}
			_ = r.Body.Close()
			time.Sleep(5 * time.Millisecond) // the pace at which it appends
		}
	}()
	return nil
}

// Deactivate implements [cluster.Host].
func (*logger) Deactivate(context.Context, cluster.Activation, error) {}

// sharedLog is the log to which rooms append, in order of their tokens. What was appended is checked at the end.
type sharedLog struct {
	referee *chaos.Referee

	mu        sync.Mutex
	closed    bool
	begun     map[string]bool        // bodies
	last      map[string]chaos.Event // that it took, of each room
	failovers []time.Duration        // from the last entry under one token to the first under the next, of another member
}

// ServeHTTP appends an entry.
func (l *sharedLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	token, err := strconv.ParseInt(q.Get("token"), 10, 64)
	looked, err2 := strconv.ParseInt(q.Get("looked"), 10, 64)
	if err != nil || err2 != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	e := chaos.Event{Kind: chaos.Begun, Subject: q.Get("room"), Token: token, Owner: q.Get("member"), At: time.Now()}
	if body := fmt.Sprint(e.Subject, token, e.Owner); !l.begun[body] {
		l.begun[body] = true
		l.referee.Note(e)
	}
	l.referee.Note(chaos.Event{Kind: chaos.Looked, Subject: e.Subject, Token: token, At: time.Unix(0, looked)})
	if !l.referee.Step(e) {
		w.WriteHeader(http.StatusConflict)
		return
	}
	if before := l.last[e.Subject]; before.Token != 0 && token > before.Token && e.Owner != before.Owner {
		l.failovers = append(l.failovers, e.At.Sub(before.At))
	}
	l.last[e.Subject] = e
}

// latest is the last entry that the log took of a room.
func (l *sharedLog) latest(room string) chaos.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[room]
}

// close ends what the log takes down, and returns when that was.
func (l *sharedLog) close() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return time.Now()
}

// TestPlacementOfProcesses: members are processes in front of `leasehold serve` on SQLite, rooms are claimed all the
// time, and processes are killed by SIGKILL, or stopped by SIGSTOP for longer than their leases, at random. No room is
// active twice: no body is told that it runs once another member has been given the room, and the log that they append
// to sees no two of them by turns (PLC-ONE-5). PLACEMENT_SEED repeats the choices of a run.
func TestPlacementOfProcesses(t *testing.T) {
	t.Parallel()
	const slots, rooms = 4, 16
	lasts := suite.AtDepth(4*time.Second, time.Minute)
	seed := seedOf(t, "PLACEMENT_SEED")
	random := rand.New(rand.NewPCG(seed, 0))

	p := start(t, "--data", t.TempDir())
	c, err := client.New(p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	chat := c.Placements("default", "chat")
	log := &sharedLog{referee: chaos.NewReferee(), begun: map[string]bool{}, last: map[string]chaos.Event{}}
	listener := httptest.NewServer(log)
	defer listener.Close()
	ctx, end := context.WithTimeout(t.Context(), failAfter)
	defer end()
	var background, thaws sync.WaitGroup

	// The members.
	started, names := 0, make([]string, slots)
	launchMember := func(slot int) *exec.Cmd {
		started++
		names[slot] = fmt.Sprintf("m%d-%d", slot, started)
		cmd, done := childProcess(ctx, t, "placement member", "SERVER="+p.url, "LOG="+listener.URL, "NAME="+names[slot])
		background.Go(done)
		return cmd
	}
	running := make([]*exec.Cmd, slots)
	for i := range slots {
		running[i] = launchMember(i)
	}

	// The callers: one follows a locator, one claims as any program does.
	locator := cluster.NewLocator(chat, nil)
	if err := locator.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer locator.Stop()
	room := func(n int) string { return fmt.Sprint("room-", n%rooms) }
	background.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			asking, cancel := context.WithTimeout(ctx, time.Second)
			_, _ = locator.Activate(asking, cluster.Identity{Kind: "room", ID: room(n)}, nil)
			cancel()
			pauseFor(ctx, 5*time.Millisecond)
		}
	})
	background.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			_, _ = chat.Claim(ctx, "room", room(n), contracts.ActivationClaimRequest{})
			pauseFor(ctx, 20*time.Millisecond)
		}
	})
	// settle waits until each room has been served since: however slow the machine is, one after the other is.
	settle := func() {
		t.Helper()
		begin := time.Now()
		for n := range rooms {
			for log.latest(room(n)).At.Before(begin) {
				if pauseFor(ctx, 20*time.Millisecond); ctx.Err() != nil {
					t.Fatalf("%s is not served", room(n))
				}
			}
		}
	}
	settle()

	// Kills and freezes.
	var failovers []time.Duration
	killed, frozen := 0, 0
	var mu sync.Mutex
	asleep := map[*exec.Cmd]bool{}
	// sleeps notes that a process is to be stopped, false if it must not: the others must be able to take over what it
	// has, and one that is stopped already goes on while a second stop still waits for others to take over.
	sleeps := func(victim *exec.Cmd) bool {
		mu.Lock()
		defer mu.Unlock()
		if len(asleep) == slots/2 || asleep[victim] {
			return false
		}
		asleep[victim] = true
		return true
	}
	wakes := func(victim *exec.Cmd) {
		mu.Lock()
		defer mu.Unlock()
		delete(asleep, victim)
	}
	serves := func(member string) bool {
		for n := range rooms {
			if log.latest(room(n)).Owner == member {
				return true
			}
		}
		return false
	}
	for begin := time.Now(); ctx.Err() == nil && (frozen == 0 || time.Since(begin) < lasts); pauseFor(
		ctx, time.Duration(500+random.IntN(1500))*time.Millisecond) {
		slot := random.IntN(slots)
		victim := running[slot]
		if killed <= frozen {
			killed++
			if err := victim.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			running[slot] = launchMember(slot)
			continue
		}
		if !sleeps(victim) {
			continue
		}
		frozen++
		name := names[slot]
		if err := victim.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		thaws.Go(func() {
			defer wakes(victim)
			pauseFor(ctx, killTTL*3/2)
			for ctx.Err() == nil && serves(name) { // so that what it has on its way is stale
				pauseFor(ctx, 20*time.Millisecond)
			}
			_ = victim.Process.Signal(syscall.SIGCONT)
		})
	}
	thaws.Wait()
	pauseFor(ctx, 500*time.Millisecond) // in which those that go on say what they have to say
	settle()

	// Who had what, as the cluster tells it up to here: on a slow machine members lose leases, and others are given rooms,
	// as long as it runs.
	until := log.close()
	seen := map[string]bool{}
	for after, more := "", true; more; {
		page, err := chat.Events(t.Context(), cluster.EventQuery{After: after, PageSize: 1000})
		if err != nil {
			t.Fatal(err)
		}
		more = false
		for _, e := range page.Events {
			if seen[e.EventID] {
				continue
			}
			seen[e.EventID] = true
			at, err := time.Parse(contracts.TimeFormat, e.At)
			if err != nil {
				t.Fatal(err)
			}
			more = at.Before(until)
			if e.Kind != "" && (e.To == "LOCKED" || e.To == "ACTIVE" && e.From != "LOCKED") {
				log.referee.Note(chaos.Event{Kind: chaos.Granted, Subject: e.ID, Token: e.FencingToken, Owner: e.Member, At: at})
			}
		}
		after = page.Next
	}
	end()
	background.Wait()
	if err := log.referee.Err(); err != nil {
		t.Error(err)
	}

	entries, stale, failovers := log.referee.Of(chaos.Stepped), 0, log.failovers
	for _, e := range entries {
		if !e.Passed {
			stale++
		}
	}
	slices.Sort(failovers)
	if len(failovers) == 0 || killed == 0 || frozen == 0 || stale < suite.AtDepth(0, 1) {
		t.Fatalf("%d failovers, %d killed, %d frozen, %d stale entries", len(failovers), killed, frozen, stale)
	}
	t.Logf(
		"%d processes killed, %d frozen for %v; %d activations of %d rooms, none active twice; %d entries, %d stale ones rejected; "+
			"from a room's last entry to the next process's first: p50 %v, at most %v, at a ttl of %v",
		killed, frozen, killTTL*3/2, len(log.begun), rooms, len(entries), stale,
		failovers[len(failovers)/2].Round(10*time.Millisecond), failovers[len(failovers)-1].Round(10*time.Millisecond),
		killTTL)
}

// pauseFor waits while ctx lives.
func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
