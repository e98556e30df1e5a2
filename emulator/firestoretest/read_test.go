package firestoretest_test

import (
	"reflect"
	"testing"
	"time"

	sdk "cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
)

func TestGetAll(t *testing.T) {
	ctx := t.Context()
	s, c := start(t, nil)
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/a").Set(ctx, m{"n": 1}))
	s.ResetCounts()
	snaps := must[[]*sdk.DocumentSnapshot](t)(
		c.GetAll(ctx, []*sdk.DocumentRef{c.Doc("locks/b"), c.Doc("locks/a"), c.Doc("locks/a")}))
	var exist []bool
	for _, snap := range snaps {
		exist = append(exist, snap.Exists())
	}
	if want := []bool{false, true, true}; !reflect.DeepEqual(exist, want) {
		t.Fatalf("exist %v, want %v", exist, want)
	}
	if got, want := s.Counts(), (map[string]int{"BatchGetDocuments": 1}); !reflect.DeepEqual(got, want) {
		t.Fatalf("requests %v, want %v", got, want)
	}
}

func TestEveryTypeComesBack(t *testing.T) {
	_, c := start(t, nil)
	d := c.Doc("docs/a")
	want := m{
		"null": nil, "bool": true, "int": int64(-7), "double": 1.5, "text": "風\x01花", "bytes": []byte{0, 255},
		"time": time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC), "array": []any{int64(1), "a", nil},
		"map": m{"a b": m{"c": false}}, "empty": m{}, "none": []any{},
	}
	_ = must[*sdk.WriteResult](t)(d.Set(t.Context(), want))
	wantData(t, d, want)
	_ = must[*sdk.WriteResult](t)(
		d.Set(t.Context(), m{"t": time.Date(2026, 1, 1, 0, 0, 0, 1_999, time.UTC), "ref": c.Doc("a/b")}))
	if got := data(t, d)["t"].(time.Time).Nanosecond(); got != 1_000 {
		t.Fatalf("a stored time has %d ns, want whole microseconds", got)
	}
	if got := data(t, d)["ref"].(*sdk.DocumentRef).Path; got != root+"/a/b" {
		t.Fatalf("reference %s", got)
	}
}

func TestReadTime(t *testing.T) {
	ctx := t.Context()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	_, c := start(t, &firestoretest.Options{Now: func() time.Time { return now }})
	d := c.Doc("locks/a")
	var times []time.Time
	for n := range 3 {
		now = now.Add(time.Second)
		times = append(times, must[*sdk.WriteResult](t)(d.Set(ctx, m{"n": n})).UpdateTime)
	}
	now = now.Add(time.Second)
	_ = must[*sdk.WriteResult](t)(d.Delete(ctx))
	now = now.Add(time.Second)
	deleted := now
	for n, at := range times {
		snap := must[*sdk.DocumentSnapshot](t)(d.WithReadOptions(sdk.ReadTime(at)).Get(ctx))
		if got := snap.Data()["n"]; got != int64(n) || !snap.ReadTime.Equal(at) {
			t.Fatalf("at %v: n = %v at %v, want %d", at, got, snap.ReadTime, n)
		}
	}
	_, err := d.WithReadOptions(sdk.ReadTime(times[0].Add(-time.Microsecond))).Get(ctx)
	wantCode(t, err, codes.NotFound)
	_, err = d.WithReadOptions(sdk.ReadTime(deleted)).Get(ctx)
	wantCode(t, err, codes.NotFound)
	_, err = d.WithReadOptions(sdk.ReadTime(now.Add(time.Minute))).Get(ctx)
	wantCode(t, err, codes.InvalidArgument)
	now = now.Add(2 * time.Hour)
	_, err = d.WithReadOptions(sdk.ReadTime(times[0])).Get(ctx)
	wantCode(t, err, codes.FailedPrecondition, "The requested snapshot version is too old.")
}

// A busy document forgets its oldest versions and says so.
func TestReadTimeOfABusyDocument(t *testing.T) {
	ctx := t.Context()
	s, c := start(t, nil)
	d, stub := c.Doc("locks/a"), raw(t, s)
	first := must[*sdk.WriteResult](t)(d.Set(ctx, m{"n": -1})).UpdateTime
	for n := range int64(1000) {
		wantCode(t, plain(t, stub, set("locks/a", n)), codes.OK)
	}
	_, err := d.WithReadOptions(sdk.ReadTime(first)).Get(ctx)
	wantCode(t, err, codes.FailedPrecondition)
}
