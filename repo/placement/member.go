package placement

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Kinds of the documents of a cluster. All have the same tenant, see [Cluster.space].
const (
	headKind   = "placement_clusters"      // one: which epoch it is
	epochKind  = "placement_epochs"        // one for each epoch, written once
	memberKind = "placement_members"       // one for each member's name: changes with epochs only
	leaseKind  = "placement_member_leases" // one for each member's name: what heartbeats write
)

func (c Cluster) head() docstore.Key {
	return docstore.Key{Kind: headKind, Tenant: c.space(), ID: "head"}
}

func (c Cluster) epoch(n int64) docstore.Key {
	return docstore.Key{Kind: epochKind, Tenant: c.space(), ID: fmt.Sprintf("%016d", n)}
}

func (c Cluster) member(name string) docstore.Key {
	return docstore.Key{Kind: memberKind, Tenant: c.space(), ID: name}
}

func (c Cluster) lease(member string) docstore.Key {
	return docstore.Key{Kind: leaseKind, Tenant: c.space(), ID: member}
}

// Fields of the documents of a cluster. The head has fEpoch, fPartitions, fHashVersion, fChangedAt and fDrawn; an epoch
// has them, fCause and fChanges.
const (
	fPartitions  = "partitions"
	fHashVersion = "hash_version"
	fDrawn       = "drawn"
	fCause       = "cause"

	fKeptUntil = "kept_until" // of what has ended; also of activations

	fStatus = "status"
	fSince  = "since"

	fSeq       = "seq"
	fExpiresAt = "expires_at"
	fBeatAt    = "beat_at"
	fTTL       = "ttl_ms"
	fDraining  = "draining" // true once the member drains, so that its heartbeats tell it
)

var (
	joins  = rule.Register{"j1", "j2", "j3", "j4"}
	offers = rule.Register{"o1", "o2", "o3", "o4"}
)

// head is what the document of a cluster says.
type head struct {
	epoch      int64
	partitions int
	changedAt  time.Time
	drawn      string // Topology.drawn
	removed    int64  // the epoch that the cluster was removed from; 0 if it was not, or lives again
}

// fresh reports whether the next epoch is the first of a cluster.
func (h head) fresh() bool { return h.epoch == 0 || h.removed > 0 }

// names reports whether the head is that of an epoch. Its number does not tell: a store that lost its latest writes
// begins the epochs after them again, under the same numbers, and if its clock is behind that of the store before, in
// the same millisecond. The step that writes an epoch gives both the same time, and the same text drawn by chance.
func (h head) names(t *Topology) bool {
	return t != nil && t.Epoch == h.epoch && t.At.Equal(h.changedAt) && t.drawn == h.drawn
}

// same holds while the head is as it was read.
func (h head) same() docstore.All {
	return docstore.All{
		docstore.Eq{Field: fEpoch, Value: docstore.Int(h.epoch)},
		docstore.Eq{Field: fChangedAt, Value: docstore.FormatTime(h.changedAt)},
		docstore.Eq{Field: fDrawn, Value: docstore.String(h.drawn)},
	}
}

func (c Cluster) headOf(d docstore.Doc) (head, error) {
	r := rule.Read(c.head(), d)
	h := head{
		epoch: r.Number(fEpoch), partitions: int(r.Number(fPartitions)),
		changedAt: r.Time(fChangedAt), drawn: r.Text(fDrawn),
		removed: r.Number(fRemoved),
	}
	version := r.Number(fHashVersion)
	if r.Required(fHashVersion, fChangedAt, fDrawn); h.epoch < 1 || checkPartitions(h.partitions) != nil {
		r.Fail(fEpoch, "an epoch, or its number of partitions is not one")
	}
	if r.Err() == nil && version != HashVersion {
		return h, fmt.Errorf("cluster %q places by version %d of the hash, and this program by %d: update the program",
			c.Name, version, HashVersion)
	}
	return h, r.Err()
}

