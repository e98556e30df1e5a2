package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// interrupts are the SIGINT and SIGTERM of this process. The first one ends its context: a command stops, gives up what
// it asked for, and releases what it holds. The second one leaves it [hurryTime] for that, so that no lock stays closed
// for its whole ttl. The third one ends the process at once. For a command that has nothing to give up the second one
// does, unless it waits a while before it stops: then that wait ends first.
//
// While a command runs under a lock they are passed on to it, and are not counted: see [relay].
type interrupts struct {
	end     context.CancelFunc
	exit    func(code int)
	say     io.Writer     // where it says that it did not wait for the end
	hurried chan struct{} // closed by the second one

	mu     sync.Mutex
	n      int
	passed bool // on to a command
	atOnce bool // the second one ends the process at once, because there is nothing to give up

	delay chan struct{} // closed by the second one, which is not counted; nil if nothing is delayed
}

// hurryTime is how long a process may go on after a second signal: enough for one request.
const hurryTime = time.Second

// interruptsKey is the key of the interrupts in a context.
type interruptsKey struct{}

// catch begins to take the signals of this process. The context ends with the first.
func catch() context.Context {
	ctx, end := context.WithCancel(context.Background())
	i := &interrupts{end: end, exit: os.Exit, say: os.Stderr, hurried: make(chan struct{})}
	received := make(chan os.Signal, 16)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	go func() {
		for range received {
			i.take()
		}
	}()
	return context.WithValue(ctx, interruptsKey{}, i)
}

// take is called for each signal.
func (i *interrupts) take() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.end()
	if i.passed {
		return
	}
	if i.n > 0 && i.delay != nil {
		close(i.delay)
		i.delay = nil
		return
	}
	switch i.n++; {
	case i.n == 1:
	case i.n == 2 && !i.atOnce:
		close(i.hurried)
		time.AfterFunc(hurryTime, func() {
			fmt.Fprintln(i.say, "leasehold: interrupted twice: what it asked for or held may stay so until its lease expires")
			i.exit(exitInterrupted)
		})
	default:
		i.exit(exitInterrupted)
	}
}

// interruptsOf are those of a process in whose context a command runs; nil in tests that have none.
func interruptsOf(ctx context.Context) *interrupts {
	i, _ := ctx.Value(interruptsKey{}).(*interrupts)
	return i
}

// pass says whether signals are passed on to a command from now on.
func (i *interrupts) pass(on bool) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.passed = on
}

// endAtOnce is for commands that have nothing to give up: their second signal ends the process at once.
func (i *interrupts) endAtOnce() {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.atOnce = true
}

// delayed is for commands that wait a while after the first signal before they stop: the second one closes skipped
// instead. It counts again once over was called, when the wait has ended.
func (i *interrupts) delayed() (skipped <-chan struct{}, over func()) {
	if i == nil {
		return nil, func() {}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.delay = make(chan struct{})
	return i.delay, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.delay = nil
	}
}

// hurry reports whether there was a second signal.
func (i *interrupts) hurry() bool {
	if i == nil {
		return false
	}
	select {
	case <-i.hurried:
		return true
	default:
		return false
	}
}
