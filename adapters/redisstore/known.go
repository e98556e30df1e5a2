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

// known is what the store knows of the documents of a shard, so that it notices when they are not there any more: the
// generation that it found when it opened them, and how many writes they have had at least. Each script compares both
// before anything else.
type known struct {
	mu         sync.Mutex
	generation atomic.Pointer[string] // nil until it was claimed

	writes atomic.Int64
}

var (
	errOther = errors.New(
		"these are not the documents that were opened: the server was emptied, or the address leads to another one; " +
			"name the right server, or restart Leasehold to begin with the one that is there: locks that are held now can be granted again, with higher tokens")
	errBack = errors.New(
		"the server has lost writes that it had acknowledged, by a restart, a failover or a backup that was restored: a token " +
			"could be given twice; stop Leasehold, run `leasehold store raise-tokens`, and start it again")
)

// lost is errBack once that was seen of any shard.
func (s *Store) lost() error {
	if s.back.Load() {
		return errBack
	}
	return nil
}

// learn looks at what begin.lua found out.
func (s *Store) learn(of *shard, outcome string, writes int64) error {
	switch outcome {
	case "other":
		return errOther
	case "back":
		s.back.Store(true)
		return errBack
	}
	for {
		if seen := of.known.writes.Load(); writes <= seen || of.known.writes.CompareAndSwap(seen, writes) {
			return nil
		}
	}
}

// unknown is the error of a call on documents that are not there any more.
func (s *Store) unknown(doing string, err error) error {
	return fmt.Errorf("%w: %w: redis: %s %s on %s: nothing was changed: %w", docstore.ErrUnavailable,
		docstore.ErrNotWritten, doing, s.keys.root, s.addr, err)
}

// claim returns the generation of the documents of a shard. It is asked for when the store is opened, or with the first
// call if the server did not write then. The error is that of a request, or a [layoutError].
func (s *Store) claim(ctx context.Context, of *shard) (string, error) {
	k := &of.known
	if g := k.generation.Load(); g != nil {
		return *g, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if g := k.generation.Load(); g != nil {
		return *g, nil
	}
	if err := s.checkLayout(ctx); err != nil {
		return "", err
	}
	list, err := s.run(ctx, claimScript, []string{of.own}, rand.Text())
	if err != nil {
		return "", err
	}
	if len(list) != 2 {
		return "", fmt.Errorf("the answer to claim.lua has %d parts", len(list))
	}
	generation, ok := list[0].(string)
	text, _ := list[1].(string)
	writes, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		return "", fmt.Errorf("the answer to claim.lua is %v", list)
	}
	k.writes.Store(writes)
	k.generation.Store(&generation)
	return generation, nil
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
