package projectlock

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/fence"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// provider is the locks of a tenant, with faults.
type provider struct {
	locks.Provider

	mu sync.Mutex
	// before each call. lost: it is carried out, and its response is err
	fault    func(ctx context.Context, call string) (lost bool, err error)
	requests []string // request IDs of acquires
	known    []string // what renewals knew of the expiry
}

func (p *provider) on(fault func(ctx context.Context, call string) (bool, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

func (p *provider) ask(ctx context.Context, call string) (bool, error) {
	p.mu.Lock()
	fault := p.fault
	p.mu.Unlock()
	if fault == nil {
		return false, nil
	}
	return fault(ctx, call)
}

func (p *provider) Acquire(ctx context.Context, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	p.mu.Lock()
	p.requests = append(p.requests, r.RequestID)
	p.mu.Unlock()
	lost, err := p.ask(ctx, "acquire")
	if err != nil && !lost {
		return contracts.Lease{}, err
	}
	l, other := p.Provider.Acquire(context.WithoutCancel(ctx), key, r)
	if err != nil {
		return contracts.Lease{}, err
	}
	return l, other
}

func (p *provider) Renew(ctx context.Context, key string, r contracts.RenewRequest) (contracts.Lease, error) {
	p.mu.Lock()
	p.known = append(p.known, r.ExpiresAt)
	p.mu.Unlock()
	lost, err := p.ask(ctx, "renew")
	if err != nil && !lost {
		return contracts.Lease{}, err
	}
	l, other := p.Provider.Renew(context.WithoutCancel(ctx), key, r)
	if err != nil {
		return contracts.Lease{}, err
	}
	return l, other
}

func (p *provider) Release(ctx context.Context, key string, r contracts.ReleaseRequest) (contracts.EndedLease, error) {
	lost, err := p.ask(ctx, "release")
	if err != nil && !lost {
		return contracts.EndedLease{}, err
	}
	l, other := p.Provider.Release(context.WithoutCancel(ctx), key, r)
	if err != nil {
		return contracts.EndedLease{}, err
	}
	return l, other
}

// handler is a server without a network.
type handler struct{ http.Handler }

func (h handler) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

// withService is a world whose lock is in a service.
type withService struct {
	*world

	provider *provider
}

// inService runs a test in a bubble, on a store.
func inService(t *testing.T, test func(*testing.T, *withService)) {
	t.Helper()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, folder)
		s := &withService{w, &provider{Provider: direct.Locks(lock.New(docstore.NewMemory(nil), nil), "acme")}}
		w.Project = s.project()
		w.Subscribe(w.note)
		test(t, s)
		time.Sleep(2 * TTL) // what is given up in the background ends by itself
		if files, err := os.ReadDir(folder); err != nil || len(files) != 0 {
			t.Errorf("files in the folder: %v, %v", files, err)
		}
	})
}

