package main

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestInterrupts: the first signal ends the context, the second one leaves the process a second, the third one ends it.
// Those that are passed on to a command are not counted, and commands that have nothing to give up end with the second.
func TestInterrupts(t *testing.T) {
	for name, c := range map[string]struct {
		act     func(i *interrupts) // in a second
		ended   time.Duration       // after so long; 0: not
		hurried bool
	}{
		"none":  {func(*interrupts) {}, 0, false},
		"one":   {func(i *interrupts) { i.take() }, 0, false},
		"two":   {func(i *interrupts) { i.take(); i.take() }, time.Second, true},
		"three": {func(i *interrupts) { i.take(); i.take(); i.take() }, time.Nanosecond, true},
		"one later": {func(i *interrupts) {
			i.take()
			i.take()
			time.Sleep(500 * time.Millisecond)
			i.take()
		}, 500 * time.Millisecond, true},
		"passed on": {func(i *interrupts) {
			i.pass(true)
			for range 5 {
				i.take()
			}
		}, 0, false},
		"passed on before": {func(i *interrupts) {
			i.pass(true)
			i.take()
			i.pass(false)
			i.take()
			i.take()
		}, time.Second, true},
		"at once": {func(i *interrupts) { i.endAtOnce(); i.take(); i.take() }, time.Nanosecond, false},
		"delayed": {func(i *interrupts) {
			i.endAtOnce()
			skipped, _ := i.delayed()
			i.take()
			select {
			case <-skipped:
				t.Error("the first one ends the delay")
			default:
			}
			i.take()
			<-skipped
		}, 0, false},
		"delayed, three": {func(i *interrupts) { i.endAtOnce(); i.delayed(); i.take(); i.take(); i.take() },
			time.Nanosecond, false},
		"after a delay": {func(i *interrupts) {
			i.endAtOnce()
			_, over := i.delayed()
			i.take()
			over()
			i.take()
		}, time.Nanosecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				defer end()
				begin, ended := time.Now(), time.Duration(0)
				var said bytes.Buffer
				var mu sync.Mutex // of ended: a timer ends the process, too
				i := &interrupts{end: end, say: &said, hurried: make(chan struct{}), exit: func(code int) {
					mu.Lock()
					defer mu.Unlock()
					if ended == 0 {
						ended = max(time.Since(begin), time.Nanosecond)
					}
					if code != exitInterrupted {
						t.Errorf("exit code %d", code)
					}
				}}
				c.act(i)
				if (ctx.Err() != nil) != (name != "none") || i.hurry() != c.hurried {
					t.Errorf("the context: %v; hurried: %v", ctx.Err(), i.hurry())
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if ended != c.ended || (said.Len() > 0) != c.hurried {
					t.Errorf("ended after %v, want %v; it said %q", ended, c.ended, &said)
				}
			})
		})
	}
	var none *interrupts // of a context that has none
	none.pass(true)
	none.endAtOnce()
	if skipped, over := none.delayed(); skipped != nil {
		t.Error("something is delayed where there are no interrupts")
	} else {
		over()
	}
	if none.hurry() || interruptsOf(t.Context()) != nil {
		t.Error("there are interrupts where there are none")
	}
}