// dated gives the members that changed with the epoch its time, which no one knew when the epoch was written.
func (t *Topology) dated() *Topology {
	for i := range t.Members {
		if t.Members[i].Since == t.Epoch {
			t.Members[i].At = t.At
		}
	}
	return t
}

// seat is what the document of a member says.
type seat struct {
	number int64 // of its latest incarnation; 0: there was none
	status Status
	since  int64 // epoch of its latest change
	joins  rule.Requests
	offers rule.Requests
}

func (s seat) live() bool { return s.status == MemberActive || s.status == MemberDraining }

func (c Cluster) seatOf(name string, d docstore.Doc) (seat, error) {
	r := rule.Read(c.member(name), d)
	s := seat{number: r.Number(fIncarnation), status: Status(r.Text(fStatus)), since: r.Number(fSince),
		joins: r.Requests(joins), offers: r.Requests(offers)}
	if d != nil && !slices.Contains([]Status{MemberActive, MemberDraining, MemberLeft, MemberDead}, s.status) {
		r.Fail(fStatus, "ACTIVE, DRAINING, LEFT or DEAD")
	}
	r.Required(fIncarnation, fSince)
	return s, r.Err()
}

// seatWrite changes the document of a member in the state in which it was read. What is written holds from the epoch
// on.
func (c Cluster) seatWrite(i Incarnation, found seat, status Status, epoch int64) docstore.Write {
	cond := docstore.Cond(docstore.Absent{})
	if found.number > 0 {
		cond = docstore.All{
			docstore.Eq{Field: fIncarnation, Value: docstore.Int(found.number)},
			docstore.Eq{Field: fSince, Value: docstore.Int(found.since)},
		}
	}
	return docstore.Write{
		Key: c.member(i.Member),
		If:  cond,
		Set: map[string]docstore.Value{
			fIncarnation: docstore.Int(i.Number), fStatus: docstore.String(status), fSince: docstore.Int(epoch),
			fChangedAt: docstore.Now,
		},
		Unset: []string{fKeptUntil},
		Keep:  keepForever,
	}
}

// unchanged holds while the document of a member is as an epoch has it.
func (c Cluster) unchanged(m *Member) docstore.Write {
	return docstore.Write{Key: c.member(m.Member), If: docstore.All{
		docstore.Eq{Field: fIncarnation, Value: docstore.Int(m.Number)},
		docstore.Eq{Field: fSince, Value: docstore.Int(m.Since)},
	}}
}

// maxDelay is how long after its read a claim, a transfer or a change of the members may be written. A store evaluates
// it, as the end of the event that is written in the same step: a process that was paused in between writes nothing. It
// is far below the retention of documents, so what a read did not find has not been there since, and numbers that start
// at the time of the read are higher than all before. And it is below [EventLag]: the event is named by the time of the
// read, and who follows events must not have gone past it when it appears.
const maxDelay = EventLag / 2

// LeaseState is what the document of a member's lease says. The zero LeaseState is one that never was.
type LeaseState struct {
	Number    int64     // of the incarnation
	Seq       int64     // of the latest heartbeat
	ExpiresAt time.Time // zero if the lease was ended
	Draining  bool      // the member is to hand over what it serves

	ttl time.Duration // of the latest heartbeat
}

// status is that of a member which has the lease.
func (l LeaseState) status() Status {
	if l.Draining {
		return MemberDraining
	}
	return MemberActive
}

// held reports whether the lease lasts, or may last, at a time.
func (l LeaseState) held(at time.Time) bool { return !l.ExpiresAt.IsZero() && at.Before(l.ExpiresAt) }

func (c Cluster) leaseOf(name string, d docstore.Doc) (LeaseState, error) {
	r := rule.Read(c.lease(name), d)
	l := LeaseState{Number: r.Number(fIncarnation), Seq: r.Number(fSeq), ExpiresAt: r.Time(fExpiresAt),
		Draining: r.Flag(fDraining), ttl: time.Duration(r.Number(fTTL)) * time.Millisecond}
	r.Required(fIncarnation, fSeq)
	return l, r.Err()
}

