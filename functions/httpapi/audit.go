package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// AuditMessage is the message of audit events in the log. Their attributes are in the group "audit", which is a
// [contracts.AuditEvent].
//
// There is one for each grant, each end of a lease and each change of rights (Route.Audit), and for each request that
// was rejected because of who sent it; of a command on several locks, one for each lock. Renewals and heartbeats are
// none. The line of every other request that was rejected says who sent it as well, and the code. Of requests whose
// senders were not identified the first one of a second has an event, and one event says how many others were rejected
// for the same reason and from the same network.
//
// An event is written after its effect, by the process that learned of it. If that ends in between, or the response of
// the store is lost, there is no event until the request is sent again, which is then replayed.
const AuditMessage = "audit"

// Actions that are not those of a route.
const (
	actionHandOver = "lock.hand_over"
	actionGiveUp   = "give_up" // after the kind
	actionTakeover = "placement.takeover"
)

// AuditSubject names the sender of a request in its audit event, for a [Route] that authenticates callers itself. It
// may be empty.
func AuditSubject(r *http.Request, subject string) { noteOf(r).caller.Subject = subject }

// AuditEvent is the audit event of a request, for a [Route] to say what it is about. What all events have is added when
// it is written.
func AuditEvent(r *http.Request) *contracts.AuditEvent { return &noteOf(r).event }

// event is the audit event of the request.
func (c call) event() *contracts.AuditEvent { return &c.note.event }

// lock says in the audit event what became of a command on a lock.
func (n *exchangeLog) lock(o lock.Outcome, err error) {
	if err == nil && o.Code == lock.OK {
		n.event.Replayed, n.event.Takeover, n.event.Replaced = o.Replayed, o.TookOver, o.Replaced
		atStore(&n.event, o.At)
		ofLease(&n.event, o.Lease)
	}
}

// tooLate says that an acquire obtained a lease that was over before the store's response: its caller has none, and its
// token is given to no other.
func (n *exchangeLog) tooLate(o lock.Outcome, err error) {
	if err != nil || o.Code != lock.LeaseExpired || o.Lease.Token == 0 {
		return
	}
	e := n.event
	atStore(&e, o.At)
	ofLease(&e, o.Lease)
	e.Outcome = string(o.Code)
	n.apart = append(n.apart, e)
}

// lockSet is lock of a command on several locks, which has an event for each of the keys that it granted or ended.
func (n *exchangeLog) lockSet(keys []string, o lock.SetOutcome, err error) {
	if err != nil {
		return
	}
	atStore(&n.event, o.At)
	for _, key := range keys {
		e := n.event
		e.Key, e.Replayed, e.Takeover = key, o.Replayed, slices.Contains(o.TookOver, key)
		if i := slices.IndexFunc(o.Leases, func(l lock.Lease) bool { return l.Key == key }); i >= 0 {
			ofLease(&e, o.Leases[i])
		}
		n.apart = append(n.apart, e)
	}
}

// ended says in the event that its lease has ended, and when if that is known.
func (n *exchangeLog) ended(at time.Time) {
	if e := &n.event; e.FencingToken != 0 && !at.IsZero() {
		e.EndedAt = direct.Time(at)
	}
}

// endedApart is ended of the events of a command on several locks.
func (n *exchangeLog) endedApart(at time.Time) {
	for i := range n.apart {
		if e := &n.apart[i]; e.FencingToken != 0 && !at.IsZero() {
			e.EndedAt = direct.Time(at)
		}
	}
}

// gate says in the audit event what became of a command on an analysis or a run.
func (n *exchangeLog) gate(o analysis.Outcome, owner string, token int64, err error) {
	if n.event.Owner = owner; err != nil || o.Code != analysis.OK {
		return
	}
	e := &n.event
	e.FencingToken, e.Failures, e.Replayed = cmp.Or(o.Grant.Token, token), o.Grant.Failures, o.Replayed
	atStore(e, o.At)
	if !o.Grant.ExpiresAt.IsZero() {
		e.ExpiresAt = direct.Time(o.Grant.ExpiresAt)
	}
}

// begins says in the event that its lease was granted at the time of the event, unless it was before.
func (n *exchangeLog) begins() {
	if e := &n.event; e.FencingToken != 0 && !e.Replayed && e.Clock == "store" {
		e.GrantedAt = e.At
	}
}

