package httpapi

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/page"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

const (
	// maxEventWait is how long a request waits for events at most: less than the 30 s after which [Server], and most
	// proxies, end a request.
	maxEventWait = 20 * time.Second

	// pollEventsAgain is when a request for events comes again if its response is not held.
	pollEventsAgain = 2 * time.Second
	pollEventsLeast = 50 * time.Millisecond

	eventBytes = 512 // about what an event takes
)

// errNoNews is a page of events that the caller has seen.
var errNoNews = errors.New("no news")

func (a *api) listEvents(w http.ResponseWriter, r *http.Request, caller Caller) error {
	q, err := query(r, "after", "member", "wait_seconds", "page_size")
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
	c, ask := clusterOf(r), placement.EventQuery{After: q["after"], Member: q["member"], Limit: int(size)}
	if wait > 0 {
		ask.Recent = placement.LookEvery
	}
	var (
		last placement.EventPage
		send func(http.ResponseWriter)
	)
	look := func() (due time.Duration, err error) {
		send, err = readList(a, r, "events", direct.Event, func(ctx context.Context) ([]placement.Event, any, page.Cost,
			error) {
			ctx, cancel := context.WithTimeout(ctx, a.timeout)
			defer cancel()
			p, err := a.placement.Events(ctx, c, ask)
			if errors.Is(err, placement.ErrCursorExpired) {
				err = contracts.Errorf(contracts.CodeCursorExpired, "%v", err)
			}
			if err != nil {
				return nil, nil, page.Cost{}, err
			}
			last = p
			a.passed(r, "events", p.Damaged)
			if !p.News() {
				ask.After = p.Next // so that the latest look serves the next one, too
				return nil, nil, page.Cost{}, errNoNews
			}
			bytes := len(p.Events) * eventBytes
			return p.Events, nextPlace{unreadableEvents(p.Damaged), p.Next, 0}, page.Cost{Kept: bytes, Read: bytes}, nil
		})
		return last.Due(), err
	}
	var again time.Duration // after which to ask again if nothing was new
	if wait == 0 {
		_, err = look()
	} else {
		asked, begin := time.Duration(wait)*time.Second, time.Now()
		ctx, waits := a.credentials.begin(r.Context(), r, caller)
		defer waits.ended()
		err = a.watches.wait(ctx, noteOf(r).party, a.longest(ctx, asked), func() (due time.Duration, err error) {
			err = waits.step(ctx, func() (err error) { due, err = look(); return err })
			return due, err
		})
		if why := waits.rejected(); why != nil && err != nil {
			return why
		}
		if held := time.Since(begin); held < asked-asked/10 {
			again = max(pollEventsAgain-held, pollEventsLeast)
		}
	}
	switch {
	case errors.Is(err, errNoNews):
		writePage(w, "events", nil, nextPlace{unreadableEvents(last.Damaged), last.Next, again.Milliseconds()}, direct.Event)
		return nil
	case err != nil:
		return err
	}
	send(w) // who reads it slowly waits no longer for events
	return nil
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

// watches are what requests wait with for events. Each looks again when the latest look of the process at the events of
// its cluster is a second old: the first one then reads the store, and all others see what it has read.
type watches struct {
	stop <-chan struct{} // when it is closed, no request waits any more; nil: never

	waiters *bound
}

func newWatches(stop <-chan struct{}) *watches { return &watches{stop: stop} }

// wait looks until there is something new. It is errNoNews if the wait has ended and there was nothing. look reports
// errNoNews if there is nothing to send, and in how long to look again.
//
// All who wait have something to read at once. Those for whom there is no room then try again.
func (s *watches) wait(ctx context.Context, by party, most time.Duration,
	look func() (due time.Duration, err error)) error {
	if most <= 0 {
		_, err := look()
		return err
	}
	if err := s.waiters.try(by, 1); err != nil {
		return err
	}
	defer s.waiters.leave(by, 1)
	over := time.NewTimer(most)
	defer over.Stop()
	for {
		due, err := look()
		switch {
		case errors.Is(err, contracts.CodeOverloaded):
			due = placement.LookEvery/2 + rand.N(placement.LookEvery/2)
		case !errors.Is(err, errNoNews):
			return err
		}
		select {
		case <-time.After(due):
		case <-over.C:
			return errNoNews
		case <-s.stop:
			return errNoNews
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