// leaseWrite begins the lease of a new incarnation. found is the lease as it was read, which must have ended.
func (c Cluster) leaseWrite(i Incarnation, found LeaseState, ttl time.Duration) docstore.Write {
	cond := docstore.Cond(docstore.Absent{})
	if found.Number > 0 {
		cond = docstore.All{
			docstore.Eq{Field: fIncarnation, Value: docstore.Int(found.Number)},
			docstore.Any{docstore.Not{Cond: docstore.Has{Field: fExpiresAt}},
				docstore.LE{Field: fExpiresAt, Value: docstore.Now}},
		}
	}
	return docstore.Write{
		Key: c.lease(i.Member),
		If:  cond,
		Set: map[string]docstore.Value{
			fIncarnation: docstore.Int(i.Number), fSeq: docstore.Int(0), fExpiresAt: docstore.Now.Add(ttl),
			fBeatAt: docstore.Now,
			fTTL:    docstore.Int(ttl.Milliseconds()),
		},
		Unset: []string{fDraining, fKeptUntil},
		Keep:  keepForever,
	}
}

// leaseDrains notes with the lease of an incarnation that it drains.
func (c Cluster) leaseDrains(i Incarnation) docstore.Write {
	return docstore.Write{
		Key: c.lease(i.Member), If: docstore.Eq{Field: fIncarnation, Value: docstore.Int(i.Number)},
		Set: map[string]docstore.Value{fDraining: docstore.Bool(true)},
	}
}

// leaseEnd ends the lease of an incarnation. expired asks that it has expired: a heartbeat that came first wins.
func (c Cluster) leaseEnd(i Incarnation, expired bool, keep time.Duration) docstore.Write {
	cond := docstore.All{docstore.Eq{Field: fIncarnation, Value: docstore.Int(i.Number)}}
	if expired {
		cond = append(cond, docstore.LE{Field: fExpiresAt, Value: docstore.Now})
	}
	return ending(docstore.Write{
		Key: c.lease(i.Member), If: cond, Set: map[string]docstore.Value{fBeatAt: docstore.Now}, Unset: []string{fExpiresAt},
	}, keep)
}

// ending has a write say for how long what it ends is kept: the store may remove it then. The field is for stores that
// do not.
func ending(w docstore.Write, keep time.Duration) docstore.Write {
	w.Keep = keep
	w.Unset = slices.DeleteFunc(w.Unset, func(f string) bool { return f == fKeptUntil })
	if keep > 0 && keep < keepForever {
		w.Set[fKeptUntil] = docstore.Now.Add(keep)
	} else {
		w.Unset = append(w.Unset, fKeptUntil)
	}
	return w
}

// Heartbeat keeps an incarnation alive: its lease lasts from now for another time to live. The status of its outcome
// says whether the member drains.
type Heartbeat struct {
	Cluster

	Incarnation Incarnation
	Seq         int64         // 1 for the first heartbeat of the incarnation, and one more for each
	TTL         time.Duration // 0 means DefaultTTL
}

var _ rule.Command[LeaseState, MemberOutcome] = Heartbeat{}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Heartbeat) Validate() error {
	return first(c.Cluster.Validate(), c.Incarnation.Validate(), checkSeq(c.Seq), checkTTL("ttl", c.TTL))
}

// State reads the document of the lease.
func (c Heartbeat) State(d docstore.Doc) (LeaseState, error) {
	return c.leaseOf(c.Incarnation.Member, d)
}

