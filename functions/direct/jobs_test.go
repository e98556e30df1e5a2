package direct_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/once/calendar"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// wrongFirst is a calendar on a machine whose clock is off: it is asked with that machine's time first, and then with that
// of the store.
type wrongFirst struct {
	*calendar.Calendar

	off   time.Duration
	asked bool
}

// Around implements [once.Schedule].
func (w *wrongFirst) Around(now time.Time) (due, next time.Time) {
	if !w.asked {
		w.asked, now = true, now.Add(w.off)
	}
	return w.Calendar.Around(now)
}

// night is one run of a job, by the clock of the store.
type night struct{ due, begin, end time.Time }

// fleet is some machines that start a job, in virtual time.
type fleet struct {
	t       *testing.T
	gate    once.Gate
	now     func() time.Time // of the store
	job     *calendar.Calendar
	working sync.WaitGroup

	mu     sync.Mutex
	at     int // how many work now
	nights []night
}

// newFleet is one on a store in memory whose clock is off.
func newFleet(t *testing.T, job *calendar.Calendar, off time.Duration) *fleet {
	f := &fleet{t: t, job: job, now: func() time.Time { return time.Now().Add(off) }}
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: f.now})
	f.gate = direct.Runs(runs.New(store, &runs.Options{Options: analysis.Options{Now: f.now}}), "acme", 30*24*time.Hour)
	return f
}

// start starts the job as a machine does whose clock is off, in the background.
func (f *fleet) start(machine string, off, work time.Duration) {
	f.working.Go(func() {
		out, err := once.Run(f.t.Context(), f.gate, "nightly", func(ctx context.Context, _ once.Lock) (string, error) {
			f.mu.Lock()
			f.at++
			if f.at > 1 {
				f.t.Errorf("%d runs of one job are at work at %v", f.at, f.now())
			}
			f.mu.Unlock()
			n := night{begin: f.now()}
			select {
			case <-time.After(work):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
			f.mu.Lock()
			f.at--
			n.end = f.now()
			f.nights = append(f.nights, n)
			f.mu.Unlock()
			return "", nil
		}, &once.Options{Owner: machine, TTL: once.MaxTTL, Schedule: &wrongFirst{Calendar: f.job, off: off}})
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case err != nil:
			f.t.Errorf("%s at %v: %v", machine, f.now(), err)
		case out.Status == once.Ready:
			f.nights[len(f.nights)-1].due = out.Due // no other ends at this instant
		case out.Status != once.AlreadyFinished && out.Status != once.Locked:
			f.t.Errorf("%s at %v: %+v", machine, f.now(), out)
		}
	})
}

// check waits for all that was started, and checks that each time that was due from begin to end had one run, in its
// order, within its time.
func (f *fleet) check(begin, end time.Time) {
	f.t.Helper()
	f.working.Wait()
	due, next := f.job.Around(begin)
	for i, n := range f.nights {
		if !n.due.Equal(due) || n.begin.Before(due) || !n.begin.Before(next) {
			f.t.Fatalf("run %d of %s is due at %v, began at %v and ended at %v; want that of %v to %v", i, f.job.Local(due), n.due,
				n.begin, n.end, due, next)
		}
		due, next = f.job.Around(next)
	}
	if due.Before(end) {
		f.t.Errorf("%s: no run after %v", f.job.Local(due), due)
	}
}

