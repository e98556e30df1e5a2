package gcpfirestore

import (
	"fmt"
	"time"

	sdk "cloud.google.com/go/firestore"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Fence keeps a transaction of the user's own to a condition on a document of a store . It reads the
// document in the transaction and evaluates w.If, with the server's time of the read for [docstore.Now]; the error is a
// [FenceError] if it does not hold. What says which lease must be held is repo/lock:
//
//	err := client.RunTransaction(ctx, func(ctx context.Context, tx *sdk.Transaction) error {
//		if err := firestore.Fence(client, tx, root, lock.WhileHeld(id, owner, token)); err != nil {
//			return err
//		}
//		return tx.Set(client.Doc("invoices/7"), invoice)
//	})
//
// The transaction then commits only if the lock's document is still as it was read, in both modes of a database: until
// then no one else was granted the lock, not even if the lease ran out in between. Firestore wants all reads of a
// transaction before its writes. In pessimistic mode, changes of the lock wait for the transaction: keep it short.
//
// The client must be one of the same project and database as the store, root is the store's [Options].Root. w must not
// change anything: that would be lost.
func Fence(client *sdk.Client, tx *sdk.Transaction, root string, w docstore.Write) error {
	if err := checkRoot(root); err != nil {
		return err
	}
	if err := w.Validate(); err != nil {
		return err
	}
	if len(w.Set)+len(w.Add)+len(w.Unset) > 0 || w.Keep != 0 || w.Delete {
		return fmt.Errorf("%w: a fence of %s cannot change it: leave Set, Add, Unset, Keep and Delete empty",
			docstore.ErrInvalid, w.Key)
	}
	path, err := document(root, w.Key)
	if err != nil {
		return err
	}
	snaps, err := tx.GetAll([]*sdk.DocumentRef{client.Doc(path)})
	if err != nil {
		return err
	}
	snap := snaps[0]
	var found docstore.Doc
	if snap.Exists() {
		found = decodeData(snap.Data())
	}
	if at := docstore.TruncateMilli(snap.ReadTime); !w.Holds(found, at) {
		return &FenceError{Key: w.Key, At: at, Found: found}
	}
	return nil
}

// FenceError says that a [Fence] did not let a transaction pass. Nothing was written.
type FenceError struct {
	Key   docstore.Key
	At    time.Time    // the server's time of the decision
	Found docstore.Doc // the document found; nil if there was none
}

// Error implements error.
func (e *FenceError) Error() string {
	return fmt.Sprintf("firestore: %s: the condition did not hold at %s: the lease is not, or no longer, held",
		e.Key, docstore.FormatTime(e.At))
}

// decodeData reads a document as the client library hands it out.
func decodeData(data map[string]any) docstore.Doc {
	doc := make(docstore.Doc, len(data))
	for f, v := range data {
		if f != keepField {
			doc[f] = decodeAny(v)
		}
	}
	return doc
}

func decodeAny(v any) docstore.Value {
	switch t := v.(type) {
	case string:
		return docstore.String(t)
	case bool:
		return docstore.Bool(t)
	case int64:
		if t <= docstore.MaxInt && t >= -docstore.MaxInt {
			return docstore.Int(t)
		}
	case []byte:
		if len(t) <= docstore.MaxBytes {
			return docstore.Bytes(t)
		}
	case map[string]any:
		m := make(docstore.Map, len(t))
		for k, e := range t {
			s, ok := e.(string)
			if !ok {
				return docstore.Opaque{Raw: v}
			}
			m[unescapeMapKey(k)] = s
		}
		return m
	}
	return docstore.Opaque{Raw: v}
}
