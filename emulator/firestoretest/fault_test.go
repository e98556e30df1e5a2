package firestoretest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	sdk "cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
)

// The client gets what the fault says, and how often it asks is known.
func TestFail(t *testing.T) {
	for name, test := range map[string]struct {
		code            codes.Code
		times, requests int
		want            codes.Code
	}{
		"aborted is not retried":            {codes.Aborted, 1, 1, codes.Aborted},
		"permission denied is not retried":  {codes.PermissionDenied, 1, 1, codes.PermissionDenied},
		"internal is not retried on Commit": {codes.Internal, 1, 1, codes.Internal},
		"unavailable is retried":            {codes.Unavailable, 2, 3, codes.OK},
		"resource exhausted is retried":     {codes.ResourceExhausted, 1, 2, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := start(t, nil)
			i := s.Inject(firestoretest.Fault{Method: "Commit", Times: test.times,
				Effect: firestoretest.Fail{Code: test.code, Message: "no"}})
			_, err := c.Doc("locks/a").Set(t.Context(), m{"n": 1})
			wantCode(t, err, test.want)
			if s.Count("Commit") != test.requests || i.Hits() != test.times {
				t.Fatalf("%d requests, %d hits, want %d, %d", s.Count("Commit"), i.Hits(), test.requests, test.times)
			}
			_, err = c.Doc("locks/a").Get(t.Context())
			if test.want != codes.OK {
				wantCode(t, err, codes.NotFound)
			}
		})
	}
}

// The response is lost, the generated code asks again and meets its own first request.
func TestApplyThenFail(t *testing.T) {
	ctx := t.Context()
	lost := firestoretest.Fault{Method: "Commit", Times: 1, Effect: firestoretest.ApplyThenFail{Code: codes.Unavailable}}
	t.Run("Create says that it exists already", func(t *testing.T) {
		s, c := start(t, nil)
		s.Inject(lost)
		_, err := c.Doc("locks/a").Create(ctx, m{"n": 1})
		wantCode(t, err, codes.AlreadyExists)
		wantData(t, c.Doc("locks/a"), m{"n": int64(1)})
		if got := s.Count("Commit"); got != 2 {
			t.Fatalf("%d requests, want 2", got)
		}
	})
	t.Run("a transaction is closed already", func(t *testing.T) {
		s, c := start(t, nil)
		s.Inject(lost)
		err := c.RunTransaction(ctx, func(_ context.Context, tx *sdk.Transaction) error {
			return tx.Set(c.Doc("locks/a"), m{"n": 1})
		})
		wantCode(t, err, codes.InvalidArgument, closed)
		wantData(t, c.Doc("locks/a"), m{"n": int64(1)})
	})
	t.Run("a stream that breaks off after its messages", func(t *testing.T) {
		s, c := start(t, nil)
		_ = must[*sdk.WriteResult](t)(c.Doc("locks/a").Set(ctx, m{"n": 1}))
		s.Inject(firestoretest.Fault{Method: "RunQuery", Times: 1, Effect: firestoretest.ApplyThenFail{
			Code: codes.PermissionDenied}})
		it := c.Collection("locks").Documents(ctx)
		defer it.Stop()
		_ = must[*sdk.DocumentSnapshot](t)(it.Next())
		_, err := it.Next()
		wantCode(t, err, codes.PermissionDenied)
	})
}