// ends says in the event that its lease was ended at the time of the event, unless it was before.
func (n *exchangeLog) ends() {
	if e := &n.event; e.FencingToken != 0 && !e.Replayed && e.Clock == "store" {
		e.EndedAt = e.At
	}
}

// activation says in the audit event what became of a command on an activation.
func (n *exchangeLog) activation(o placement.Outcome, err error) {
	if err != nil || o.Code != placement.OK {
		return
	}
	e := &n.event
	e.Owner, e.Incarnation = o.Activation.Owner.Member, o.Activation.Owner.Number
	e.FencingToken, e.Epoch, e.Replayed = o.Activation.Token, o.Epoch, o.Replayed
	if e.TakenFrom == "" {
		e.TakenFrom = o.TakenFrom.Member
	}
	atStore(e, o.At)
}

// atStore gives an event the store's time of its effect.
func atStore(e *contracts.AuditEvent, at time.Time) {
	if !at.IsZero() {
		e.At, e.Clock = direct.Time(at), "store"
	}
}

// ofLease says in an event which lease it is about.
func ofLease(e *contracts.AuditEvent, l lock.Lease) {
	e.FencingToken, e.Permit, e.Owner = l.Token, l.Permit, cmp.Or(l.Owner, e.Owner)
	if l.Token == 0 {
		return
	}
	if l.LeaseID != "" {
		sum := sha256.Sum256([]byte(l.LeaseID))
		e.Lease, e.Mode = hex.EncodeToString(sum[:16]), cmp.Or(string(l.Mode), string(contracts.LockModeExclusive))
	}
	if !l.AcquiredAt.IsZero() {
		e.GrantedAt = direct.Time(l.AcquiredAt)
	}
	if !l.ExpiresAt.IsZero() {
		e.ExpiresAt = direct.Time(l.ExpiresAt)
	}
}

// handedOver writes the event of a lease that a request granted to another one, which waited in line.
func (f *frame) handedOver(ctx context.Context, o lock.Outcome) {
	n, _ := ctx.Value(noteKey{}).(*exchangeLog)
	if n == nil || n.request == nil {
		return
	}
	e := contracts.AuditEvent{
		Action: actionHandOver, Cause: cmp.Or(n.action, n.operation()), Tenant: o.Lease.Tenant, Kind: "lock",
		Key: o.Lease.Key, Chosen: &contracts.AuditChosen{XRequestID: n.requestID},
	}
	atStore(&e, o.At)
	ofLease(&e, o.Lease)
	f.writeEvent(n.ctx, slog.LevelInfo, n.request, n, actionHandOver, e)
}

// rejectsCaller reports whether a code says that the caller may not do this.
func rejectsCaller(c contracts.Code) bool {
	switch c {
	case contracts.CodeUnauthenticated, contracts.CodePermissionDenied, contracts.CodeNotOwner, contracts.CodeBadSignature:
		return true
	default:
		return false
	}
}

// writeAudit writes the audit events of a request, if there are any: what it did apart from its outcome, and that.
func (f *frame) writeAudit(ctx context.Context, r *http.Request, n *exchangeLog, requestID string) {
	rejected := rejectsCaller(n.code)
	// An event that names a token tells of an effect, whatever was responded: as of a delivery whose run failed.
	whole := rejected || n.action != "" && (n.code == "" || n.event.FencingToken != 0) && len(n.apart) == 0
	if !whole && len(n.apart) == 0 {
		return
	}
	if n.request != nil {
		r = n.request
	}
	chosen := n.chosenIn(r, requestID)
	for _, e := range n.apart {
		key := e.Key
		e.Action, e.Chosen = n.action, chosen
		about(&e, r)
		e.Key = cmp.Or(key, e.Key)
		f.writeEvent(ctx, slog.LevelInfo, r, n, n.operation(), e)
	}
	if !whole {
		return
	}
	e, level := n.event, slog.LevelInfo
	if e.Action, e.Outcome = n.action, string(n.code); e.Action == "" {
		e.Action = r.Method + " " + r.URL.EscapedPath()
	}
	if rejected {
		level, e.Rejected = slog.LevelWarn, n.detail
	}
	e.Chosen = chosen
	about(&e, r)
	f.writeEvent(ctx, level, r, n, n.operation(), e)
}

