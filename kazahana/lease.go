package kazahana

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"
)

// LeaseProvider leases machine IDs. Its implementations are the HTTP client of package client and repo/machineid over
// each store; methods may be called from several goroutines at once and honor the context.
type LeaseProvider interface {
	// Acquire leases as many machine IDs as the throughput needs, in one step. If some are free, but fewer, it leases one.
	// If none is free the error is [ErrExhausted] and, if the time of the next free one is known, an [ExhaustedError].
	// After any other error with a method RetryAfter() time.Duration it is not called again before that time, or before
	// [Options.AcquireRetryMaxInterval] if that is less.
	Acquire(ctx context.Context, o AcquireOptions) (AcquireResponse, error)

	// Release ends a lease before it expires. After an error the lease expires by itself. Releasing a lease that no
	// longer exists is not an error.
	Release(ctx context.Context, o ReleaseOptions) error
}

// AcquireOptions say what is needed. The JSON is that of the HTTP API.
type AcquireOptions struct {
	// whose namespace and layout; empty means the default's
	ServiceID       string            `json:"serviceId,omitempty"`
	Meta            map[string]string `json:"meta,omitempty"`            // labels for people: host name, process ID
	ThroughputPerMs int64             `json:"throughputPerMs,omitempty"` // IDs per millisecond; 0 means 1: one lease

	// NotAfter ends the request: a time of the provider's store, after which it leases nothing, however late it arrives.
	// What is below a millisecond counts for nothing. It may be up to an hour away; the zero time is no end. A client of
	// package client names one by itself.
	NotAfter time.Time `json:"notAfter,omitzero"`
}

// AcquireResponse holds the leases that were granted: at least one.
type AcquireResponse struct {
	Leases []Lease `json:"leases"`
}

// Lease is the right to make IDs with one machine ID and the timestamps in [Created, Expired), both in Unix
// milliseconds, whatever any clock shows. The intervals of one machine ID never overlap: that is why no two IDs are
// equal.
type Lease struct {
	ID      int64  `json:"id"`      // the machine ID, 0 to Layout.MaxMachineID
	Created int64  `json:"created"` // first timestamp, Unix milliseconds
	Expired int64  `json:"expired"` // first timestamp after the lease
	Secret  string `json:"secret"`  // signs the release; keep it out of logs
	Layout
}

// String is the lease without its secret, for logs.
func (l Lease) String() string {
	return fmt.Sprintf("machine ID %d from %d to %d", l.ID, l.Created, l.Expired)
}

// GoString keeps the secret out of %#v, too.
func (l Lease) GoString() string { return "kazahana.Lease{" + l.String() + "}" }

// LogValue keeps the secret out of log/slog.
func (l Lease) LogValue() slog.Value { return slog.StringValue(l.String()) }

// ReleaseOptions name a lease to release. Before it signs, the holder stops making IDs with timestamps after Timestamp:
// the next lease of the machine ID begins after it.
type ReleaseOptions struct {
	ServiceID string `json:"serviceId,omitempty"` // as in AcquireOptions; empty means that the signature decides
	ID        int64  `json:"id"`
	Signature string `json:"signature"` // Sign(secret, ID, Timestamp)
	Timestamp int64  `json:"timestamp"` // Unix milliseconds, within 30 s of the provider's clock
}

// Sign is the signature of a release: HMAC-SHA256 under the lease's secret of "id:timestamp" in decimal, as lower-case
// hexadecimal digits. The secret itself is not sent.
func Sign(secret string, id, timestamp int64) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(strconv.FormatInt(id, 10) + ":" + strconv.FormatInt(timestamp, 10)))
	return hex.EncodeToString(m.Sum(nil))
}

// ErrExhausted marks a [LeaseProvider.Acquire] that found no free machine ID.
var ErrExhausted = errors.New("no machine ID is free")

// ExhaustedError is an [ErrExhausted] with a time.
type ExhaustedError struct {
	RetryAfter time.Duration // until the next machine ID becomes free, if none is released before
}

// Error says how long to wait.
func (e *ExhaustedError) Error() string {
	return ErrExhausted.Error() + "; the next one becomes free in " + e.RetryAfter.Round(time.Millisecond).String()
}

// Is makes the error an [ErrExhausted].
func (e *ExhaustedError) Is(target error) bool { return target == ErrExhausted }
