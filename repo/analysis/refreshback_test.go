package analysis_test

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestALateRefreshMovesNoExpiryBack: a write that was held back has the time at which it was sent. It does not shorten
// the lock that another refresh has moved meanwhile. One with a smaller ttl_seconds does, at the price of one request.
func TestALateRefreshMovesNoExpiryBack(t *testing.T) {
	b := begin(t)
	token := b.gets(acquire("ann", "r1", 300), analysis.OK, false).Grant.Token
	first := b.clock.Now()
	b.clock.Advance(20 * time.Second)
	b.gets(refresh("ann", token, 300), analysis.OK, false)
	writes := 0
	b.store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
		if writes++; writes == 1 {
			b.clock.Advance(-10 * time.Second) // the time of the first write
			defer b.clock.Advance(10 * time.Second)
		}
		return apply()
	}
	o := b.gets(refresh("ann", token, 300), analysis.OK, false)
	if want := first.Add(320 * time.Second); !o.Grant.ExpiresAt.Equal(want) || writes != 2 {
		t.Errorf("the lock ends %v after %d writes, want %v", o.Grant.ExpiresAt, writes, want)
	}
	b.store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
		writes++
		return apply()
	}
	for _, c := range []struct {
		after  time.Duration
		ttl    int64
		code   analysis.Code
		writes int
	}{{0, 300, analysis.OK, 1}, {0, 5, analysis.OK, 2}, {time.Second, 5, analysis.OK, 1}, {time.Second, 4, analysis.OK, 1},
		{4 * time.Second, 1, analysis.Expired, 1}} {
		writes = 0
		b.clock.Advance(c.after)
		o := b.gets(refresh("ann", token, c.ttl), c.code, false)
		want := b.clock.Now().Add(time.Duration(c.ttl) * time.Second)
		if writes != c.writes || c.code == analysis.OK && !o.Grant.ExpiresAt.Equal(want) {
			t.Errorf("%+v: the lock ends %v after %d writes, want %v", c, o.Grant.ExpiresAt, writes, want)
		}
	}
}
