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
