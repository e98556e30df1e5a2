package once

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/owner"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// Bounds: the gate's own, and that of the heartbeat.
const (
	MaxTTL         = 24 * time.Hour
	MinHeartbeat   = 10 * time.Millisecond
	MaxResultBytes = 256 << 10 // of a result; what is larger belongs elsewhere, and its address here

	maxEvery       = 3660 * 24 * time.Hour
	maxIDBytes     = 256
	maxPrintBytes  = 128
	maxReasonBytes = 1024 // of a failure's reason; a longer one is cut
)

// Options are the settings of [Run]. The zero value works.
type Options struct {
	Owner     string        // who runs it; empty means host name and process ID
	RequestID string        // of this attempt, another for every call of Run; empty makes one up
	TTL       time.Duration // of the lock: whole seconds, 1 s to MaxTTL; 0 means 5 minutes
	// between refreshes, MinHeartbeat or more and less than TTL; 0 means a fifth of TTL, 60 s of 5 minutes
	Heartbeat time.Duration
	// an attempt that fails when so many have failed, with it, turns the run FAILED; 0: never by count
	MaxFailures int64

	// MaxTakeovers is how often the run may be taken over from a worker that crashed or lost its lock; then it is FAILED
	// instead. With 0 it is begun once and never again after a crash: at most once, which may be never to the end. nil is
	// as the gate says: 5, unless its operator chose another number.
	MaxTakeovers *int64

	// Schedule makes the run one of a job that comes round again, such as each night: it says for which time a run is due.
	// The run's ID is the job's. Each due time has one run, whatever the number of processes that ask for it and the state
	// of their clocks; the gate's clock decides. While the run of an earlier time is at work, Run waits for it, until the
	// next one is due. If this process's clock is ahead by at most 10 minutes, Run waits until the run is due by the
	// gate's clock; otherwise it asks for the run that is due by that clock. See package once/calendar.
	Schedule Schedule

	// Every, without Schedule, makes it a job that comes round again when so much time has passed since its last run that
	// ended began: whole seconds, up to ten years.
	Every time.Duration

	// Wait is how long Run waits for another worker that has the run: until that has finished, and its result is in the
	// outcome, or until the lock is free, and the run is this worker's. Then, or with 0 at once, the status is Locked.
	// While it waits it asks the gate again after 100 ms, 200 ms and so on, once a second at last.
	Wait time.Duration

	// RetryFor is for how long the request for the run is sent again while the gate does not respond, beside Wait; 0 means
	// 5 s.
	RetryFor time.Duration

	// SettleTime is by how much Run outlasts its context at most for what it has to send: the end of the run, the release
	// of its lock, that its request is given up. Nothing goes on in the background then: Run waits for the end of the run
	// to be stored as long as its context lasts, and what is not settled by then is left to the lock's end. So it is
	// where the process is frozen when Run has returned, and where someone is told that the run can be tried again, who
	// must not find it locked by this one and leave it at that. 0 means 1 s, and what takes longer goes on in the
	// background.
	SettleTime time.Duration

	// Fingerprint says what the run is about, for callers that name runs themselves: a hash of 128 bytes at most. The
	// first attempt of a run stores it; after that, another one is an error with the code RUN_DIFFERS, and nothing runs.
	// Empty compares nothing.
	Fingerprint string

	// OnRefresh is called after each refresh with the lock's new expiry on this process's clock: a queue's own timeout can
	// be moved along. The next refresh waits for it, so its context ends well before it would be late.
	OnRefresh func(ctx context.Context, end time.Time)

	// OnStoring is called when the end of the work could not be stored within a second, or half a Heartbeat if that is
	// less, and then once a Heartbeat until the gate has it: a queue's own timeout can be moved along, so that no one else
	// is given the message. nil calls nothing.
	OnStoring func(ctx context.Context)

	// Warn receives what does not fail the run: a failed release, a refresh that is retried. nil drops it. It may be
	// called from another goroutine than Run's; after Run has returned only by what goes on in the background and fails.
	Warn func(err error)

	clock  term.Clock // nil means the process's clocks
	madeUp bool       // RequestID
}

