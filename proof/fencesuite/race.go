package fencesuite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/fence"
)

// race lets writers with different tokens write in transactions at once. Each transaction that passed notes its token
// and, under the same row lock, its place in the order; the notes of each resource must be in the order of the tokens,
// and the last of them is what is stored.
func (s *subject) race(ctx context.Context, seed uint64) error {
	if err := s.clear(ctx); err != nil {
		return err
	}
	f := s.fences(nil)
	const writers, writes = 6, 12
	var place, passed, rejected atomic.Int64
	var wait sync.WaitGroup
	errs := make(chan error, writers)
	for writer := range writers {
		random := rand.New(rand.NewPCG(seed, uint64(writer)))
		wait.Go(func() {
			for range writes {
				token := 1 + random.Int64N(1000)
				switch err := s.write(ctx, f, token, random.IntN(3), random.IntN(4) == 0, &place); {
				case err == nil:
					passed.Add(1)
				case errors.Is(err, contracts.CodeStaleToken):
					rejected.Add(1)
				case errors.Is(err, errRolledBack):
				default:
					errs <- err
					return
				}
			}
		})
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		return err
	}
	if passed.Load() == 0 || rejected.Load() == 0 {
		return fmt.Errorf("%d passed, %d were rejected: nothing is shown", passed.Load(), rejected.Load())
	}
	return s.inOrder(ctx)
}

// inOrder compares what is stored with the notes.
func (s *subject) inOrder(ctx context.Context) error {
	highest := map[string]int64{}
	notes, err := s.db.QueryContext(ctx, "SELECT resource, token FROM journal ORDER BY n")
	if err != nil {
		return err
	}
	defer notes.Close()
	for notes.Next() {
		var resource string
		var token int64
		if err := notes.Scan(&resource, &token); err != nil {
			return err
		}
		if token < highest[resource] {
			return fmt.Errorf("%s: token %d wrote after %d", resource, token, highest[resource])
		}
		highest[resource] = token
	}
	if err := notes.Err(); err != nil {
		return err
	}
	var value string
	var token, checked int64
	err = errors.Join(
		s.db.QueryRowContext(ctx, "SELECT value, fence FROM orders WHERE id = 2").Scan(&value, &token),
		s.db.QueryRowContext(ctx, "SELECT token FROM fences WHERE resource = 'orders'").Scan(&checked),
	)
	if err != nil || value != fmt.Sprint("by ", token) || token != highest["row"] || checked != highest["fence"] {
		return fmt.Errorf("stored: %q, row %d, fence %d, %w; the notes end with %v", value, token, checked, err, highest)
	}
	return nil
}

// racesNotice reports whether one of some races fails.
func (s *subject) racesNotice(ctx context.Context) bool {
	for seed := range uint64(20) {
		if s.race(ctx, seed) != nil {
			return true
		}
	}
	return false
}

var errRolledBack = errors.New("rolled back")

// write is one transaction: a fence, a row, or both, and a note of each.
func (s *subject) write(ctx context.Context, f *fence.SQL, token int64, parts int, rollBack bool,
	place *atomic.Int64) (err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	lease := fence.Lease{Subject: "lock/orders", Token: token}
	note := func(resource string) error {
		_, err := tx.ExecContext(ctx, s.bind("INSERT INTO journal (n, resource, token) VALUES (?, ?, ?)"),
			place.Add(1), resource, token)
		return err
	}
	if parts != 1 {
		if err := f.Check(ctx, s.wrap(tx), "orders", lease); err != nil {
			return err
		}
		if err := note("fence"); err != nil {
			return err
		}
	}
	if parts != 0 {
		if err := f.Update(ctx, s.wrap(tx), s.row(2), lease, s.set(), fmt.Sprint("by ", token)); err != nil {
			return err
		}
		if err := note("row"); err != nil {
			return err
		}
	}
	if rollBack {
		return errRolledBack
	}
	return tx.Commit()
}
