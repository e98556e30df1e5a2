package firestoretest_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
)

const (
	closed  = "Transaction is invalid or closed."
	garbage = "Invalid transaction."
	timeout = "Transaction lock timeout."
)

func TestTransactionIDs(t *testing.T) {
	s, _ := start(t, nil)
	stub := raw(t, s)
	tx := begin(t, stub, nil)
	if len(tx.id) != 8 {
		t.Fatalf("id has %d bytes, want 8", len(tx.id))
	}
	tx.mustGet("locks/a", -1)
	wantCode(t, tx.commit(set("locks/a", 1)), codes.OK)
	wantCode(t, tx.commit(set("locks/a", 2)), codes.InvalidArgument, closed)
	_, err := tx.get("locks/a")
	wantCode(t, err, codes.InvalidArgument, closed)
	wantCode(t, tx.rollback(), codes.OK) // even after its commit, as the client does after a lost response

	tx = begin(t, stub, nil)
	wantCode(t, tx.rollback(), codes.OK)
	wantCode(t, tx.rollback(), codes.OK)
	wantCode(t, tx.commit(), codes.InvalidArgument, closed)

	for _, id := range [][]byte{{1}, {255, 1, 2, 3, 4, 5, 6, 7}, make([]byte, 8), make([]byte, 16)} {
		tx := txn{t, stub, id}
		wantCode(t, tx.commit(), codes.InvalidArgument, garbage)
		wantCode(t, tx.rollback(), codes.InvalidArgument, garbage)
		_, err := tx.get("locks/a")
		wantCode(t, err, codes.InvalidArgument, garbage)
		_, err = stub.BeginTransaction(t.Context(), &pb.BeginTransactionRequest{Database: database, Options: retry(id)})
		wantCode(t, err, codes.InvalidArgument, garbage)
	}
	retried := begin(t, stub, retry(tx.id))
	retried.mustGet("locks/a", 1)
}

func retry(id []byte) *pb.TransactionOptions {
	return &pb.TransactionOptions{Mode: &pb.TransactionOptions_ReadWrite_{
		ReadWrite: &pb.TransactionOptions_ReadWrite{RetryTransaction: id}}}
}

func TestTransactionExpires(t *testing.T) {
	const gone = "The referenced transaction has expired or is no longer valid."
	var offset atomic.Int64
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s, _ := start(t, &firestoretest.Options{Now: func() time.Time { return base.Add(time.Duration(offset.Load())) }})
	stub := raw(t, s)
	t.Run("left alone for 60 s", func(t *testing.T) {
		tx := begin(t, stub, nil)
		tx.mustGet("locks/a", -1)
		offset.Add(int64(59 * time.Second))
		tx.mustGet("locks/a", -1)
		offset.Add(int64(60 * time.Second))
		wantCode(t, plain(t, stub, set("locks/a", 1)), codes.OK) // its lock is gone
		wantCode(t, tx.commit(), codes.InvalidArgument, gone)
		wantCode(t, tx.rollback(), codes.OK)
	})
	t.Run("after 270 s", func(t *testing.T) {
		tx := begin(t, stub, nil)
		for range 5 {
			offset.Add(int64(50 * time.Second))
			tx.mustGet("locks/a", 1)
		}
		offset.Add(int64(21 * time.Second))
		_, err := tx.get("locks/a")
		wantCode(t, err, codes.InvalidArgument, gone)
	})
}

// A read locks; who writes waits; ending the transaction lets it through.
func TestPessimisticWriteWaits(t *testing.T) {
	for name, end := range map[string]func(*testing.T, txn){
		"until commit":   func(t *testing.T, tx txn) { wantCode(t, tx.commit(set("locks/a", 2)), codes.OK) },
		"until rollback": func(t *testing.T, tx txn) { wantCode(t, tx.rollback(), codes.OK) },
	} {
		t.Run(name, func(t *testing.T) {
			s, c := start(t, &firestoretest.Options{LockTimeout: time.Hour})
			stub := raw(t, s)
			wantCode(t, plain(t, stub, set("locks/a", 1)), codes.OK)
			tx := begin(t, stub, nil)
			tx.mustGet("locks/a", 1)
			outside := make(chan error, 1)
			go func() { outside <- plain(t, stub, set("locks/a", 9)) }()
			waitFor(t, func() bool { return s.Waiting() == 1 })
			if got := data(t, c.Doc("locks/a"))["n"]; got != int64(1) { // reads outside do not wait
				t.Fatalf("n = %v before the end", got)
			}
			end(t, tx)
			if err := <-outside; err != nil {
				t.Fatal(err)
			}
			wantData(t, c.Doc("locks/a"), m{"n": int64(9)}) // nothing was lost: it came after
		})
	}
}

