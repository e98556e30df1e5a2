package lock

import (
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Bounds of what a command may carry. Lengths are in bytes of UTF-8.
const (
	MaxTenantBytes        = 128
	MaxKeyBytes           = 256
	MaxOwnerBytes         = 256
	MaxRequestIDBytes     = 128
	MaxReasonBytes        = 512
	MaxTTLSeconds         = 86_400 // a day
	MaxMetadata           = 32     // entries
	MaxMetadataKeyBytes   = 64
	MaxMetadataValueBytes = 512
)

// ID names a lock.
type ID struct {
	Tenant string // tenant_id
	Key    string // lock_key: any text without control characters; "/" has no meaning of its own
}

// Validate reports whether the ID can name a lock. The error is a [field.Error].
func (id ID) Validate() error {
	if err := name("tenant_id", id.Tenant, MaxTenantBytes); err != nil {
		return err
	}
	return name("lock_key", id.Key, MaxKeyBytes)
}

// name checks a text that is a segment of a URL's path: browsers, proxies and HTTP libraries fold "." and ".." away, even
// when they are escaped, and routers take a "/" alone for the end of a path, so a lock of that name could not be reached.
func name(fieldName, s string, most int) error {
	if s == "." || s == ".." || s == "/" {
		return field.Errorf(fieldName, "cannot be %q, which URLs drop: choose another name", s)
	}
	return field.Text(fieldName, s, most)
}

func (id ID) key() docstore.Key { return docstore.Key{Kind: Kind, Tenant: id.Tenant, ID: id.Key} }

// standing decides whether the lease named by owner and token is held at the time now. It is the one place that says
// who may renew and release (LS-INV-003, LS-RNW-001, LS-REL-001), and the code says why not (LS-INV-004). The token is
// looked at first: it alone tells one lease of an owner from the next.
func (s State) standing(owner string, token int64, now time.Time) Code {
	switch {
	case token != s.Token:
		return LeaseLost
	case owner != s.Owner:
		return NotOwner
	case s.Phase == Released:
		return LeaseReleased
	case s.PhaseAt(now) != Active:
		return LeaseExpired
	default:
		return OK
	}
}

// holds is [State.standing] as a condition: it holds exactly when standing answers OK (LS-ACC-02).
func holds(owner string, token int64) docstore.All {
	return append(unexpired(),
		docstore.Eq{Field: fOwner, Value: docstore.String(owner)},
		docstore.Eq{Field: fToken, Value: docstore.Int(token)},
	)
}

// unexpired holds while the lock is held by anybody: now < expires_at.
func unexpired() docstore.All {
	return docstore.All{
		docstore.Eq{Field: fState, Value: docstore.String(Active)},
		docstore.Not{Cond: docstore.LE{Field: fExpiresAt, Value: docstore.Now}},
	}
}

// after is the symbolic time that lies ttl seconds after the store's now.
func after(ttlSeconds int64) docstore.Instant {
	return docstore.Now.Add(time.Duration(ttlSeconds) * time.Second)
}

// deadline is [after] for a known now, in the precision of the stores.
func deadline(now time.Time, ttlSeconds int64) time.Time {
	return docstore.TruncateMilli(now).Add(time.Duration(ttlSeconds) * time.Second)
}

func checkRequestID(s string) error { return field.Text("request_id", s, MaxRequestIDBytes) }

func checkOwner(s string) error { return field.Text("owner_id", s, MaxOwnerBytes) }

func checkTTL(n int64) error { return field.Range("ttl_seconds", n, 1, MaxTTLSeconds) }

func checkToken(n int64) error { return field.Range("fencing_token", n, 1, docstore.MaxInt) }

func checkMetadata(m map[string]string) error {
	if len(m) > MaxMetadata {
		return field.Errorf("metadata", "has %d entries, %d at most", len(m), MaxMetadata)
	}
	for k, v := range m {
		if err := field.Text("metadata", k, MaxMetadataKeyBytes); err != nil {
			return field.Errorf("metadata", "has a key that cannot be used: 1 to %d bytes of text without control characters", MaxMetadataKeyBytes)
		}
		if err := field.OptionalText("metadata."+k, v, MaxMetadataValueBytes); err != nil {
			return err
		}
	}
	return nil
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
