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

// LeaseProvider leases machine IDs. Its implementations are the HTTP client of package client and repo/machineid over each
// store; methods may be called from several goroutines at once and honor the context.
type LeaseProvider interface {
	// Acquire leases as many machine IDs as the throughput needs, in one step. If some are free, but fewer, it leases one.
	// If none is free it answers an error that is [ErrExhausted] and, if it is known until when, an [ExhaustedError].
	Acquire(ctx context.Context, o AcquireOptions) (AcquireResponse, error)

	// Release gives a lease back before its end. After an error the lease simply runs out. Releasing a lease that is not
	// there any more is no error.
	Release(ctx context.Context, o ReleaseOptions) error
}

// AcquireOptions say what is needed. The JSON is that of the HTTP API.
type AcquireOptions struct {
	ServiceID       string            `json:"serviceId,omitempty"`       // whose space and layout; empty is the default's
	Meta            map[string]string `json:"meta,omitempty"`            // labels for people: host name, process ID
	ThroughputPerMs int64             `json:"throughputPerMs,omitempty"` // IDs in a millisecond; 0 stands for 1: one lease
}

// AcquireResponse holds the leases that were granted: at least one.
type AcquireResponse struct {
	Leases []Lease `json:"leases"`
}

// Lease is the right to stamp IDs of one machine ID with the timestamps in [Created, Expired), both in Unix milliseconds,
// whatever any clock says. The intervals of one machine ID never overlap: that is why no two IDs are equal.
type Lease struct {
	ID      int64  `json:"id"`      // the machine ID, 0 to Layout.MaxMachineID
	Created int64  `json:"created"` // first timestamp, Unix milliseconds
	Expired int64  `json:"expired"` // first timestamp that is no longer the lease's
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

// ReleaseOptions name a lease to give back. The holder has stopped to stamp IDs with timestamps after Timestamp before it
// signs: the machine ID's next lease begins behind it.
type ReleaseOptions struct {
	ServiceID string `json:"serviceId,omitempty"` // as in AcquireOptions; empty leaves it to the signature whose lease it is
	ID        int64  `json:"id"`
	Signature string `json:"signature"` // Sign(secret, ID, Timestamp)
	Timestamp int64  `json:"timestamp"` // Unix milliseconds; the provider wants it within 30 s of its own clock
}

// Sign is the signature of a release: HMAC-SHA256 under the lease's secret of "id:timestamp" in decimal, as lower-case
// hexadecimal digits. The secret itself does not travel.
func Sign(secret string, id, timestamp int64) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(strconv.FormatInt(id, 10) + ":" + strconv.FormatInt(timestamp, 10)))
	return hex.EncodeToString(m.Sum(nil))
}

// ErrExhausted marks an [LeaseProvider.Acquire] that found no free machine ID.
var ErrExhausted = errors.New("no machine ID is free")

// ExhaustedError says when an [ErrExhausted] may be over.
type ExhaustedError struct {
	RetryAfter time.Duration // until the next machine ID falls free, if nobody releases one before
}

// Error says how long to wait.
func (e *ExhaustedError) Error() string {
	return ErrExhausted.Error() + "; the next one falls free in " + e.RetryAfter.Round(time.Millisecond).String()
}

// Is makes the error an [ErrExhausted].
func (e *ExhaustedError) Is(target error) bool { return target == ErrExhausted }
