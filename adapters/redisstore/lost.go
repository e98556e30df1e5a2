package redisstore

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var _ docstore.Stopper = (*Store)(nil)

// lostMark begins the generation of documents that lost writes which the server had acknowledged. Every script compares
// the generation with the one that its caller knows, so that the mark stops all processes, and costs nothing.
const lostMark = "lost:"

// insistEvery is how often a store that knows of lost writes looks whether all shards are marked, and whether tokens
// were raised.
const insistEvery = time.Second

// raisedIn is how often tokens were raised in the documents of a generation, see stop.lua.
func raisedIn(generation string) int64 {
	_, number, _ := strings.Cut(generation, ".")
	n, _ := strconv.ParseInt(number, 10, 64) // none is 0
	return n
}

// nameOf is what is the same in all generations of a shard's documents.
func nameOf(generation string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(generation, lostMark), ".")
	return name
}

// stopped is what a store knows of writes that were lost.
type stopped struct {
	mu     sync.Mutex
	since  chan struct{} // nil while nothing is lost; closed once all shards were asked to carry the mark
	every  time.Duration // insistEvery, but in tests
	raised int64         // how often tokens had been raised where writes were lost: the mark goes when they are again
}

// lost is errBack while it is known that writes were lost.
func (s *Store) lost() error {
	s.stopped.mu.Lock()
	defer s.stopped.mu.Unlock()
	if s.stopped.since != nil {
		return errBack
	}
	return nil
}

// stop lets all calls fail, and those of all other processes, until tokens are raised. The script that found that
// writes were lost has marked its shard; this marks the others. It returns when each of them was asked once. say is
// whether [Options].Warn is told.
func (s *Store) stop(ctx context.Context, raised int64, say bool) {
	s.stopped.mu.Lock()
	s.stopped.raised = max(s.stopped.raised, raised)
	asked := s.stopped.since
	if asked == nil && s.calls.Begin(s.life) == nil {
		asked = make(chan struct{})
		s.stopped.since = asked
		go s.insist(asked, say)
	}
	s.stopped.mu.Unlock()
	if asked == nil {
		return // it is being closed
	}
	select {
	case <-asked:
	case <-ctx.Done():
	}
}

// insist marks all shards until tokens are raised: one whose server cannot be written to gets its mark when it can, and
// one that a further failover took the mark from gets it again.
func (s *Store) insist(asked chan struct{}, say bool) {
	defer s.calls.End()
	if say && s.warn != nil {
		s.warn(s.sentence("%v", errBack))
	}
	for first := true; ; first = false {
		s.stopped.mu.Lock()
		raised, every := s.stopped.raised, s.stopped.every
		s.stopped.mu.Unlock()
		found := s.mark(raised)
		if first {
			close(asked)
		}
		if s.resumed(raised, found) {
			return
		}
		select {
		case <-time.After(every):
		case <-s.life.Done():
			return
		}
	}
}

// mark marks all shards, beside each other: one may be on a server that does not answer. It returns the documents whose
// tokens were raised since.
func (s *Store) mark(raised int64) []*opened {
	ctx, cancel := context.WithTimeout(s.life, lookWithin)
	defer cancel()
	found := make([]*opened, len(s.keys.shards))
	var all sync.WaitGroup
	for i, of := range s.keys.shards {
		all.Go(func() {
			generation, writes, err := s.generation(ctx, markScript, of, strconv.FormatInt(raised, 10))
			known := of.known.now.Load()
			if err == nil && raisedIn(generation) > raised &&
				(known == nil || nameOf(known.generation) == nameOf(generation)) {
				found[i] = &opened{generation: generation}
				found[i].writes.Store(writes)
			}
		})
	}
	all.Wait()
	return found
}

// resumed goes on if the tokens of all shards were raised since writes were lost.
func (s *Store) resumed(raised int64, found []*opened) bool {
	s.stopped.mu.Lock()
	defer s.stopped.mu.Unlock()
	if raised != s.stopped.raised {
		return false // more were lost meanwhile
	}
	for _, o := range found {
		if o == nil {
			return false
		}
	}
	for i, of := range s.keys.shards {
		of.known.now.Store(found[i])
	}
	s.stopped.since = nil
	return true
}

// TokensRaised implements [docstore.Stopper]. It is one request for each shard. It fails if the documents were marked,
// or lost writes, since this store opened them: what was raised may be lost then.
func (s *Store) TokensRaised(ctx context.Context, token int64) error {
	if err := s.calls.Begin(ctx); err != nil {
		return err
	}
	defer s.calls.End()
	const doing = "end the raising of tokens in"
	raised := int64(0)
	for _, of := range s.keys.shards {
		known, err := s.claim(ctx, of)
		if err != nil {
			return s.explain(ctx, doing, err)
		}
		raised = max(raised, raisedIn(known.generation)+1)
	}
	for _, of := range s.keys.shards {
		args := appendInt(appendInt(appendList(nil, 2), raised), token)
		if _, err := s.do(ctx, doing, raisedScript, nil, of, nil, args); err != nil {
			return err
		}
	}
	return nil
}
