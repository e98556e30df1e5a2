// Package docstoretest is the conformance suite of docstore: every adapter passes it.
// A new adapter proves itself in a few lines:
//
//	func TestConformance(t *testing.T) {
//		docstoretest.Run(t, func(t *testing.T) docstore.Store { return openEmptyStore(t) })
//	}
//
// The suite is also the place where the strange cases are remembered: each says who gets it wrong.
//
// A check is a function that takes a store and returns what is wrong with it. That makes the suite testable itself: its
// own tests plant faults in a sound store and demand that the check in charge finds them.
package docstoretest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Run holds a store to the meaning of the port. newStore returns a fresh, empty store for each check; the suite closes
// it. On a store that responds in microseconds the suite takes about a second.
//
// A check may be excepted, by its name, with the reason why what lies behind the store cannot pass it: that is for
// servers that stand in for the real one, never for a store that rules stand on. Random programs then do without
// Before, StartAtNow, Delete or Keep, too, if that is the check's name.
func Run(t *testing.T, newStore func(t *testing.T) docstore.Store, except ...Exception) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			for _, e := range except {
				if e.Check == c.name {
					t.Skip(e.Reason)
				}
			}
			s := newStore(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			if err := c.run(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("SideBySide", func(t *testing.T) {
		var without []string
		for _, e := range except {
			without = append(without, e.Check)
		}
		runSideBySide(t, newStore(t), programs(without...))
	})
}

// Exception is a check that [Run] leaves out.
type Exception struct {
	Check  string // the name of its subtest
	Reason string
}

// check looks at one concern. It is given an empty store and returns everything that it found wrong, or nil.
type check struct {
	name string
	run  func(ctx context.Context, s docstore.Store) error
}

var checks = []check{
	{"Conditions", checkConditions},
	{"NumberOrder", checkNumberOrder},
	{"TextOrder", checkTextOrder},
	{"Patch", checkPatch},
	{"EmptyDocument", checkEmptyDocument},
	{"Before", checkBefore},
	{"BeforeDamaged", checkBeforeDamaged},
	{"Add", checkAdd},
	{"Return", checkReturn},
	{"AddDamaged", checkAddDamaged},
	{"StartAtNow", checkStartAtNow},
	{"StartDamaged", checkStartDamaged},
	{"StartAgain", checkStartAgain},
	{"Refusal", checkRefusal},
	{"Values", checkValues},
	{"Bytes", checkBytes},
	{"BytesOwnership", checkBytesOwnership},
	{"Now", checkNow},
	{"TimeConditions", checkTimeConditions},
	{"Until", checkUntil},
	{"SeveralWrites", checkSeveralWrites},
	{"ManyWrites", checkManyWrites},
	{"Delete", checkDelete},
	{"DeleteSeveral", checkDeleteSeveral},
	{"Keep", checkKeep},
	{"Prune", checkPrune},
	{"PruneMany", checkPruneMany},
	{"PruneLife", checkPruneLife},
	{"OneWinner", checkOneWinner},
	{"NoLostIncrement", checkNoLostIncrement},
	{"Transfers", checkTransfers},
	{"History", checkHistory},
	{"GetSeveral", checkGetSeveral},
	{"Keys", checkKeys},
	{"ListOrder", checkListOrder},
	{"ListPrefix", checkListPrefix},
	{"ListPages", checkListPages},
	{"ListApart", checkListApart},
	{"Walk", checkWalk},
	{"WalkChanges", checkWalkChanges},
	{"WalkInvalid", checkWalkInvalid},
	{"Due", checkDue},
	{"DuePages", checkDuePages},
	{"DueWalk", checkDueWalk},
	{"DueApart", checkDueApart},
	{"DueInvalid", checkDueInvalid},
	{"Watch", checkWatch},
	{"Invalid", checkInvalid},
	{"Ownership", checkOwnership},
	{"EndedContext", checkEndedContext},
	{"Closed", checkClosed},
}

// findings collects what is wrong.
type findings []error

func (f *findings) addf(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

func (f *findings) err() error { return errors.Join(*f...) }

// key is a key of the suite's own kind and tenant.
func key(id string) docstore.Key { return docstore.Key{Kind: "suite", Tenant: "acme", ID: id} }

// put creates a document with these fields, or patches it.
func put(ctx context.Context, s docstore.Store, k docstore.Key, d docstore.Doc) error {
	r, err := s.Write(ctx, docstore.Write{Key: k, Set: d})
	if err != nil {
		return fmt.Errorf("write %s: %w", k, err)
	}
	if !r.Applied {
		return fmt.Errorf("write %s: a write without a condition was refused", k)
	}
	return nil
}

// get reads one document.
func get(ctx context.Context, s docstore.Store, k docstore.Key) (docstore.Doc, error) {
	snap, err := s.Get(ctx, k)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", k, err)
	}
	if len(snap.Docs) != 1 {
		return nil, fmt.Errorf("get %s: %d documents for one key", k, len(snap.Docs))
	}
	return snap.Docs[0], nil
}

// expect reports a document that is not as it should be.
func (f *findings) expect(ctx context.Context, s docstore.Store, k docstore.Key, want docstore.Doc) {
	got, err := get(ctx, s, k)
	if err != nil {
		*f = append(*f, err)
		return
	}
	if !got.Equal(want) {
		f.addf("%s: stored %#v, want %#v", k, got, want)
	}
}

// applied reports a single write that did not apply, or whose result does not show the document as it now stands.
func (f *findings) applied(name string, r docstore.Result, err error, want docstore.Doc) {
	switch {
	case err != nil:
		f.addf("%s: %w", name, err)
	case !r.Applied:
		f.addf("%s: refused", name)
	case len(r.Refused) != 0:
		f.addf("%s: applied, and yet Refused is %v", name, r.Refused)
	case len(r.Docs) != 1 || !r.Docs[0].Equal(want):
		f.addf("%s: Docs is %#v, want one document %#v", name, r.Docs, want)
	}
}

// returned reports a single write that did not apply, or whose result does not show what [docstore.Write].Return names
// of the document as it now stands.
func (f *findings) returned(ctx context.Context, s docstore.Store, name string, w docstore.Write,
	r docstore.Result, err error) {
	after, getErr := get(ctx, s, w.Key)
	if getErr != nil {
		f.addf("%s: %w", name, getErr)
		return
	}
	if err == nil && len(r.Docs) == 1 {
		after = shown(w, r.Docs[0], after)
	}
	f.applied(fmt.Sprintf("%s, return %q", name, w.Return), r, err, after)
}

// shown is what a result with the document got may show of the document after the write: all that the write asks for,
// and of the rest whatever it has.
func shown(w docstore.Write, got, after docstore.Doc) docstore.Doc {
	if w.Return == nil || after == nil {
		return after
	}
	fields := docstore.Doc{}
	for field, v := range after {
		if _, more := got[field]; more || slices.Contains(w.Return, field) {
			fields[field] = v
		}
	}
	return fields
}

// refused reports a single write that was not refused, or whose result does not show the document found.
func (f *findings) refused(name string, r docstore.Result, err error, found docstore.Doc) {
	switch {
	case err != nil:
		f.addf("%s: %w", name, err)
	case r.Applied:
		f.addf("%s: applied", name)
	case len(r.Refused) != 1 || r.Refused[0] != 0:
		f.addf("%s: Refused is %v, want [0]", name, r.Refused)
	case len(r.Docs) != 1 || !r.Docs[0].Equal(found):
		f.addf("%s: Docs is %#v, want the document found, %#v", name, r.Docs, found)
	}
}
