package cluster_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
)

// reserved shows events as a server does: what it has shown by a place it does not show again, until the page differs.
type reserved struct{ cluster.Provider }

func (r reserved) Events(ctx context.Context, q cluster.EventQuery) (contracts.EventPage, error) {
	wait := q.Wait
	base, shown, _ := strings.Cut(q.After, "~")
	q.After, q.Wait = base, 0
	for ; ; wait -= time.Second {
		page, err := r.Provider.Events(ctx, q)
		if err != nil {
			return page, err
		}
		have := ""
		if n := len(page.Events); n > 0 {
			have = fmt.Sprint(n, page.Events[0].EventID, page.Events[n-1].EventID)
		}
		page.Next += "~" + have
		if shown != have {
			return page, nil
		}
		if page.Events = nil; wait <= 0 {
			return page, nil
		}
		select {
		case <-ctx.Done():
			return page, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// TestMoreEventsThanAPage: a claim is found at once also behind more young events than a page has.
func TestMoreEventsThanAPage(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h := &host{w: w, name: "ann", contexts: map[cluster.Identity]context.Context{}}
		m, err := cluster.NewMember(reserved{direct.Cluster(w.service, chat)}, "ann", h, &cluster.Options{Kinds: []string{"room"}, Partitions: 16})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 1100 {
			if _, err := m.Serve(t.Context(), room(strconv.Itoa(i))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond) // each event in a millisecond of its own
		}
		time.Sleep(2 * time.Second) // they were all shown
		l, _ := w.locator(nil)
		began := time.Now()
		if _, err := l.Activate(t.Context(), room("a")); err != nil || time.Since(began) > 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		l.Stop()
		if err := m.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
