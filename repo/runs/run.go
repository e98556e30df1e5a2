// Package runs is for runs that callers name themselves: a request that must not take effect twice, a job of a day. The
// first caller that begins a run does the work, and all later ones get its result, until the record of the run is
// removed.
//
// The rule is that of package analysis, word for word; see there for the states, the token and late duplicates. What
// differs:
//
//   - A run belongs to a tenant.
//   - A job that comes round again is one run with one record: [analysis.Round] says which of its runs a begin is for.
//   - No producer makes its document: the first [Begin] does, in the same write.
//   - A fingerprint says what the run is about, and the same ID with another one is refused.
//   - The document is kept for a while after the end of its lock: for as long as the first begin says, unless a later
//     command says otherwise. A run that is begun after that is a new one, with a higher token, whether the store has
//     removed the document or not.
//   - Whoever may begin a run may also let it run once more, and remove it: see [Retry] and [Remove].
//   - No sweep looks for a run whose holder died: its caller asks again, and takes it over.
//
// A document of kind "runs" has the fields of an analysis' document, but for lockExpiresAt, which is called expiresAt
// here: stores have an index on lockExpiresAt for the sweep, and a run in it would cost a write more for each refresh.
// The commands are those of package analysis, on a document of this shape.
package runs

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/census"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Kind is the kind of document that a run is: one for each (tenant, run ID).
const Kind = "runs"

var shape = &analysis.Shape{Kind: Kind, Thing: "run", IDField: "run_id", ExpiryField: "expiresAt", Made: true,
	KeepSeconds: DefaultKeepSeconds, MaxKeepSeconds: MaxKeepSeconds}

// Bounds of what a command may carry. The others are those of package analysis.
const (
	MaxTenantBytes     = 128
	MinKeepSeconds     = 60
	MaxKeepSeconds     = analysis.MaxKeepSeconds // ten years
	DefaultKeepSeconds = 86_400                  // a day
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
	return id.document(0).Validate()
}

// document is that of the run, of which a command may say how long it is kept.
func (id ID) document(keepSeconds int64) analysis.Document {
	return analysis.Document{Shape: shape, Tenant: id.Tenant, ID: id.ID, KeepSeconds: keepSeconds}
}

// Outcome is the result of a command.
type Outcome = analysis.Outcome

// Limit is the code of a begin, or of one that is given up, that would make a record while the tenant has as many as it
// may have: see [Options]. Nothing was done.
const Limit analysis.Code = "RUN_LIMIT"

// Runs carries out the commands on a store. What it keeps between calls decides no grant; only the tally of a tenant's
// runs bounds new ones. So any number of them, in any number of processes, may use the same store. Errors are those of
// [analysis.Analyses].
type Runs struct {
	store        docstore.Store
	now          func() time.Time
	maxTakeovers int64
	census       *census.Census
}

// Options are the settings of [New]: those of the gate, and the bound. The zero value works.
type Options struct {
	analysis.Options

	// MaxPerTenant is how many runs a tenant may have a record of, also of those that have finished. The begin of another
	// one is [Limit]; those that have a record go on, and their results can be had. All processes share a tally, which
	// sweeps correct: see package census. 0: no bound.
	MaxPerTenant int
}

// New returns the commands of runs on a store. Options may be nil.
func New(store docstore.Store, o *Options) *Runs {
	r := &Runs{store: store, now: time.Now}
	if o != nil {
		r.maxTakeovers = o.MaxTakeovers
		if o.Now != nil {
			r.now = o.Now
		}
		r.census = census.New(store, Kind, o.MaxPerTenant, r.now)
	}
	return r
}

// Begin takes the lock of a run, which is made if there is none, or learns its result.
type Begin struct {
	ID
	rule.End

	Owner       string // who runs it, for people and for the conditions of later commands
	RequestID   string // the same for every delivery of the same attempt, another for every attempt
	TTLSeconds  int64  // how long the lock lasts without a refresh, 1 to analysis.MaxTTLSeconds
	MaxFailures int64  // a run that failed so often becomes FAILED instead of running again; 0 is no bound

	// MaxTakeovers is how often the run may be taken over from a worker that died; nil means Options.MaxTakeovers. With 0
	// a run whose worker died becomes FAILED, and is never begun again.
	MaxTakeovers *int64

	// Round says for a job that comes round again which of its runs this one is. The document is that of the job.
	Round analysis.Round

	Fingerprint string // what the run is about, at most analysis.MaxFingerprintBytes; empty compares nothing

	// KeepSeconds is how long the record is kept after the end of the lock, MinKeepSeconds to MaxKeepSeconds. From then
	// on the run counts as one that never was, although the store may keep its record longer. 0 leaves what an earlier
	// command said, DefaultKeepSeconds for a new run; with a Round it is twice the time to the next run, if that is
	// longer, and must not be less than that time.
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
	KeepSeconds int64  // see Begin
}

