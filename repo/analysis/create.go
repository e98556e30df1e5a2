package analysis

import (
	"context"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Pending is the status that [Create] gives. Users who make their documents themselves may call it what they like.
const Pending Status = "PENDING"

// Create makes the document of an analysis that has none, for those who do not keep one anyway. It never changes a document
// that is there.
type Create struct{ ID }

// Decide makes the document if there is none. One that is there is as good, whoever made it, so that a repeated command
// is answered like the first.
func (c Create) Decide(s State, now time.Time) (State, Outcome) {
	if s.Exists {
		return s, Outcome{Code: OK, Replayed: true, At: now, Grant: Grant{Status: s.Status}}
	}
	s = State{Exists: true, Status: Pending}
	return s, Outcome{Code: OK, At: now, Grant: s.grant()}
}

// Write is the granting branch of Decide.
func (c Create) Write() docstore.Write {
	return docstore.Write{
		Key: c.key(),
		If:  docstore.Absent{},
		Set: map[string]docstore.Value{fStatus: docstore.String(Pending)},
	}
}

// Create makes an analysis; see [Create.Decide]. Outcome.Replayed says that it was there. One request to the store.
func (a *Analyses) Create(ctx context.Context, c Create) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	return a.do(ctx, c, c.ID)
}
