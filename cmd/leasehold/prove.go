package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/proof/prove"
)

type proveCmd struct {
	Operations int    `default:"200000" placeholder:"N" help:"How many requests the store carries out, at least (default ${default})."`
	Seed       uint64 `placeholder:"N" help:"Begin with the history of this seed (default: 1)."`
	Only       bool   `help:"Carry out the history of --seed and no other, and write its page."`
	Every      bool   `help:"Try every order of the steps of small worlds instead, the shorter histories first."`
	States     int    `default:"1500000" placeholder:"N" help:"With --every: how many states of each world are looked at, at the most (default ${default}: all of them)."`
	Page       string `type:"path" placeholder:"FILE" help:"Where the picture of a history is written: of --only, or of one that breaks a promise (default: leasehold-prove-SEED.html)."`
	JSON       bool   `name:"json" help:"Print one JSON object, for machines."`

	progressFlags
}

// Help is the longer help of the command.
func (proveCmd) Help() string {
	return `Looks for a broken promise, here and now, without a server. Clients ask servers for locks, runs and machine IDs, in virtual time, while faults happen: requests and responses are lost, late or doubled, the store refuses writes or carries them out and fails, clocks are wrong and are set, also that of the store, by up to a day, the store comes back as it was before, clients freeze and are killed, servers are restarted. The rules are those of this program, on its store in memory, and the clients judge responses and time by the code of the client libraries. After each step a judge compares what was granted, what was answered and what each client knows with the promises.

  leasehold prove
  leasehold prove --operations 1000000
  leasehold prove --every
  leasehold prove --seed 17 --only

A seed is a history: the same on every machine, with the same version. If one breaks a promise, the command says which, shows the last steps, writes a page that shows the history as a picture, and prints the command that does it again. --every needs no chance: it tries all orders of messages, losses, seconds and clients, so that what it finds has as few steps as can be.

What it does not show: that a store keeps its own promises, or that a machine does. For that the tests kill processes and freeze servers.

Exit codes: 0 no promise was broken, 1 one was broken, 2 wrong usage, 130 interrupted.`
}

// AfterApply checks the flags together.
func (c *proveCmd) AfterApply() error {
	switch {
	case c.Operations < 1:
		return usage("--operations %d: must be 1 or more", c.Operations)
	case c.States < 1:
		return usage("--states %d: must be 1 or more", c.States)
	case c.Every && (c.Only || c.Seed != 0):
		return usage("--every has no seed: leave out --seed and --only")
	case c.Only && c.Seed == 0:
		return usage("--only needs --seed")
	}
	if c.Seed == 0 {
		c.Seed = 1
	}
	return nil
}

// errBroken is the error of a proof that found something. What it found has been said.
var errBroken = errors.New("a promise was broken: please report it with the lines above")

// Run looks for a broken promise.
func (c *proveCmd) Run(ctx context.Context, s *streams) error {
	if c.Every {
		return c.every(ctx, s)
	}
	if c.Only {
		events, broken := prove.Replay(c.Seed)
		return c.finding(s, c.Seed, events, broken)
	}
	p, stop := c.counting(ctx, s, "operations")
	var mu sync.Mutex
	last := 0
	began := time.Now()
	report := prove.Random(ctx, prove.Options{Seed: c.Seed, Operations: c.Operations, Progress: func(n int) {
		mu.Lock()
		defer mu.Unlock()
		if n > last {
			p.add(n-last, "")
			last = n
		}
	}})
	stop()
	if ctx.Err() != nil {
		return interruption("interrupted after %d operations; no promise was broken by then", report.Operations)
	}
	if c.JSON {
		if err := show(s, true, report, ""); err != nil {
			return err
		}
	} else if _, err := io.WriteString(s.out, report.Text(time.Since(began))); err != nil {
		return err
	}
	if report.Broken == nil {
		return nil
	}
	events, broken := prove.Replay(report.Seed)
	return c.finding(s, report.Seed, events, broken)
}

// finding says what the history of a seed broke, and writes the page about it.
func (c *proveCmd) finding(s *streams, seed uint64, events []prove.Event, broken *prove.Violation) error {
	page := c.Page
	if page == "" {
		page = fmt.Sprintf("leasehold-prove-%d.html", seed)
	}
	if broken == nil && c.Page == "" && !c.Only {
		return nil
	}
	if err := os.WriteFile(page, prove.Page(seed, events, broken), 0o600); err != nil {
		return err
	}
	said := s.out
	if c.JSON {
		said = s.err
	}
	if broken == nil {
		_, err := fmt.Fprintf(said, "Seed %d breaks no promise: %d events. The picture of the first %d is in %s\n", seed,
			len(events), min(len(events), prove.EventsShown), page)
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nBROKEN: %s\n  %s\n\nThe last steps about %s:\n", broken.Words, broken.What, broken.Thing)
	const shown = 24
	for _, e := range events[max(0, len(events)-shown):] {
		fmt.Fprintln(&b, e)
	}
	fmt.Fprintf(&b, "\nThe picture is in %s\nAgain: leasehold prove --seed %d --only\n", page, seed)
	if _, err := io.WriteString(said, b.String()); err != nil {
		return err
	}
	return errBroken
}

// every tries all orders of small worlds.
func (c *proveCmd) every(ctx context.Context, s *streams) error {
	p, stop := c.counting(ctx, s, "states")
	all := prove.Every(ctx, c.States, func(_ string, n int) { p.add(n, "") })
	stop()
	if ctx.Err() != nil {
		return interruption("interrupted; no promise was broken by then")
	}
	if c.JSON {
		if err := show(s, true, all, ""); err != nil {
			return err
		}
	}
	for _, e := range all {
		if !c.JSON {
			fmt.Fprint(s.out, e.Text())
		}
		if e.Broken != nil {
			return errBroken
		}
	}
	return nil
}
