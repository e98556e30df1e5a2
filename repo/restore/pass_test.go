package restore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/placement"
	"github.com/leasehold-dev/leasehold/repo/restore"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// distant is a store that is some way off. It counts what it is asked.
type distant struct {
	*docstore.Memory

	delay time.Duration // of each call
	// before is asked before call n, from 1, is carried out, and after afterwards: with an error the call has that one.
	before, after func(n int) error
	damaged       []docstore.Key // on the first page of their kind

	unreadableMark bool

	mu                 sync.Mutex
	calls, gets, walks int
	marks, writes      int // of the raise, of documents
	underWay, most     int // writes of documents at once
	applied            map[docstore.Key]int
	cutOff             bool // a write had a context that ended
}

func (d *distant) call(count *int, do func() error) error {
	d.mu.Lock()
	d.calls++
	*count++
	n := d.calls
	if count == &d.writes {
		d.underWay++
		d.most = max(d.most, d.underWay)
		defer func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.underWay--
		}()
	}
	d.mu.Unlock()
	time.Sleep(d.delay)
	if d.before != nil {
		if err := d.before(n); err != nil {
			return err
		}
	}
	err := do()
	if d.after != nil && err == nil {
		err = d.after(n)
	}
	return err
}

// written is how many writes of documents were begun.
func (d *distant) written() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writes
}

func (d *distant) Get(ctx context.Context, keys ...docstore.Key) (s docstore.Snapshot, err error) {
	err = d.call(&d.gets, func() error {
		if d.unreadableMark && keys[0].ID == "unfinished" {
			return docstore.ErrDamaged
		}
		s, err = d.Memory.Get(ctx, keys...)
		return err
	})
	return s, err
}

func (d *distant) Walk(ctx context.Context, q docstore.WalkQuery) (p docstore.Page, err error) {
	err = d.call(&d.walks, func() error {
		p, err = d.Memory.Walk(ctx, q)
		for _, k := range d.damaged {
			if k.Kind == q.Kind && q.After == "" {
				p.Damaged = append(p.Damaged, docstore.Damaged{Key: k, Err: docstore.ErrDamaged})
			}
		}
		return err
	})
	return p, err
}

func (d *distant) Write(ctx context.Context, w ...docstore.Write) (r docstore.Result, err error) {
	count := &d.writes
	if w[0].Key.Kind == markKind {
		count = &d.marks
	}
	err = d.call(count, func() error {
		r, err = d.Memory.Write(ctx, w...)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.cutOff = d.cutOff || ctx.Err() != nil
		if d.applied != nil && err == nil && r.Applied {
			d.applied[w[0].Key]++
		}
		return err
	})
	return r, err
}

// fill writes n fences with low tokens.
func fill(t *testing.T, s docstore.Store, n int) {
	t.Helper()
	for i := range n {
		put(t, s, lock.FenceKind, "acme", strconv.Itoa(i), docstore.Doc{"token": docstore.Int(7)})
	}
}

var documents = flag.Int("documents", 20_000, "of TestRaiseTokensAtADistance")

// TestRaiseTokensAtADistance: so many documents are written at once and never more, with exactly one call for each, and
// the time is that of the way to the store divided by how many. The log is the table in docs/guides/operations.md.
func TestRaiseTokensAtADistance(t *testing.T) {
	n := *documents
	for _, c := range []struct {
		delay    time.Duration
		parallel int
	}{
		{10 * time.Millisecond, 1}, {10 * time.Millisecond, 16}, {10 * time.Millisecond, 0}, {10 * time.Millisecond, 256},
		{time.Millisecond, 0}, {50 * time.Millisecond, 0},
	} {
		t.Run(fmt.Sprintf("%v, %d", c.delay, c.parallel), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &distant{Memory: docstore.NewMemory(nil), delay: c.delay}
				fill(t, store.Memory, n)
				began := time.Now()
				got, err := restore.RaiseTokens(t.Context(), store, restore.Options{Parallel: c.parallel})
				took := time.Since(began)
				if err != nil || got.Kinds[3] != (restore.Report{Kind: lock.FenceKind, Documents: n, Raised: n}) {
					t.Fatalf("%+v, %v", got, err)
				}
				parallel := c.parallel
				if parallel == 0 {
					parallel = 64
				}
				pages := (n + docstore.MaxLimit - 1) / docstore.MaxLimit
				if store.gets != 1 || store.marks != 2 || store.walks != 4+pages || store.writes != n {
					t.Errorf("%d reads, %d and %d writes, %d pages", store.gets, store.marks, store.writes, store.walks)
				}
				if store.most != parallel {
					t.Errorf("%d documents at once, want %d", store.most, parallel)
				}
				least := time.Duration(n/parallel) * c.delay
				if most := least + time.Duration(2*store.walks+4)*c.delay; took < least || took > most {
					t.Errorf("it took %v, want %v to %v", took, least, most)
				}
				if n == 1_000_000 && c.delay == 10*time.Millisecond && c.parallel == 0 && took > 10*time.Minute {
					t.Errorf("a million took %v", took)
				}
				t.Logf("| %v | %d | %d | %v |", c.delay, parallel, n, took.Round(time.Second))
			})
		})
	}
}