// waitFor waits for a state that the test has already brought about and that only needs to arrive: there is a
// connection in between, which no fake clock moves. The bound is there so that a state that never arrives fails the
// test.
func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}

func TestPessimisticLockTimeout(t *testing.T) {
	s, c := start(t, &firestoretest.Options{LockTimeout: 100 * time.Millisecond})
	stub := raw(t, s)
	holder := begin(t, stub, nil)
	holder.mustGet("locks/a", -1) // what is missing is locked too
	began := time.Now()
	wantCode(t, plain(t, stub, set("locks/a", 9)), codes.Aborted, timeout)
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Fatalf("aborted after %v", took)
	}
	other := begin(t, stub, nil)
	other.mustGet("locks/b", -1)
	wantCode(t, other.commit(set("locks/a", 9)), codes.Aborted, timeout)
	wantCode(t, other.commit(), codes.InvalidArgument, closed) // the timeout has closed it
	wantCode(t, plain(t, stub, set("locks/b", 1)), codes.OK)   // and freed its locks
	wantCode(t, plain(t, stub, set("locks/c", 1)), codes.OK)   // others never waited
	wantCode(t, holder.commit(set("locks/a", 1)), codes.OK)    // the holder was not harmed
	wantData(t, c.Doc("locks/a"), m{"n": int64(1)})
}

// Both have read, both want to write: the younger one gives way at once, and keeps its age when it tries again.
func TestPessimisticDeadlock(t *testing.T) {
	const contention = "Too much contention on these documents. Please try again."
	s, c := start(t, &firestoretest.Options{LockTimeout: time.Hour})
	stub := raw(t, s)
	wantCode(t, plain(t, stub, set("locks/a", 1), set("locks/b", 1)), codes.OK)
	wait := func(tx txn, n int, w ...*pb.Write) chan error {
		done := make(chan error, 1)
		go func() { done <- tx.commit(w...) }()
		waitFor(t, func() bool { return s.Waiting() == n })
		return done
	}
	t.Run("the younger comes last", func(t *testing.T) {
		old, young := begin(t, stub, nil), begin(t, stub, nil)
		old.mustGet("locks/a", 1)
		young.mustGet("locks/a", 1)
		first := wait(old, 1, set("locks/a", 2))
		wantCode(t, young.commit(set("locks/a", 3)), codes.Aborted, contention)
		wantCode(t, <-first, codes.OK)
		wantData(t, c.Doc("locks/a"), m{"n": int64(2)})
	})
	t.Run("the younger waits already", func(t *testing.T) {
		old, young := begin(t, stub, nil), begin(t, stub, nil)
		old.mustGet("locks/a", 2)
		young.mustGet("locks/a", 2)
		first := wait(young, 1, set("locks/a", 3))
		wantCode(t, old.commit(set("locks/a", 4)), codes.OK)
		wantCode(t, <-first, codes.Aborted, contention)

		again, younger := begin(t, stub, retry(young.id)), begin(t, stub, nil)
		last := begin(t, stub, retry(again.id)) // two attempts later the age is still the first one's
		last.mustGet("locks/a", 4)
		younger.mustGet("locks/a", 4)
		first = wait(younger, 1, set("locks/a", 5))
		wantCode(t, last.commit(set("locks/a", 6)), codes.OK)
		wantCode(t, <-first, codes.Aborted, contention)
		wantCode(t, again.rollback(), codes.OK)
	})
	t.Run("through a third", func(t *testing.T) {
		wantCode(t, plain(t, stub, set("locks/c", 1)), codes.OK)
		x, y, z := begin(t, stub, nil), begin(t, stub, nil), begin(t, stub, nil)
		x.mustGet("locks/a", 6)
		y.mustGet("locks/b", 1)
		z.mustGet("locks/c", 1)
		first := wait(x, 1, set("locks/b", 2))
		second := wait(z, 2, set("locks/a", 7))
		wantCode(t, y.commit(set("locks/c", 2)), codes.OK) // z, the youngest, has gone
		wantCode(t, <-second, codes.Aborted, contention)
		wantCode(t, <-first, codes.OK)
	})
	t.Run("waiting in a row is no deadlock", func(t *testing.T) {
		x, y := begin(t, stub, nil), begin(t, stub, nil)
		x.mustGet("locks/a", 6)
		y.mustGet("locks/b", 2)
		first := wait(y, 1, set("locks/a", 8))
		second := wait(txn{t: t, c: stub}, 2, set("locks/b", 9))
		wantCode(t, x.rollback(), codes.OK)
		wantCode(t, <-first, codes.OK)
		wantCode(t, <-second, codes.OK)
	})
}