// Schedule says for which times runs of a job are due.
type Schedule interface {
	// Around returns the latest time at or before now for which a run is due, and the first one after now, both in whole
	// milliseconds.
	Around(now time.Time) (due, next time.Time)
}

// settings are Options with their defaults.
func (o *Options) settings() (Options, error) {
	s := Options{}
	if o != nil {
		s = *o
	}
	if s.TTL == 0 {
		s.TTL = 5 * time.Minute
	}
	if s.Heartbeat == 0 { // 60 s of 300
		s.Heartbeat = s.TTL / 5
	}
	if s.Owner == "" {
		s.Owner = owner.Process(strconv.Itoa(os.Getpid()))
	}
	if s.RequestID == "" {
		s.RequestID, s.madeUp = rand.Text(), true
	}
	s.RetryFor = cmp.Or(s.RetryFor, hold.CallTime)
	if s.Warn == nil {
		s.Warn = func(error) {}
	}
	if s.OnRefresh == nil {
		s.OnRefresh = func(context.Context, time.Time) {}
	}
	if s.clock == nil {
		s.clock = term.Now
	}
	switch {
	case s.TTL < time.Second || s.TTL > MaxTTL || s.TTL%time.Second != 0:
		return s, fmt.Errorf("Options.TTL is %v: must be whole seconds from 1s to %v", s.TTL, MaxTTL)
	case s.Heartbeat < MinHeartbeat:
		return s, fmt.Errorf("Options.Heartbeat is %v: must be %v at least", s.Heartbeat, MinHeartbeat)
	case s.Heartbeat >= s.TTL:
		return s, fmt.Errorf(
			"Options.Heartbeat is %v and Options.TTL %v: the lock would expire before each refresh; a fifth of TTL "+
				"leaves time for refreshes that fail", s.Heartbeat, s.TTL)
	case s.Wait < 0:
		return s, fmt.Errorf("Options.Wait is %v: must not be negative; 0 does not wait", s.Wait)
	case s.RetryFor < 0:
		return s, fmt.Errorf("Options.RetryFor is %v: must not be negative; 0 is 5s", s.RetryFor)
	case s.SettleTime < 0:
		return s, fmt.Errorf("Options.SettleTime is %v: must not be negative; 0 is 1s", s.SettleTime)
	case s.MaxTakeovers != nil && *s.MaxTakeovers < 0:
		return s, fmt.Errorf("Options.MaxTakeovers is %d: must not be negative; 0 never takes over", *s.MaxTakeovers)
	case s.Every < 0 || s.Every > maxEvery || s.Every%time.Second != 0:
		return s, fmt.Errorf("Options.Every is %v: must be whole seconds up to %v", s.Every, maxEvery)
	case s.Every != 0 && s.Schedule != nil:
		return s, errors.New("Options.Every and Options.Schedule: set one of them")
	case s.MaxFailures < 0:
		return s, fmt.Errorf("Options.MaxFailures is %d: must not be negative; 0 never fails by count", s.MaxFailures)
	}
	if s.Fingerprint != "" {
		if err := owner.CheckText("Options.Fingerprint", s.Fingerprint, maxPrintBytes); err != nil {
			return s, err
		}
	}
	return s, errors.Join(owner.CheckText("Options.Owner", s.Owner, 256),
		owner.CheckText("Options.RequestID", s.RequestID, 128))
}

// checkID reports whether a document can have the ID.
func checkID(id string) error {
	if strings.Contains(id, "/") || id == "." || id == ".." {
		return fmt.Errorf("the run ID cannot be %q: it is the name of one document, without \"/\"", id)
	}
	return owner.CheckText("the run ID", id, maxIDBytes)
}
