package lock

import (
	"fmt"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Kind is the kind of document that holds a lock: one for each (tenant, key).
const Kind = "locks"

// Phase is the state of a lock.
type Phase string

// The phases of a lock. A document stores only Active and Released; Expired is Active seen at or after its expires_at.
const (
	None     Phase = "" // never held
	Active   Phase = "ACTIVE"
	Released Phase = "RELEASED"
	Expired  Phase = "EXPIRED"
)

// Names of the fields of a lock's document.
const (
	fToken          = "token"
	fState          = "state"
	fOwner          = "owner_id"
	fLease          = "lease_id"
	fAcquiredAt     = "acquired_at"
	fExpiresAt      = "expires_at"
	fReleasedAt     = "released_at"
	fTTL            = "ttl_seconds"
	fMetadata       = "metadata"
	fAcquireRequest = "acquire_request_id"
	fAcquireTTL     = "acquire_ttl_seconds"
	fRenewRequest   = "renew_request_id"
	fForcedBy       = "forced_by"
	fForcedReason   = "forced_reason"
	fForcedAt       = "forced_at"
	fForcedRequest  = "forced_request_id"
)

// remembered is how many releases a lock remembers, so that a repeated release of an earlier lease is known as such.
// Each has a field of its own, chosen by its token, so that a release can record itself without reading first.
const remembered = 8

func fRelease(token int64) string { return "release_" + strconv.FormatInt(token%remembered, 10) }

// State is what the document of a lock says. The zero State is a lock that was never held.
type State struct {
	Token      int64 // of the latest grant; 0 before the first
	Phase      Phase // as stored: None, Active or Released
	Owner      string
	LeaseID    string
	AcquiredAt time.Time
	ExpiresAt  time.Time
	ReleasedAt time.Time // zero unless Released
	TTLSeconds int64     // of the latest acquire or renew
	Metadata   map[string]string

	AcquireRequest string // request_id of the grant
	AcquireTTL     int64  // ttl_seconds of the grant, seconds
	RenewRequest   string // request_id of the latest renewal of this lease, if any

	Releases [remembered]Ended // by token modulo its length
	Forced   Forced            // the latest force-release of this lock, if any
}

// Ended remembers a release, so that a retry is recognised even after later leases.
type Ended struct {
	Token     int64
	Owner     string
	RequestID string
}

// Forced remembers the latest force-release of a lock.
type Forced struct {
	By        string
	Reason    string
	RequestID string
	At        time.Time
}

// PhaseAt is the phase at the time now: an Active lease is Expired from expires_at on. Nothing is written for that.
func (s State) PhaseAt(now time.Time) Phase {
	if s.Phase == Active && !now.Before(s.ExpiresAt) {
		return Expired
	}
	return s.Phase
}

// wasForced reports whether the release that ended the latest lease was an administrator's.
func (s State) wasForced() bool {
	return s.Phase == Released && s.Forced.RequestID != "" && s.Forced.At.Equal(s.ReleasedAt)
}

// State reads the document of a lock; nil is the zero State. The error is [docstore.ErrDamaged] and names the field: a
// document that says less than the rules wrote must not be taken for a free lock.
func (id ID) State(d docstore.Doc) (State, error) {
	if d == nil {
		return State{}, nil
	}
	r := reader{key: id.key(), doc: d}
	s := State{
		Token:          r.number(fToken),
		Phase:          Phase(r.text(fState)),
		Owner:          r.text(fOwner),
		LeaseID:        r.text(fLease),
		AcquiredAt:     r.time(fAcquiredAt),
		ExpiresAt:      r.time(fExpiresAt),
		ReleasedAt:     r.time(fReleasedAt),
		TTLSeconds:     r.number(fTTL),
		Metadata:       r.table(fMetadata),
		AcquireRequest: r.text(fAcquireRequest),
		AcquireTTL:     r.number(fAcquireTTL),
		RenewRequest:   r.text(fRenewRequest),
		Forced: Forced{
			By:        r.text(fForcedBy),
			Reason:    r.text(fForcedReason),
			RequestID: r.text(fForcedRequest),
			At:        r.time(fForcedAt),
		},
	}
	for i := range s.Releases {
		f := fRelease(int64(i))
		if t := r.table(f); t != nil {
			token, err := strconv.ParseInt(t["token"], 10, 64)
			if err != nil {
				r.fail(f, "a release with a token")
			}
			s.Releases[i] = Ended{Token: token, Owner: t["owner_id"], RequestID: t["request_id"]}
		}
	}
	if s.Phase == Active && s.ExpiresAt.IsZero() {
		r.fail(fExpiresAt, "a time")
	}
	if s.Phase != None && s.Phase != Active && s.Phase != Released {
		r.fail(fState, "ACTIVE or RELEASED")
	}
	return s, r.err
}

// reader takes fields out of a document and remembers the first that is not what it should be. Missing fields are zero.
type reader struct {
	key docstore.Key
	doc docstore.Doc
	err error
}

func (r *reader) fail(field, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s: field %q is not %s", docstore.ErrDamaged, r.key, field, want)
	}
}

func (r *reader) text(field string) string {
	v, ok := r.doc[field].(docstore.String)
	if !ok && r.doc[field] != nil {
		r.fail(field, "text")
	}
	return string(v)
}

func (r *reader) number(field string) int64 {
	v, ok := r.doc[field].(docstore.Int)
	if !ok && r.doc[field] != nil {
		r.fail(field, "a whole number")
	}
	return int64(v)
}

func (r *reader) table(field string) map[string]string {
	v, ok := r.doc[field].(docstore.Map)
	if !ok && r.doc[field] != nil {
		r.fail(field, "a table of text")
	}
	return v
}

func (r *reader) time(field string) time.Time {
	s := r.text(field)
	if s == "" {
		return time.Time{}
	}
	t, err := docstore.ParseTime(docstore.String(s))
	if err != nil {
		r.fail(field, "a time")
	}
	return t
}