// Many transactions of the client library that read and write one document all get through, within its five attempts.
func TestContendedTransactionsEnd(t *testing.T) {
	s, c := start(t, &firestoretest.Options{LockTimeout: time.Hour}) // no one may wait for a timeout
	d := c.Doc("counters/a")
	_ = must[*sdk.WriteResult](t)(d.Set(t.Context(), m{"n": 0}))
	const workers = 12
	var all, read sync.WaitGroup
	read.Add(workers)
	var runs atomic.Int32
	for range workers {
		all.Go(func() {
			err := c.RunTransaction(t.Context(), func(_ context.Context, tx *sdk.Transaction) error {
				snap, err := tx.Get(d)
				if err != nil {
					return err
				}
				if runs.Add(1) <= workers { // all have read before the first writes
					read.Done()
					read.Wait()
				}
				return tx.Set(d, m{"n": snap.Data()["n"].(int64) + 1})
			}, sdk.MaxAttempts(20))
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	wantData(t, d, m{"n": int64(workers)})
	if n := s.Waiting(); n != 0 {
		t.Errorf("%d requests are still waiting", n)
	}
}

// Commits are served in the order of their arrival. Reads of documents never wait, not even behind a commit that does.
func TestPessimisticOrder(t *testing.T) {
	s, c := start(t, &firestoretest.Options{LockTimeout: time.Hour})
	stub := raw(t, s)
	wantCode(t, plain(t, stub, set("locks/a", 0)), codes.OK)
	holder, late := begin(t, stub, nil), begin(t, stub, nil)
	holder.mustGet("locks/a", 0)
	const writers = 5
	done := make(chan error, writers)
	for n := range int64(writers) {
		go func() {
			done <- plain(t, stub, set("locks/a", n+1))
		}()
		waitFor(t, func() bool { return s.Waiting() == int(n+1) })
	}
	late.mustGet("locks/a", 0) // past all of them
	wantCode(t, holder.rollback(), codes.OK)
	if got := s.Waiting(); got != writers {
		t.Fatalf("%d commits wait for the late reader, want %d", got, writers)
	}
	wantCode(t, late.commit(set("locks/b", 1)), codes.OK)
	for range writers {
		wantCode(t, <-done, codes.OK)
	}
	wantData(t, c.Doc("locks/a"), m{"n": int64(writers)}) // the last to come was the last to write
}

func TestOptimistic(t *testing.T) {
	const contention = "Too much contention on these documents. Please try again."
	s, _ := start(t, &firestoretest.Options{Mode: firestoretest.Optimistic, LockTimeout: time.Hour}) // no one may wait
	stub := raw(t, s)
	wantCode(t, plain(t, stub, set("locks/a", 1), set("locks/b", 1)), codes.OK)

	t.Run("nothing changed", func(t *testing.T) {
		tx := begin(t, stub, nil)
		tx.mustGet("locks/a", 1)
		wantCode(t, plain(t, stub, set("locks/b", 2)), codes.OK)
		wantCode(t, tx.commit(set("locks/a", 2)), codes.OK)
	})
	t.Run("a document read has changed", func(t *testing.T) {
		tx := begin(t, stub, nil)
		tx.mustGet("locks/a", 2)
		wantCode(t, plain(t, stub, set("locks/a", 3)), codes.OK)
		wantCode(t, tx.commit(set("locks/c", 1)), codes.Aborted, contention)
		wantCode(t, tx.commit(), codes.InvalidArgument, closed)
	})
	t.Run("a missing document has appeared", func(t *testing.T) {
		tx := begin(t, stub, nil)
		tx.mustGet("locks/new", -1)
		wantCode(t, plain(t, stub, set("locks/new", 3)), codes.OK)
		wantCode(t, tx.commit(set("locks/new", 4)), codes.Aborted, contention)
	})
	t.Run("a write that changed nothing is no change", func(t *testing.T) {
		tx := begin(t, stub, nil)
		tx.mustGet("locks/a", 3)
		wantCode(t, plain(t, stub, set("locks/a", 3)), codes.OK)
		wantCode(t, tx.commit(set("locks/a", 4)), codes.OK)
	})
	t.Run("reads are of one snapshot", func(t *testing.T) {
		tx := begin(t, stub, nil)
		tx.mustGet("locks/a", 4)
		wantCode(t, plain(t, stub, set("locks/a", 5), set("locks/b", 5)), codes.OK)
		tx.mustGet("locks/b", 2)
		wantCode(t, tx.commit(set("locks/c", 1)), codes.Aborted, contention)
	})
	t.Run("one that has only read was at one time, whatever changed since", func(t *testing.T) {
		tx := begin(t, stub, nil)
		tx.mustGet("locks/a", 5)
		wantCode(t, plain(t, stub, set("locks/a", 6)), codes.OK)
		wantCode(t, tx.commit(), codes.OK)
		wantCode(t, plain(t, stub, set("locks/a", 5)), codes.OK)
	})
}

// TestTransactionsThatAreNotThere: what a transaction may be on the service and not here is rejected by name.
func TestTransactionsThatAreNotThere(t *testing.T) {
	s, _ := start(t, nil)
	stub := raw(t, s)
	readOnly := &pb.TransactionOptions{Mode: &pb.TransactionOptions_ReadOnly_{}}
	mode := &pb.TransactionOptions{Mode: &pb.TransactionOptions_ReadWrite_{
		ReadWrite: &pb.TransactionOptions_ReadWrite{ConcurrencyMode: pb.TransactionOptions_OPTIMISTIC}}}
	tx := begin(t, stub, nil)
	query := func(r *pb.RunQueryRequest) error {
		r.Parent = root
		_, err := must[pb.Firestore_RunQueryClient](t)(stub.RunQuery(t.Context(), r)).Recv()
		return err
	}
	for field, call := range map[string]func() error{
		"options.read_only": func() error {
			_, err := stub.BeginTransaction(t.Context(), &pb.BeginTransactionRequest{Database: database, Options: readOnly})
			return err
		},
		"options.read_write.concurrency_mode": func() error {
			_, err := stub.BeginTransaction(t.Context(), &pb.BeginTransactionRequest{Database: database, Options: mode})
			return err
		},
		"transaction": func() error {
			return query(&pb.RunQueryRequest{ConsistencySelector: &pb.RunQueryRequest_Transaction{Transaction: tx.id}})
		},
		"new_transaction": func() error {
			return query(&pb.RunQueryRequest{ConsistencySelector: &pb.RunQueryRequest_NewTransaction{NewTransaction: readOnly}})
		},
	} {
		wantCode(t, call(), codes.Unimplemented, "field "+field+" is not supported by this emulator")
	}
	get := must[pb.Firestore_BatchGetDocumentsClient](t)(
		stub.BatchGetDocuments(t.Context(), &pb.BatchGetDocumentsRequest{Database: database,
			ConsistencySelector: &pb.BatchGetDocumentsRequest_NewTransaction{NewTransaction: readOnly}}))
	_, err := get.Recv()
	wantCode(t, err, codes.Unimplemented, "field new_transaction is not supported by this emulator")
}

// The client retries what was ABORTED, and only that, and nothing is lost.
func TestRunTransactionCounts(t *testing.T) {
	for name, mode := range map[string]firestoretest.Mode{"pessimistic": firestoretest.Pessimistic,
		"optimistic": firestoretest.Optimistic} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := start(t, &firestoretest.Options{Mode: mode, LockTimeout: 100 * time.Millisecond})
			d := c.Doc("counters/a")
			_ = must[*sdk.WriteResult](t)(d.Set(t.Context(), m{"n": 0}))
			s.ResetCounts()
			var both sync.WaitGroup // both read before either writes: exactly one must lose
			both.Add(2)
			var runs atomic.Int32
			add := func(_ context.Context, tx *sdk.Transaction) error {
				snap, err := tx.Get(d)
				if err != nil {
					return err
				}
				if runs.Add(1) <= 2 {
					both.Done()
					both.Wait()
				}
				return tx.Set(d, m{"n": snap.Data()["n"].(int64) + 1})
			}
			errs := make(chan error, 2)
			for range 2 {
				go func() { errs <- c.RunTransaction(t.Context(), add) }()
			}
			if err := errors.Join(<-errs, <-errs); err != nil {
				t.Fatal(err)
			}
			wantData(t, d, m{"n": int64(2)})
			for method, want := range map[string]int{"BeginTransaction": 3, "Commit": 3, "Rollback": 1} {
				if got := s.Count(method); got != want {
					t.Errorf("%s: %d requests, want %d", method, got, want)
				}
			}
		})
	}
}

