package docstoretest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// crowd is the number of goroutines that compete.
const crowd = 50

// together runs do in a crowd that starts at once, and collects the errors.
func together(do func(i int) error) error {
	var (
		f     findings
		mu    sync.Mutex
		wg    sync.WaitGroup
		start = make(chan struct{})
	)
	for i := range crowd {
		wg.Go(func() {
			<-start
			if err := do(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				f.addf("goroutine %d: %w", i, err)
			}
		})
	}
	close(start)
	wg.Wait()
	return f.err()
}

// checkOneWinner lets a crowd take one key, several times. A store that reads, decides and writes in separate steps has
// several winners here, and so does one whose transaction does not lock what was absent (the classic phantom). Losing
// is an outcome: a store that returns an error to a loser under contention fails as well.
func checkOneWinner(ctx context.Context, s docstore.Store) error {
	for round := range 5 {
		k := key(fmt.Sprintf("round %d", round))
		var f findings
		var mu sync.Mutex
		var winners []int
		seen := map[docstore.Value]bool{}
		err := together(func(i int) error {
			owner := docstore.Int(i)
			r, err := s.Write(ctx, docstore.Write{Key: k, If: docstore.Absent{}, Set: docstore.Doc{"owner": owner},
				Add: map[string]int64{"token": 1}})
			if err != nil {
				return err
			}
			if len(r.Docs) != 1 || r.Docs[0] == nil {
				return fmt.Errorf("Docs is %#v", r.Docs)
			}
			mu.Lock()
			defer mu.Unlock()
			if r.Applied {
				winners = append(winners, i)
			}
			seen[r.Docs[0]["owner"]] = true
			return nil
		})
		if err != nil {
			return err
		}
		if len(winners) != 1 {
			f.addf("round %d: the winners are %v, want exactly one", round, winners)
			return f.err()
		}
		winner := docstore.Int(winners[0])
		if len(seen) != 1 || !seen[winner] {
			f.addf("round %d: %v won, and the results show the owners %v", round, winner, seen)
		}
		f.expect(ctx, s, k, docstore.Doc{"owner": winner, "token": docstore.Int(1)})
		if err := f.err(); err != nil {
			return err
		}
	}
	return nil
}

// checkNoLostIncrement lets a crowd count on several keys. Every result must show another number: that is what makes a
// counter a fencing token.
func checkNoLostIncrement(ctx context.Context, s docstore.Store) error {
	const keys, rounds = 7, 8
	var f findings
	var mu sync.Mutex
	var seen [keys]map[docstore.Value]bool
	for i := range seen {
		seen[i] = map[docstore.Value]bool{}
	}
	name := func(n int) docstore.Key { return key(fmt.Sprintf("counter %d", n)) }
	err := together(func(i int) error {
		for round := range rounds {
			n := (i + round) % keys
			r, err := s.Write(ctx, docstore.Write{Key: name(n), Add: map[string]int64{"n": 1}})
			if err != nil {
				return err
			}
			if !r.Applied || len(r.Docs) != 1 {
				return fmt.Errorf("applied %v, Docs %#v", r.Applied, r.Docs)
			}
			mu.Lock()
			if v := r.Docs[0]["n"]; seen[n][v] {
				f.addf("counter %d: two results show %v", n, v)
			} else {
				seen[n][v] = true
			}
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return err
	}
	for n := range keys {
		f.expect(ctx, s, name(n), docstore.Doc{"n": docstore.Int(len(seen[n]))})
	}
	total := 0
	for _, s := range seen {
		total += len(s)
	}
	if total != crowd*rounds {
		f.addf("%d increments returned %d numbers", crowd*rounds, total)
	}
	return f.err()
}

// checkTransfers moves amounts between two documents while others read both. A read that takes the documents one after
// the other (a plain batch read of most stores) sees money vanish or double.
func checkTransfers(ctx context.Context, s docstore.Store) error {
	const each, rounds = 1000, 6
	a, b := key("account a"), key("account b")
	for _, k := range []docstore.Key{a, b} {
		if err := put(ctx, s, k, docstore.Doc{"n": docstore.Int(each)}); err != nil {
			return err
		}
	}
	sum := func() error {
		snap, err := s.Get(ctx, a, b)
		if err != nil {
			return err
		}
		x, _ := snap.Docs[0]["n"].(docstore.Int)
		y, _ := snap.Docs[1]["n"].(docstore.Int)
		if x+y != 2*each {
			return fmt.Errorf("one read shows %d and %d, which is not %d together", x, y, 2*each)
		}
		return nil
	}
	err := together(func(i int) error {
		for range rounds {
			if i%2 == 1 {
				if err := sum(); err != nil {
					return err
				}
				continue
			}
			from, to := a, b
			if i%4 == 0 {
				from, to = b, a // the opposite order of locks: a store must not end in a deadlock
			}
			n := int64(i + 1)
			r, err := s.Write(ctx, docstore.Write{Key: from, Add: map[string]int64{"n": -n}},
				docstore.Write{Key: to, Add: map[string]int64{"n": n}})
			if err != nil {
				return err
			}
			if !r.Applied {
				return errors.New("a transfer without a condition was refused")
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return sum()
}
