package httpapi

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/page"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

const (
	// maxEventWait is how long a request waits for events at most: less than the 30 s after which [Server], and most
	// proxies, end a request.
	maxEventWait = 20 * time.Second

	// pollEvents is how often the store is asked for events of a cluster while requests wait for some, however many they
	// are.
	pollEvents = time.Second

	// pollEventsAgain is when a request for events comes again if its response is not held.
	pollEventsAgain = 2 * time.Second

	eventBytes = 512 // about what an event takes
)

// place is how far a caller has read events: up to an event behind which no other can appear, and those after it that
// it was shown.
type place struct {
	after string
	shown string // fingerprint of the events after it that were shown; empty if none were
}

// placeOf reads what a response named as next.
func placeOf(after string) (place, error) {
	p, shown, more := strings.Cut(after, "~")
	if more && (len(shown) != 16 || strings.Trim(shown, "0123456789abcdef") != "") {
		return place{}, field.Errorf("after", "must be what the response before named as next, or a time")
	}
	return place{p, shown}, nil
}

func (p place) String() string {
	if p.shown == "" {
		return p.after
	}
	return p.after + "~" + p.shown
}

// news reports whether a page of the events after the place has some that were not shown, or lacks some.
func (p place) news(read placement.EventPage) bool { return fingerprint(read.Events) != p.shown }

// next is the place of who was shown the page.
func (place) next(read placement.EventPage) place {
	young := read.Events
	for len(young) > 0 && young[0].ID <= read.Next {
		young = young[1:]
	}
	return place{read.Next, fingerprint(young)}
}