// Finish ends a run, and stores what all later callers get.
type Finish struct {
	ID

	Owner       string
	Token       int64
	Status      analysis.Status // analysis.Ready or analysis.Failed
	Result      string          // with Ready
	Reason      string          // with Failed
	KeepSeconds int64           // see Begin
}

// Begin carries out a [Begin]: one request to the store, two for taking over a lock that expired, for the next run of a
// job, and where a record is left that is kept no longer. A command that leaves KeepSeconds out where the run is kept
// for another time than DefaultKeepSeconds takes two. With Options.MaxPerTenant it is one more for a run without a
// record where this process has no room in hand for it, and one or two to take some. The outcome of a run that has
// finished is analysis.AlreadyFinished, with its result; one of another fingerprint is analysis.Differs.
func (r *Runs) Begin(ctx context.Context, c Begin) (Outcome, error) {
	if err := c.checkKept(); err != nil {
		return Outcome{}, err
	}
	return r.making(ctx, c.ID, c.kept(), c.acquire(r.maxTakeovers))
}

// acquire is the command on the document of the run.
func (c Begin) acquire(maxTakeovers int64) analysis.Acquire {
	a := analysis.Acquire{
		End: c.End, Owner: c.Owner, RequestID: c.RequestID, TTLSeconds: c.TTLSeconds, MaxTakeovers: maxTakeovers,
		MaxFailures: c.MaxFailures, Create: true, Fingerprint: c.Fingerprint, Round: c.Round,
	}
	if c.MaxTakeovers != nil {
		a.MaxTakeovers, a.NoTakeover = *c.MaxTakeovers, *c.MaxTakeovers == 0
	}
	return a.In(c.document(c.kept()))
}

// kept is KeepSeconds, or what it is for a job: a record that is not kept until the next run would let the same one run
// twice.
func (c Begin) kept() int64 {
	if c.KeepSeconds != 0 || c.Round == (analysis.Round{}) {
		return c.KeepSeconds
	}
	return min(MaxKeepSeconds, max(DefaultKeepSeconds, 2*c.Round.Seconds()))
}

func (c Begin) checkKept() error {
	if least := c.Round.Seconds(); c.KeepSeconds != 0 && c.KeepSeconds < least {
		return field.Errorf("keep_seconds", "is %d: the record of a job must be kept until its next run, %d seconds",
			c.KeepSeconds, least)
	}
	return nil
}

// GiveUp gives up a [Begin], see [analysis.GiveUp]: one request to the store where no run has that name, two for any
// other, and with Options.MaxPerTenant what it is more for a [Begin]. At the bound, that of a run without a record is
// [Limit]: only such a begin obtains nothing either.
func (r *Runs) GiveUp(ctx context.Context, c Begin) (Outcome, error) {
	return r.making(ctx, c.ID, c.kept(), analysis.GiveUp{Acquire: c.acquire(0)})
}

// Refresh carries out a [Refresh]: one request to the store, or two, see [Runs.Begin].
func (r *Runs) Refresh(ctx context.Context, c Refresh) (Outcome, error) {
	return r.run(ctx, c.ID, c.KeepSeconds, analysis.Refresh{
		Owner: c.Owner, Token: c.Token, TTLSeconds: c.TTLSeconds,
	}.In(c.document(c.KeepSeconds)))
}

// Release carries out a [Release]: one request to the store, or two, see [Runs.Begin].
func (r *Runs) Release(ctx context.Context, c Release) (Outcome, error) {
	return r.run(ctx, c.ID, c.KeepSeconds, analysis.Release{
		Owner: c.Owner, Token: c.Token, Failed: c.Failed,
	}.In(c.document(c.KeepSeconds)))
}

// Finish carries out a [Finish]: one request to the store, or two, see [Runs.Begin].
func (r *Runs) Finish(ctx context.Context, c Finish) (Outcome, error) {
	return r.run(ctx, c.ID, c.KeepSeconds, analysis.Finish{
		Owner: c.Owner, Token: c.Token, Status: c.Status, Result: c.Result, Reason: c.Reason,
	}.In(c.document(c.KeepSeconds)))
}

// Retry lets a FAILED run, or with From [analysis.Ready] one that is READY, be begun once more.
type Retry struct {
	ID

	By         string // who wants it
	Reason     string // stays in the record
	RequestID  string
	From       analysis.Status // analysis.Failed or analysis.Ready; empty means Failed
	FinishedAt time.Time       // see [analysis.Retry]
}

// Retry carries out a [Retry]: one request to the store, or two, see [Runs.Begin].
func (r *Runs) Retry(ctx context.Context, c Retry) (Outcome, error) {
	return r.run(ctx, c.ID, 0, analysis.Retry{
		By: c.By, Reason: c.Reason, RequestID: c.RequestID, From: c.From, FinishedAt: c.FinishedAt,
	}.In(c.document(0)))
}

// Remove removes the record of a run that no one runs: its ID is a new one from then on.
type Remove struct {
	ID

	By        string // who wants it
	Reason    string
	RequestID string
}

