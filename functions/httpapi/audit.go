package httpapi

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/leasehold-dev/leasehold/contracts"
)

// AuditMessage is the message of audit events in the log. Their attributes are in the group "audit":
//
//	action         what was asked for: lock.acquire, lock.force_release, machine_ids.lease, placement.join, …; method and path for other requests
//	outcome        ok, or the code of the error
//	subject        who asked; missing in development mode, and if the caller could not be identified
//	caller_tenant  the tenant of the caller; the queue's and the scheduler's service accounts have none
//	path           what it was about
//	owner          whose lease it is, or was; of placement the member
//	replaces       of a join, the member that it replaces
//	taken_from     of placement.takeover and placement.transfer, the member that had the activation before
//	give_up        true of a request that was given up: it grants nothing
//	reason         why, in the caller's words; or why the caller was rejected
//	replayed       of a retry of an analysis: true if the same request retried it before, and nothing was changed
//	remote         the address that the request came from, and what a proxy said of it: forwarded_for, which anyone can write
//	request        the request's ID, as in the response and in the line of the request
//
// There is one for each grant and each change of rights (Route.Audit), and for each request that was rejected because
// of who sent it. The line of every other request that was rejected says who sent it as well, and the code.
const AuditMessage = "audit"

// AuditSubject names the sender of a request in its audit event, for a [Route] that authenticates callers itself. It
// may be empty.
func AuditSubject(r *http.Request, subject string) { noteOf(r).caller.Subject = subject }

// AuditNote adds attributes to the audit event of a request, for a [Route].
func AuditNote(r *http.Request, attrs ...slog.Attr) { auditNote(r, attrs...) }

// gaveUp says in an audit event that a request was given up.
var gaveUp = slog.Bool("give_up", true)

// auditNote adds attributes to the audit event of a request.
func auditNote(r *http.Request, attrs ...slog.Attr) {
	n := noteOf(r)
	n.audit = append(n.audit, attrs...)
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

// writeAudit writes the audit event of a request, if it is one.
func (f *frame) writeAudit(ctx context.Context, r *http.Request, n *exchangeLog, requestID string) {
	rejected := rejectsCaller(n.code)
	if !rejected && (n.action == "" || n.code != "") {
		return
	}
	action, outcome := n.action, string(n.code)
	if action == "" {
		action = r.Method + " " + r.URL.EscapedPath()
	}
	if outcome == "" {
		outcome = "ok"
	}
	f.metrics.Audited(ctx, n.operation(), outcome)
	level := slog.LevelInfo
	if rejected {
		level = slog.LevelWarn
	}
	if !f.audit.Enabled(ctx, level) {
		return
	}
	event := append(make([]slog.Attr, 0, 12),
		slog.String("action", action), slog.String("outcome", outcome), slog.String("path", r.URL.EscapedPath()),
		slog.String("request", requestID),
	)
	event = append(event, n.sender(r)...)
	if rejected {
		event = append(event, slog.String("reason", n.detail))
	}
	write(ctx, f.audit, level, AuditMessage, slog.GroupAttrs("audit", append(event, n.audit...)...))
}

// sender is who sent a request, as far as is known.
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