func TestApplyLate(t *testing.T) {
	for name, response := range map[string]codes.Code{"with an answer": codes.DeadlineExceeded, "without": codes.OK} {
		t.Run(name, func(t *testing.T) {
			s, c := start(t, nil)
			d := c.Doc("locks/a")
			until := make(chan struct{})
			i := s.Inject(firestoretest.Fault{Method: "Commit", Times: 1, Effect: firestoretest.ApplyLate{
				Code: response, Until: until}})
			ctx := within(t, 10*time.Second)
			if response == codes.OK {
				ctx = within(t, 50*time.Millisecond)
			}
			_, err := d.Set(ctx, m{"n": 1})
			wantCode(t, err, codes.DeadlineExceeded)
			_, err = d.Get(t.Context())
			wantCode(t, err, codes.NotFound)
			close(until)
			if err := i.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantData(t, d, m{"n": int64(1)})
		})
	}
	t.Run("dropped by Close", func(t *testing.T) {
		s, c := start(t, nil)
		i := s.Inject(firestoretest.Fault{Method: "Commit", Effect: firestoretest.ApplyLate{Code: codes.DeadlineExceeded,
			Until: make(chan struct{})}})
		_, err := c.Doc("locks/a").Set(t.Context(), m{"n": 1})
		wantCode(t, err, codes.DeadlineExceeded)
		if err := i.Wait(within(t, 10*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Wait: %v", err)
		}
		if err := s.Close(); err != nil { // does not hang
			t.Fatal(err)
		}
		if err := i.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestDelay(t *testing.T) {
	s, c := start(t, nil)
	until := make(chan struct{})
	i := s.Inject(firestoretest.Fault{Method: "Commit", Effect: firestoretest.Delay{Until: until}})
	_, err := c.Doc("locks/given-up").Set(within(t, 50*time.Millisecond), m{"n": 1})
	wantCode(t, err, codes.DeadlineExceeded)
	done := make(chan error, 1)
	go func() {
		_, err := c.Doc("locks/a").Set(t.Context(), m{"n": 1})
		done <- err
	}()
	waitFor(t, func() bool { return i.Hits() == 2 })
	close(until)
	wantCode(t, <-done, codes.OK)
	_, err = c.Doc("locks/given-up").Get(t.Context()) // it was dropped
	wantCode(t, err, codes.NotFound)
	i.Remove()
	s.Inject(firestoretest.Fault{Method: "BatchGetDocuments", Times: 1,
		Effect: firestoretest.Delay{For: 30 * time.Millisecond}})
	began := time.Now()
	wantData(t, c.Doc("locks/a"), m{"n": int64(1)})
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Fatalf("answered after %v", took)
	}
}

func TestFaultRules(t *testing.T) {
	ctx := t.Context()
	s, c := start(t, nil)
	onB := func(req proto.Message) bool {
		commit, ok := req.(*pb.CommitRequest)
		return ok && strings.HasSuffix(commit.GetWrites()[0].GetUpdate().GetName(), "/b")
	}
	i := s.Inject(firestoretest.Fault{Match: onB, Skip: 1, Times: 1,
		Effect: firestoretest.Fail{Code: codes.PermissionDenied}})
	second := s.Inject(firestoretest.Fault{Match: onB, Skip: 3, Effect: firestoretest.Fail{Code: codes.Aborted}})
	var got []codes.Code
	for _, path := range []string{"locks/a", "locks/b", "locks/b", "locks/a", "locks/b", "locks/b", "locks/b"} {
		_, err := c.Doc(path).Set(ctx, m{"n": 1})
		got = append(got, codeOf(err))
	}
	want := []codes.Code{codes.OK, codes.OK, codes.PermissionDenied, codes.OK, codes.OK, codes.OK, codes.Aborted}
	for k := range want {
		if got[k] != want[k] {
			t.Fatalf("answers %v, want %v", got, want)
		}
	}
	if i.Hits() != 1 || second.Hits() != 1 {
		t.Fatalf("hits %d and %d, want 1 and 1", i.Hits(), second.Hits())
	}
	second.Remove()
	second.Remove()
	_ = must[*sdk.WriteResult](t)(c.Doc("locks/b").Set(ctx, m{"n": 1}))
	for name, effect := range map[string]firestoretest.Effect{
		"none": nil, "Fail": firestoretest.Fail{}, "ApplyThenFail": firestoretest.ApplyThenFail{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("effect %s was taken", name)
				}
			}()
			s.Inject(firestoretest.Fault{Effect: effect})
		}()
	}
}

func TestClockOffset(t *testing.T) {
	ctx := t.Context()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s, c := start(t, &firestoretest.Options{Now: func() time.Time { return now }})
	d := c.Doc("locks/a")
	s.SetClockOffset(time.Hour)
	ahead := must[*sdk.WriteResult](t)(d.Set(ctx, m{"n": 1})).UpdateTime
	if got := ahead.Sub(now); got < time.Hour || got > time.Hour+time.Millisecond {
		t.Fatalf("ahead by %v", got)
	}
	s.SetClockOffset(-time.Hour)
	if at := must[*sdk.WriteResult](t)(d.Set(ctx, m{"n": 2})).UpdateTime; !at.After(ahead) ||
		at.Sub(ahead) > time.Millisecond {
		t.Fatalf("after a step back %v, want just after %v", at, ahead)
	}
}
