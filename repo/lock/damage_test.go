package lock_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestListPassesDamage: locks that cannot be read, first, at the end of a page, one more than a page has, and ten times as many, are listed as
// such, whatever the state that is asked for, and keep no other from being listed.
func TestListPassesDamage(t *testing.T) {
	for _, phase := range []lock.Phase{lock.None, lock.Active} {
		for _, n := range []int{1, 9, 11, 101} {
			t.Run(fmt.Sprint(n, phase), func(t *testing.T) {
				store := docstore.NewMemory(nil)
				locks := lock.New(store, nil)
				for i := range n {
					k := docstore.Key{Kind: lock.Kind, Tenant: "acme", ID: fmt.Sprintf("m%03d", i)}
					if _, err := store.Write(t.Context(), docstore.Write{Key: k, Set: docstore.Doc{"token": docstore.String("x")}}); err != nil {
						t.Fatal(err)
					}
				}
				for _, key := range []string{"a", "m005x", "z"} {
					o, err := locks.Acquire(t.Context(), lock.Acquire{ID: lock.ID{Tenant: "acme", Key: key}, Owner: "ann", RequestID: "r", TTLSeconds: 60})
					if err != nil || o.Code != lock.OK {
						t.Fatal(o, err)
					}
				}
				found, damaged := 0, 0
				for q := (lock.List{Tenant: "acme", Phase: phase, PageSize: 10}); ; {
					p, err := locks.List(t.Context(), q)
					if err != nil || len(p.Locks)+len(p.Damaged) > 10 {
						t.Fatal(len(p.Locks), len(p.Damaged), err)
					}
					found, damaged = found+len(p.Locks), damaged+len(p.Damaged)
					for _, d := range p.Damaged {
						if !errors.Is(d.Err, docstore.ErrDamaged) {
							t.Error(d)
						}
					}
					if q.PageToken = p.Next; p.Next == "" {
						break
					}
				}
				if found != 3 || damaged != n {
					t.Errorf("%d locks, and %d damaged ones", found, damaged)
				}
			})
		}
	}
}
