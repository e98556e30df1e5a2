package gcpfirestore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var (
	increment = docstore.Write{Key: key("n"), Add: map[string]int64{"n": 1}}
	create    = docstore.Write{Key: key("n"), If: docstore.Absent{}, Set: docstore.Doc{"owner": docstore.String("ann")},
		Add: map[string]int64{"n": 1}}
)

// fault makes the next Commit of a server meet an effect. Before that, meddle is called; its own commits pass.
func fault(server *firestoretest.Server, effect firestoretest.Effect, meddle func()) {
	var seen atomic.Bool
	server.Inject(firestoretest.Fault{Method: "Commit", Times: 1, Effect: effect, Match: func(proto.Message) bool {
		if seen.Swap(true) {
			return false
		}
		meddle()
		return true
	}})
}

// n reads the counter that the writes of these tests are about, 0 if there is no document.
func n(t *testing.T, s docstore.Store) int64 {
	t.Helper()
	snap, err := s.Get(t.Context(), key("n"))
	if err != nil {
		t.Fatal(err)
	}
	v, _ := snap.Docs[0]["n"].(docstore.Int)
	return int64(v)
}

// TestCosts counts requests of the port's calls. Commands of locks are counted in tests/.
func TestCosts(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			server := firestoretest.Start(t, &firestoretest.Options{Mode: mode})
			s := open(t, server, "")
			write := func(writes ...docstore.Write) func() error {
				return func() error {
					_, err := s.Write(t.Context(), writes...)
					return err
				}
			}
			check := docstore.Write{Key: key("n"), If: docstore.Has{Field: "n"}}
			for _, c := range []struct {
				name string
				do   func() error
				want map[string]int
			}{
				{"create", write(create), map[string]int{"BatchGetDocuments": 1, "Commit": 1}},
				{"refused", write(create), map[string]int{"BatchGetDocuments": 1}},
				{"change", write(increment), map[string]int{"BatchGetDocuments": 1, "Commit": 1}},
				{"several", write(check, docstore.Write{Key: key("m")}), map[string]int{"BatchGetDocuments": 1, "Commit": 1}},
				{"several, refused", write(docstore.Write{Key: key("m")}, create), map[string]int{"BatchGetDocuments": 1}},
				{"get", func() error {
					_, err := s.Get(t.Context(), key("n"), key("m"), key("n"), key("none"))
					return err
				}, map[string]int{"BatchGetDocuments": 1}},
				{"list", func() error {
					_, err := s.List(t.Context(), docstore.Query{Kind: "locks", Tenant: "acme", Limit: 1})
					return err
				}, map[string]int{"RunQuery": 1}},
			} {
				server.ResetCounts()
				if err := c.do(); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
				if got := server.Counts(); !maps.Equal(got, c.want) {
					t.Errorf("%s: requests %v, want %v", c.name, got, c.want)
				}
			}
		})
	}
}