// writeEvent writes an event, with what all have, and counts it as one of an operation.
func (f *frame) writeEvent(ctx context.Context, level slog.Level, r *http.Request, n *exchangeLog, operation string,
	e contracts.AuditEvent) {
	e.Outcome = cmp.Or(e.Outcome, "ok")
	if f.metrics.Audited(ctx, operation, e.Outcome); !f.audit.Enabled(ctx, level) {
		return
	}
	log := f.audit
	e.Schema, e.ID, e.Path, e.Remote = contracts.AuditSchema, rand.Text(), r.URL.EscapedPath(), r.RemoteAddr
	e.Subject, e.TokenID, e.CallerTenant = n.caller.Subject, n.caller.TokenID, n.caller.Tenant
	if e.At == "" {
		e.At, e.Clock = direct.Time(time.Now()), "server"
	}
	if n.unknown {
		ofUnknown(&e)
		log = f.auditUnknown
	}
	write(ctx, log, level, AuditMessage, slog.Any("audit", e))
}

// WriteAuditEvent writes the event of what no request asked for, such as a delivery of SQS, and counts it under its
// action. What all events have is added: the ID, and the time if the event has none. Metrics may be nil.
func WriteAuditEvent(ctx context.Context, log *slog.Logger, m *metrics.Metrics, e contracts.AuditEvent) {
	f, none := frame{audit: log, metrics: m}, http.Request{URL: &url.URL{}}
	f.writeEvent(ctx, slog.LevelInfo, &none, &exchangeLog{}, e.Action, e)
}

// about says in an event what the path of the request names.
func about(e *contracts.AuditEvent, r *http.Request) {
	e.Tenant, e.Cluster = r.PathValue("tenant_id"), r.PathValue("cluster")
	for _, of := range [...]struct{ value, kind string }{
		{"lock_key", "lock"}, {"resource", "fence"}, {"analysis_id", "analysis"}, {"run_id", "run"}, {"member", "member"},
	} {
		if v := r.PathValue(of.value); v != "" {
			e.Kind, e.Key = of.kind, v
		}
	}
	switch {
	case r.PathValue("kind") != "":
		e.Kind, e.Key = "activation", r.PathValue("kind")+"/"+r.PathValue("id")
	case e.Kind == "" && e.Cluster != "":
		e.Kind, e.Key, e.Cluster = "cluster", e.Cluster, ""
	case e.Kind == "" && strings.HasPrefix(e.Action, "lock."): // of several
		e.Kind = "lock"
	case e.Kind == "" && strings.HasPrefix(e.Action, "machine_ids."):
		e.Kind = "machine_ids"
	}
}

// chosenIn is what the caller of a request chose.
func (n *exchangeLog) chosenIn(r *http.Request, requestID string) *contracts.AuditChosen {
	c := &contracts.AuditChosen{OwnerID: n.ownerID, XRequestID: requestID}
	if by := r.Header.Get("X-Forwarded-For"); by != "" {
		c.ForwardedFor = clip(by)
	}
	if n.body != nil {
		b := reflect.ValueOf(n.body).Elem()
		c.RequestID, c.Reason = textOf(b, "RequestID"), textOf(b, "Reason")
	}
	return c
}

// textOf is a field of a body, empty if bodies of its type have none.
func textOf(body reflect.Value, field string) string {
	if f := body.FieldByName(field); f.IsValid() && f.Kind() == reflect.String {
		return f.String()
	}
	return ""
}

// sender is who sent a request, as far as is known, for its line.
func (n *exchangeLog) sender(r *http.Request) []slog.Attr {
	attrs := []slog.Attr{slog.String("remote", r.RemoteAddr)}
	if n.caller.Subject != "" {
		attrs = append(attrs, slog.String("subject", n.caller.Subject))
	}
	if n.caller.Tenant != "" {
		attrs = append(attrs, slog.String("caller_tenant", n.caller.Tenant))
	}
	if by := r.Header.Get("X-Forwarded-For"); by != "" {
		attrs = append(attrs, slog.String("forwarded_for", clip(by)))
	}
	return attrs
}