// project is another process.
func (s *withService) project() *Project {
	s.t.Helper()
	p, err := New(s.folder, &Options{Service: s.provider, clock: s.clock.read})
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

var errNetwork = errors.New("no network")

// TestService: the service keeps one lock for each scope, under the requirement's names, and its leases have tokens
// (PRJ-NAME, PRJ-TEST-1, PRJ-LEASE).
func TestService(t *testing.T) {
	folder := t.TempDir()
	for name, open := range map[string]func(docstore.Store) locks.Provider{
		"store": func(s docstore.Store) locks.Provider { return direct.Locks(lock.New(s, nil), "acme") },
		"HTTP": func(s docstore.Store) locks.Provider {
			c, err := client.New("http://127.0.0.1",
				&client.Options{HTTP: &http.Client{Transport: handler{httpapi.New(s, httpapi.Development{}, nil)}}})
			if err != nil {
				t.Fatal(err)
			}
			return c.LockAPI().For("acme")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := open(docstore.NewMemory(nil))
				w := newWorld(t, folder)
				var err error
				if w.Project, err = New("", &Options{Service: p, Owner: "me"}); err != nil {
					t.Fatal(err)
				}
				w.Subscribe(w.note)
				a, h := w.acquire(nil), w.acquire(&AcquireOptions{Scope: History})
				for key, l := range map[string]Lease{"imgponic:project:autosave": a, "imgponic:project:history": h} {
					stored, err := p.Get(t.Context(), key)
					token, tokenErr := l.Token()
					if err != nil || tokenErr != nil || stored.State != contracts.StateActive || stored.OwnerID != "me" ||
						token <= 0 ||
						l.Backend() != Service || l.Reach() != ReachService {
						t.Errorf("%+v, %v, %d, %v, %v", stored, err, token, tokenErr, l.Reach())
					}
				}
				time.Sleep(RenewAfter)
				renewed, err := w.Renew(t.Context(), a)
				if err != nil || !renewed.TTLExpiresAt().Equal(w.start.Add(RenewAfter+TTL)) {
					t.Errorf("%v, %v", renewed.TTLExpiresAt(), err)
				}
				if err := errors.Join(w.Release(t.Context(), renewed), w.Release(t.Context(), h)); err != nil {
					t.Error(err)
				}
				if want := []EventType{Acquired, Acquired, Renewed, Released, Released}; !slices.Equal(w.types(), want) {
					t.Errorf("events: %v", w.types())
				}
				other, err := New("", &Options{Service: p, Name: "project:4711"})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := other.Acquire(t.Context(), nil); err != nil {
					t.Error(err)
				}
				if l, err := p.Get(t.Context(), "project:4711:autosave"); err != nil || l.State != contracts.StateActive {
					t.Errorf("%+v, %v", l, err)
				}
			})
		})
	}
}