// TestLostCommit: a Commit without a response is repeated only where it cannot take effect twice.
func TestLostCommit(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  []docstore.Write // executed at first
		write   docstore.Write
		effect  firestoretest.Effect
		meddle  []docstore.Write // executed by another caller while the Commit is under way
		applied bool
		found   docstore.Value // owner in the document of a rejection
		unknown bool           // the error says that the outcome is unknown
		n       int64          // afterwards
		commits int            // of this store
	}{
		{name: "request lost", write: increment, effect: firestoretest.Fail{Code: codes.Unavailable}, applied: true,
			n: 1, commits: 2},
		{name: "quota", write: increment, effect: firestoretest.Fail{Code: codes.ResourceExhausted}, applied: true,
			n: 1, commits: 2},
		{name: "aborted", write: increment, effect: firestoretest.Fail{Code: codes.Aborted}, applied: true, n: 1, commits: 2},
		// Its own document makes the condition fail: the caller finds itself in it.
		{name: "answer lost", write: create, effect: firestoretest.ApplyThenFail{Code: codes.Unavailable},
			found: docstore.String("ann"), n: 1, commits: 1},
		{name: "answer an error", write: create, effect: firestoretest.ApplyThenFail{Code: codes.Internal},
			found: docstore.String("ann"), n: 1, commits: 1},
		{name: "answer a quota", write: create, effect: firestoretest.ApplyThenFail{Code: codes.ResourceExhausted},
			found: docstore.String("ann"), n: 1, commits: 1},
		// The condition would hold again: a second increment would be one too many.
		{name: "answer lost, no condition", write: increment, effect: firestoretest.ApplyThenFail{Code: codes.Unavailable},
			unknown: true, n: 1, commits: 1},
		{name: "answer lost, no condition, changed", before: []docstore.Write{create}, write: increment,
			effect: firestoretest.ApplyThenFail{Code: codes.Unavailable}, unknown: true, n: 2, commits: 1},
		// Whether the change that is seen is one's own or another caller's cannot be told.
		{name: "request lost, no condition, meddled", write: increment, effect: firestoretest.Fail{Code: codes.Unavailable},
			meddle: []docstore.Write{increment}, unknown: true, n: 1, commits: 1},
		{name: "request lost, meddled", write: create, effect: firestoretest.Fail{Code: codes.Unavailable},
			meddle: []docstore.Write{{Key: key("n"), Set: docstore.Doc{"owner": docstore.String("bob")}}},
			found:  docstore.String("bob"), commits: 1},
		// Another writer was faster, and every request got a response.
		{name: "faster, no condition", write: increment, effect: firestoretest.Delay{}, meddle: []docstore.Write{increment},
			applied: true, n: 2, commits: 2},
		{name: "faster, document there", before: []docstore.Write{create}, write: increment, effect: firestoretest.Delay{},
			meddle: []docstore.Write{increment}, applied: true, n: 3, commits: 2},
		{name: "faster, condition", write: create, effect: firestoretest.Delay{},
			meddle: []docstore.Write{{Key: key("n"), Set: docstore.Doc{"owner": docstore.String("bob")}}},
			found:  docstore.String("bob"), commits: 1},
		// A write that changes nothing leaves the version as it is, and may be repeated.
		{name: "answer lost, no change", before: []docstore.Write{create},
			write:  docstore.Write{Key: key("n"), If: docstore.Has{Field: "n"}},
			effect: firestoretest.ApplyThenFail{Code: codes.Unavailable}, applied: true, n: 1, commits: 2},
	} {
		for name, mode := range modes {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				server := firestoretest.Start(t, &firestoretest.Options{Mode: mode})
				s, other := open(t, server, ""), open(t, server, "")
				for _, w := range c.before {
					if _, err := s.Write(t.Context(), w); err != nil {
						t.Fatal(err)
					}
				}
				server.ResetCounts()
				fault(server, c.effect, func() {
					for _, w := range c.meddle {
						if _, err := other.Write(t.Context(), w); err != nil {
							t.Error(err)
						}
					}
				})
				r, err := s.Write(t.Context(), c.write)
				if got := server.Count("Commit") - len(c.meddle); got != c.commits {
					t.Errorf("%d commits, want %d", got, c.commits)
				}
				switch {
				case c.unknown:
					if !errors.Is(err, docstore.ErrUnavailable) || !strings.Contains(err.Error(), "does not tell whether") {
						t.Errorf("%+v, error %v, want ErrUnavailable with an unknown outcome", r, err)
					}
				case err != nil || r.Applied != c.applied:
					t.Errorf("applied %v, error %v, want applied %v", r.Applied, err, c.applied)
				case !r.Applied && r.Docs[0]["owner"] != c.found:
					t.Errorf("the document found is %v, want owner %v", r.Docs[0], c.found)
				}
				if got := n(t, s); got != c.n {
					t.Errorf("n is %d afterwards, want %d", got, c.n)
				}
			})
		}
	}
}