func TestRunTransactionDoesNotRetryItsOwnErrors(t *testing.T) {
	s, c := start(t, nil)
	broken := errors.New("broken")
	err := c.RunTransaction(t.Context(), func(context.Context, *sdk.Transaction) error { return broken })
	if !errors.Is(err, broken) || s.Count("BeginTransaction") != 1 || s.Count("Rollback") != 1 || s.Count("Commit") != 0 {
		t.Fatalf("%v, requests %v", err, s.Counts())
	}
}

// Many at once, each retrying at once: what was committed is exactly what is there, in every mode and mixture.
func TestContendedCounters(t *testing.T) {
	for name, mode := range map[string]firestoretest.Mode{"pessimistic": firestoretest.Pessimistic,
		"optimistic": firestoretest.Optimistic} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := start(t, &firestoretest.Options{Mode: mode, LockTimeout: 2 * time.Millisecond})
			stub := raw(t, s)
			wantCode(t, plain(t, stub, set("counters/a", 0)), codes.OK)
			const workers, each = 6, 15
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					for done := 0; done < each; {
						tx := begin(t, stub, nil)
						n, err := tx.get("counters/a")
						if err == nil {
							err = tx.commit(set("counters/a", n+1))
						}
						switch status.Code(err) {
						case codes.OK:
							done++
						case codes.Aborted:
						default:
							t.Errorf("worker %d: %v", w, err)
							return
						}
					}
				})
			}
			wg.Wait()
			wantData(t, c.Doc("counters/a"), m{"n": int64(workers * each)})
			if n := s.Waiting(); n != 0 {
				t.Errorf("%d requests are still waiting", n)
			}
		})
	}
}

