package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	firstProgress = 3 * time.Second // a command that is done earlier says nothing of it
	progressEvery = 5 * time.Second
)

// progressFlags are those of commands that go through all documents of a store.
type progressFlags struct {
	Progress bool `help:"Say on standard error how far it is, also if that is no terminal."`
}

// progress says on standard error how far a long command is, and what holds it up. Nothing of it is said while the
// command takes no longer than others do.
type progress struct {
	s     *streams
	shown bool
	what  string // that is counted

	mu    sync.Mutex
	done  int    // of what is counted
	at    string // the kind of the last one
	begin time.Time
	told  time.Time // when the last trouble was
}

// begin begins to show the progress of a command until stop is called.
func (f progressFlags) begin(ctx context.Context, s *streams) (p *progress, stop func()) {
	return f.counting(ctx, s, "documents")
}

// counting is begin for a command that counts something else.
func (f progressFlags) counting(ctx context.Context, s *streams, what string) (p *progress, stop func()) {
	p = &progress{s: s, shown: f.Progress || isTerminal(s.err), begin: time.Now(), what: what}
	ctx, cancel := context.WithCancel(ctx)
	var shows sync.WaitGroup
	if p.shown {
		shows.Go(func() { p.show(ctx) })
	}
	return p, func() {
		cancel()
		shows.Wait()
	}
}

// isTerminal reports whether a person may be reading an output.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// add says that so many documents more were done.
func (p *progress) add(documents int, kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += documents
	p.at = kind
}

// sayf says a line.
func (p *progress) sayf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.s.err, "leasehold: "+format+"\n", args...)
}

// trouble says what the command waits for. Troubles that come close together are said once.
func (p *progress) trouble(err error) {
	p.mu.Lock()
	now := time.Now()
	said := !p.told.IsZero() && now.Sub(p.told) < progressEvery
	if !said {
		p.told = now
	}
	p.mu.Unlock()
	if !said {
		p.sayf("%v; trying again", err)
	}
}

// show says every few seconds how far the command is.
func (p *progress) show(ctx context.Context) {
	last, from := 0, p.begin
	for wait := firstProgress; ; wait = progressEvery {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		p.mu.Lock()
		done, at, now := p.done, p.at, time.Now()
		p.mu.Unlock()
		if at != "" {
			at = "; now " + at
		}
		p.sayf("%d %s in %v, %.0f a second%s", done, p.what, now.Sub(p.begin).Round(time.Second),
			float64(done-last)/now.Sub(from).Seconds(), at)
		last, from = done, now
	}
}