// TestTwoLostCommits: of two Commits without a response either may have been applied, whichever was lost on the way:
// what the first one was based on stays what counts.
func TestTwoLostCommits(t *testing.T) {
	lost, unanswered := firestoretest.Fail{Code: codes.Unavailable}, firestoretest.ApplyThenFail{Code: codes.Unavailable}
	for name, c := range map[string]struct {
		write   docstore.Write
		second  firestoretest.Effect
		applied bool
		unknown bool
		commits int
	}{
		"neither arrived":                    {increment, lost, true, false, 3},
		"the second arrived, no condition":   {increment, unanswered, false, true, 2},
		"the second arrived, with condition": {create, unanswered, false, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			server := firestoretest.Start(t, nil)
			s := open(t, server, "")
			server.ResetCounts()
			server.Inject(firestoretest.Fault{Method: "Commit", Times: 1, Effect: lost})
			server.Inject(firestoretest.Fault{Method: "Commit", Times: 1, Effect: c.second})
			r, err := s.Write(t.Context(), c.write)
			if errors.Is(err, docstore.ErrUnavailable) != c.unknown || err == nil &&
				(r.Applied != c.applied || r.Docs[0]["n"] != docstore.Int(1)) {
				t.Errorf("applied %v, found %v, error %v", r.Applied, r.Docs, err)
			}
			if got := server.Count("Commit"); got != c.commits {
				t.Errorf("%d commits, want %d", got, c.commits)
			}
			if got := n(t, s); got != 1 {
				t.Errorf("n is %d afterwards", got)
			}
		})
	}
}

