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

// known is what the store knows of the documents, so that it notices when they are not there any more: the generation that
// it found when it opened them, and how many writes they have had at least. Each script compares both before anything else.
type known struct {
	mu         sync.Mutex
	generation atomic.Pointer[string] // nil until it was claimed

	writes atomic.Int64
	back   atomic.Bool // acknowledged writes are lost: it stays so, because their number may grow past what is known
}

var (
	errOther = errors.New("these are not the documents that were opened: the server was emptied, or the address leads to another one; " +
		"name the right server, or restart Leasehold to begin with the one that is there: locks that are held now can be granted again, with higher tokens")
	errBack = errors.New("the server has lost writes that it had acknowledged, by a restart, a failover or a backup that was restored: a token " +
		"could be given twice; stop Leasehold, run `leasehold store raise-tokens`, and start it again")
)

// lost is errBack once that was seen.
func (k *known) lost() error {
	if k.back.Load() {
		return errBack
	}
	return nil
}

// learn looks at what begin.lua found out.
func (k *known) learn(outcome any, writes int64) error {
	switch outcome {
	case "other":
		return errOther
	case "back":
		k.back.Store(true)
		return errBack
	}
	for {
		if seen := k.writes.Load(); writes <= seen || k.writes.CompareAndSwap(seen, writes) {
			return nil
		}
	}
}

// unknown is the error of a call on documents that are not there any more.
func (s *Store) unknown(doing string, err error) error {
	return fmt.Errorf("%w: %w: redis: %s %s on %s: nothing was changed: %w", docstore.ErrUnavailable, docstore.ErrNotWritten, doing, s.keys.root, s.addr, err)
}

// claim returns the generation of the documents. It is asked for when the store is opened, or with the first call if the server
// did not write then.
func (s *Store) claim(ctx context.Context) (string, error) {
	if g := s.known.generation.Load(); g != nil {
		return *g, nil
	}
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	if g := s.known.generation.Load(); g != nil {
		return *g, nil
	}
	list, err := s.run(ctx, claimScript, true, []string{s.keys.own()}, rand.Text())
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
	s.known.writes.Store(writes)
	s.known.generation.Store(&generation)
	return generation, nil
}
