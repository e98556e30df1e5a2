//go:build unix

package process

import (
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// stage is a watcher, what it is told, and what it does, in virtual time.
type stage struct {
	*watcher

	lines  chan string
	events chan event
	begin  time.Time
	slept  atomic.Int64 // of the machine: only the clocks know
	did    []string     // with the seconds since the begin
	sends  bool         // there is someone to send to
}

func newStage(grace time.Duration) *stage {
	s := &stage{lines: make(chan string, 100), events: make(chan event, 1), begin: time.Now(), sends: true}
	s.watcher = &watcher{
		grace: grace,
		clock: func() moment {
			d := time.Since(s.begin) + time.Duration(s.slept.Load())
			return moment{time.Hour + d, 40*24*time.Hour + d}
		},
		say: func(text string) { s.note(text) },
		send: func(n syscall.Signal) bool {
			if text := strconv.Itoa(int(n)); n != syscall.SIGKILL || !slices.ContainsFunc(s.did, func(did string) bool {
				return did[len(did)-1:] == "9" // again and again
			}) {
				s.note(text)
			}
			return s.sends
		},
		resume: func() { s.note("resume") },
	}
	return s
}

func (s *stage) note(what string) {
	s.did = append(s.did, fmt.Sprintf("%.1f %s", time.Since(s.begin).Seconds(), what))
}

// until is the line for an end in so long.
func (s *stage) until(ask, kill time.Duration) string {
	now := s.clock()
	return end{now.add(ask), now.add(kill)}.String()
}

// play lets the watcher watch until the command has ended; nothing does so before killed unless act does.
func (s *stage) play(t *testing.T, act func()) {
	t.Helper()
	status := make(chan syscall.WaitStatus)
	go func() { status <- s.watch(s.lines, nil, s.events) }()
	act()
	synctest.Wait()
	s.events <- event{syscall.WaitStatus(7 << 8)}
	close(s.events)
	if got := <-status; got.ExitStatus() != 7 {
		t.Errorf("the status is %v", got)
	}
}

// TestWatcher: what a watcher does to its command, and when, for what its program tells it or does not.
func TestWatcher(t *testing.T) {
	const s = time.Second
	stopped := func(n syscall.Signal) event { return event{syscall.WaitStatus(int(n)<<8 | 0x7f)} }
	for name, c := range map[string]struct {
		act  func(w *stage)
		want []string
	}{
		"told of ends in time": {func(w *stage) {
			for range 10 {
				w.lines <- w.until(9*s, 10*s)
				time.Sleep(8 * s)
			}
		}, []string{"80.0 9"}}, // what the command has left behind
		"told of no other end": {func(w *stage) {
			w.lines <- w.until(9*s, 10*s)
			time.Sleep(20 * s)
		}, []string{"9.0 15", "10.0 9"}},
		"told too late": {func(w *stage) {
			w.lines <- w.until(9*s, 10*s)
			time.Sleep(9500 * time.Millisecond)
			w.lines <- w.until(9*s, 10*s)
			time.Sleep(20 * s)
		}, []string{"9.0 15", "19.5 9"}},
		"told of an earlier end": {func(w *stage) {
			w.lines <- w.until(9*s, 10*s)
			time.Sleep(s)
			w.lines <- w.until(0, 0)
			time.Sleep(20 * s)
		}, []string{"1.0 9"}},
		"the machine sleeps": {func(w *stage) {
			w.lines <- w.until(9*s, 10*s)
			time.Sleep(1010 * time.Millisecond) // it looks each 50
			w.slept.Store(int64(time.Hour))
			time.Sleep(s)
		}, []string{"1.1 9"}},
		"no lease": {func(w *stage) {
			w.lines <- sayForever
			time.Sleep(time.Hour)
		}, []string{"3600.0 9"}},
		"the program dies": {func(w *stage) {
			w.lines <- w.until(29*s, 30*s)
			time.Sleep(s)
			close(w.lines)
			time.Sleep(20 * s)
		}, []string{"1.0 15", "4.0 9"}},
		"the program dies late": {func(w *stage) {
			w.lines <- w.until(9*s, 10*s)
			time.Sleep(8 * s)
			close(w.lines)
			time.Sleep(20 * s)
		}, []string{"8.0 15", "10.0 9"}},
		"the program dies, without a lease": {func(w *stage) {
			w.lines <- sayForever
			time.Sleep(s)
			close(w.lines)
			time.Sleep(20 * s)
		}, []string{"1.0 15", "4.0 9"}},
		"signals": {func(w *stage) {
			w.lines <- w.until(9*s, 10*s)
			w.lines <- saySignal + " 1"
			time.Sleep(s)
			w.lines <- saySignal + " 15" // and is not asked again
			time.Sleep(20 * s)
		}, []string{"0.0 1", "1.0 15", "10.0 9"}},
		"killed": {func(w *stage) {
			w.lines <- w.until(9*s, 10*s)
			time.Sleep(s)
			w.lines <- saySignal + " 9"
			time.Sleep(s)
		}, []string{"1.0 9"}},
		"the terminal stops it": {func(w *stage) {
			w.lines <- w.until(9*s, 10*s)
			time.Sleep(s)
			w.events <- stopped(syscall.SIGTSTP)
			time.Sleep(s)
			w.lines <- sayContinue
			time.Sleep(s)
			w.events <- stopped(syscall.SIGTTIN)
			time.Sleep(s)
		}, []string{"1.0 " + sayStopped, "2.0 resume", "2.0 " + strconv.Itoa(int(syscall.SIGCONT)), "3.0 " + sayStopped,
			"4.0 9"}},
		"the terminal stops it, and no one goes on": {func(w *stage) {
			w.lines <- w.until(9*s, 10*s)
			w.events <- stopped(syscall.SIGTSTP)
			time.Sleep(20 * s)
		}, []string{"0.0 " + sayStopped, "9.0 15", "9.0 " + strconv.Itoa(int(syscall.SIGCONT)), "10.0 9"}},
		"the program stops it": {func(w *stage) {
			w.lines <- w.until(9*s, 10*s)
			w.lines <- saySignal + " " + strconv.Itoa(int(syscall.SIGTSTP))
			time.Sleep(s)
			w.events <- stopped(syscall.SIGTSTP) // and the program knows
			time.Sleep(s)
		}, []string{"0.0 " + strconv.Itoa(int(syscall.SIGTSTP)), "2.0 9"}},
		"it goes on too late": {func(w *stage) {
			w.lines <- w.until(9*s, 10*s)
			w.events <- stopped(syscall.SIGTSTP)
			time.Sleep(1010 * time.Millisecond) // it looks each 50
			w.slept.Store(int64(time.Hour))
			w.lines <- sayContinue
			time.Sleep(s)
		}, []string{"0.0 " + sayStopped, "1.0 9"}},
		"stopped by another": {func(w *stage) {
			w.lines <- w.until(9*s, 10*s)
			w.events <- stopped(syscall.SIGSTOP)
			time.Sleep(s)
		}, []string{"1.0 9"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newStage(3 * s)
				w.play(t, func() { c.act(w) })
				if !slices.Equal(w.did, c.want) {
					t.Errorf("got  %q\nwant %q", w.did, c.want)
				}
			})
		})
	}
}

