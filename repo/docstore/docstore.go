// Package docstore is the port through which every rule of Leasehold touches storage: a document store
// reduced to the three things that a lease needs.
//
//   - Get reads several documents in one trip, strongly consistent.
//   - Write changes one or several documents if their conditions hold, all or nothing.
//   - List walks the documents of one kind and tenant in the order of their IDs.
//
// # Who decides
//
// A rule (see repo/rule) is a [Write]: a condition, and the fields to set, add and unset. The store evaluates the
// condition and applies the change in one atomic step. When the condition does not hold it changes nothing and returns
// the document that it found, so that the rule can explain the rejection without another read.
//
//	rule ──Write{Key, If, Set, Add, Unset}──▶ store ──┬─ condition holds ─▶ applied, the document after
//	                                                  └─ otherwise ───────▶ refused, the document found
//
// # Whose clock
//
// The symbolic time [Now] is the instant at which the store evaluates a write. Conditions compare with it and fields
// are set to it, so that the clocks of the callers do not matter on a store that has a clock of its own. The At field
// of each result is the instant that the store used.
//
// # What can go wrong
//
// A condition that does not hold is an outcome ([Result].Applied is false), never an error. An error from Write means
// that the outcome is unknown: the write may have been applied and its response lost. Only [ErrInvalid], [ErrDamaged],
// [ErrClosed], [ErrClockSkew], [ErrUnsupported] and [ErrNotWritten] mean that nothing was changed. A rule must
// recognise its own earlier write in the document found; see repo/lock for how request IDs do that.
//
// The in-memory store of [NewMemory] is the reference implementation; docstoretest compares every adapter with it. What
// only authors of adapters need is in package driver.
package docstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/internal/term"
)

var (
	// ErrInvalid marks a key, write or query that no store accepts. Nothing was sent and nothing was changed.
	// The error's text names the part at fault.
	ErrInvalid = errors.New("docstore: invalid")

	// ErrDamaged marks a stored document that cannot take the write: an Add on a field that is not an integer, or beyond
	// [MaxInt], a [Before] of a field that is not text. Nothing was changed. The error's text names the document and the
	// field.
	ErrDamaged = errors.New("docstore: damaged document")

	// ErrClosed is the error of every call on a store after Close.
	ErrClosed = errors.New("docstore: closed")

	// ErrUnavailable marks a store that could not be reached or did not respond in time. A write that ends with it
	// may have been applied all the same. Trying again later may succeed.
	ErrUnavailable = errors.New("docstore: unavailable")

	// ErrFull is the [ErrUnavailable] of a store that has no space left: reading still works.
	ErrFull = fmt.Errorf("%w: no space left", ErrUnavailable)

	// ErrBlocked is the [ErrUnavailable] of a store in a file that another process keeps locked.
	ErrBlocked = fmt.Errorf("%w: blocked by another process", ErrUnavailable)

	// ErrNotWritten marks, beside another error, a write that was certainly not carried out: nothing was changed, and
	// nothing of it will arrive later. A read can carry it, too, and means nothing by it.
	ErrNotWritten = errors.New("docstore: not written")

	// ErrUnsupported marks what the store cannot do where it is: Get and Write of several documents on a DynamoDB table
	// with multi-Region strong consistency, which has no transactions. Nothing was changed, and trying again does not
	// help.
	ErrUnsupported = errors.New("docstore: not supported here")

	// ErrClockSkew is the error of a store without a clock of its own when the caller's clock is further from the
	// service's than the store's settings allow. Nothing was sent: by such a clock, a lease could be taken over while it
	// is held.
	ErrClockSkew = errors.New("docstore: the clock is off")
)

