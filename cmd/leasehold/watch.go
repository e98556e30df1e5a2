package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// watch shows locks again when they have changed.
type watch struct {
	Watch    bool          `short:"w" help:"Print a lock again when another holds it or its state changes, until the command is stopped. Renewals are not shown."`
	Interval time.Duration `default:"2s" help:"How often to look with --watch (default ${default})."`
}

// shortestInterval keeps --watch from being all that the server does.
const shortestInterval = 100 * time.Millisecond

// follow prints the locks that find finds, and then those that have changed, until ctx ends. get reads a lock that is
// not found any more; nil if that says nothing.
func (w watch) follow(ctx context.Context, l *lockCmd, s *streams, find func() ([]contracts.Lock, error),
	get func(key string) (contracts.Lock, error)) error {
	if w.Interval < shortestInterval {
		return usage("--interval %v: must be at least %v", w.Interval, shortestInterval)
	}
	p := &printer{lock: l, s: s, last: map[string]contracts.Lock{}}
	for away := false; ; {
		found, err := find()
		if err == nil {
			err = p.print(found, get)
		}
		unreachable, isAway := errors.AsType[*unreachableError](l.explain(err))
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !isAway:
			return l.outcome(err)
		case isAway && !away:
			fmt.Fprintf(s.err, "leasehold: %v; trying again\n", unreachable)
		}
		away = isAway
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(w.Interval):
		}
	}
}

// printer prints locks that have changed since it printed them last.
type printer struct {
	lock *lockCmd
	s    *streams
	last map[string]contracts.Lock // by key
	head string                    // of the table, as it was printed last
}

// print prints those of the locks that have changed, and those that were there before.
func (p *printer) print(found []contracts.Lock, get func(key string) (contracts.Lock, error)) error {
	there := map[string]bool{}
	var changed []contracts.Lock
	for _, l := range found {
		there[l.LockKey] = true
		if last, ok := p.last[l.LockKey]; !ok || differ(last, l) {
			changed = append(changed, l)
		}
		p.last[l.LockKey] = l
	}
	for key := range p.last {
		if there[key] {
			continue
		}
		delete(p.last, key)
		if get == nil {
			continue
		}
		l, err := get(key)
		switch {
		case err == nil:
			changed = append(changed, l)
		case !errors.Is(err, contracts.CodeNotFound): // it was removed
			return err
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if p.lock.JSON {
		return showLocks(p.s, p.lock, changed)
	}
	// The other locks are there for the width of the columns.
	lines := strings.SplitAfter(table(slices.Concat(changed, found), time.Now(), p.lock.wide()), "\n")[:1+len(changed)]
	head := strings.Join(strings.Fields(lines[0]), " ")
	if head == p.head {
		lines = lines[1:]
	}
	p.head = head
	_, err := fmt.Fprint(p.s.out, strings.Join(lines, ""))
	return err
}

// differ reports whether two states of a lock differ in more than a renewal.
func differ(a, b contracts.Lock) bool {
	return a.LeaseID != b.LeaseID || a.State != b.State || a.ReleasedAt != b.ReleasedAt || a.FreeAt != b.FreeAt ||
		!slices.EqualFunc(a.Holders, b.Holders, func(a, b contracts.LockHolder) bool { return a.LeaseID == b.LeaseID }) ||
		!slices.EqualFunc(a.Waiting, b.Waiting, func(a, b contracts.LockWaiter) bool {
			return a.OwnerID == b.OwnerID && a.Since == b.Since
		})
}