// TestLostCommitOvertaken: the time has gone on after a lost response, the condition no longer holds, and the documents
// are as they were. The Commit may still arrive, so that a rejection would be a guess.
func TestLostCommitOvertaken(t *testing.T) {
	server := firestoretest.Start(t, nil)
	s := open(t, server, "")
	lease := docstore.Write{Key: key("n"), Set: docstore.Doc{"until": docstore.Now.Add(time.Minute)}}
	if _, err := s.Write(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	arrive := make(chan struct{})
	late := server.Inject(firestoretest.Fault{
		Method: "Commit", Times: 1, Effect: firestoretest.ApplyLate{Code: codes.Unavailable, Until: arrive},
		Match: func(proto.Message) bool { server.SetClockOffset(time.Hour); return true },
	})
	renew := docstore.Write{
		Key: key("n"), If: docstore.Not{Cond: docstore.LE{Field: "until", Value: docstore.Now}},
		Add: map[string]int64{"n": 1},
	}
	if r, err := s.Write(t.Context(), renew); !errors.Is(err, docstore.ErrUnavailable) {
		t.Errorf("%+v, error %v, want ErrUnavailable", r, err)
	}
	close(arrive)
	if err := late.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := n(t, s); got != 1 {
		t.Errorf("n is %d after the Commit has arrived, want 1", got)
	}
	if r, err := s.Write(t.Context(), renew); err != nil || r.Applied || r.Docs[0]["n"] != docstore.Int(1) {
		t.Errorf("once more: %+v, error %v, want a refusal that shows n = 1", r, err)
	}
}

// TestLostThenRefuted: a Commit without a response arrives just before the second one, which is refuted by it. That the
// second had a response does not make the first one known: another attempt would be the second increment.
func TestLostThenRefuted(t *testing.T) {
	for name, mode := range modes {
		for _, before := range [][]docstore.Write{nil, {increment}} {
			t.Run(fmt.Sprint(name, " ", len(before)), func(t *testing.T) {
				server := firestoretest.Start(t, &firestoretest.Options{Mode: mode})
				s := open(t, server, "")
				for _, w := range before {
					if _, err := s.Write(t.Context(), w); err != nil {
						t.Fatal(err)
					}
				}
				arrive := make(chan struct{})
				late := server.Inject(firestoretest.Fault{
					Method: "Commit", Times: 1, Effect: firestoretest.ApplyLate{Code: codes.Unavailable, Until: arrive},
				})
				fault(server, firestoretest.Delay{}, func() {
					close(arrive)
					if err := late.Wait(t.Context()); err != nil {
						t.Error(err)
					}
				})
				server.ResetCounts()
				if r, err := s.Write(t.Context(), increment); !errors.Is(err, docstore.ErrUnavailable) ||
					!strings.Contains(err.Error(), "does not tell whether") {
					t.Errorf("%+v, error %v, want ErrUnavailable with an unknown outcome", r, err)
				}
				if got, want := n(t, s), int64(len(before)+1); got != want || server.Count("Commit") != 2 {
					t.Errorf("n is %d after %d commits, want %d after 2", got, server.Count("Commit"), want)
				}
			})
		}
	}
}

// readTimes changes the read times of the next BatchGetDocuments: the first document that is sent gets the first one,
// and so on.
type readTimes struct {
	grpc.ClientStream
	next *[]time.Duration
	at   time.Time
}

func (r *readTimes) RecvMsg(m any) error {
	if err := r.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	if res, ok := m.(*pb.BatchGetDocumentsResponse); ok && res.GetResult() != nil && len(*r.next) > 0 {
		res.ReadTime = timestamppb.New(r.at.Add((*r.next)[0]))
		*r.next = (*r.next)[1:]
	}
	return nil
}

// TestReadTimesOfSeveral: documents that are read together have read times of their own. The time of all is the latest,
// which one it may be: until then those with earlier ones have not changed.
func TestReadTimesOfSeveral(t *testing.T) {
	server := firestoretest.Start(t, nil)
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var next []time.Duration
	conn, err := grpc.NewClient(server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStreamInterceptor(
			func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer,
				opts ...grpc.CallOption) (grpc.ClientStream, error) {
				stream, err := streamer(ctx, desc, cc, method, opts...)
				return &readTimes{stream, &next, base}, err
			}))
	if err != nil {
		t.Fatal(err)
	}
	s, err := gcpfirestore.Open(t.Context(), &gcpfirestore.Options{
		Project: project, ClientOptions: []option.ClientOption{option.WithGRPCConn(conn)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	keys := []docstore.Key{key("a"), key("b"), key("c")}
	const first, second, third = time.Second, 2 * time.Second, 3 * time.Second
	for _, order := range [][]time.Duration{{first, second, third}, {third, second, first}, {first, third, second}} {
		want := base.Add(3 * time.Second)
		next = slices.Clone(order)
		if snap, err := s.Get(t.Context(), keys...); err != nil || !snap.At.Equal(want) || len(next) != 0 {
			t.Errorf("read times %v: the snapshot is of %v, want %v, %v", order, snap.At, want, err)
		}
		next = slices.Clone(order)
		var writes []docstore.Write
		for _, k := range keys {
			writes = append(writes, docstore.Write{Key: k, Set: docstore.Doc{"at": docstore.Now}})
		}
		if r, err := s.Write(t.Context(), writes...); err != nil || !r.At.Equal(want) {
			t.Errorf("read times %v: the write is of %v, want %v, %v", order, r.At, want, err)
		}
		snap, err := s.Get(t.Context(), keys...)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range snap.Docs {
			if d["at"] != docstore.FormatTime(want) {
				t.Errorf("read times %v: document %d says %v, want %v", order, i, d["at"], want)
			}
		}
	}
}

// TestForeignTransaction: a transaction of another caller has read the document. In pessimistic mode a Commit waits for
// it; when the wait takes too long for Firestore, the store begins again. In optimistic mode the transaction has to
// begin again.
func TestForeignTransaction(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			server := firestoretest.Start(t, &firestoretest.Options{Mode: mode, LockTimeout: 50 * time.Millisecond})
			s, c := open(t, server, ""), client(t, server)
			doc := c.Doc("tenants/acme/locks/n")
			done := make(chan error, 1)
			tries := 0
			err := c.RunTransaction(t.Context(), func(_ context.Context, tx *sdk.Transaction) error {
				if _, err := tx.GetAll([]*sdk.DocumentRef{doc}); err != nil {
					return err
				}
				if tries++; tries == 1 {
					go func() {
						_, err := s.Write(t.Context(), increment)
						done <- err
					}()
					if mode == firestoretest.Optimistic {
						done <- <-done // the write is through
					} else {
						waitFor(t, func() bool { return server.Count("Commit") >= 2 }) // the first has timed out on the lock
					}
				}
				return tx.Set(c.Doc("other/x"), map[string]any{"a": 1})
			})
			if err := errors.Join(err, <-done); err != nil {
				t.Fatal(err)
			}
			if want := map[firestoretest.Mode]int{firestoretest.Pessimistic: 1,
				firestoretest.Optimistic: 2}[mode]; tries != want || n(t, s) != 1 {
				t.Errorf("the transaction ran %d times, want %d; n is %d, want 1", tries, want, n(t, s))
			}
		})
	}
}

