// Package runs is for runs that callers name themselves: a request that must not take effect twice, a job of a day. The first caller that
// begins a run does the work, and all later ones get its result, until the record of the run is removed.
//
// The rule is that of package analysis, word for word; see there for the states, the token and late duplicates. What differs:
//
//   - A run belongs to a tenant.
//   - No producer makes its document: the first [Begin] does, in the same write.
//   - A fingerprint says what the run is about, and the same ID with another one is refused.
//   - The document is removed a while after the last write of its holder. A run that is begun after that is a new one, with a higher token.
//   - No sweep looks for a run whose holder died: its caller asks again, and takes it over.
//
// A document of kind "runs" has the fields of an analysis' document, but for lockExpiresAt, which is called expiresAt here: stores have an
// index on lockExpiresAt for the sweep, and a run in it would cost a write more for each refresh.
package runs

import (
	"context"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Kind is the kind of document that a run is: one for each (tenant, run ID).
const Kind = "runs"

// Bounds of what a command may carry. The others are those of package analysis.
const (
	MaxTenantBytes     = 128
	MinKeepSeconds     = 60
	MaxKeepSeconds     = 30 * 86_400
	DefaultKeepSeconds = 86_400 // a day
	DefaultTTLSeconds  = 30
)

// ID names a run of a tenant.
type ID struct{ Tenant, ID string }

// Validate reports whether the ID can name a run. The error is a [field.Error].
func (id ID) Validate() error {
	if id.Tenant == "." || id.Tenant == ".." || id.Tenant == "/" {
		return field.Errorf("tenant_id", "cannot be %q, which URLs drop: choose another name", id.Tenant)
	}
	if err := field.Text("tenant_id", id.Tenant, MaxTenantBytes); err != nil {
		return err
	}
	if strings.ContainsRune(id.ID, '/') || id.ID == "." || id.ID == ".." {
		return field.Errorf("run_id", "cannot be %q: it is one name, without %q", id.ID, "/")
	}
	return field.Text("run_id", id.ID, analysis.MaxIDBytes)
}

func (id ID) key() docstore.Key { return docstore.Key{Kind: Kind, Tenant: id.Tenant, ID: id.ID} }

// Outcome is the result of a command.
type Outcome = analysis.Outcome

// Runs carries out the commands on a store. It keeps no state between calls: any number of them, in any number of processes, may use the
// same store. Errors are those of [analysis.Analyses].
type Runs struct {
	store docstore.Store
	o     analysis.Options
}

// New returns the commands of runs on a store. Options may be nil; they are those of the gate.
func New(store docstore.Store, o *analysis.Options) *Runs {
	r := &Runs{store: store}
	if o != nil {
		r.o = *o
	}
	return r
}

// Begin takes the lock of a run, which is made if there is none, or learns its result.
type Begin struct {
	ID

	Owner       string // who runs it, for people and for the conditions of later commands
	RequestID   string // the same for every delivery of the same attempt, another for every attempt
	TTLSeconds  int64  // how long the lock lasts without a refresh, 1 to analysis.MaxTTLSeconds
	MaxFailures int64  // a run that failed so often becomes FAILED instead of running again; 0 is no bound
	Fingerprint string // what the run is about, at most analysis.MaxFingerprintBytes; empty compares nothing

	// KeepSeconds is how long the record is kept after the end of the lock, MinKeepSeconds to MaxKeepSeconds. The store may keep it
	// longer. Each write of the holder says it anew.
	KeepSeconds int64
}

// Refresh moves the expiry of a lock to now + TTLSeconds.
type Refresh struct {
	ID

	Owner       string
	Token       int64
	TTLSeconds  int64
	KeepSeconds int64 // see Begin
}

// Release ends a lock, and leaves the run to the next caller that begins it.
type Release struct {
	ID

	Owner       string
	Token       int64
	Failed      string // why the run failed; empty if it did not fail, but was stopped
	KeepSeconds int64  // from now on, see Begin
}

// Finish ends a run, and stores what all later callers get.
type Finish struct {
	ID

	Owner       string
	Token       int64
	Status      analysis.Status // analysis.Ready or analysis.Failed
	Result      string          // with Ready
	Reason      string          // with Failed
	KeepSeconds int64           // from now on, see Begin
}

// Begin carries out a [Begin]: one request to the store, two for taking over a lock that expired. The outcome of a run that has finished is
// analysis.AlreadyFinished, with its result; one of another fingerprint is analysis.Differs.
func (r *Runs) Begin(ctx context.Context, c Begin) (Outcome, error) {
	if err := c.validate(c.KeepSeconds); err != nil {
		return Outcome{}, err
	}
	o, err := r.gate(c.ID, c.KeepSeconds+c.TTLSeconds).Acquire(ctx, analysis.Acquire{
		ID: analysis.ID(c.ID.ID), Owner: c.Owner, RequestID: c.RequestID, TTLSeconds: c.TTLSeconds, MaxFailures: c.MaxFailures,
		Create: true, Fingerprint: c.Fingerprint,
	})
	return said(o), c.named(err)
}

// Refresh carries out a [Refresh]: one request to the store.
func (r *Runs) Refresh(ctx context.Context, c Refresh) (Outcome, error) {
	if err := c.validate(c.KeepSeconds); err != nil {
		return Outcome{}, err
	}
	o, err := r.gate(c.ID, c.KeepSeconds+c.TTLSeconds).Refresh(ctx, analysis.Refresh{
		ID: analysis.ID(c.ID.ID), Owner: c.Owner, Token: c.Token, TTLSeconds: c.TTLSeconds,
	})
	return said(o), c.named(err)
}

// Release carries out a [Release]: one request to the store.
func (r *Runs) Release(ctx context.Context, c Release) (Outcome, error) {
	if err := c.validate(c.KeepSeconds); err != nil {
		return Outcome{}, err
	}
	o, err := r.gate(c.ID, c.KeepSeconds).Release(ctx, analysis.Release{ID: analysis.ID(c.ID.ID), Owner: c.Owner, Token: c.Token, Failed: c.Failed})
	return said(o), c.named(err)
}

// Finish carries out a [Finish]: one request to the store.
func (r *Runs) Finish(ctx context.Context, c Finish) (Outcome, error) {
	if err := c.validate(c.KeepSeconds); err != nil {
		return Outcome{}, err
	}
	o, err := r.gate(c.ID, c.KeepSeconds).Finish(ctx, analysis.Finish{
		ID: analysis.ID(c.ID.ID), Owner: c.Owner, Token: c.Token, Status: c.Status, Result: c.Result, Reason: c.Reason,
	})
	return said(o), c.named(err)
}

// Get returns the run as it stands and the store's time; State.Exists is false if there is none. One strongly consistent read.
func (r *Runs) Get(ctx context.Context, id ID) (analysis.State, time.Time, error) {
	if err := id.Validate(); err != nil {
		return analysis.State{}, time.Time{}, err
	}
	s, at, err := r.gate(id, 0).Get(ctx, analysis.ID(id.ID))
	return s, at, id.named(err)
}

// gate is the rule on the document of a run.
func (r *Runs) gate(id ID, keepSeconds int64) *analysis.Analyses {
	return analysis.New(view{Store: r.store, key: id.key(), keep: time.Duration(keepSeconds) * time.Second}, &r.o)
}

func (id ID) validate(keepSeconds int64) error {
	if err := id.Validate(); err != nil {
		return err
	}
	return field.Range("keep_seconds", keepSeconds, MinKeepSeconds, MaxKeepSeconds)
}

// said is an outcome in words that are about runs.
func said(o Outcome) Outcome {
	switch o.Code {
	case analysis.Lost:
		if !strings.Contains(o.Detail, "never granted") {
			o.Detail = "another caller took the run over; stop the work that this token protects"
		}
	case analysis.NotFound:
		o.Detail = "there is no such run; its record may have been removed"
	case analysis.AlreadyFinished:
		o.Detail = strings.ReplaceAll(o.Detail, "the analysis is", "the run is")
	case analysis.RequestIDReused:
		o.Detail = strings.ReplaceAll(o.Detail, "obtained the lock", "obtained the run")
	case analysis.Differs:
		o.Detail = "this run_id was used before with another fingerprint: use a new one for something else"
	default: // the rule's own words say nothing of analyses
	}
	return o
}

// misnamed is an error of the rule, which names the document of an analysis.
type misnamed struct {
	error
	key docstore.Key
}

func (id ID) named(err error) error {
	if err == nil {
		return nil
	}
	return misnamed{err, id.key()}
}

// Error names the document of the run.
func (m misnamed) Error() string {
	other := docstore.Key{Kind: analysis.Kind, ID: m.key.ID}
	return strings.ReplaceAll(strings.ReplaceAll(m.error.Error(), other.String(), m.key.String()), analysis.ExpiryField, expiryField)
}

// Unwrap is the error as it was.
func (m misnamed) Unwrap() error { return m.error }
