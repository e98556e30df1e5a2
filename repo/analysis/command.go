package analysis

import (
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Bounds of what a command may carry. Lengths are in bytes of UTF-8.
const (
	MaxIDBytes        = 256
	MaxOwnerBytes     = 256
	MaxRequestIDBytes = 128
	MaxReasonBytes    = 1024
	MaxResultBytes    = 32 << 10 // what is larger belongs elsewhere, and its address here
	MaxTTLSeconds     = 86_400   // a day

	// DefaultTTLSeconds is how long a lock lasts unless somebody says otherwise (BE-041: five minutes).
	DefaultTTLSeconds = 300
)

// ID names an analysis: the ID of its document.
type ID string

// Validate reports whether the ID can name an analysis. The error is a [field.Error].
func (id ID) Validate() error {
	if strings.ContainsRune(string(id), '/') || id == "." || id == ".." {
		return field.Errorf("analysis_id", "cannot be %q: it is the name of one document, without %q", string(id), "/")
	}
	return field.Text("analysis_id", string(id), MaxIDBytes)
}

func (id ID) key() docstore.Key { return docstore.Key{Kind: Kind, ID: string(id)} }

// Bounds of the text that a condition can tell apart.
const (
	// lastTime is the last time that [State.ExpiresAt] reads; what sorts behind it is no time. It has no fraction, because
	// "Z" sorts behind the "." of one.
	lastTime = docstore.String("9999-12-31T23:59:59Z")

	// lastText sorts behind every text that begins with an assigned character. No other type compares with text, so that
	// "less than this" is how a condition asks whether a field is text.
	lastText = docstore.String("\U0010FFFF")
)

// legible holds for a document that [stateOf] can read, and for none. It is part of every condition: whoever cannot be told
// what a write came to must not have changed anything.
func legible() docstore.Cond {
	c := docstore.All{docstore.Any{docstore.Not{Cond: docstore.Has{Field: fStatus}}, docstore.LE{Field: fStatus, Value: lastText}}}
	for _, f := range counts {
		c = append(c, docstore.Any{docstore.Not{Cond: docstore.Has{Field: f}}, docstore.All{
			docstore.LE{Field: f, Value: docstore.Int(docstore.MaxInt)},
			docstore.Not{Cond: docstore.LE{Field: f, Value: docstore.Int(-1)}},
		}})
	}
	return c
}

// unfinished holds for a document that exists and whose status is not finished (BE-041-RULE-1).
func unfinished() docstore.Cond {
	return docstore.All{
		docstore.Not{Cond: docstore.Absent{}},
		docstore.Not{Cond: docstore.Eq{Field: fStatus, Value: docstore.String(Ready)}},
		docstore.Not{Cond: docstore.Eq{Field: fStatus, Value: docstore.String(Failed)}},
	}
}

// owned holds while somebody's name is in the lock, whether it has ended or not.
func owned() docstore.Cond {
	return docstore.All{
		docstore.Has{Field: fOwner},
		docstore.Not{Cond: docstore.Eq{Field: fOwner, Value: docstore.String("")}},
	}
}

// ended holds when the lock's time is over, or is nothing that can be a time: missing, of another type, or text that
// sorts behind all times. Text that is no time and sorts among them is the business of [Acquire.WriteOver].
func ended() docstore.Cond {
	return docstore.Any{
		docstore.LE{Field: fExpiresAt, Value: docstore.Now},
		docstore.Not{Cond: docstore.LE{Field: fExpiresAt, Value: lastTime}},
	}
}

// held holds while the document's lock is that of owner and token, whether it has ended or not: nobody has taken over.
func held(owner string, token int64) docstore.All {
	return docstore.All{
		legible(),
		docstore.Eq{Field: fOwner, Value: docstore.String(owner)},
		docstore.Eq{Field: fToken, Value: docstore.Int(token)},
	}
}

// standing says whether the lock of owner and token is still theirs, and the code says why not. The token is looked at
// first: it alone tells one run from the next.
func (s State) standing(owner string, token int64) Code {
	switch {
	case !s.Exists:
		return NotFound
	case token != s.Token:
		return Lost
	case s.Owner == "":
		return Released
	case owner != s.Owner:
		return NotOwner
	default:
		return OK
	}
}

// unlock is the fields that go when a lock ends.
func unlock() []string {
	return []string{fOwner, fExpiresAt, fHeartbeatAt, fRequest, fRuns, fRequeuedAt, fRequeueID}
}

// unlocked is the state without its lock.
func (s State) unlocked() State {
	s.Owner, s.Expiry, s.Request, s.Runs, s.Requeued, s.RequeueID = "", "", "", 0, "", ""
	return s
}

// after is the symbolic time that lies ttl seconds after the store's now.
func after(ttlSeconds int64) docstore.Instant {
	return docstore.Now.Add(time.Duration(ttlSeconds) * time.Second)
}

// deadline is [after] for a known now, in the stored form.
func deadline(now time.Time, ttlSeconds int64) string {
	return string(docstore.FormatTime(docstore.TruncateMilli(now).Add(time.Duration(ttlSeconds) * time.Second)))
}

func checkOwner(s string) error {
	if s == unreadable {
		return field.Errorf("owner_id", "cannot be %q: it stands for an owner that is not text", s)
	}
	return field.Text("owner_id", s, MaxOwnerBytes)
}

func checkToken(n int64) error { return field.Range("fencing_token", n, 1, docstore.MaxInt) }

func checkTTL(n int64) error { return field.Range("ttl_seconds", n, 1, MaxTTLSeconds) }

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
