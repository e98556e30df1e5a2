package placement

import (
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

const eventKind = "placement_events"

// Event is a change of a member or of an activation. It is written in the same step as the change: there is no change
// without its event, and no event without its change, but for [Refused] and [AlarmFailed]. It is kept for a day.
type Event struct {
	ID string    // of the event: unique, and in the order of time but for what EventLag says
	At time.Time // the store's time of the change

	// Member is set for the change of a member, and the identity for that of an activation, whose owner Member is then;
	// of claims that were refused it is who claimed, if that was a member.
	Member   Incarnation
	Identity Identity

	// a Status, or a Phase; From is empty where the change does not depend on it. To can be Refused and AlarmFailed
	From, To string
	Epoch    int64  // that the change began, or by which it was decided; 0 for what an owner does
	Token    int64  // of the activation after the change
	Moved    int    // partitions that changed hands with the epoch
	Reason   string // why: of a failure the one that was given
}

// Fields of the document of an event.
const (
	fAt     = "at"
	fKind   = "kind"
	fID     = "id"
	fFrom   = "from"
	fTo     = "to"
	fMoved  = "moved"
	eventID = "2006-01-02T15:04:05.000Z" // what IDs of events begin with
)

// drawn counts the events of this process, so that those of one millisecond are in their order.
var drawn atomic.Uint32

func newEventID(at time.Time) string {
	return fmt.Sprintf("%s-%08X-%s", at.UTC().Format(eventID), drawn.Add(1), rand.Text())
}

// write is the event as its document. at is the store's time, as far as the writer knows: the step is refused if it was
// drawn too long ago, or by a clock that is too far behind, since those who follow may have gone past its place.
func (e Event) write(c Cluster, at time.Time) docstore.Write {
	w := docstore.Write{
		Key: docstore.Key{Kind: eventKind, Tenant: c.space(), ID: newEventID(at)},
		If:  docstore.Absent{},
		Set: map[string]docstore.Value{
			fAt: docstore.Now, fMember: docstore.String(e.Member.Member), fIncarnation: docstore.Int(e.Member.Number),
			fTo: docstore.String(e.To),
		},
		Keep:  keepEvents,
		Until: at.Add(maxDelay).Truncate(time.Millisecond),
	}
	for f, text := range map[string]string{fKind: e.Identity.Kind, fID: e.Identity.ID, fFrom: e.From, fReason: e.Reason} {
		if text != "" {
			w.Set[f] = docstore.String(text)
		}
	}
	for f, n := range map[string]int64{fEpoch: e.Epoch, fToken: e.Token, fMoved: int64(e.Moved)} {
		if n != 0 {
			w.Set[f] = docstore.Int(n)
		}
	}
	return w
}

func eventOf(k docstore.Key, d docstore.Doc) (Event, error) {
	r := rule.Read(k, d)
	e := Event{
		ID: k.ID, At: r.Time(fAt), Member: Incarnation{r.Text(fMember), r.Number(fIncarnation)},
		Identity: Identity{r.Text(fKind), r.Text(fID)},
		From:     r.Text(fFrom), To: r.Text(fTo), Epoch: r.Number(fEpoch), Token: r.Number(fToken),
		Moved:  int(r.Number(fMoved)),
		Reason: r.Text(fReason),
	}
	r.Required(fAt, fMember, fIncarnation, fTo)
	return e, r.Err()
}
