package docstoretest

import (
	"context"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// checkNow resolves symbolic times and compares them with the result's At. An adapter that reads its clock once for the
// field and once for the result grants a lease that ends at another time than the caller is told.
func checkNow(ctx context.Context, s docstore.Store) error {
	var f findings
	var last time.Time
	moment := func(what string, at time.Time) {
		if at.IsZero() || at.Location() != time.UTC || !at.Equal(docstore.TruncateMilli(at)) {
			f.addf("%s: At is %v, want UTC in whole milliseconds", what, at)
		}
		if at.Before(last) {
			f.addf("%s: At is %v, before an earlier result's %v", what, at, last)
		}
		last = at
	}
	offsets := map[string]time.Duration{
		"now": 0, "ms": time.Millisecond, "ago": -time.Millisecond, "ttl": 30 * time.Second, "year": 366 * 24 * time.Hour,
		"past": -99 * 366 * 24 * time.Hour, "future": 99 * 366 * 24 * time.Hour,
	}
	set := docstore.Doc{}
	for field, d := range offsets {
		set[field] = docstore.Now.Add(d)
	}
	k := key("times")
	for range 3 {
		r, err := s.Write(ctx, docstore.Write{Key: k, Set: set})
		want := docstore.Doc{}
		for field, d := range offsets {
			want[field] = docstore.FormatTime(r.At.Add(d))
		}
		f.applied("Set", r, err, want)
		f.expect(ctx, s, k, want)
		moment("Write", r.At)

		snap, err := s.Get(ctx, k)
		if err != nil {
			return err
		}
		moment("Get", snap.At)
		page, err := s.List(ctx, docstore.Query{Kind: k.Kind, Tenant: k.Tenant})
		if err != nil {
			return err
		}
		moment("List", page.At)
	}

	// Writes of one step share one instant.
	a, b := key("first of two"), key("second of two")
	stamp := docstore.Doc{"t": docstore.Now}
	r, err := s.Write(ctx, docstore.Write{Key: a, Set: stamp}, docstore.Write{Key: b, Set: stamp})
	if err != nil {
		return err
	}
	f.expect(ctx, s, a, docstore.Doc{"t": docstore.FormatTime(r.At)})
	f.expect(ctx, s, b, docstore.Doc{"t": docstore.FormatTime(r.At)})

	// A refusal says at which instant the condition did not hold.
	r, err = s.Write(ctx, docstore.Write{Key: k, If: docstore.Absent{}})
	if err != nil || r.Applied {
		f.addf("refusal: applied %v, error %v", r.Applied, err)
	}
	moment("refusal", r.At)
	return f.err()
}

// checkTimeConditions compares stored times with the store's own, as an expiry is.
func checkTimeConditions(ctx context.Context, s docstore.Store) error {
	var f findings
	for _, c := range []struct {
		name     string
		stored   docstore.Value
		than     docstore.Value
		expected bool
	}{
		{"an hour ago", docstore.Now.Add(-time.Hour), docstore.Now, true},
		{"stored just before", docstore.Now, docstore.Now, true},
		{"in an hour", docstore.Now.Add(time.Hour), docstore.Now, false},
		{"in an hour, and two hours ahead", docstore.Now.Add(time.Hour), docstore.Now.Add(2 * time.Hour), true},
		{"an hour ago, and two hours back", docstore.Now.Add(-time.Hour), docstore.Now.Add(-2 * time.Hour), false},
		{"the year 0", docstore.String("0000-01-01T00:00:00.000Z"), docstore.Now, true},
		{"the year 9999", docstore.String("9999-12-31T23:59:59.999Z"), docstore.Now, false},
		{"a number", docstore.Int(0), docstore.Now, false},
		{"text that is no time", docstore.String("never"), docstore.Now, false},
	} {
		k := key(c.name)
		if err := put(ctx, s, k, docstore.Doc{"t": c.stored}); err != nil {
			return err
		}
		found, err := get(ctx, s, k)
		if err != nil {
			return err
		}
		f.ask(ctx, s, k, condition{c.name, found, docstore.LE{Field: "t", Value: c.than}, c.expected})
	}
	return f.err()
}

// checkUntil writes at the store's time, before and after the end of a write: a write that comes too late, or whose end
// is too far ahead, changes nothing and returns what it found, alone and beside another.
func checkUntil(ctx context.Context, s docstore.Store) error {
	var f findings
	k, other := key("until"), key("beside")
	found := docstore.Doc{"n": docstore.Int(1)}
	if err := put(ctx, s, k, found); err != nil {
		return err
	}
	snap, err := s.Get(ctx, k)
	if err != nil {
		return err
	}
	const unsure = 5 * time.Second // of the time, on a store without a clock of its own
	for _, c := range []struct {
		name   string
		end    time.Duration
		inTime bool
	}{
		{"an hour ago", -time.Hour, false},
		{"just before", -unsure, false},
		{"in a minute", time.Minute, true},
		{"in an hour, almost", docstore.MaxAhead - unsure, true},
		{"in an hour, and more", docstore.MaxAhead + time.Minute, false},
		{"in a year", 366 * 24 * time.Hour, false},
		{"in the year 9999", time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).Sub(snap.At), false},
	} {
		w := docstore.Write{Key: k, Add: map[string]int64{"n": 1}, Until: snap.At.Add(c.end)}
		for _, cond := range []docstore.Cond{nil, docstore.Has{Field: "n"}, docstore.Any{docstore.Has{Field: "x"},
			docstore.Has{Field: "n"}}} {
			w.If = cond
			r, err := s.Write(ctx, w)
			if c.inTime {
				found = docstore.Doc{"n": found["n"].(docstore.Int) + 1} //nolint:forcetypeassert // a number, from above
				f.applied(c.name, r, err, found)
				continue
			}
			f.refused(c.name, r, err, found)
		}
		f.expect(ctx, s, k, found)
		beside := docstore.Write{Key: other, Set: docstore.Doc{"t": docstore.Now}}
		if c.inTime {
			continue
		}
		r, err := s.Write(ctx, beside, w)
		f.severalRefused(c.name+", beside another", r, err, 2, map[int]docstore.Doc{1: found})
		f.expect(ctx, s, other, nil)
		w.Key, w.If = other, docstore.Absent{}
		r, err = s.Write(ctx, w)
		f.refused(c.name+", of none", r, err, nil)
		f.expect(ctx, s, other, nil)
	}
	return f.err()
}