// Store is what an adapter implements. Every method may be called from several goroutines at once, honours the
// context's cancellation and deadline, and returns [ErrClosed] after Close.
type Store interface {
	// Get returns the documents of keys in one strongly consistent trip: it sees every write that was acknowledged before
	// the call. Up to a hundred documents of one tenant are of one instant. Snapshot.Docs has one entry for each key, in
	// order; nil means that the document does not exist. No keys is [ErrInvalid]; the same key twice is allowed.
	Get(ctx context.Context, keys ...Key) (Snapshot, error)

	// Write applies all writes in one atomic step if every condition holds, and changes nothing otherwise. One to
	// [MaxWrites] writes, each for another key, all of one tenant, of whatever kinds, else [ErrInvalid]. A write whose
	// condition holds for an absent document creates it. An error that is none of ErrInvalid, ErrDamaged, ErrClosed,
	// ErrClockSkew, ErrUnsupported and ErrNotWritten leaves the outcome unknown.
	Write(ctx context.Context, writes ...Write) (Result, error)

	// List returns the documents of one kind and tenant whose IDs begin with a prefix, by ascending bytes of the ID,
	// a page at a time. Every document that exists during the whole walk is seen exactly once; each page is strongly
	// consistent by itself.
	List(ctx context.Context, q Query) (Page, error)

	// Close lets calls in progress end, then releases what the store holds. Closing twice is allowed.
	Close() error
}

// Gone is the end of a context, nil if it has none yet. It looks at the deadline itself as well: in a process that was
// stopped and goes on, calls are carried out before the timers of their contexts. An adapter that lets calls wait asks
// again before it sends one: what no caller waits for any more must not be written.
func Gone(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && over(term.Now(), term.Of(deadline)) {
		return context.DeadlineExceeded
	}
	return nil
}

// over reports whether a deadline has passed by either clock: the monotonic one, and so the timers of contexts, may
// stand still while the process is stopped.
func over(now, deadline term.Moment) bool { return now.Until(deadline) < 0 }

// Snapshot is the result of [Store.Get].
type Snapshot struct {
	At     time.Time     // the store's time of the read, in UTC, whole milliseconds
	Margin time.Duration // how far the store's time may lie beyond At: 0 on all stores with a clock
	Docs   []Doc         // one for each key; nil where no document exists
}

// Write is one conditional change of one document. It patches: fields that are not named keep their values.
type Write struct {
	Key   Key
	If    Cond             // nil holds always
	Set   map[string]Value // fields and their new values; the store resolves an [Instant] and a [Before]
	Add   map[string]int64 // whole numbers to add; a missing field counts as 0, or as StartAtNow says
	Unset []string         // fields to remove; a missing field is no error

	// StartAtNow names fields of Add that, where they are missing, count as the store's time in microseconds since 1970
	// instead of 0. A counter that is increased less often than once a microsecond then never shows a number twice, even
	// if its document was removed in between, for longer than a millisecond (on a store without a clock of its own: for
	// longer than it may be unsure of the time, which is seconds). A store that has only the clock of one machine (memory,
	// SQLite, Redis) starts no such counter below the highest number that one of them has reached, so that a clock which
	// is set back cannot undo that: see [Write.StartFrom]. One that may have forgotten writes increases none that is there
	// before it was raised: see [BehindError].
	StartAtNow []string

	// Keep is how long the document is kept from this write on: when no later write has said otherwise by then, the store
	// may remove it, at once or days later. 0 leaves what earlier writes said; a document of which no write said anything
	// is kept for ever. It is stored beside the fields and is not one of them. See [Pruner].
	Keep time.Duration

	// Until is the store's time up to which the write is applied, in whole milliseconds; the zero time is no end. After it
	// the write is refused as one whose condition does not hold, and so it is more than [MaxAhead] before it: then a wrong
	// clock has named it. A store without a clock of its own asks for the latest that its time can be.
	Until time.Time

	// Return names the fields that the caller reads from the document after the write. A store may leave out all others
	// then; most of what a store sends would be fields that no one reads. A field that is missing is no error. nil is the
	// whole document, and after a refusal the document found is always whole.
	Return []string

	// Delete removes the document instead. Nothing else can be said then, and If must not hold where there is no document:
	// what is not there cannot be deleted.
	Delete bool
}