// backup fills a store with documents of all kinds, as a backup has them, and returns the fields with their tokens.
func backup(t *testing.T, s docstore.Store) map[docstore.Key]string {
	t.Helper()
	tokens := map[docstore.Key]string{}
	for i := range 3 {
		id := strconv.Itoa(i)
		tokens[put(t, s, lock.FenceKind, "acme", id, docstore.Doc{"token": docstore.Int(7)})] = "token"
		tokens[put(t, s, runs.Kind, "acme", id, docstore.Doc{"lockToken": docstore.Int(7)})] = "lockToken"
		tokens[put(t, s, analysis.Kind, "", id, docstore.Doc{"lockToken": docstore.Int(7)})] = "lockToken"
		tokens[put(t, s, placement.ActivationKind, "acme/prod", id, docstore.Doc{"token": docstore.Int(7)})] = "token"
		locks := lock.New(s, nil)
		for _, owner := range []string{"ann", "bob"} {
			for key, c := range map[string]lock.Acquire{
				"pool": {TTLSeconds: 3600, Mode: lock.Permits, Limit: 2}, "one": {TTLSeconds: 3600},
			} {
				c.ID, c.Owner, c.RequestID = lock.ID{Tenant: "t" + id, Key: key}, owner, owner
				if _, err := locks.Acquire(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				tokens[docstore.Key{Kind: lock.Kind, Tenant: c.Tenant, ID: key}] = "token"
			}
		}
	}
	put(t, s, lock.Kind, "acme", "text", docstore.Doc{"token": docstore.String("7")})
	return tokens
}

func raisedBy(r restore.Raise) (sum int) {
	for _, k := range r.Kinds {
		sum += k.Raised
	}
	return sum
}

// TestRaiseTokensInterrupted interrupts a raise at every call that it makes, in four ways, and goes on with it: in the
// end all tokens are those of one raise, each was written once, and no other is as before (LS-INV-002).
func TestRaiseTokensInterrupted(t *testing.T) {
	fatal := errors.New("killed")
	for _, parallel := range []int{1, 4} {
		for _, way := range []string{"signal", "lost request", "lost response", "lost response, sent again"} {
			t.Run(fmt.Sprint(way, parallel), func(t *testing.T) {
				for k, calls := 1, 1; k <= calls; k++ {
					synctest.Test(t, func(t *testing.T) {
						store := &distant{Memory: docstore.NewMemory(nil), delay: time.Millisecond, applied: map[docstore.Key]int{}}
						tokens := backup(t, store.Memory)
						text := docstore.Key{Kind: lock.Kind, Tenant: "acme", ID: "text"}
						time.Sleep(time.Hour) // what the store forgot
						ctx, interrupt := context.WithCancel(t.Context())
						defer interrupt()
						at := func(err error) func(int) error {
							return func(n int) error {
								if n != k {
									return nil
								}
								if way == "signal" {
									interrupt()
									return nil
								}
								return err
							}
						}
						switch way {
						case "lost response":
							store.after = at(fatal)
						case "lost response, sent again":
							store.after = at(docstore.ErrUnavailable)
						default:
							store.before = at(fatal)
						}
						o := restore.Options{Name: "tuesday", Parallel: parallel}
						first, err := restore.RaiseTokens(ctx, store, o)
						store.before, store.after = nil, nil
						if err == nil && way != "lost response, sent again" && store.calls > k+1 {
							t.Errorf("interrupted at call %d: %d calls, and no error", k, store.calls)
						}
						if store.cutOff {
							t.Errorf("interrupted at call %d: a write was cut off", k)
						}
						if k == 1 { // how many calls there are
							whole := &distant{Memory: docstore.NewMemory(nil)}
							backup(t, whole.Memory)
							if _, err := restore.RaiseTokens(t.Context(), whole, o); err != nil {
								t.Fatal(err)
							}
							calls = whole.calls
						}
						_, marked := read(t, store.Memory, docstore.Key{Kind: markKind, ID: "unfinished"})["token"]
						if err != nil && first.Token != 0 && !marked && k != calls {
							t.Errorf("interrupted at call %d: %+v, and marked: %v", k, first, marked)
						}
						if sum := raisedBy(first); err == nil && sum != len(tokens) {
							t.Errorf("disturbed at call %d: %d of %d were raised", k, sum, len(tokens))
						}
						time.Sleep(time.Hour)
						before := store.writes
						second, failed := restore.RaiseTokens(t.Context(), store, o)
						if failed != nil || second.Resumed != marked || marked && second.Token != first.Token && first.Token != 0 {
							t.Fatalf("interrupted at call %d: %+v, then %+v, %v", k, first, second, failed)
						}
						if !marked && err == nil { // it had come to its end, and this is another one
							return
						}
						for key, field := range tokens {
							got, want := read(t, store.Memory, key)[field].(docstore.Int), docstore.Int(second.Token)
							if got != want && (key.ID != "pool" || got != want+1) {
								t.Errorf("interrupted at call %d: %s has %d, want %d", k, key, got, want)
							}
							if n := store.applied[key]; n != 1 && (marked || n != 2) {
								t.Errorf("interrupted at call %d: %s was written %d times", k, key, n)
							}
						}
						if d := read(t, store.Memory, text); !d.Equal(docstore.Doc{"token": docstore.String("7")}) {
							t.Errorf("interrupted at call %d: what is damaged is %v", k, d)
						}
						if read(t, store.Memory, docstore.Key{Kind: markKind, ID: "unfinished"}) != nil {
							t.Errorf("interrupted at call %d: the raise has not ended", k)
						}
						if sum := raisedBy(second); store.writes-before != sum {
							t.Errorf("interrupted at call %d: %d writes for %d documents", k, store.writes-before, sum)
						}
					})
				}
			})
		}
	}
}

// TestRaiseTokensStops: what is under way when ctx ends is finished, and nothing else is begun.
func TestRaiseTokensStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		store := &distant{Memory: docstore.NewMemory(nil), delay: time.Second}
		fill(t, store.Memory, 100)
		go func() {
			time.Sleep(7*time.Second + time.Second/2) // the read, the mark, four pages, the first eight documents
			interrupt()
		}()
		got, err := restore.RaiseTokens(ctx, store, restore.Options{Parallel: 8})
		if !errors.Is(err, context.Canceled) || store.writes != 16 || store.cutOff || got.Name == "" ||
			got.Kinds[3] != (restore.Report{Kind: lock.FenceKind, Documents: 16, Raised: 16}) {
			t.Errorf("%+v, %v, %d writes, cut off %v", got, err, store.writes, store.cutOff)
		}
		got, err = restore.RaiseTokens(t.Context(), store, restore.Options{Name: got.Name})
		if err != nil || !got.Resumed || store.writes != 100 ||
			got.Kinds[3] != (restore.Report{Kind: lock.FenceKind, Documents: 100, Raised: 84, Current: 16}) {
			t.Errorf("%+v, %v, %d writes", got, err, store.writes)
		}
	})
}