// TestServiceContention: a lock that another holds is tried again as the file is, and the cause says who holds it
// (PRJ-TEST-2, PRJ-ACQ-1).
func TestServiceContention(t *testing.T) {
	inService(t, func(t *testing.T, s *withService) {
		if _, err := s.project().Acquire(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		_, err := s.Acquire(t.Context(), nil)
		wantError(t, err, CodeLockUnavailable, false)
		got := s.seen()
		if len(got) != 5 || got[3].Reason != Contended || time.Since(s.start) != 7500*time.Millisecond ||
			!errors.Is(err, contracts.CodeLockHeld) {
			t.Errorf("after %v: %v %+v", time.Since(s.start), err, got)
		}
	})
}

// TestNoFallback: a service that cannot be reached grants nothing, and no file appears; while a file is there the
// service does not look at it (PRJ-FILE).
func TestNoFallback(t *testing.T) {
	inService(t, func(t *testing.T, s *withService) {
		s.provider.on(func(context.Context, string) (bool, error) { return false, errNetwork })
		_, err := s.Acquire(t.Context(), nil)
		wantError(t, err, CodeLockUnavailable, false)
		if got := s.seen(); len(got) != 5 || got[0].Reason != Unavailable || !errors.Is(err, errNetwork) {
			t.Errorf("%v %+v", err, got)
		}
	})
}

// TestServiceThatHangs: each try takes 10 s at most. One that is carried out late is the same lease as the next, which
// is the same request; and one that no one waits for any more is released (PRJ-ACQ-2).
func TestServiceThatHangs(t *testing.T) {
	inService(t, func(t *testing.T, s *withService) {
		n := 0
		s.provider.on(func(ctx context.Context, _ string) (bool, error) {
			if n++; n == 1 {
				<-ctx.Done()
				return true, ctx.Err() // the response is lost
			}
			return false, nil
		})
		l := s.acquire(nil)
		if got := s.types(); !slices.Equal(got, []EventType{RetryScheduled, Acquired}) ||
			time.Since(s.start) != TryTimeout+500*time.Millisecond ||
			s.provider.requests[0] != s.provider.requests[1] {
			t.Errorf("after %v: %v, %q", time.Since(s.start), got, s.provider.requests)
		}
		if left := l.Remaining(); left <= 0 || left > TTL {
			t.Errorf("%v left", left)
		}
	})
	inService(t, func(t *testing.T, s *withService) {
		s.provider.on(func(ctx context.Context, _ string) (bool, error) {
			s.provider.on(nil)
			<-ctx.Done()
			return true, ctx.Err()
		})
		_, err := s.Acquire(after(t, time.Second), nil)
		wantError(t, err, CodeLockTimeout, true)
		synctest.Wait()
		if l, err := s.provider.Get(t.Context(), "imgponic:project:autosave"); l.State == contracts.StateActive {
			t.Errorf("%+v, %v", l, err)
		}
	})
}

// TestServiceRejects: what the service rejects for good is not tried again (PRJ-ERROR).
func TestServiceRejects(t *testing.T) {
	inService(t, func(t *testing.T, s *withService) {
		s.provider.on(func(context.Context, string) (bool, error) {
			return false, contracts.Errorf(contracts.CodePermissionDenied, "not yours")
		})
		_, err := s.Acquire(t.Context(), nil)
		wantError(t, err, CodeLockUnavailable, false)
		if got := s.types(); !slices.Equal(got, []EventType{Failed}) || !errors.Is(err, contracts.CodePermissionDenied) {
			t.Errorf("%v %v", err, got)
		}
	})
	for code, want := range map[contracts.Code]Reason{
		contracts.CodeUnavailable: Unavailable, contracts.CodeInternal: TransientError,
		contracts.CodeRateLimited: TransientError,
		contracts.CodeClockSkew:   TransientError,
	} {
		inService(t, func(t *testing.T, s *withService) {
			s.provider.on(func(context.Context, string) (bool, error) {
				s.provider.on(nil)
				return false, contracts.Errorf(code, "for a while")
			})
			s.acquire(nil)
			if got := s.seen(); len(got) != 2 || got[0].Reason != want {
				t.Errorf("%s: %+v", code, got)
			}
		})
	}
}

// TestServiceRenewals: a renewal whose response is lost takes effect once, one of a lease that is another's is a loss,
// and one that is rejected for good is not retryable (PRJ-RNW-2).
func TestServiceRenewals(t *testing.T) {
	inService(t, func(t *testing.T, s *withService) {
		l := s.acquire(nil)
		time.Sleep(RenewAfter)
		s.provider.on(func(context.Context, string) (bool, error) {
			s.provider.on(nil)
			return true, errNetwork
		})
		got, err := s.Renew(t.Context(), l)
		if err != nil || !slices.Equal(s.types(), []EventType{Acquired, RetryScheduled, Renewed}) {
			t.Fatalf("%v, %v", err, s.types())
		}
		// The lease lasts from the first delivery, and the holder must not believe more.
		if left := got.Remaining(); left > TTL-500*time.Millisecond || left < TTL-time.Second {
			t.Errorf("%v left", left)
		}
		time.Sleep(RenewAfter)
		if _, err := s.Renew(t.Context(), got); err != nil {
			t.Error(err)
		}
	})
	inService(t, func(t *testing.T, s *withService) {
		l := s.acquire(nil)
		s.provider.on(func(context.Context, string) (bool, error) {
			return false, contracts.Errorf(contracts.CodeLeaseLost, "another has it")
		})
		_, err := s.Renew(t.Context(), l)
		wantError(t, err, CodeLockRenewalFailed, true)
		if !errors.Is(err, ErrLost) || !errors.Is(err, contracts.CodeLeaseLost) || l.Remaining() != 0 {
			t.Error(err)
		}
		err = s.Release(t.Context(), l)
		wantError(t, err, CodeLockReleaseFailed, true)
		if got := s.types(); !errors.Is(err, ErrLost) || !slices.Equal(got, []EventType{Acquired, CleanupWarning}) {
			t.Errorf("%v, %v", err, got)
		}
	})
	inService(t, func(t *testing.T, s *withService) {
		l := s.acquire(nil)
		s.provider.on(func(context.Context, string) (bool, error) {
			return false, contracts.Errorf(contracts.CodePermissionDenied, "not any more")
		})
		_, err := s.Renew(t.Context(), l)
		wantError(t, err, CodeLockRenewalFailed, false)
	})
}

// TestGivenUpRenewal: a renewal that was given up may have moved the expiry; the next one learns that, and is carried
// out.
func TestGivenUpRenewal(t *testing.T) {
	inService(t, func(t *testing.T, s *withService) {
		l := s.acquire(nil)
		time.Sleep(RenewAfter)
		s.provider.on(func(context.Context, string) (bool, error) {
			s.provider.on(nil)
			return true, errNetwork
		})
		_, err := s.Renew(after(t, time.Millisecond), l)
		wantError(t, err, CodeLockRenewalFailed, true)
		if _, err := s.Renew(t.Context(), l); err != nil {
			t.Error(err)
		}
		if known := s.provider.known; len(known) != 3 || known[0] == "" || known[1] != known[0] || known[2] == known[1] {
			t.Errorf("%q", known)
		}
	})
}

// TestServiceThatIgnoresItsContext: a try that is carried out when no one waits for it any more neither ends the lease
// of a later try, which is the same request, nor leaves one behind (PRJ-ACQ-2).
func TestServiceThatIgnoresItsContext(t *testing.T) {
	for name, c := range map[string]struct {
		lost     bool // the request is carried out at once, and the response comes late; or the request comes late
		attempts int
		want     contracts.State // empty: it was never held
	}{
		"late request, later try": {false, 2, contracts.StateActive}, "late response, later try": {
			true, 2, contracts.StateActive},
		"late request, given up":  {false, 1, ""},
		"late response, given up": {true, 1, contracts.StateReleased},
	} {
		t.Run(name, func(t *testing.T) {
			inService(t, func(t *testing.T, s *withService) {
				s.provider.Provider = &late{Provider: s.provider.Provider, response: c.lost}
				_, err := s.Acquire(t.Context(), &AcquireOptions{Retry: RetryPolicy{MaxAttempts: c.attempts}})
				if (err == nil) != (c.want == contracts.StateActive) {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				if l, err := s.provider.Get(t.Context(), "imgponic:project:autosave"); l.State != c.want {
					t.Errorf("%+v, %v", l, err)
				}
			})
		})
	}
}

// late delays the first acquire for 15 s, whatever becomes of its context.
type late struct {
	locks.Provider

	response bool
	mu       sync.Mutex
	calls    int
}

func (l *late) Acquire(ctx context.Context, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	l.mu.Lock()
	l.calls++
	first := l.calls == 1
	l.mu.Unlock()
	if first && !l.response {
		time.Sleep(15 * time.Second)
	}
	got, err := l.Provider.Acquire(ctx, key, r)
	if first && l.response {
		time.Sleep(15 * time.Second)
	}
	return got, err
}

// TestServiceRelease: a release that fails is tried again before the next acquire (PRJ-REL-1).
func TestServiceRelease(t *testing.T) {
	inService(t, func(t *testing.T, s *withService) {
		l := s.acquire(nil)
		s.provider.on(func(context.Context, string) (bool, error) { return false, errNetwork })
		err := s.Release(t.Context(), l)
		wantError(t, err, CodeLockReleaseFailed, true)
		s.provider.on(nil)
		s.acquire(nil)
		if got := s.types(); !slices.Equal(got, []EventType{Acquired, CleanupWarning, Acquired}) {
			t.Errorf("events: %v", got)
		}
	})
}

// TestServiceThatIsWrong: a response that is about another lease is an error (PRJ-ERROR).
func TestServiceThatIsWrong(t *testing.T) {
	for name, change := range map[string]func(*contracts.Lease){
		"another key":   func(l *contracts.Lease) { l.LockKey = "other" },
		"another owner": func(l *contracts.Lease) { l.OwnerID = "other" },
		"no token":      func(l *contracts.Lease) { l.FencingToken = 0 },
		"no time":       func(l *contracts.Lease) { l.RemainingMs = 0 },
		"released":      func(l *contracts.Lease) { l.State = contracts.StateReleased },
	} {
		t.Run(name, func(t *testing.T) {
			inService(t, func(t *testing.T, s *withService) {
				s.provider.Provider = wrong{s.provider.Provider, change}
				_, err := s.Acquire(t.Context(), &AcquireOptions{Retry: RetryPolicy{MaxAttempts: 2}})
				wantError(t, err, CodeLockUnavailable, false)
				synctest.Wait()
			})
		})
	}
}

// wrong is a service with one mistake in its responses.
type wrong struct {
	locks.Provider

	change func(*contracts.Lease)
}

func (w wrong) Acquire(ctx context.Context, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	l, err := w.Provider.Acquire(ctx, key, r)
	w.change(&l)
	return l, err
}

// TestServiceAndWith: the work of With has its lock renewed in the service, too (PRJ-WITH).
func TestServiceAndWith(t *testing.T) {
	inService(t, func(t *testing.T, s *withService) {
		err := s.With(t.Context(), nil, func(ctx context.Context, _ Lease) error {
			time.Sleep(95 * time.Second)
			return Check(ctx)
		})
		if want := []EventType{Acquired, Renewed, Renewed, Renewed, Renewed, Released}; err != nil ||
			!slices.Equal(s.types(), want) {
			t.Errorf("%v, events: %v", err, s.types())
		}
	})
}

// TestLateGrant: an attempt that finds the lease of an earlier try, of which little is left, renews early; and one
// whose lease has ended takes a new one.
func TestLateGrant(t *testing.T) {
	inService(t, func(t *testing.T, s *withService) {
		s.provider.on(func(context.Context, string) (bool, error) {
			s.provider.on(nil)
			time.Sleep(9 * time.Second)
			return true, errNetwork
		})
		// The first try is carried out at 9 s; the second one, 0.5 s later, finds its lease with 29.5 s left.
		err := s.With(t.Context(), nil, func(ctx context.Context, _ Lease) error {
			time.Sleep(25 * time.Second)
			return Check(ctx)
		})
		if want := []EventType{RetryScheduled, Acquired, Renewed, Released}; err != nil || !slices.Equal(s.types(), want) {
			t.Errorf("%v, events: %v", err, s.types())
		}
	})
	inService(t, func(t *testing.T, s *withService) {
		s.provider.on(func(context.Context, string) (bool, error) {
			s.provider.on(nil)
			return true, errNetwork
		})
		l, err := s.Acquire(t.Context(), &AcquireOptions{
			Retry: RetryPolicy{InitialDelay: time.Minute, MaxDelay: time.Minute}})
		if err != nil || l.Remaining() != TTL-time.Millisecond {
			t.Errorf("%v, %v", l.Remaining(), err)
		}
	})
}

// TestFences: guards compare the token of a lease of the service, and refuse a lease of the file unless they are told
// that none is needed (PRJ-LEASE).
func TestFences(t *testing.T) {
	inService(t, func(t *testing.T, s *withService) {
		file := newWorld(t, t.TempDir())
		guard := fence.NewMemory(nil)
		check := func(ctx context.Context, l Lease) error {
			token, _ := l.Token()
			carried, ok := fence.From(ctx)
			if carried.Token != token || !ok {
				t.Errorf("the context carries %v, the lease %d", carried, token)
			}
			return guard.Check(ctx, "story", carried)
		}
		if err := s.With(t.Context(), nil, check); err != nil {
			t.Error(err)
		}
		if err := file.With(fence.With(t.Context(), fence.Lease{Subject: "lock/story", Token: 7}), nil, check); !errors.Is(err, fence.ErrNoToken) {
			t.Error(err)
		}
	})
}
