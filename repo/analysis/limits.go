package analysis

import (
	"time"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Bounds of what a command may carry. Lengths are in bytes of UTF-8.
const (
	MaxIDBytes        = 256
	MaxOwnerBytes     = 256
	MaxRequestIDBytes = 128
	MaxReasonBytes    = 1024 // why a run failed
	MaxRetryBytes     = 512  // why an administrator retries
	MaxStatusBytes    = 256  // of a status that [List] asks for

	MaxFingerprintBytes = 128       // of [Acquire].Fingerprint: a hash of what the run is about
	MaxResultBytes      = 256 << 10 // every store takes it; store a larger result elsewhere, and its address here
	MaxTTLSeconds       = 86_400    // a day

	// DefaultTTLSeconds is how long a lock lasts by default.
	DefaultTTLSeconds = 300
)

// ID names an analysis: the ID of its document.
type ID string

// Validate reports whether the ID can name an analysis. The error is a [field.Error].
func (id ID) Validate() error { return id.document().Validate() }

func checkOwner(s string) error {
	if s == unreadable {
		return field.Errorf("owner_id", "cannot be %q: it is reserved for an owner that is not text", s)
	}
	return field.Text("owner_id", s, MaxOwnerBytes)
}

func checkToken(n int64) error { return field.Range("fencing_token", n, 1, docstore.MaxInt) }

func checkTTL(n int64) error { return field.Range("ttl_seconds", n, 1, MaxTTLSeconds) }

func checkReason(s string) error {
	if len(s) > MaxReasonBytes {
		return field.Errorf("failure_reason", "has %d bytes, %d at most", len(s), MaxReasonBytes)
	}
	return validText("failure_reason", s)
}

// checkFinishedAt rejects what has no stored form.
func checkFinishedAt(t time.Time) error {
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return field.Errorf("finished_at", "must be in the years 0000 to 9999")
	}
	return nil
}

func checkFingerprint(s string) error {
	if s == unreadable {
		return field.Errorf("fingerprint", "cannot be %q: it is reserved for one that is not text", s)
	}
	return field.OptionalText("fingerprint", s, MaxFingerprintBytes)
}

// validText checks text that may have line breaks.
func validText(name, s string) error {
	if !utf8.ValidString(s) {
		return field.Errorf(name, "is not valid UTF-8")
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
