package cluster_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// members are those of the current epoch, with their status.
func (w *world) members() string {
	w.t.Helper()
	t, err := direct.Cluster(w.service, chat).Members(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var all []string
	for _, m := range t.Members {
		all = append(all, m.Member+" "+string(m.Status))
	}
	return strings.Join(all, ", ")
}

// late is a provider whose first join is held back, and may be delivered twice, when its caller does not wait any more.
// It has the end that a client gives it.
type late struct {
	*faulty

	hold   time.Duration
	copies int
	once   sync.Once
	out    sync.WaitGroup
}

func (l *late) later(do func() (contracts.MemberState, error)) (got contracts.MemberState, err error) {
	first := false
	l.once.Do(func() { first = true })
	if !first {
		return do()
	}
	for range l.copies {
		l.out.Go(func() {
			time.Sleep(l.hold)
			_, _ = do()
		})
	}
	return got, errNetwork
}

func end(asked contracts.NotAfter) contracts.NotAfter {
	if asked == "" {
		return time.Now().Add(17 * time.Second).Format(contracts.TimeFormat)
	}
	return asked
}

func (l *late) Join(ctx context.Context, m string, r contracts.MemberJoinRequest) (contracts.MemberState, error) {
	r.NotAfter = end(r.NotAfter)
	return l.later(func() (contracts.MemberState, error) {
		return l.faulty.Join(context.WithoutCancel(ctx), m, r)
	})
}

func (l *late) Replace(ctx context.Context, m string, r contracts.MemberReplaceRequest) (contracts.MemberState,
	error) {
	r.NotAfter = end(r.NotAfter)
	return l.later(func() (contracts.MemberState, error) {
		return l.faulty.Replace(context.WithoutCancel(ctx), m, r)
	})
}

// TestJoinThatIsGivenUp (PLC-LIFE-2): when the caller of Start gives up while the join is under way, no member stays,
// however late the join arrives, and how often. One that comes after its end has no effect, so that a late replace
// drains no one.
func TestJoinThatIsGivenUp(t *testing.T) {
	for _, request := range []string{"join", "replace"} {
		for _, hold := range []time.Duration{0, 100 * time.Millisecond, time.Second, 3 * time.Second, 9 * time.Second,
			16900 * time.Millisecond, 17 * time.Second, 17001 * time.Millisecond, 30 * time.Second, 120 * time.Second} {
			t.Run(request+" after "+hold.String(), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					old := w.start("ann", nil)
					o := cluster.Options{Kinds: []string{"room"}, Partitions: 16, TTL: time.Minute}
					if request == "replace" {
						o.Replaces = contracts.Incarnation{Member: "ann", Incarnation: old.Incarnation()}
					}
					p := &late{faulty: w.provider(), hold: hold, copies: 2}
					h := &host{w: w, name: "bob", contexts: map[cluster.Identity]context.Context{}}
					member, err := cluster.NewMember(p, "bob", h, o.WithClock(w.now))
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
					defer cancel()
					if err := member.Start(ctx); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("start: %v", err)
					}
					time.Sleep(hold + time.Second)
					want := "ann ACTIVE"
					if request == "replace" && hold <= 17*time.Second {
						want = "ann DRAINING"
					}
					if got := w.members(); got != want {
						t.Errorf("members %q, want %q", got, want)
					}
					p.out.Wait()
					w.stop(old)
				})
			})
		}
	}
}

// TestStopWhileItJoinsAgain: a member that lost its lease, and stops while the join that follows has no response,
// leaves what that join has made before Stop returns.
func TestStopWhileItJoinsAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		i := placement.Incarnation{Member: "ann", Number: m.Incarnation()}
		if _, err := w.service.Leave(t.Context(), chat, i); err != nil {
			t.Fatal(err)
		}
		m.p.set(func(request string) (error, bool) {
			if request == "join" && m.p.count("join") == 2 {
				return errNetwork, true
			}
			time.Sleep(time.Millisecond)
			return nil, false
		})
		for m.p.count("join") < 2 {
			time.Sleep(10 * time.Millisecond)
		}
		if got := w.members(); got != "ann ACTIVE" {
			t.Errorf("members %q", got)
		}
		w.stop(m)
		if got := w.members(); got != "" {
			t.Errorf("members %q", got)
		}
	})
}