// Compare and set by update time needs no transaction and loses nothing.
func TestContendedCompareAndSet(t *testing.T) {
	_, c := start(t, nil)
	d := c.Doc("counters/a")
	_ = must[*sdk.WriteResult](t)(d.Set(t.Context(), m{"n": 0}))
	const workers, each = 8, 25
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for done := 0; done < each; {
				snap, err := d.Get(t.Context())
				if err == nil {
					n := snap.Data()["n"].(int64)
					_, err = d.Update(t.Context(), []sdk.Update{{Path: "n", Value: n + 1}}, sdk.LastUpdateTime(snap.UpdateTime))
				}
				switch status.Code(err) {
				case codes.OK:
					done++
				case codes.FailedPrecondition:
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	wantData(t, d, m{"n": int64(workers * each)})
}

func TestContendedCreate(t *testing.T) {
	_, c := start(t, nil)
	var won, lost atomic.Int32
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			switch _, err := c.Doc("locks/a").Create(t.Context(), m{"owner": i}); status.Code(err) {
			case codes.OK:
				won.Add(1)
			case codes.AlreadyExists:
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || lost.Load() != 19 {
		t.Fatalf("%d won, %d lost", won.Load(), lost.Load())
	}
}

// A commit whose client gave up while it waited is withdrawn.
func TestDeadlineWhileWaiting(t *testing.T) {
	s, _ := start(t, &firestoretest.Options{LockTimeout: time.Hour})
	stub := raw(t, s)
	tx := begin(t, stub, nil)
	tx.mustGet("locks/a", -1)
	_, err := stub.Commit(within(t, 50*time.Millisecond), &pb.CommitRequest{Database: database,
		Writes: []*pb.Write{set("locks/a", 2)}})
	wantCode(t, err, codes.DeadlineExceeded)
	waitFor(t, func() bool { return s.Waiting() == 0 })
	wantCode(t, tx.rollback(), codes.OK)
	tx = begin(t, stub, nil)
	tx.mustGet("locks/a", -1)
}