// Result is the result of [Store.Write].
type Result struct {
	Applied bool
	At      time.Time // the instant that Now was, in UTC, whole milliseconds

	// Margin is how far the store's time may lie beyond At, if Applied is false. A store without a clock of its own knows
	// the time only between two instants. It writes the later one, so that no lease ends too early. If the condition asks
	// for the earlier one ([Earliest], and [Now] where it must certainly have passed), At is that, and At + Margin the
	// later one. Otherwise At is the later one and Margin is 0, as it is on all stores with a clock.
	Margin time.Duration

	// Before is how long the call had lasted when At was: the time of a write that was sent several times is that of the
	// last try. 0 is none, or not known.
	Before time.Duration

	// Lost is by how much longer ago At was when the response arrived than the caller's clock knows, as the times in the
	// response say: the machine was stopped meanwhile, and its clock with it. It errs on the long side. 0 is none, or not
	// known.
	Lost time.Duration

	// Docs has one entry for each write, in order. After applied writes it holds the documents as they now are (nil after
	// Delete), or as much of each as [Write].Return asks for; after several, a store that cannot return them holds nil for
	// each: DynamoDB. After a refusal it holds, for the writes named in Refused, the document found (nil if there was
	// none).
	Docs []Doc

	// Refused lists the indexes of writes whose condition did not hold: at least one when Applied is false, none
	// otherwise. A store may stop at the first.
	Refused []int
}

// Pruner is for a store that does not remove documents by itself once their Keep has passed (see [Write]). On the
// others the service does (time to live on DynamoDB and Firestore).
type Pruner interface {
	// Prune removes up to limit documents whose Keep has passed, of all kinds and tenants, each in a step that looks at
	// the time again. It returns how many; fewer than limit means that no more were due. A limit below 1 is [ErrInvalid].
	// What cannot be read keeps nothing behind it, and the error names it, an [Unreadable].
	Prune(ctx context.Context, limit int) (removed int, err error)
}

// Stopper is a store that no process uses any more once one of them has found that it lost writes which it had
// acknowledged, because it would give tokens again. The adapter of Redis implements it.
type Stopper interface {
	// TokensRaised lets all use it again, after the tokens of all documents were raised to at least token. Counters that
	// begin at the time begin above it from then on. It may be called where no writes were lost, too. An error means that
	// the tokens must be raised again.
	TokensRaised(ctx context.Context, token int64) error
}

// Walker is for maintenance: it finds the documents of one kind whatever their tenant. Every adapter implements it.
type Walker interface {
	// Walk returns a page of the documents of a kind, of all tenants and of none, in an order of the store's own. Every
	// document that exists during the whole walk is seen exactly once. A page may be short, or even empty, and still have
	// a Next.
	Walk(ctx context.Context, q WalkQuery) (Page, error)
}

// WalkQuery selects a page of documents for [Walker].
type WalkQuery struct {
	Kind  string
	After string // Page.Next of the page before; empty for the first
	Limit int    // entries in the page, 1 to MaxLimit; 0 means DefaultLimit
}

// Validate reports whether the query is well formed, but for After, which only the store can read. The error is
// [ErrInvalid].
func (q WalkQuery) Validate() error { return Query{Kind: q.Kind, Limit: q.Limit}.Validate() }

// Size is the number of entries that the query asks for: Limit, or [DefaultLimit] for 0.
func (q WalkQuery) Size() int { return Query{Limit: q.Limit}.Size() }

// Query selects a page of documents for [Store.List].
type Query struct {
	Kind   string
	Tenant string // may be empty, for kinds that belong to no tenant
	Prefix string // of the ID; empty selects all
	After  string // only IDs greater than this one: Page.Next of the page before, empty for the first
	Limit  int    // entries in the page, 1 to MaxLimit; 0 means DefaultLimit
}