// TestWatcherOfAnothersProcesses: what is left behind and cannot be killed is not waited for.
func TestWatcherOfAnothersProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStage(time.Second)
		w.sends = false
		w.lines <- sayForever
		w.events <- event{0}
		if got := w.watch(w.lines, nil, w.events); got != 0 {
			t.Errorf("the status is %v", got)
		}
	})
}

// TestTimesOfAWatcher: an end is told as it is, by both clocks, and what is no end is none.
func TestTimesOfAWatcher(t *testing.T) {
	e := end{moment{1, 2}, moment{3, 4}}
	if got, ok := parseEnd([]string{sayUntil, "1", "2", "3", "4"}); !ok || got != e || e.String() != "until 1 2 3 4" {
		t.Errorf("%v, %v, %q", got, ok, e)
	}
	for _, words := range [][]string{nil, {sayUntil, "1", "2", "3"}, {sayUntil, "1", "2", "3", "x"}, {"x", "1", "2", "3", "4"}} {
		if got, ok := parseEnd(words); ok {
			t.Errorf("%q: %v", words, got)
		}
	}
	for i, other := range []end{{moment{1 + 2*grain, 2}, e.kill}, {moment{1, 2 + 2*grain}, e.kill},
		{e.ask, moment{3 - 2*grain, 4}}, {e.ask, moment{3, 4 - 2*grain}}} {
		if !e.differs(other) || e.differs(e) {
			t.Errorf("end %d does not differ", i)
		}
	}
	m := moment{10, 100}
	if a, b := m.until(moment{15, 120}), m.until(moment{30, 101}); a != 5 || b != 1 {
		t.Errorf("until: %d, %d", a, b)
	}
}
