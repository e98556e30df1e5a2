package machineid_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// TestEnds (IDS-PROTOCOL): a request leases at its end, and nothing a millisecond later, nor when the end is further
// away than it may be, for one machine ID and for more than a page has.
func TestEnds(t *testing.T) {
	small := machineid.DefaultService()
	small.BitTs, small.BitID = 45, 10 // four pages of 128
	for _, want := range []int64{1, 200} {
		for _, try := range []struct {
			end    time.Duration // from when the request comes
			stop   time.Duration // before each write
			margin time.Duration // of the store's time
			code   string
		}{
			{-10 * time.Hour, 0, 0, "too late"}, {-time.Millisecond, 0, 0, "too late"}, {0, 0, 0, ""},
			{time.Millisecond, 0, 0, ""}, {999 * time.Microsecond, 0, 0, ""},
			{999 * time.Microsecond, time.Millisecond, 0, "too late"},
			{docstore.MaxAhead, 0, 0, ""}, {docstore.MaxAhead + time.Millisecond, 0, 0, "too far"},
			{10 * docstore.MaxAhead, 0, 0, "too far"}, {9 * time.Second, 9 * time.Second, 0, ""},
			{9 * time.Second, 9*time.Second + time.Millisecond, 0, "too late"},
			{9 * time.Second, 120 * time.Second, 0, "too late"},
			{time.Second, 0, time.Second, ""}, {time.Second, 0, time.Second + time.Millisecond, "too late"},
			{time.Second, 0, 10 * time.Second, "too late"},
		} {
			t.Run(fmt.Sprintf("%d leases %v before the end, stopped for %v, margin %v", want, try.end, try.stop, try.margin),
				func(t *testing.T) {
					clock := suite.NewClock()
					memory := docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})
					if _, err := serve(t, memory, small).Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil { // sets it up
						t.Fatal(err)
					}
					store := &suite.Watched{Store: suite.Unsure{Store: memory, Now: clock.Now, Margin: try.margin}}
					store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
						clock.Advance(try.stop)
						return apply()
					}
					s, end := serve(t, store, small), clock.Now().Add(try.end)
					r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ThroughputPerMs: want * 256, NotAfter: end})
					if try.code == "" {
						if err != nil || len(r.Leases) != int(want) {
							t.Errorf("%d leases, %v", len(r.Leases), err)
						}
						return
					}
					ended, ok := errors.AsType[*machineid.EndError](err)
					if !ok || (ended.Code == rule.TooFar) != (try.code == "too far") || ended.At.Before(clock.Now()) ||
						ended.At.After(end) != (ended.Code == rule.TooLate) {
						t.Errorf("%+v, %v", ended, err)
					}
					if o, _, err := s.Occupancy(t.Context(), machineid.DefaultSpace); err != nil || o.Leased != 1 {
						t.Errorf("%+v, %v", o, err)
					}
					if n := len(store.Requests()); n > 5 {
						t.Errorf("%d requests", n)
					}
				})
		}
	}
}

// TestEndOfAWriteThatCameTwice: a write that was applied in time, and sent again after its end because its response was
// lost, is the grant.
func TestEndOfAWriteThatCameTwice(t *testing.T) {
	clock := suite.NewClock()
	store := &suite.Watched{Store: docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})}
	s := serve(t, store)
	if _, err := s.Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil {
		t.Fatal(err)
	}
	store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
		if _, err := apply(); err != nil {
			return docstore.Result{}, err
		}
		clock.Advance(3 * time.Second)
		return apply()
	}
	r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{NotAfter: clock.Now().Add(2 * time.Second)})
	if err != nil || len(r.Leases) != 1 {
		t.Errorf("%v, %v", r, err)
	}
}

// TestEndInJSON: the end is sent if there is one.
func TestEndInJSON(t *testing.T) {
	for want, o := range map[string]kazahana.AcquireOptions{
		`{}`:                                     {},
		`{"notAfter":"2026-01-01T00:00:00.25Z"}`: {NotAfter: suite.Epoch.Add(250 * time.Millisecond)},
	} {
		if got, err := json.Marshal(o); err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}