// TestNightsOfAYear: three machines start a nightly job from crontabs and timers, at random delays, with clocks that are
// off, after days on which they were all down until the morning. In twelve zones each night of a year has exactly one run,
// and one that is caught up uses up no other.
func TestNightsOfAYear(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		zone string
		at   string
		year int
	}{
		{"UTC", "00:00", 2026}, {"Europe/Berlin", "02:30", 2026}, {"America/New_York", "02:00", 2026},
		{"America/Sao_Paulo", "00:00", 2018}, {"Asia/Tokyo", "23:00", 2026}, {"Asia/Kolkata", "23:45", 2026},
		{"Asia/Kathmandu", "05:45", 2026}, {"Australia/Lord_Howe", "02:15", 2026}, {"Australia/Adelaide", "02:30", 2026},
		{"Pacific/Apia", "23:00", 2011}, {"Africa/Casablanca", "02:30", 2026}, {"America/St_Johns", "00:01", 2010},
		{"Pacific/Chatham", "03:00", 2026},
	} {
		t.Run(c.zone, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			nightly, err := calendar.New(calendar.Day, c.at, zone)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(48, uint64(i)))
				f := newFleet(t, nightly, time.Duration(i-6)*3*time.Minute)
				begin, next := nightly.Around(time.Date(c.year, 1, 1, 12, 0, 0, 0, zone))
				end := time.Date(c.year+1, 1, 1, 12, 0, 0, 0, zone)
				time.Sleep(begin.Sub(f.now()))
				for due := begin; due.Before(end); due, next = nightly.Around(next) {
					length := next.Sub(due)
					down := time.Duration(0) // all machines, from the due time on
					if random.IntN(10) == 0 {
						down = 9 * time.Hour
					}
					for machine, off := range []time.Duration{0, 12 * time.Minute, -40 * time.Minute} {
						for start := range 3 {
							at := due.Add(down + (length-down)/3*time.Duration(start) +
								time.Duration(random.Int64N(int64(length-down)/3-int64(20*time.Minute))))
							time.AfterFunc(at.Sub(f.now()), func() {
								f.start(fmt.Sprint("machine-", machine), off, 30*time.Second)
							})
						}
					}
					time.Sleep(next.Sub(f.now()))
				}
				f.check(begin, end.AddDate(0, 0, -1))
			})
		})
	}
}

// TestRunsLongerThanTheirTime: the runs of an hourly job take up to two hours and a half. No two are at work at once, and
// each hour has its run, which begins late, or none because the one before was at work until the next hour.
func TestRunsLongerThanTheirTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hourly, err := calendar.New(calendar.Hour, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(48, 1))
		f := newFleet(t, hourly, 0)
		begin, next := hourly.Around(time.Now().Add(24 * time.Hour))
		time.Sleep(begin.Sub(f.now()))
		end := begin.Add(5 * 24 * time.Hour)
		for due := begin; due.Before(end); due, next = hourly.Around(next) {
			work := 5 * time.Minute
			if random.IntN(6) == 0 {
				work = time.Duration(random.Int64N(int64(150 * time.Minute)))
			}
			for range 2 {
				time.AfterFunc(time.Duration(random.Int64N(int64(10*time.Minute))), func() { f.start("machine", 0, work) })
			}
			time.Sleep(next.Sub(f.now()))
		}
		f.working.Wait()
		ran := map[time.Time]night{}
		for i, n := range f.nights {
			if _, twice := ran[n.due]; twice || n.begin.Before(n.due) || !n.begin.Before(n.due.Add(time.Hour)) {
				t.Errorf("%+v", n)
			}
			if ran[n.due] = n; i > 0 && n.begin.Before(f.nights[i-1].end) {
				t.Errorf("%+v began before %+v ended", n, f.nights[i-1])
			}
		}
		late := 0
		for due := begin; due.Before(end); due = due.Add(time.Hour) {
			n, ok := ran[due]
			covered := false
			for _, other := range f.nights {
				covered = covered || other.due.Before(due) && !other.end.Before(due.Add(time.Hour-roundWait))
			}
			if ok && n.begin.Sub(due) > 10*time.Minute+roundWait {
				late++
			}
			if ok == covered && (ok || !covered) {
				t.Errorf("%v: ran %v (%+v), although another was at work for all of its hour: %v", due, ok, n, covered)
			}
		}
		if late == 0 {
			t.Error("no run began late: nothing was tried")
		}
	})
}

// roundWait is how long it may take that a waiting start sees that the run of an earlier time has ended.
const roundWait = 31 * time.Second