// Remove carries out a [Remove]: one request to the store, two for a run whose lock has expired. See [analysis.Remove].
// The tally of the tenant learns of it by the next correction.
func (r *Runs) Remove(ctx context.Context, c Remove) (Outcome, error) {
	return r.run(ctx, c.ID, 0, analysis.Remove{
		By: c.By, Reason: c.Reason, RequestID: c.RequestID, In: c.document(0),
	})
}

// Get returns the run as it stands and the store's time; State.Exists is false if there is none. One strongly
// consistent read.
func (r *Runs) Get(ctx context.Context, id ID) (analysis.State, time.Time, error) {
	if err := id.Validate(); err != nil {
		return analysis.State{}, time.Time{}, err
	}
	return id.document(0).Get(ctx, r.store)
}

// command is what the gate's commands on a run have in common.
type command interface {
	rule.Command[analysis.State, Outcome]
	rule.Fallback[analysis.State]
	Validate() error
}

// Command is a command on the lock of a run, for a [rule.Observer]: one of those of package analysis.
type Command struct {
	Run ID
	Of  any
}

// onRun is a command that observers know as a [Command].
type onRun struct {
	command
	rule.End

	id       ID
	existing bool           // makes no record
	effect   *census.Effect // what it did to the number of records
}

// Unwrap implements [rule.Wrapper].
func (c onRun) Unwrap() any { return Command{c.id, c.command} }

// Write does not apply where there is no record, if none is to be made.
func (c onRun) Write() docstore.Write {
	w := c.command.Write()
	if c.existing {
		w.If = docstore.All{docstore.Not{Cond: docstore.Absent{}}, w.If}
	}
	return w
}

// Granted notes if the command made the record: then one request is remembered in it.
func (c onRun) Granted(s analysis.State, w rule.When) Outcome {
	remembered := 0
	for _, r := range s.Requests {
		if r != "" {
			remembered++
		}
	}
	if remembered == 1 {
		*c.effect = census.Created
	}
	return c.command.Granted(s, w)
}

// Fallback makes no record, if none is to be made.
func (c onRun) Fallback(s analysis.State, w rule.When) (docstore.Write, bool) {
	wr, ok := c.command.Fallback(s, w)
	return wr, ok && (!c.existing || !c.none(s))
}

// none reports whether a state is that of no record.
func (onRun) none(s analysis.State) bool { return !s.Exists && s.Requests == (rule.Requests{}) }

// GrantedFallback implements [rule.FallbackOutcome], for a command that does.
func (c onRun) GrantedFallback(found, after analysis.State, decided, w rule.When) Outcome {
	if c.none(found) {
		*c.effect = census.Created
	}
	if second, ok := c.command.(rule.FallbackOutcome[analysis.State, Outcome]); ok {
		return second.GrantedFallback(found, after, decided, w)
	}
	return c.command.Granted(after, w)
}

// Refusal notes if there is no record, and none is to be made.
func (c onRun) Refusal(s analysis.State, w rule.When) Outcome {
	o := c.command.Refusal(s, w)
	if c.existing && c.none(s) && o.Code != analysis.TooLate && o.Code != analysis.TooFar &&
		o.Code != analysis.NotDue {
		*c.effect = census.Missing
		return Outcome{Code: Limit, At: o.At}
	}
	return o
}

// on is a command on the document of a run. The error is a [field.Error].
func (id ID) on(keepSeconds int64, c command) (onRun, error) {
	var keep error
	if keepSeconds != 0 {
		keep = field.Range("keep_seconds", keepSeconds, MinKeepSeconds, MaxKeepSeconds)
	}
	sent := onRun{command: c, id: id, effect: new(census.Effect)}
	if acquire, ok := c.(analysis.Acquire); ok {
		sent.End = acquire.End
	}
	return sent, cmp.Or(id.Validate(), keep, c.Validate())
}

func (r *Runs) run(ctx context.Context, id ID, keepSeconds int64, c command) (Outcome, error) {
	sent, err := id.on(keepSeconds, c)
	if err != nil {
		return Outcome{}, err
	}
	return rule.Run(ctx, r.store, r.now, sent)
}

// making is run for a command that makes the record if there is none.
func (r *Runs) making(ctx context.Context, id ID, keepSeconds int64, c command) (o Outcome, err error) {
	sent, err := id.on(keepSeconds, c)
	if err != nil {
		return Outcome{}, err
	}
	err = r.census.Within(ctx, id.Tenant, true, func(existing bool) (_ census.Effect, err error) {
		sent.existing, *sent.effect = existing, census.Other
		o, err = rule.Run(ctx, r.store, r.now, sent)
		return *sent.effect, err
	})
	if err == nil && o.Code == Limit {
		o.RetryAfter = r.census.RetryAfter(id.Tenant)
		o.Detail = fmt.Sprintf("the tenant has %d runs, which is the bound of this server; those that it has go on, and "+
			"there is room for others when some were removed: that is keep_seconds after the last request of their holders",
			r.census.Most())
	}
	return o, err
}