// fingerprint is 16 hexadecimal digits that tell lists of events apart; empty for no events.
func fingerprint(events []placement.Event) string {
	if len(events) == 0 {
		return ""
	}
	h := fnv.New64a()
	for _, e := range events {
		_, _ = h.Write([]byte(e.ID)) // never fails
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// errNoNews is a page of events that the caller has seen.
var errNoNews = errors.New("no news")

func (a *api) listEvents(w http.ResponseWriter, r *http.Request, caller Caller) error {
	q, err := query(r, "after", "wait_seconds", "page_size")
	if err != nil {
		return err
	}
	from, err := placeOf(q["after"])
	if err != nil {
		return err
	}
	wait, err := number(q, "wait_seconds", 0, int64(maxEventWait/time.Second))
	if err != nil {
		return err
	}
	size, err := number(q, "page_size", 1, docstore.MaxLimit)
	if err != nil {
		return err
	}
	if size == 0 {
		size = docstore.DefaultLimit
	}
	c, last := clusterOf(r), from
	var bad []contracts.UnreadableEvent
	var again time.Duration // after which to ask again if nothing was new
	send := func() (full bool, err error) {
		err = sendList(a, w, r, "events", direct.Event, func(ctx context.Context) ([]placement.Event, any, page.Cost, error) {
			ctx, cancel := context.WithTimeout(ctx, a.timeout)
			defer cancel()
			p, err := a.placement.Events(ctx, c, from.after, int(size))
			if err != nil {
				return nil, nil, page.Cost{}, err
			}
			last, full = from.next(p), len(p.Events)+len(p.Damaged) >= int(size)
			a.passed(r, "events", p.Damaged)
			bad = unreadableEvents(p.Damaged)
			if !from.news(p) {
				return nil, nil, page.Cost{}, errNoNews
			}
			bytes := len(p.Events) * eventBytes
			return p.Events, nextPlace{bad, last.String(), 0}, page.Cost{Kept: bytes, Read: bytes}, nil
		})
		return full, err
	}
	if wait == 0 {
		_, err = send()
	} else {
		asked, begin := time.Duration(wait)*time.Second, time.Now()
		err = a.watches.wait(r.Context(), c, caller.Subject, from, a.longest(r.Context(), asked), send)
		if held := time.Since(begin); !heldEnough(held, asked) {
			again = max(pollEventsAgain-held, pollLeast)
		}
	}
	if errors.Is(err, errNoNews) {
		writePage(w, "events", nil, nextPlace{bad, last.String(), again.Milliseconds()}, direct.Event)
		return nil
	}
	return err
}

// nextPlace is what follows the events of a page.
type nextPlace struct {
	Unreadable []contracts.UnreadableEvent `json:"unreadable,omitempty"`
	Next       string                      `json:"next"`
	PollAfter  int64                       `json:"poll_after_ms,omitempty"`
}

// unreadableEvents are documents of a page as the contract has them.
func unreadableEvents(damaged []docstore.Damaged) (all []contracts.UnreadableEvent) {
	for _, d := range damaged {
		all = append(all, contracts.UnreadableEvent{EventID: d.Key.ID, Code: problemOf(d.Err).Code})
	}
	return all
}

// watches are what requests wait with for events: one watch for each cluster for which some do.
type watches struct {
	events  func(ctx context.Context, c placement.Cluster, after string, limit int) (placement.EventPage, error)
	timeout time.Duration   // of one request to the store
	stop    <-chan struct{} // when it is closed, no request waits any more; nil: never

	waiters waiters

	mu sync.Mutex
	of map[placement.Cluster]*watch
}

// watch asks the store for events of a cluster.
type watch struct {
	waiters int
	end     context.CancelFunc
	changed chan struct{} // closed when there may be something new, and then replaced
}

func newWatches(s *placement.Service, timeout time.Duration, stop <-chan struct{}) *watches {
	return &watches{events: s.Events, timeout: timeout, stop: stop, waiters: waiters{what: "events"},
		of: map[placement.Cluster]*watch{}}
}

// wait sends a page of events, once there is something new. It is errNoNews if the wait has ended and there was
// nothing. send reports errNoNews if there is nothing to send, and whether the page was full: what comes behind it is
// seen when its events get old.
//
// All who wait have something to read at once. Those for whom there is no room then try again.
func (s *watches) wait(ctx context.Context, c placement.Cluster, subject string, from place, most time.Duration,
	send func() (full bool, err error)) error {
	if most <= 0 {
		_, err := send()
		return err
	}
	if err := s.waiters.enter(c.Tenant, subject); err != nil {
		return err
	}
	defer s.waiters.leave(c.Tenant, subject)
	w := s.enter(c, from)
	defer s.leave(c, w)
	over := time.NewTimer(most)
	defer over.Stop()
	for {
		changed := s.signal(w) // before the page is read: what appears after that is signalled
		full, err := send()
		crowded := errors.Is(err, contracts.CodeOverloaded)
		if !crowded && !errors.Is(err, errNoNews) {
			return err
		}
		var again <-chan time.Time
		if full || crowded {
			again = time.After(pollEvents/2 + rand.N(pollEvents/2))
		}
		select {
		case <-changed:
		case <-again:
		case <-over.C:
			return errNoNews
		case <-s.stop:
			return errNoNews
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// enter adds a request that may wait. The first one of a cluster begins its watch, at its place.
func (s *watches) enter(c placement.Cluster, from place) *watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.of[c]
	if w == nil {
		ctx, cancel := context.WithCancel(context.Background())
		w = &watch{end: cancel, changed: make(chan struct{})}
		s.of[c] = w
		go s.follow(ctx, c, w, from)
	}
	w.waiters++
	return w
}

func (s *watches) leave(c placement.Cluster, w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.waiters--; w.waiters == 0 {
		w.end()
		delete(s.of, c)
	}
}

// signal is closed at the next change.
func (s *watches) signal(w *watch) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.changed
}

// follow asks for events from a place on, and tells those who wait when there are new ones. After an error it asks
// again: who waits gets the error of its own request at the end.
func (s *watches) follow(ctx context.Context, c placement.Cluster, w *watch, from place) {
	t := time.NewTicker(pollEvents)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		reading, cancel := context.WithTimeout(ctx, s.timeout)
		read, err := s.events(reading, c, from.after, docstore.MaxLimit)
		cancel()
		if err != nil {
			continue
		}
		if from.news(read) {
			s.mu.Lock()
			close(w.changed)
			w.changed = make(chan struct{})
			s.mu.Unlock()
		}
		from = from.next(read)
		// The watch is that of all who wait, and the first one may have named a time that is to come.
		if settled := direct.Time(read.At.Add(-placement.EventLag)); from.after > settled {
			from = place{after: settled}
		}
	}
}
