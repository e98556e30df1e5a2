package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestListPassesDamage: locks that cannot be read, first, at the end of a page, one more than a page has, and ten times
// as many, are listed as such, whatever the state that is asked for, and keep no other from being listed.
func TestListPassesDamage(t *testing.T) {
	for _, phase := range []lock.Phase{lock.None, lock.Active} {
		for _, n := range []int{1, 9, 11, 101} {
			t.Run(fmt.Sprint(n, phase), func(t *testing.T) {
				store := docstore.NewMemory(nil)
				locks := lock.New(store, nil)
				for i := range n {
					k := docstore.Key{Kind: lock.Kind, Tenant: "acme", ID: fmt.Sprintf("m%03d", i)}
					if _, err := store.Write(t.Context(),
						docstore.Write{Key: k, Set: docstore.Doc{"token": docstore.String("x")}}); err != nil {
						t.Fatal(err)
					}
				}
				for _, key := range []string{"a", "m005x", "z"} {
					o, err := locks.Acquire(t.Context(), lock.Acquire{ID: lock.ID{Tenant: "acme", Key: key}, Owner: "ann",
						RequestID: "r", TTLSeconds: 60})
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

// nameless is a store whose pages have something that no key could name.
type nameless struct{ docstore.Store }

func (s nameless) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	p, err := s.Store.List(ctx, q)
	p.Damaged = append(p.Damaged, docstore.Damaged{Key: docstore.Key{Kind: q.Kind, Tenant: q.Tenant},
		Err: docstore.ErrDamaged})
	return p, err
}

// TestListPassesStrangeNames: what has no name at all, and a name that no lock has, at the end of a page and first on
// it. Each page begins behind the one before, and all locks are on one.
func TestListPassesStrangeNames(t *testing.T) {
	store := docstore.NewMemory(nil)
	locks := lock.New(store, nil)
	for _, key := range []string{"a", "b", "z"} {
		o, err := locks.Acquire(t.Context(), lock.Acquire{ID: lock.ID{Tenant: "acme", Key: key}, Owner: "ann",
			RequestID: "r", TTLSeconds: 60})
		if err != nil || o.Code != lock.OK {
			t.Fatal(o, err)
		}
	}
	for i := range 3 {
		k := docstore.Key{Kind: lock.Kind, Tenant: "acme", ID: fmt.Sprint("c", i, strings.Repeat("x", docstore.MaxIDBytes-2))}
		if _, err := store.Write(t.Context(),
			docstore.Write{Key: k, Set: docstore.Doc{"token": docstore.String("x")}}); err != nil {
			t.Fatal(err)
		}
	}
	for size := 1; size < 7; size++ {
		found, damaged := 0, 0
		for q, n := (lock.List{Tenant: "acme", PageSize: size}), 0; ; n++ {
			p, err := lock.New(nameless{store}, nil).List(t.Context(), q)
			if err != nil || n > 7 {
				t.Fatal(size, n, err)
			}
			found += len(p.Locks)
			for _, d := range p.Damaged {
				if d.Key.ID != "" {
					damaged++
				}
			}
			if q.PageToken = p.Next; p.Next == "" {
				if len(p.Damaged) == 0 {
					t.Error("what has no name is not reported")
				}
				break
			}
		}
		if found != 3 || damaged != 3 {
			t.Errorf("%d on a page: %d locks, and %d damaged ones", size, found, damaged)
		}
	}
}
