package locks_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/leasehold-dev/leasehold/fence"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestTokensOfASet: each of several locks has a token of its own, and the context carries none: what one lock protects
// would be written with the token of another.
func TestTokensOfASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := locks.New(direct.Locks(lock.New(docstore.NewMemory(nil), nil), "acme"), nil)
		if err != nil {
			t.Fatal(err)
		}
		one, err := c.Lock(t.Context(), "b", nil)
		if err != nil {
			t.Fatal(err)
		}
		if lease, ok := fence.From(one.Context()); !ok || lease != one.Lease() || lease.Token != one.Token() ||
			lease.Subject != "lock/"+one.Key() {
			t.Errorf("of one lock: %v %v, want %v", lease, ok, one.Lease())
		}
		if err := one.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, keys := range [][]string{{"b", "a"}, {"b"}} {
			s, err := c.LockAll(t.Context(), keys, nil)
			if err != nil {
				t.Fatal(err)
			}
			if token, ok := fence.From(s.Context()); ok {
				t.Errorf("%v: the context carries the token of %v", keys, token)
			}
			if !slices.Equal(s.Keys(), slices.Sorted(slices.Values(keys))) || s.Token("b") <= one.Token() || s.Token("c") != 0 ||
				s.Lease("b") != (fence.Lease{Subject: "lock/b", Token: s.Token("b")}) {
				t.Errorf("%v: token %d of b after %d, %d of c", s.Keys(), s.Token("b"), one.Token(), s.Token("c"))
			}
			if err := s.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
