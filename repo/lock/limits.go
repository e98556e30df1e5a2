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

	MaxPermits          = 100    // that a lock can have
	MaxHolders          = 100    // of a lock that is shared
	MaxRate             = 1000   // grants in a window
	MaxWindowSeconds    = 86_400 // a day
	MaxWaiting          = 100    // in line
	MaxWaitSeconds      = 20     // of one request: less than the 30 s after which servers, and most proxies, end one
	MaxLockDelaySeconds = 3600
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

// name checks a text that is a segment of a URL's path. Browsers, proxies and HTTP libraries remove "." and "..", even
// escaped, and routers take a lone "/" for the end of a path, so that a lock of that name would be unreachable.
func name(fieldName, s string, most int) error {
	if s == "." || s == ".." || s == "/" {
		return field.Errorf(fieldName, "cannot be %q, which URLs drop: choose another name", s)
	}
	return field.Text(fieldName, s, most)
}

func (id ID) key() docstore.Key { return docstore.Key{Kind: Kind, Tenant: id.Tenant, ID: id.Key} }

func checkRequestID(s string) error { return field.Text("request_id", s, MaxRequestIDBytes) }

func checkOwner(s string) error { return field.Text("owner_id", s, MaxOwnerBytes) }

func checkTTL(n int64) error { return field.Range("ttl_seconds", n, 1, MaxTTLSeconds) }

func checkToken(n int64) error { return field.Range("fencing_token", n, 1, docstore.MaxInt) }

// checkExpiresAt rejects what has no stored form.
func checkExpiresAt(t time.Time) error {
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return field.Errorf("expires_at", "must be in the years 0000 to 9999")
	}
	return nil
}

func checkReason(s string) error { return field.Text("reason", s, MaxReasonBytes) }

func checkLeaseID(s string) error { return field.OptionalText("lease_id", s, MaxRequestIDBytes) }

func checkMetadata(m map[string]string) error {
	if len(m) > MaxMetadata {
		return field.Errorf("metadata", "has %d entries, %d at most", len(m), MaxMetadata)
	}
	for k, v := range m {
		if err := field.Text("metadata", k, MaxMetadataKeyBytes); err != nil {
			return field.Errorf("metadata", "has a key that cannot be used: 1 to %d bytes of text without control characters",
				MaxMetadataKeyBytes)
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
