package bearer_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/internal/bearer"
)

// TestFunctionThatNeverReturns: it is called once, however often a token is asked for; each request waits for as long as
// it may, and its error says that it was not sent.
func TestFunctionThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		returns := make(chan struct{})
		calls := atomic.Int32{}
		s := bearer.New(func(context.Context) (string, error) {
			calls.Add(1)
			<-returns
			return "late", nil
		})
		for i := range 20 {
			begin, bound := time.Now(), time.Duration(i+1)*time.Second
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			err := s.Send(ctx, func(string) (bool, error) { t.Error("it is sent"); return false, nil })
			cancel()
			if e, ok := errors.AsType[*bearer.Error](err); !ok || !e.Ended || time.Since(begin) != bound {
				t.Errorf("after %v: %v", time.Since(begin), err)
			}
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls", n)
		}
		close(returns)
		got := ""
		if err := s.Send(t.Context(), func(token string) (bool, error) { got = token; return false, nil }); err != nil ||
			got != "late" {
			t.Errorf("when it returns: %q, %v", got, err)
		}
	})
}

// TestRequestsShareACall: those that come while the function is at work have what it returns, and those that come later
// a call of their own. Its context ends by itself, and has nothing of a request.
func TestRequestsShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		calls := atomic.Int32{}
		s := bearer.New(func(ctx context.Context) (string, error) {
			if end, bounded := ctx.Deadline(); ctx.Value(key{}) != nil || !bounded || time.Until(end) != time.Minute {
				t.Errorf("its context has %v and %v", ctx.Value(key{}), end)
			}
			time.Sleep(time.Second)
			return string('a' + calls.Add(1) - 1), nil
		})
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "of a request"), time.Minute)
		defer cancel()
		for _, want := range []string{"a", "b"} {
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					if err := s.Send(ctx, func(got string) (bool, error) {
						if got != want {
							t.Errorf("%q, want %q", got, want)
						}
						return false, nil
					}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
	})
}

// TestRejectedWhileItIsAtWork: who was rejected does not take the token of a call that began without knowing that.
func TestRejectedWhileItIsAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := false
		s := bearer.New(func(ctx context.Context) (string, error) {
			if bearer.Rejected(ctx) {
				return "new", nil
			}
			if slow {
				time.Sleep(time.Second)
			}
			return "old", nil
		})
		var sent []string
		err := s.Send(t.Context(), func(token string) (bool, error) {
			if sent = append(sent, token); token == "old" {
				slow = true
				go func() { _ = s.Send(t.Context(), func(string) (bool, error) { return false, nil }) }()
				synctest.Wait()
			}
			return token == "old", nil
		})
		if err != nil || len(sent) != 2 || sent[1] != "new" {
			t.Errorf("sent with %q: %v", sent, err)
		}
	})
}

// TestTokenThatCannotBeHad: the error is the function's, at once.
func TestTokenThatCannotBeHad(t *testing.T) {
	why := errors.New("no")
	err := bearer.New(func(context.Context) (string, error) { return "", why }).Send(t.Context(),
		func(string) (bool, error) { t.Error("it is sent"); return false, nil })
	if e, ok := errors.AsType[*bearer.Error](err); !ok || e.Ended || !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}
