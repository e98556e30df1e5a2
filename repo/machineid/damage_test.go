package machineid_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// elsewhere is a store that has something else than documents in some places.
type elsewhere struct {
	docstore.Store

	ids []string
}

func (s *elsewhere) meets(id string) error {
	if slices.Contains(s.ids, id) {
		return fmt.Errorf("%w: %s is no document", docstore.ErrDamaged, id)
	}
	return nil
}

func (s *elsewhere) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	for _, k := range keys {
		if err := s.meets(k.ID); err != nil {
			return docstore.Snapshot{}, err
		}
	}
	return s.Store.Get(ctx, keys...)
}

func (s *elsewhere) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	for _, w := range writes {
		if err := s.meets(w.Key.ID); err != nil {
			return docstore.Result{}, err
		}
	}
	return s.Store.Write(ctx, writes...)
}

// spoil writes a field of a page, as no version of the program does.
func spoil(t *testing.T, store docstore.Store, id string) {
	t.Helper()
	k := docstore.Key{Kind: machineid.Kind, Tenant: machineid.DefaultSpace, ID: id}
	if _, err := store.Write(t.Context(),
		docstore.Write{Key: k, Set: docstore.Doc{"not_before": docstore.String("x")}}); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedPages: two of four pages have fields that no page has, or are no documents, in a process that knew the
// space and in one that did not. All that the others have is leased, released and counted; nothing is leased from the
// damaged ones, until they were deleted, and then a day later.
func TestDamagedPages(t *testing.T) {
	c := machineid.DefaultService()
	c.BitTs, c.BitID = 45, 10 // four pages
	for _, form := range []string{"fields", "no documents"} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprint(form, known), func(t *testing.T) {
				var log bytes.Buffer
				clock := suite.NewClock()
				memory := docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})
				store := &elsewhere{Store: memory}
				serve := func() *machineid.Service {
					s, err := machineid.New(store, []machineid.ServiceConfig{c},
						&machineid.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
				s := serve()
				all := func() (leases []kazahana.Lease) {
					t.Helper()
					for _, n := range []int64{128, 1} {
						for {
							r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ThroughputPerMs: n * 256})
							if errors.Is(err, kazahana.ErrExhausted) {
								break
							}
							if err != nil {
								t.Fatal(err)
							}
							leases = append(leases, r.Leases...)
						}
					}
					return leases
				}
				before := all()
				if len(before) != 512 {
					t.Fatal(len(before))
				}
				damaged := func(l kazahana.Lease) bool { return l.ID/128%2 == 1 }
				if form == "fields" {
					spoil(t, memory, "page-001")
					spoil(t, memory, "page-003")
				} else {
					store.ids = []string{"page-001", "page-003"}
				}
				if !known {
					s = serve()
				}
				for _, l := range []kazahana.Lease{before[0], before[200], before[300], before[511]} {
					if err := release(s, l, clock.Now().UnixMilli()); errors.Is(err, docstore.ErrDamaged) != damaged(l) ||
						!damaged(l) && err != nil {
						t.Errorf("release of %d: %v", l.ID, err)
					}
				}
				forced, err := s.ForceRelease(t.Context(), machineid.ForceRelease{Reason: "test"})
				if passed, failed := docstore.Failure(err); failed != nil || passed.Count != 2 || forced.Leases < 250 {
					t.Errorf("%+v, %v", forced, err)
				}
				clock.Advance(11 * time.Minute)
				for range 2 {
					o, _, err := s.Occupancy(t.Context(), machineid.DefaultSpace)
					if err != nil || o.Leased != 256 || o.Free != 256 || o.Unreadable.Count != 2 || !o.NextFree.IsZero() {
						t.Errorf("%+v, %v", o, err)
					}
					m, _, err := s.Map(t.Context(), machineid.DefaultSpace)
					if err != nil || strings.Trim(m.Pages[0]+m.Pages[2], "0") != "" ||
						strings.Trim(m.Pages[1]+m.Pages[3], "9") != "" || m.Unreadable.Count != 2 {
						t.Errorf("%+v, %v", m, err)
					}
					next := all()
					if len(next) != 256 || slices.ContainsFunc(next, damaged) {
						t.Errorf("%d leases: %+v", len(next), next)
					}
					clock.Advance(48 * time.Hour) // however long it is
				}
				if !strings.Contains(log.String(), "pages of machine IDs cannot be read") ||
					!strings.Contains(log.String(), "page-003") {
					t.Error("the log says nothing")
				}
				store.ids = nil
				remove(t, memory, "page-001")
				want := 256
				if form != "fields" {
					want += 128 // page-003 is a document again, whose leases have ended
				}
				if got := all(); len(got) != want {
					t.Errorf("%d leases, want %d", len(got), want)
				}
				clock.Advance(24*time.Hour + time.Minute)
				if got := all(); len(got) < 384 || !slices.ContainsFunc(got, func(l kazahana.Lease) bool { return l.ID/128 == 1 }) {
					t.Errorf("a day after the page was deleted: %d leases", len(got))
				}
			})
		}
	}
}

// TestAllPagesDamaged: a space without a page that can be read says so, and not that it is exhausted.
func TestAllPagesDamaged(t *testing.T) {
	c := machineid.DefaultService()
	c.BitTs, c.BitID = 47, 8 // one page
	memory := docstore.NewMemory(nil)
	store := &elsewhere{Store: memory}
	s := serve(t, store, c)
	if _, err := s.Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil {
		t.Fatal(err)
	}
	spoil(t, memory, "page-000")
	for _, ids := range [][]string{nil, {"page-000"}} {
		store.ids = ids
		if _, err := s.Acquire(t.Context(), kazahana.AcquireOptions{}); !errors.Is(err, docstore.ErrDamaged) ||
			errors.Is(err, kazahana.ErrExhausted) {
			t.Errorf("%v: %v", ids, err)
		}
		if _, _, err := s.Occupancy(t.Context(), machineid.DefaultSpace); !errors.Is(err, docstore.ErrDamaged) {
			t.Errorf("%v: %v", ids, err)
		}
	}
}

// TestPageDamagedMeanwhile: the page that was read is damaged when it is written; the lease comes from another one.
func TestPageDamagedMeanwhile(t *testing.T) {
	c := machineid.DefaultService()
	c.BitTs, c.BitID = 46, 9 // two pages
	for _, form := range []string{"fields", "no documents"} {
		for range 10 { // which page is read first is drawn
			memory := docstore.NewMemory(nil)
			other := &elsewhere{Store: memory}
			store := &interrupted{Store: other}
			s := serve(t, store, c)
			if _, err := s.Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil {
				t.Fatal(err)
			}
			store.before = func() {
				if form == "fields" {
					k := docstore.Key{Kind: machineid.Kind, Tenant: machineid.DefaultSpace, ID: "page-000"}
					if _, err := memory.Write(t.Context(),
						docstore.Write{Key: k, Set: docstore.Doc{"rev": docstore.String("x")}}); err != nil {
						t.Fatal(err)
					}
				} else {
					other.ids = []string{"page-000"}
				}
			}
			if r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil || r.Leases[0].ID < 128 {
				t.Errorf("%s: %+v, %v", form, r, err)
			}
		}
	}
}