// TestLostRead: reads that fail in a way that may pass are repeated, also when the response breaks off in the middle.
func TestLostRead(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.Internal, codes.ResourceExhausted, codes.Unknown} {
		t.Run(code.String(), func(t *testing.T) {
			server := firestoretest.Start(t, nil)
			s := open(t, server, "")
			if _, err := s.Write(t.Context(), create); err != nil {
				t.Fatal(err)
			}
			for _, method := range []string{"BatchGetDocuments", "RunQuery"} {
				server.Inject(firestoretest.Fault{Method: method, Times: 1, Effect: firestoretest.Fail{Code: code}})
				server.Inject(firestoretest.Fault{Method: method, Times: 1, Effect: firestoretest.ApplyThenFail{Code: code}})
			}
			server.ResetCounts()
			if got := n(t, s); got != 1 {
				t.Errorf("n is %d, want 1", got)
			}
			if page, err := s.List(t.Context(), docstore.Query{Kind: "locks", Tenant: "acme"}); err != nil ||
				len(page.Entries) != 1 {
				t.Errorf("list: %d entries, error %v, want one", len(page.Entries), err)
			}
			if want := map[string]int{"BatchGetDocuments": 3, "RunQuery": 3}; !maps.Equal(server.Counts(), want) {
				t.Errorf("requests %v, want %v", server.Counts(), want)
			}
		})
	}
}

// TestUpdateMask: a write names the fields that it changes, and nothing else.
func TestUpdateMask(t *testing.T) {
	server := firestoretest.Start(t, nil)
	s := open(t, server, "")
	if _, err := s.Write(t.Context(), docstore.Write{Key: key("n"),
		Set: docstore.Doc{"z": docstore.Int(1), "y": docstore.Int(1)}}); err != nil {
		t.Fatal(err)
	}
	var sent *pb.CommitRequest
	server.Inject(firestoretest.Fault{Method: "Commit", Effect: firestoretest.Delay{}, Match: func(m proto.Message) bool {
		sent = proto.CloneOf(m.(*pb.CommitRequest))
		return true
	}})
	if _, err := s.Write(t.Context(), docstore.Write{
		Key: key("n"), Set: docstore.Doc{"b": docstore.Int(1)}, Add: map[string]int64{"a": 1}, Unset: []string{"y"},
	}); err != nil {
		t.Fatal(err)
	}
	w := sent.GetWrites()[0]
	if got := strings.Join(w.GetUpdateMask().GetFieldPaths(), " "); got != "a b y" || len(w.GetUpdate().GetFields()) != 2 {
		t.Errorf("the mask is %q with %d fields, want a b y with two", got, len(w.GetUpdate().GetFields()))
	}
	if w.GetCurrentDocument().GetUpdateTime() == nil || sent.GetTransaction() != nil {
		t.Errorf("the condition is %v in transaction %q, want an update time and none", w.GetCurrentDocument(),
			sent.GetTransaction())
	}
}
