package fence

import (
	"context"
	"errors"
	"time"

	"github.com/leasehold-dev/leasehold/internal/backoff"
)

// ErrChanged says that [Object.Put] wrote nothing, because the object was no longer of that version.
var ErrChanged = errors.New("the object has changed")

// Object is an object of a bucket that keeps the lease of its last writer, or anything else that has versions and
// writes on condition of one. examples/fences has it for S3 and for GCS.
//
// A version must tell every two writes apart that differ in the token. GCS' generation does. The ETag of S3 does not
// tell a token in the metadata: it is made of the content alone, so that the same content written again by the next
// holder has the ETag that an earlier holder knows. Keep the token in the content there.
type Object interface {
	// Get returns the lease of the last writer and the version of the object; the version is empty if there is no object,
	// and the lease the zero one if it has none.
	Get(ctx context.Context) (last Lease, version string, err error)

	// Put writes the object, with the token and the subject of the lease, if it has the version; an empty one means that
	// there must be no object. The error is an [ErrChanged] if it has not. After any other error the object may have been
	// written.
	Put(ctx context.Context, data []byte, l Lease, ifVersion string) error
}

// ObjectOptions are the settings of [PutObject]. The zero value works.
type ObjectOptions struct {
	// lets writes of leases without a token pass: they keep the object's lease, and are not compared with it
	AllowNone bool
	Now       func() time.Time // the time, for [MaxAhead]; nil means time.Now
}

// PutObject replaces an object unless a higher token has written it, STALE_TOKEN, or a lease of another lock or run,
// OTHER_SUBJECT. It reads the lease, compares, and writes on condition that the object has not changed since. If it
// has, that begins again, until ctx ends: someone else has written each time. Two requests unless others write at once.
// Options may be nil.
//
// After another error of [Object.Put] the object may have been written; writing it again with the same token is
// harmless. An object that is deleted takes its lease along: write an empty one instead, or keep a lifecycle rule from
// removing it.
func PutObject(ctx context.Context, object Object, l Lease, data []byte, o *ObjectOptions) error {
	var r rule
	if o != nil {
		r = rule{o.AllowNone, o.Now}
	}
	compare, err := r.check(l)
	if err != nil {
		return err
	}
	waits := backoff.Policy{First: 10 * time.Millisecond, Max: time.Second}
	for try := 0; ; try++ {
		last, version, err := object.Get(ctx)
		if err != nil {
			return err
		}
		if compare {
			if err := refused(l, last); err != nil {
				return err
			}
			last = l
		}
		if err := object.Put(ctx, data, last, version); !errors.Is(err, ErrChanged) {
			return err
		}
		if err := waits.Sleep(ctx, try); err != nil {
			return err
		}
	}
}
