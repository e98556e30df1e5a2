package demo

import (
	"time"

	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/process"
	"github.com/leasehold-dev/leasehold/contracts"
)

// state is what a worker process does.
type state string

const (
	waiting state = "waiting" // for the lock
	working state = "working" // under the lock: it has not read yet
	paying  state = "paying"  // it has read, and not written
	frozen  state = "frozen"  // as paying, and stopped
	dead    state = "dead"    // there is no process
)

// hired is a worker process. page.mu guards it.
type hired struct {
	Name  string
	State state
	PID   int
	Skew  int64 // milliseconds
	Armed bool  // it is frozen at the next read
	Lose  bool  // the next answer is lost

	token   int64     // of its last turn
	base    int64     // the balance that it read
	expires time.Time // of its last lease
	woken   bool      // it was frozen in this turn, and has not written yet
	lost    bool      // it was killed in its turn, and its lease goes on
	passed  bool      // the page was told that another has paid in since

	process *child
}

// inTurn reports whether a worker believes that it has the lock.
func (h *hired) inTurn() bool { return h.State == working || h.State == paying || h.State == frozen }

// start starts the process of a worker. mu is held.
func (p *page) start(h *hired) error {
	w, err := startChild(p.executable, h.Name, p.url, nil, nil, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		h.lost, h.State, h.Armed, h.Lose = h.inTurn(), dead, false, false
		p.changed.Broadcast()
	})
	if err != nil {
		return err
	}
	*h = hired{Name: h.Name, State: waiting, PID: w.pid, process: w, token: h.token, expires: h.expires}
	return nil
}

// startAll starts the workers that are dead, lets those go on that are frozen, and sets all clocks.
func (p *page) startAll() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.workers {
		switch h.State {
		case dead:
			if err := p.start(h); err != nil {
				return err
			}
		case frozen:
			if err := h.process.thaw(); err != nil {
				return err
			}
			h.State = paying
		case waiting, working, paying:
		}
		h.Armed, h.Lose = false, false
		h.setClock(0)
	}
	return nil
}

// setClock tells a worker what its clock is off by. One that cannot be told is dead.
func (h *hired) setClock(ms int64) {
	h.Skew = ms
	h.process.tell(ms)
}

// kill kills a worker, SIGKILL, and returns when it is dead. mu is held, but for the wait.
func (p *page) kill(h *hired) {
	if h.State == dead {
		return
	}
	w := h.process
	w.kill()
	for h.process == w && h.State != dead { // it may be started again meanwhile
		p.changed.Wait()
	}
}

// endWorkers kills all workers, and returns when they are dead.
func (p *page) endWorkers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
	for _, h := range p.workers {
		p.kill(h)
	}
}

// act carries out what a button says. An action that does not fit the worker's state changes nothing: the page shows a
// state that is over by then.
func (p *page) act(h *hired, action string, ms int64) error {
	switch {
	case p.ending:
		return contracts.Errorf(contracts.CodeUnavailable, "the demonstration is ending")
	case action == "freeze" && !process.CanStop:
		return contracts.Errorf(contracts.CodeNotConfigured,
			"this system cannot stop a process: kill the worker instead, or try it on Linux or macOS")
	case action == "freeze" && h.State != dead && h.State != frozen:
		h.Armed = true
		p.tell(event{Kind: "armed", Worker: h.Name})
	case action == "continue" && h.State == frozen:
		// Not while another is between its read and its write, which would put right by chance what the late write does.
		for p.any(h, func(o *hired) bool { return o.State == paying }) {
			p.changed.Wait()
		}
		if h.State != frozen { // others have buttons too
			return nil
		}
		if err := h.process.thaw(); err != nil {
			return err
		}
		h.State, h.woken = paying, true
		p.tell(event{Kind: "woke", Worker: h.Name})
	case action == "continue" && h.Armed:
		h.Armed = false
		p.tell(event{Kind: "disarmed", Worker: h.Name})
	case action == "kill" && h.State != dead:
		p.kill(h)
		p.tell(event{Kind: "killed", Worker: h.Name, Held: h.lost})
	case action == "start" && h.State == dead:
		if err := p.start(h); err != nil {
			return err
		}
		p.tell(event{Kind: "started", Worker: h.Name})
	case action == "lose" && h.State != dead && h.State != frozen:
		h.Lose = true
		p.tell(event{Kind: "losing", Worker: h.Name})
	case action == "skew" && h.State != dead:
		if ms < -maxSkew || ms > maxSkew {
			return contracts.Errorf(contracts.CodeInvalidArgument, "ms must be from %d to %d", -maxSkew, maxSkew)
		}
		h.setClock(ms)
		p.tell(event{Kind: "skewed", Worker: h.Name, Ms: ms})
	}
	return nil
}

// maxSkew is what a worker's clock is off by at most, in milliseconds.
const maxSkew = 10_000