// Page is the result of [Store.List].
type Page struct {
	At      time.Time     // the store's time of the read, in UTC, whole milliseconds
	Margin  time.Duration // how far the store's time may lie beyond At: 0 on all stores with a clock
	Entries []Entry
	// those of the page that the store cannot read, by ascending IDs; they count to Limit as entries do, unless they have
	// no ID
	Damaged []Damaged
	Next    string // Query.After of the next page; empty when this was the last
}

// Damaged is a document that the store cannot read: what it has in the document's place is none. It keeps no other
// from being read. Without an ID it is something among the documents that no key could name; such ones come last.
type Damaged struct {
	Key Key
	Err error // an [ErrDamaged] that names the document
}

// All are the documents of the page by ascending IDs, each with nil, or without fields and with why the store cannot
// read it.
func (p Page) All() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		damaged := p.Damaged
		for _, e := range p.Entries {
			for len(damaged) > 0 && damaged[0].Key.ID != "" && damaged[0].Key.ID < e.Key.ID {
				if !yield(Entry{Key: damaged[0].Key}, damaged[0].Err) {
					return
				}
				damaged = damaged[1:]
			}
			if !yield(e, nil) {
				return
			}
		}
		for _, d := range damaged {
			if !yield(Entry{Key: d.Key}, d.Err) {
				return
			}
		}
	}
}

// Entry is one document of a [Page].
type Entry struct {
	Key Key
	Doc Doc
}

// Bounds that every store keeps. They are the smallest that the stores behind the port have in common.
const (
	MaxWrites    = 100     // writes in one atomic step (DynamoDB's TransactWriteItems)
	MaxLimit     = 1000    // entries in a page
	DefaultLimit = 100     // entries in a page when the query names none
	MaxInt       = 1 << 53 // largest magnitude of an integer: every JSON reader holds it exactly

	// MaxBytes is the length of a [Bytes]. All fields of a document share what a store takes for it: 400 KB on DynamoDB, 1
	// MiB on Firestore, names and values together; all documents of one step, 4 MB and 10 MiB. More is [ErrInvalid] there.
	MaxBytes = 256 << 10
)

// Validate reports whether the query is well formed. The error is [ErrInvalid].
func (q Query) Validate() error {
	k := Key{Kind: q.Kind, Tenant: q.Tenant, ID: "x"}
	if err := k.Validate(); err != nil {
		return err
	}
	if q.Limit < 0 || q.Limit > MaxLimit {
		return fmt.Errorf("%w: limit %d: from 1 to %d, or 0 for %d", ErrInvalid, q.Limit, MaxLimit, DefaultLimit)
	}
	for name, id := range map[string]string{"prefix": q.Prefix, "after": q.After} {
		if id == "" {
			continue
		}
		if err := checkText(name, id, MaxIDBytes); err != nil {
			return err
		}
	}
	return nil
}

// Size is the number of entries that the query asks for: Limit, or [DefaultLimit] for 0.
func (q Query) Size() int {
	if q.Limit == 0 {
		return DefaultLimit
	}
	return q.Limit
}

