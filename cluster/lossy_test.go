package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// lossy is the way to a server: what is sent in some times is carried out, and has no response.
type lossy struct {
	server http.Handler

	mu    sync.Mutex
	until time.Time
}

func (l *lossy) lose(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Now().Add(d)
}

// RoundTrip implements [http.RoundTripper].
func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(time.Millisecond)
	l.mu.Lock()
	lost := time.Now().Before(l.until)
	l.mu.Unlock()
	w := httptest.NewRecorder()
	in := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), r.Body)
	in.Header = r.Header
	l.server.ServeHTTP(w, in)
	if lost {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return w.Result(), nil
}

// TestResponsesThatAreLost: for a time no response of the server arrives at a member. If that is 0.3 s, no caller waits
// for an identity for longer than 3 s; if it is 9 s, none that comes after it. The member keeps its lease (PLC-PLACE-1).
func TestResponsesThatAreLost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		way := &lossy{server: httpapi.New(w.store, httpapi.Development{}, &httpapi.Options{Now: w.now})}
		c, err := client.New("http://localhost", &client.Options{HTTP: &http.Client{Transport: way}})
		if err != nil {
			t.Fatal(err)
		}
		p := c.Placements(chat.Tenant, chat.Name)
		j := &journal{}
		h := &host{w: w, name: "ann", contexts: map[cluster.Identity]context.Context{}}
		m, err := cluster.NewMember(p, "ann", h, (&cluster.Options{
			TTL: 30 * time.Second, Kinds: []string{"room"}, Partitions: 16, Address: "ann.example", Observe: j.add}).WithClock(w.now))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := cluster.NewLocator(p, nil)
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		front, err := cluster.NewHandler(m, l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
			cluster.HandlerOptions{
				Secret: make([]byte, 32), Identity: func(r *http.Request) (cluster.Identity, bool) { return room(r.URL.Path[1:]), true },
			})
		if err != nil {
			t.Fatal(err)
		}
		var done sync.WaitGroup
		var slowest time.Duration
		var mu sync.Mutex
		visit := func(id string, short bool) {
			done.Go(func() {
				begin, got := time.Now(), httptest.NewRecorder()
				front.ServeHTTP(got, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+id, http.NoBody))
				took := time.Since(begin)
				mu.Lock()
				if short {
					slowest = max(slowest, took)
				}
				mu.Unlock()
				if short && took > 3*time.Second || got.Code != http.StatusOK {
					t.Errorf("%s: %d after %v", id, got.Code, took)
				}
			})
		}
		for i, loss := range []time.Duration{300 * time.Millisecond, 300 * time.Millisecond, 9 * time.Second} {
			for offset := range 10 {
				round, begin := fmt.Sprint(i, "-", offset, "-"), time.Now()
				way.lose(loss)
				for time.Since(begin) < loss+3*time.Second { // those of one identity, and one that comes alone
					short := loss < time.Second || time.Since(begin) >= loss
					visit(round, short)
					visit(fmt.Sprint(round, time.Since(begin)), short)
					time.Sleep(130 * time.Millisecond)
				}
				done.Wait()
				time.Sleep(3*time.Second + time.Duration(offset)*330*time.Millisecond)
			}
		}
		t.Logf("the slowest took %v", slowest)
		j.went(t, cluster.Starting, cluster.Ready)
		l.Stop()
		if err := m.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