// TestNamesOfRaises: a raise goes on only under its name, within a day, and before it has ended. Otherwise it would
// take what was granted since for what it raised.
func TestNamesOfRaises(t *testing.T) {
	mark := docstore.Key{Kind: markKind, ID: "unfinished"}
	for name, c := range map[string]struct {
		name    string
		later   time.Duration
		mark    docstore.Write // by another program
		resumed bool
	}{
		"at once":      {name: "tuesday", resumed: true},
		"within a day": {name: "tuesday", later: 24*time.Hour - time.Millisecond, resumed: true},
		"after a day":  {name: "tuesday", later: 24 * time.Hour},
		"another name": {name: "wednesday", later: time.Second},
		"no name":      {later: time.Second},
		"in the past":  {name: "tuesday", later: -time.Millisecond},
		"a damaged token": {name: "tuesday", later: time.Second,
			mark: docstore.Write{Set: docstore.Doc{"token": docstore.String("x")}}},
		"a damaged name": {name: "tuesday", later: time.Second,
			mark: docstore.Write{Set: docstore.Doc{"name": docstore.Int(1)}}},
		"no mark": {name: "tuesday", later: time.Second,
			mark: docstore.Write{If: docstore.Has{Field: "name"}, Delete: true}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := present
			store := &distant{Memory: docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return clock }})}
			fill(t, store.Memory, 3)
			store.before = func(int) error {
				if store.written() == 2 {
					return errors.New("killed")
				}
				return nil
			}
			o := restore.Options{Name: "tuesday", Parallel: 1}
			first, err := restore.RaiseTokens(t.Context(), store, o)
			if err == nil || first.Name != "tuesday" || first.Resumed {
				t.Fatal(first, err)
			}
			store.before = nil
			if c.mark.Key = mark; c.mark.Set != nil || c.mark.Delete {
				if _, err := store.Memory.Write(t.Context(), c.mark); err != nil {
					t.Fatal(err)
				}
			}
			clock = clock.Add(c.later)
			o.Name, o.DryRun = c.name, true
			want := restore.Report{Kind: lock.FenceKind, Documents: 3, Raised: 3}
			if c.resumed {
				want.Raised, want.Current = 2, 1
			}
			if c.later < 0 { // what was raised is above the new token
				want.Raised, want.Current = 2, 1
			}
			writes := store.writes + store.marks
			dry, err := restore.RaiseTokens(t.Context(), store, o)
			if err != nil || dry.Resumed != c.resumed || dry.Kinds[3] != want || store.writes+store.marks != writes {
				t.Errorf("dry: %+v, %v", dry, err)
			}
			o.DryRun = false
			got, err := restore.RaiseTokens(t.Context(), store, o)
			if err != nil || got.Resumed != c.resumed || got.Kinds[3] != want || got.Token == first.Token != c.resumed {
				t.Errorf("%+v, %v", got, err)
			}
			if got, err = restore.RaiseTokens(t.Context(), store, o); err != nil || got.Resumed {
				t.Errorf("after its end: %+v, %v", got, err)
			}
		})
	}
	t.Run("another raise meanwhile", func(t *testing.T) {
		memory := docstore.NewMemory(nil)
		fill(t, memory, 1)
		other := docstore.Doc{"name": docstore.String("other"), "token": docstore.Int(9)}
		store := &busy{Store: memory, Walker: memory, before: func(docstore.Key) error {
			_, err := memory.Write(t.Context(), docstore.Write{Key: mark, Set: other})
			return err
		}}
		if _, err := restore.RaiseTokens(t.Context(), store, restore.Options{}); err != nil {
			t.Fatal(err)
		}
		if got := read(t, memory, mark); !got.Equal(other) {
			t.Errorf("its mark is %v", got)
		}
	})
	t.Run("a mark that cannot be read", func(t *testing.T) {
		store := &distant{Memory: docstore.NewMemory(nil), unreadableMark: true}
		fill(t, store.Memory, 3)
		if got, err := restore.RaiseTokens(t.Context(), store, restore.Options{Name: "tuesday"}); err != nil ||
			got.Kinds[3].Raised != 3 || store.marks != 0 || store.gets != 2 {
			t.Errorf("%+v, %v, %d writes of it", got, err, store.marks)
		}
	})
	for _, o := range []restore.Options{
		{Parallel: -1}, {Parallel: restore.MaxParallel + 1}, {Name: string(make([]byte, restore.MaxNameBytes+1))},
		{Name: "\n"},
	} {
		store := &distant{Memory: docstore.NewMemory(nil)}
		_, err := restore.RaiseTokens(t.Context(), store, o)
		if _, ok := errors.AsType[*field.Error](err); !ok || store.calls > 0 {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestRaiseBesideAnInterruptedOne: what servers grant between a raise that was interrupted and the rest of it is above
// its token, and stays.
func TestRaiseBesideAnInterruptedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &distant{Memory: docstore.NewMemory(nil)}
		locks, id := lock.New(store.Memory, nil), lock.ID{Tenant: "acme", Key: "deploy"}
		take := func(request string) int64 {
			t.Helper()
			o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: request, TTLSeconds: 1})
			if err != nil || o.Code != lock.OK {
				t.Fatal(o, err)
			}
			return o.Lease.Token
		}
		take("r1")
		fill(t, store.Memory, 1)
		time.Sleep(time.Hour)
		store.before = func(int) error {
			if store.written() == 2 {
				return errors.New("killed")
			}
			return nil
		}
		o := restore.Options{Name: "tuesday"}
		first, err := restore.RaiseTokens(t.Context(), store, o)
		if err == nil {
			t.Fatal(first)
		}
		store.before = nil
		granted := take("r2")
		if _, err := restore.RaiseTokens(t.Context(), store, o); err != nil {
			t.Fatal(err)
		}
		got := read(t, store.Memory, docstore.Key{Kind: lock.Kind, Tenant: "acme", ID: "deploy"})["token"]
		if granted != first.Token+1 || got != docstore.Int(granted) {
			t.Errorf("raised to %d, granted %d, and then %v", first.Token, granted, got)
		}
		time.Sleep(time.Hour)
		if next := take("r3"); next != granted+1 {
			t.Errorf("the next token is %d, after %d", next, granted)
		}
	})
}

