//go:build unix

package tests

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/proof/suite"
)

func init() { //nolint:gochecknoinits // before TestMain, on systems that can
	children["alarm member"] = alarmMember
}

// alarming is the host of a member whose rooms set an alarm when they are first activated. It says at each step where it
// is, and is killed there if the one whom it tells says so.
type alarming struct {
	name, url string
	m         *cluster.Member
}

// alarmMember is a member in a process of its own, until that is killed.
func alarmMember() int {
	h := &alarming{name: os.Getenv("NAME"), url: os.Getenv("LOG")}
	c, err := client.New(os.Getenv("SERVER"), nil)
	if err == nil {
		h.m, err = cluster.NewMember(c.Placements("default", "chat"), h.name, h,
			&cluster.Options{Kinds: []string{"room"}, Partitions: 64, TTL: killTTL})
	}
	if err == nil {
		err = h.m.Start(context.Background())
	}
	if err != nil {
		return complain(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the process that started this one
	return 0
}

// says tells where the member is, and returns once that is noted.
func (h *alarming) says(step string, a cluster.Activation) {
	q := url.Values{"room": {a.ID}, "member": {h.name}, "step": {step}}
	r, err := http.Post(h.url+"?"+q.Encode(), "", nil)
	if err != nil {
		os.Exit(complain(err)) // the test has ended
	}
	_ = r.Body.Close()
}

// Activate implements [cluster.Host].
func (h *alarming) Activate(ctx context.Context, a cluster.Activation) error {
	h.says("activate", a)
	if a.StateVersion > 0 {
		return nil
	}
	if err := h.m.SetAlarm(ctx, a.Identity, time.Now().Add(2*time.Second)); err != nil {
		return err
	}
	h.says("set", a)
	return h.m.WriteState(ctx, a.Identity, []byte("set"))
}

// Deactivate implements [cluster.Host].
func (*alarming) Deactivate(context.Context, cluster.Activation, error) {}

// Alarm implements [cluster.Alarmer].
func (h *alarming) Alarm(_ context.Context, a cluster.Activation) error {
	h.says("called", a)
	h.says("returns", a)
	return nil
}

// TestAlarmsOfProcesses: members and one of two servers are killed by SIGKILL at each step of an alarm: before and after
// it is set, when the host is called, when it returns and the alarm is to be cleared. Each alarm that was set is carried
// out all the same, and cleared, while the other server or the members that are left go on (and where none is left, when
// one comes).
func TestAlarmsOfProcesses(t *testing.T) {
	t.Parallel()
	for name, backend := range backends {
		t.Run(name, func(t *testing.T) {
			if name != "sqlite" {
				suite.EveryStore(t)
			}
			t.Parallel()
			alarmsOfProcesses(t, backend)
		})
	}
}

func alarmsOfProcesses(t *testing.T, backend func(*testing.T) (env, args []string)) {
	t.Helper()
	const rooms = 12
	ctx, end := context.WithTimeout(t.Context(), failAfter)
	defer end()
	env, args := backend(t)
	var servers [2]*process
	for i := range servers {
		servers[i] = serve(t, env, args...)
	}
	var (
		mu       sync.Mutex
		running  = map[string]*exec.Cmd{}
		at       = map[string]int{} // how often a step was taken
		returned = map[string]bool{}
		kills    int
		restart  = make(chan struct{}, 100)
	)
	log := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		step, member := q.Get("step"), q.Get("member")
		mu.Lock()
		defer mu.Unlock()
		at[step]++
		n, cmd := at[step], running[member]
		switch {
		case step == "returns" && n == 3: // a server, while the alarm is to be cleared
			kills++
			servers[0].kill(t)
			restart <- struct{}{}
		case n <= 2 && cmd != nil: // the member, at each of its steps, twice
			kills++
			_ = cmd.Process.Kill()
			delete(running, member)
			restart <- struct{}{}
			return // it did not get on
		}
		if step == "returns" {
			returned[q.Get("room")] = true
		}
	}))
	defer log.Close()
	var background sync.WaitGroup
	defer background.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	members := 0
	launchMember := func() {
		members++
		name := fmt.Sprint("m", members)
		cmd, done := childProcess(ctx, t, "alarm member", "SERVER="+servers[members%2].url, "LOG="+log.URL, "NAME="+name)
		mu.Lock()
		running[name] = cmd
		mu.Unlock()
		background.Go(done)
	}
	launchMember()
	launchMember()
	c, err := client.New(servers[1].url, nil)
	if err != nil {
		t.Fatal(err)
	}
	chat := c.Placements("default", "chat")
	l := cluster.NewLocator(chat, nil)
	if err := l.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer l.Stop()
	id := func(n int) cluster.Identity { return cluster.Identity{Kind: "room", ID: strconv.Itoa(n)} }
	background.Go(func() { // callers, until each room has set its alarm
		for n := 0; ctx.Err() == nil; n++ {
			asking, cancel := context.WithTimeout(ctx, time.Second)
			if a, err := chat.Activation(asking, "room", id(n%rooms).ID); err != nil || a.StateVersion == 0 {
				_, _ = l.Activate(asking, id(n%rooms), nil)
			}
			cancel()
			pauseFor(ctx, 20*time.Millisecond)
		}
	})
	done := func() (all bool) {
		all = true
		for n := range rooms {
			mu.Lock()
			all = all && returned[id(n).ID]
			mu.Unlock()
			if a, err := chat.Activation(ctx, "room", id(n).ID); err != nil || a.AlarmAt != "" || a.StateVersion == 0 {
				return false
			}
		}
		return all
	}
	for !done() {
		select {
		case <-restart:
			mu.Lock()
			dead := servers[0].cmd.ProcessState != nil
			mu.Unlock()
			if dead {
				p := launch(t, env, append([]string{"serve", "--listen", strings.TrimPrefix(servers[0].url, "http://")}, args...)...)
				mu.Lock()
				servers[0] = p
				mu.Unlock()
				continue
			}
			launchMember()
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("after %v, %d kills: %v returned", at, kills, returned)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if kills < 7 {
		t.Errorf("%d processes were killed, %v", kills, at)
	}
	t.Logf("%d processes were killed; steps %v", kills, at)
	stop()
}
