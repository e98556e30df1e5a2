// Package httpapi is the HTTP API: one [http.Handler] that implements contracts/openapi.yaml and passes each request to
// the rules in repo.
//
// # The way of a request
//
//	name it (X-Request-Id) ─▶ bound its time, write its log line ─▶ contain panics ─▶ origins of browsers
//	  ─▶ development mode: from this machine only
//	  ─▶ route ─▶ who is it (Identity) ─▶ their rates ─▶ is it their tenant ─▶ room for the body ─▶ read it strictly
//	  ─▶ a slot ─▶ rule ─▶ no slot any more ─▶ 200 with JSON, or a problem (RFC 9457) with a code
//
// What callers share, and how much of it one of them can have, stands in shares.go. None of it is held while a caller's
// network is waited for, but for the memory of what is on its way.
//
// Endpoints have one form. A [command] reads a body and responds with what its function returns; a [look] responds
// without one. The function says in whose name, has package functions/direct make the command of a rule out of the
// body, has the rule carry it out, and leaves what became of it to [reply]. Some need more than that, and have a form
// of their own: acquire, which takes a slot for each of its steps when it waits, and whose body must have other members
// in each mode; PUT of an analysis, which has no body; DELETE of a machine ID, whose response has none; lists, which
// wait for memory and are written entry by entry; the topology, which may be 304.
//
// # Who decides
//
// The rules do; this package only translates. What a field may hold is checked by the rules and reported under the
// field's name; which status a code has stands in contracts. The owner of a lease comes from the [Identity], not from
// the caller's word, except in [Development] mode.
//
// # What can go wrong
//
// A rejected command changes nothing. If the store cannot say whether a command was carried out, the response is
// UNAVAILABLE or DEADLINE_EXCEEDED, and sending the same body again is safe. A panic results in INTERNAL and is
// logged; it ends one request. Logs carry no fencing tokens, no credentials, no secrets and no bodies,
// but for the meta of those who lease machine IDs, which is meant for the log.
package httpapi