// TestRaiseTokensThrottled: a store that takes 200 calls a second and refuses the rest slows the raise down to that,
// and is not asked much more often than it takes. A store that does nothing for a minute ends it.
func TestRaiseTokensThrottled(t *testing.T) {
	const rate, n = 200, 20_000
	synctest.Test(t, func(t *testing.T) {
		store := &distant{Memory: docstore.NewMemory(nil), delay: 10 * time.Millisecond}
		fill(t, store.Memory, n)
		began := time.Now()
		var mu sync.Mutex
		taken, refused := 0, 0
		store.before = func(int) error {
			mu.Lock()
			defer mu.Unlock()
			if float64(taken) > rate*(1+time.Since(began).Seconds()) {
				refused++
				return fmt.Errorf("%w: throttled", docstore.ErrUnavailable)
			}
			taken++
			return nil
		}
		told := 0
		got, err := restore.RaiseTokens(t.Context(), store, restore.Options{Retrying: func(error) {
			mu.Lock()
			defer mu.Unlock()
			told++
		}})
		if err != nil || got.Kinds[3].Raised != n || got.Kinds[3].Documents != n {
			t.Errorf("%+v, %v", got, err)
		}
		if took := time.Since(began); took > n/rate*time.Second*11/10 {
			t.Errorf("it took %v for %v", took, n/rate*time.Second)
		}
		if refused == 0 || told != refused || refused > n {
			t.Errorf("%d of %d were refused, and %d told", refused, taken+refused, told)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		store := &distant{Memory: docstore.NewMemory(nil), applied: map[docstore.Key]int{}}
		fill(t, store.Memory, 1000)
		store.before = func(n int) error {
			if n > 500 {
				return docstore.ErrUnavailable
			}
			return nil
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		got, err := restore.RaiseTokens(ctx, store, restore.Options{Name: "tuesday"})
		written := len(store.applied) - 1 // one is the mark
		if took := time.Since(began); !errors.Is(err, docstore.ErrUnavailable) || took < time.Minute ||
			took > time.Minute+10*time.Second || written < 400 || got.Kinds[3].Raised != written {
			t.Errorf("after %v: %+v, %d written, %v", took, got, written, err)
		}
	})
}

// TestRaiseTokensPassesDamage: what cannot be read is counted and said, once each, and blocks nothing behind it.
func TestRaiseTokensPassesDamage(t *testing.T) {
	store := &distant{Memory: docstore.NewMemory(nil)}
	fill(t, store.Memory, 2500)
	want := map[docstore.Key]int{}
	for i := range 30 {
		k := docstore.Key{Kind: lock.FenceKind, Tenant: "acme", ID: "x" + strconv.Itoa(i)}
		store.damaged, want[k] = append(store.damaged, k), 1
	}
	want[put(t, store.Memory, lock.FenceKind, "acme", "text", docstore.Doc{"token": docstore.String("7")})] = 1
	got := map[docstore.Key]int{}
	var last restore.Report
	r, err := restore.RaiseTokens(t.Context(), store, restore.Options{
		Damaged: func(k docstore.Key, _ string) { got[k]++ },
		Progress: func(r restore.Report) {
			if r.Kind == last.Kind && r.Documents != last.Documents+1 || r.Documents != r.Raised+r.Current+r.Damaged {
				t.Errorf("%+v after %+v", r, last)
			}
			last = r
		}})
	report := restore.Report{Kind: lock.FenceKind, Documents: 2531, Raised: 2500, Damaged: 31}
	if err != nil || r.Kinds[3] != report || last != report || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, %+v; %d damaged", r, err, last, len(got))
	}
}
