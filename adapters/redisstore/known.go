package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// known is what the store knows of the documents of a shard, so that it notices when they are not there any more.
type known struct {
	mu  sync.Mutex
	now atomic.Pointer[opened] // nil until it was claimed
}

// opened are documents as the store found them: their generation, how many writes they have had at least, and which of
// these was the latest of the store's own, 0 if there was none. Each script compares all of that before anything else.
// What is known of one generation says nothing of the next.
type opened struct {
	generation  string
	writes, own atomic.Int64
}

var (
	errOther = errors.New(
		"these are not the documents that were opened: the server was emptied, or the address leads to another one; " +
			"name the right server, or restart Leasehold to begin with the one that is there: locks that are held now can be granted again, with higher tokens")
	errBack = errors.New(
		"the server has lost writes that it had acknowledged, by a restart, a failover or a backup that was restored: a token " +
			"could be given twice; run `leasehold store raise-tokens`, ten minutes after the loss if programs lease machine IDs: " +
			"until it has ended, no process grants anything, and then all go on")
	errRaised = errors.New("tokens were raised meanwhile: try again")
)

// learn looks at what stop.lua found out, and takes note of the number of writes.
func (s *Store) learn(ctx context.Context, of *shard, known *opened, r reply, writes int64) error {
	switch r.outcome {
	case "other":
		return errOther
	case "back", "lost", "raised":
		found := r.rest.next()
		if found.kind != isText {
			return errPacked
		}
		if r.outcome == "raised" {
			of.known.adopt(known, found.text, writes)
			return errRaised
		}
		if !s.repair {
			s.stop(ctx, raisedIn(found.text), true)
		}
		return errBack
	}
	atLeast(&known.writes, writes)
	if r.outcome == "applied" {
		atLeast(&known.own, writes)
	}
	return nil
}

// atLeast sets a number to another one, if that is higher.
func atLeast(n *atomic.Int64, least int64) {
	for {
		if seen := n.Load(); least <= seen || n.CompareAndSwap(seen, least) {
			return
		}
	}
}

// newName makes the name of a store among those that write: 8 letters, see wrote.lua.
func newName() string {
	name := make([]byte, 8)
	_, _ = rand.Read(name) // it never fails
	for i, b := range name {
		name[i] = 'a' + b%26
	}
	return string(name)
}

// adopt puts documents whose tokens were raised in the place of those that were known.
func (k *known) adopt(before *opened, generation string, writes int64) {
	next := &opened{generation: generation}
	next.writes.Store(writes)
	k.now.CompareAndSwap(before, next)
}

// unknown is the error of a call on documents that are not there any more.
func (s *Store) unknown(doing string, err error) error {
	err = fmt.Errorf("%w: redis: %s %s on %s: nothing was changed: %w", docstore.ErrNotWritten, doing, s.keys.root, s.addr,
		err)
	if s.repair {
		return err // to try again changes nothing
	}
	return fmt.Errorf("%w: %w", docstore.ErrUnavailable, err)
}

// claim returns the documents of a shard. They are asked for when the store is opened, or with the first call if the
// server did not write then. The error is that of a request, or a [layoutError].
func (s *Store) claim(ctx context.Context, of *shard) (*opened, error) {
	k := &of.known
	if found := k.now.Load(); found != nil {
		return found, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if found := k.now.Load(); found != nil {
		return found, nil
	}
	if err := s.checkLayout(ctx); err != nil {
		return nil, err
	}
	generation, writes, err := s.generation(ctx, claimScript, of, rand.Text())
	if err != nil {
		return nil, err
	}
	k.adopt(nil, generation, writes)
	return k.now.Load(), nil
}

// generation runs a script that answers with the generation of a shard and the number of its writes.
func (s *Store) generation(ctx context.Context, sc *script, of *shard, arg string) (string, int64, error) {
	list, err := s.run(ctx, sc, []string{of.own, of.server}, arg)
	if err != nil {
		return "", 0, err
	}
	if len(list) != 2 {
		return "", 0, fmt.Errorf("the answer about %s has %d parts", of.own, len(list))
	}
	generation, ok := list[0].(string)
	text, _ := list[1].(string)
	writes, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		return "", 0, fmt.Errorf("the answer about %s is %v", of.own, list)
	}
	return generation, writes, nil
}

// checkLayout makes sure that the documents are laid out as this store would look for them: elsewhere it would find
// none, and grant what is held.
func (s *Store) checkLayout(ctx context.Context) error {
	s.laying.Lock()
	defer s.laying.Unlock()
	if s.laid {
		return nil
	}
	want := strconv.Itoa(len(s.keys.shards))
	list, err := s.run(ctx, layoutScript, []string{s.keys.mark()}, want)
	if err != nil {
		return err
	}
	if len(list) != 1 {
		return fmt.Errorf("the answer to layout.lua has %d parts", len(list))
	}
	if found := fmt.Sprint(list[0]); found != want {
		return layoutError{found: found, want: want}
	}
	s.laid = true
	return nil
}

// layoutError says that documents are laid out in another number of shards than the store was opened with.
type layoutError struct{ found, want string }

func (e layoutError) Error() string {
	if e.found == "1" {
		return "its documents are in one shard, and Options.Shards is " + e.want +
			": set it to 1 (LEASEHOLD_REDIS_SHARDS), or begin under another prefix; " +
			"documents cannot be spread afterwards"
	}
	return "its documents are in " + e.found + " shards, and Options.Shards is " + e.want + ": set it to " + e.found +
		" (LEASEHOLD_REDIS_SHARDS), or begin " +
		"under another prefix; their number cannot be changed afterwards"
}