// ValidateKeys reports whether keys may be read together. The error is [ErrInvalid].
func ValidateKeys(keys []Key) error {
	if len(keys) == 0 {
		return fmt.Errorf("%w: no keys", ErrInvalid)
	}
	for _, k := range keys {
		if err := k.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// ValidateWrites reports whether writes may be applied together. The error is [ErrInvalid] and names the write at
// fault.
func ValidateWrites(writes []Write) error {
	if len(writes) == 0 || len(writes) > MaxWrites {
		return fmt.Errorf("%w: %d writes: from 1 to %d", ErrInvalid, len(writes), MaxWrites)
	}
	var seen map[Key]bool
	if len(writes) > 1 {
		seen = make(map[Key]bool, len(writes))
	}
	for i, w := range writes {
		if err := w.Validate(); err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
		if first := writes[0].Key.Tenant; w.Key.Tenant != first {
			return fmt.Errorf(
				"%w: write %d: %s: tenant %q, and write 0 has tenant %q: what changes in one step is of one tenant",
				ErrInvalid, i, w.Key, w.Key.Tenant, first)
		}
		if seen[w.Key] {
			return fmt.Errorf("%w: write %d: %s is written twice in one step", ErrInvalid, i, w.Key)
		}
		if seen != nil {
			seen[w.Key] = true
		}
	}
	return nil
}

// Validate reports whether the write is well formed: a valid key and condition, valid field names and values, and no
// field changed twice. The error is [ErrInvalid].
func (w Write) Validate() error {
	if err := w.Key.Validate(); err != nil {
		return err
	}
	if w.If != nil {
		if err := checkCond(w.If, 0); err != nil {
			return fmt.Errorf("%w: condition: %w", ErrInvalid, err)
		}
	}
	if w.Delete {
		if len(w.Set)+len(w.Add)+len(w.Unset)+len(w.StartAtNow)+len(w.Return) > 0 || w.Keep != 0 {
			return fmt.Errorf("%w: delete: a document that is deleted cannot be changed as well", ErrInvalid)
		}
		if w.If == nil || w.If.Holds(nil, time.Time{}) {
			return fmt.Errorf("%w: delete: the condition holds where there is no document", ErrInvalid)
		}
	}
	if w.Keep < 0 || w.Keep > maxOffset || w.Keep%time.Millisecond != 0 {
		return fmt.Errorf("%w: keep %v: whole milliseconds, from 0 to a century", ErrInvalid, w.Keep)
	}
	for f, v := range w.Set {
		if err := checkField(f); err != nil {
			return fmt.Errorf("%w: set: %w", ErrInvalid, err)
		}
		if b, ok := v.(Before); ok {
			if err := checkField(string(b)); err != nil {
				return fmt.Errorf("%w: set %s: before: %w", ErrInvalid, f, err)
			}
			continue
		}
		if err := checkValue(v); err != nil {
			return fmt.Errorf("%w: set %s: %w", ErrInvalid, f, err)
		}
	}
	for f, n := range w.Add {
		if err := checkField(f); err != nil {
			return fmt.Errorf("%w: add: %w", ErrInvalid, err)
		}
		if err := checkValue(Int(n)); err != nil {
			return fmt.Errorf("%w: add %s: %w", ErrInvalid, f, err)
		}
		if _, twice := w.Set[f]; twice {
			return fmt.Errorf("%w: field %s is both set and added to", ErrInvalid, f)
		}
	}
	for _, f := range w.StartAtNow {
		if _, add := w.Add[f]; !add {
			return fmt.Errorf("%w: field %s starts at the store's time and is not added to", ErrInvalid, f)
		}
	}
	if f, twice := repeated(w.StartAtNow); twice {
		return fmt.Errorf("%w: field %s starts twice", ErrInvalid, f)
	}
	for _, f := range w.Unset {
		if err := checkField(f); err != nil {
			return fmt.Errorf("%w: unset: %w", ErrInvalid, err)
		}
		_, set := w.Set[f]
		_, add := w.Add[f]
		if set || add {
			return fmt.Errorf("%w: field %s is both unset and changed", ErrInvalid, f)
		}
	}
	if f, twice := repeated(w.Unset); twice {
		return fmt.Errorf("%w: field %s is unset twice", ErrInvalid, f)
	}
	for _, f := range w.Return {
		if err := checkField(f); err != nil {
			return fmt.Errorf("%w: return: %w", ErrInvalid, err)
		}
	}
	if f, twice := repeated(w.Return); twice {
		return fmt.Errorf("%w: field %s is returned twice", ErrInvalid, f)
	}
	return nil
}

// repeated returns a name of fields that is there twice. Only names that may be one of those before are compared with
// them, which few are.
func repeated(names []string) (name string, twice bool) {
	var seen uint64
	for i, f := range names {
		bit := uint64(1) << ((uint(f[0]) + 7*uint(f[len(f)-1]) + 31*uint(len(f))) % 64)
		if seen&bit != 0 && slices.Contains(names[:i], f) {
			return f, true
		}
		seen |= bit
	}
	return "", false
}

// Holds reports whether the write's condition holds for the document found (nil: none) at the instant now.
func (w Write) Holds(found Doc, now time.Time) bool {
	return w.InTime(now) && (w.If == nil || w.If.Holds(found, now))
}

// MaxAhead is how far Until may lie ahead of the store's time.
const MaxAhead = time.Hour

// InTime reports whether the write may be applied at the instant now, see Until.
func (w Write) InTime(now time.Time) bool {
	return w.Until.IsZero() || !now.After(w.Until) && !w.Until.After(now.Add(MaxAhead))
}

// Apply returns the document that the write makes of the one found (nil: none) at the instant now; nil for Delete. It
// does not look at the condition and does not change found. The error is [ErrDamaged]: an Add on a field that is no
// integer, or whose sum leaves the range of ±[MaxInt], or a [Before] of a field that is not text.
//
// Stores that evaluate writes in Go (memory, SQLite, Firestore) share it; the others are held to it by docstoretest.
func (w Write) Apply(found Doc, now time.Time) (Doc, error) {
	if w.Delete {
		return nil, nil //nolint:nilnil // no document is the result
	}
	after := maps.Clone(found) // it has most of the fields already, but for the first write
	if after == nil {
		after = make(Doc, len(w.Set)+len(w.Add))
	}
	for _, f := range w.Unset {
		delete(after, f)
	}
	for f, v := range w.Set {
		if b, ok := v.(Before); ok {
			text, err := w.before(found, string(b))
			if err != nil {
				return nil, err
			}
			after[f] = text
			continue
		}
		after[f] = resolve(v, now)
	}
	for f, n := range w.Add {
		old := Int(0)
		if slices.Contains(w.StartAtNow, f) {
			old = Int(now.UnixMicro())
		}
		if v, ok := after[f]; ok {
			if old, ok = v.(Int); !ok {
				return nil, fmt.Errorf("%w: %s: field %q holds %s, not a whole number", ErrDamaged, w.Key, f, describe(v))
			}
		}
		sum := int64(old) + n
		if sum > MaxInt || sum < -MaxInt {
			return nil, fmt.Errorf("%w: %s: field %q would become %d, beyond ±2^53", ErrDamaged, w.Key, f, sum)
		}
		after[f] = Int(sum)
	}
	return after, nil
}

// Returned is a copy of what the caller reads from the document after the write: see [Write].Return.
func (w Write) Returned(after Doc) Doc {
	if w.Return == nil || after == nil {
		return after.Clone()
	}
	read := make(Doc, len(w.Return))
	for _, f := range w.Return {
		if v, ok := after[f]; ok {
			read[f] = cloned(v)
		}
	}
	return read
}

// StartFrom returns the write with counters that start at floor where the store's time lies before it (see StartAtNow),
// for a store that knows the highest number which such a counter has reached. It is to be applied to the document
// found.
func (w Write) StartFrom(floor int64, found Doc, now time.Time) Write {
	behind := floor - now.UnixMicro()
	if behind <= 0 {
		return w
	}
	add := maps.Clone(w.Add)
	for _, f := range w.StartAtNow {
		if _, ok := found[f]; !ok {
			add[f] += behind
		}
	}
	w.Add = add
	return w
}

// Reached returns the highest number of the write's counters in the document that it made, 0 if it has none.
func (w Write) Reached(after Doc) (highest int64) {
	for _, f := range w.StartAtNow {
		n, _ := after[f].(Int)
		highest = max(highest, int64(n))
	}
	return highest
}

// before is the text that a field had before the write, empty if it is missing.
func (w Write) before(found Doc, f string) (Value, error) {
	switch v := found[f]; v.(type) {
	case nil:
		return String(""), nil
	case String:
		return v, nil
	default:
		return nil, fmt.Errorf("%w: %s: field %q holds %s, not text", ErrDamaged, w.Key, f, describe(v))
	}
}
