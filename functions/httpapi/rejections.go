package httpapi

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
)

// RejectedMessage is the message of a line that stands for several requests, which were rejected before it was known
// who sent them. Its attributes: outcome, reason and remote, which they have in common (an address without its last
// part), and count. The first one of them has a line of its own, see RequestMessage.
const RejectedMessage = "rejected"

// rejectedAction is the action of an audit event that stands for several requests.
const rejectedAction = "rejected"

const (
	// foldRejections is for how long rejections are counted before one record says how many they were.
	foldRejections = time.Second

	// maxRejections is how many kinds of rejections, by reason and network, are told apart in that time. All others
	// are one record.
	maxRejections = 8

	// What a record has of a request whose sender is not known, in bytes: anyone can send as much as a header may have.
	maxUnknownPath = 512
	maxUnknownName = 256
)

// rejection is what rejections that share a record have in common.
type rejection struct {
	code            contracts.Code
	reason, network string
}

// others is what the record of all rejections says that are not told apart.
var others = rejection{contracts.CodeUnauthenticated, "other reasons, or from other networks", ""}

// rejections folds what is written of requests whose senders are not known. Anyone can send them, as many as the
// network carries, and no rate holds them: written one by one they fill a disk. The first one of its kind is written as
// every request that was rejected. Those that follow within a second are counted, and one record says how many when the
// second is over. If the process ends before, that number is lost.
type rejections struct {
	tell func(k rejection, count int64)

	mu   sync.Mutex
	of   map[rejection]int64 // beyond the first; nil before there is one in this second
	rest int64               // that are not told apart
}

// first reports whether a rejection is the first one of its kind in this second, and counts it otherwise.
func (s *rejections) first(k rejection) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[rejection]int64{}
		time.AfterFunc(foldRejections, s.over)
	}
	switch n, told := s.of[k]; {
	case told:
		s.of[k] = n + 1
		return false
	case len(s.of) < maxRejections:
		s.of[k] = 0
		return true
	default:
		s.rest++
		return false
	}
}

// over tells what was counted.
func (s *rejections) over() {
	s.mu.Lock()
	of, rest := s.of, s.rest
	s.of, s.rest = nil, 0
	s.mu.Unlock()
	for k, n := range of {
		if n > 0 {
			s.tell(k, n)
		}
	}
	if rest > 0 {
		s.tell(others, rest)
	}
}

// fold counts a request whose sender was not identified and that shares the record of others, and reports whether it
// does.
func (f *frame) fold(ctx context.Context, r *http.Request, n *exchangeLog) bool {
	n.unknown = !n.known && rejectsCaller(n.code)
	if !n.unknown ||
		f.rejections.first(rejection{n.code, cut(n.detail, maxUnknownName), networkOf(r.RemoteAddr)}) {
		return false
	}
	f.metrics.Audited(ctx, n.operation(), string(n.code))
	return true
}

// tellRejections writes the records of requests that were counted.
func (f *frame) tellRejections(k rejection, count int64) {
	ctx, outcome := context.Background(), string(k.code)
	write(ctx, f.log, slog.LevelInfo, RejectedMessage, slog.String("outcome", outcome), slog.String("reason", k.reason),
		slog.String("remote", k.network), slog.Int64("count", count))
	write(ctx, f.auditUnknown, slog.LevelWarn, AuditMessage, slog.Any("audit", contracts.AuditEvent{
		Schema: contracts.AuditSchema, ID: rand.Text(), At: direct.Time(time.Now()), Clock: "server",
		Action: rejectedAction, Outcome: outcome, Rejected: k.reason, Remote: k.network, Count: count,
	}))
}

// ofUnknown keeps an event short that is about a request of a sender who is not known.
func ofUnknown(e *contracts.AuditEvent) {
	e.Action, e.Path = cut(e.Action, maxUnknownPath), cut(e.Path, maxUnknownPath)
	for _, name := range []*string{&e.Tenant, &e.Key, &e.Cluster, &e.Owner, &e.Rejected} {
		*name = cut(*name, maxUnknownName)
	}
}