// Write applies to the lease of the incarnation until it is ended, which takes an eviction: a lease that has expired
// and which no one has ended goes on. A heartbeat that comes after a later one does not move the end.
func (c Heartbeat) Write() docstore.Write {
	ttl := cmp.Or(c.TTL, DefaultTTL)
	return docstore.Write{
		Key: c.lease(c.Incarnation.Member),
		If: docstore.All{
			docstore.Eq{Field: fIncarnation, Value: docstore.Int(c.Incarnation.Number)},
			docstore.Has{Field: fExpiresAt},
			docstore.LE{Field: fSeq, Value: docstore.Int(c.Seq - 1)},
		},
		Set: map[string]docstore.Value{
			fSeq: docstore.Int(c.Seq), fExpiresAt: docstore.Now.Add(ttl), fBeatAt: docstore.Now,
			fTTL: docstore.Int(ttl.Milliseconds()),
		},
	}
}

// Granted is the lease, unless it was over before the response arrived.
func (c Heartbeat) Granted(l LeaseState, w rule.When) MemberOutcome {
	o := MemberOutcome{Code: OK, Incarnation: c.Incarnation, Status: l.status(), ExpiresAt: l.ExpiresAt, At: w.Latest()}
	if w.Late(l.ExpiresAt) {
		o.Code, o.Detail = LateAnswer, "the store took "+w.Took.Round(time.Millisecond).String()+
			" to respond, longer than the lease lasts"
	}
	return o
}

// Refusal recognises heartbeats that were carried out before.
func (c Heartbeat) Refusal(l LeaseState, w rule.When) MemberOutcome {
	o := MemberOutcome{Incarnation: Incarnation{c.Incarnation.Member, l.Number}, ExpiresAt: l.ExpiresAt, At: w.Latest()}
	switch {
	case l.Number == 0:
		o.Code, o.Incarnation, o.Detail = MemberUnknown, c.Incarnation, "there is no member of this name: join"
	case l.Number != c.Incarnation.Number || l.ExpiresAt.IsZero():
		o.Code, o.Detail = StaleIncarnation, "the incarnation has ended; stop what it serves, and join again"
	case w.Late(l.ExpiresAt):
		o.Code, o.Detail = LateAnswer, "the lease expired at "+string(docstore.FormatTime(l.ExpiresAt))+
			"; send a new heartbeat"
	default:
		o.Code, o.Status, o.Replayed = OK, l.status(), true
		// however far ahead a wrong clock has written the end, no more is left than the lease lasts
		if least := l.ExpiresAt.Add(-longest(l.ttl)); least.After(o.At) {
			o.At = least
		}
	}
	return o
}

// Join makes a member, with a new incarnation. While an incarnation of that name lives, it is refused: two processes
// with one name are a mistake of their configuration. One whose lease has ended is evicted by it.
type Join struct {
	Cluster
	Offer
	rule.End

	Member    string
	Address   string        // for those who look the member up; may be empty
	RequestID string        // the same for every delivery of the same intention
	TTL       time.Duration // of the lease; 0 means DefaultTTL

	// Partitions is what the first member of a cluster sets it up with; 0 means DefaultPartitions. Later it can never
	// change: members that ask for another number are refused.
	Partitions int

	// Replaces is an incarnation whose partitions the new member takes over, all and no others, in the same epoch. That
	// one drains from then on. Without a name the member joins as any other.
	Replaces Incarnation
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Join) Validate() error {
	err := first(c.Cluster.Validate(), checkMember("member", c.Member), checkRequestID(c.RequestID), c.Offer.Validate(),
		checkAddress(c.Address),
		checkTTL("ttl", c.TTL))
	if err == nil && c.Partitions != 0 {
		err = checkPartitions(c.Partitions)
	}
	if err == nil && c.Replaces != (Incarnation{}) {
		if err = c.Replaces.Validate(); err == nil && c.Replaces.Member == c.Member {
			err = checkOther(c.Member)
		}
	}
	return err
}

// text is the offer in one form.
func (o Offer) text() string {
	b, _ := json.Marshal(o) //nolint:errchkjson // texts and numbers can always be encoded; maps in the order of their keys
	return string(b)
}

func (c Join) request() rule.Request {
	return rule.Identify("join", c.Member, c.RequestID).
		With(c.text(), c.Address, c.TTL.String(), c.Replaces.Member, strconv.FormatInt(c.Replaces.Number, 10))
}
