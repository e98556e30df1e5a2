package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/leasehold-dev/leasehold/contracts"
)

// request is what a client sent.
type request struct {
	method, path string
	body         map[string]any // nil for none
}

// String is the request for people.
func (r request) String() string {
	if r.body == nil {
		return r.method + " " + r.path
	}
	return r.method + " " + r.path + " " + show(r.body)
}

// segment is the part of a path after another: of "locks" in "/v1/tenants/acme/locks/deploy/acquire" it is "deploy".
func (r request) segment(after string) string {
	parts := strings.Split(r.path, "/")
	if i := slices.Index(parts, after); i >= 0 && i+1 < len(parts) {
		if s, err := url.PathUnescape(parts[i+1]); err == nil {
			return s
		}
	}
	return ""
}

// grants reports whether it asks for something that is granted, so that it may have an end.
func (r request) grants() bool {
	switch r.path[strings.LastIndex(r.path, "/")+1:] {
	case "acquire", "begin", "lock", "lease":
		return r.method == http.MethodPost
	}
	return false
}

func (r request) text(member string) string {
	s, _ := r.body[member].(string)
	return s
}

func (r request) number(member string, otherwise int64) int64 {
	n, _ := r.body[member].(json.Number)
	if i, err := n.Int64(); err == nil && i != 0 {
		return i
	}
	return otherwise
}

// templates are the bodies of answers that fit a request, as a server says yes. What a script wants otherwise, it says
// in "with".
var templates = map[string]func(request) any{
	// Locks.
	"lease": func(r request) any {
		ttl := r.number("ttl_seconds", 30)
		l := contracts.Lease{
			TenantID: r.segment("tenants"), LockKey: r.segment("locks"), LeaseID: "lease-1", OwnerID: r.text("owner_id"),
			FencingToken: r.number("fencing_token", 1), State: contracts.StateActive, AcquiredAt: stamp(0),
			ExpiresAt:   stamp(ttl),
			RemainingMs: ttl * 1000, TTLSeconds: ttl, Metadata: contracts.Metadata{}, Mode: contracts.LockMode(r.text("mode")),
		}
		if l.Mode == contracts.LockModePermits {
			l.Permit = 1
		}
		return l
	},
	"ended": func(r request) any {
		return contracts.EndedLease{
			TenantID: r.segment("tenants"), LockKey: r.segment("locks"), OwnerID: r.text("owner_id"),
			FencingToken: r.number("fencing_token", 1),
			State:        contracts.StateReleased,
		}
	},
	"lock": func(r request) any {
		return contracts.Lock{
			TenantID: r.segment("tenants"), LockKey: r.segment("locks"), LeaseID: "lease-1", OwnerID: "another",
			State: contracts.StateActive, AcquiredAt: stamp(0), ExpiresAt: stamp(30), TTLSeconds: 30,
			Metadata: contracts.Metadata{},
		}
	},
	"set": func(r request) any {
		ttl := r.number("ttl_seconds", 30)
		return contracts.LockSet{
			TenantID: r.segment("tenants"), OwnerID: r.text("owner_id"), State: contracts.StateActive, ExpiresAt: stamp(ttl),
			RemainingMs: ttl * 1000,
			TTLSeconds:  ttl, Leases: r.leases(),
		}
	},
	"set_ended": func(r request) any {
		return contracts.LockSetReleased{
			TenantID: r.segment("tenants"), OwnerID: r.text("owner_id"), State: contracts.StateReleased, Leases: r.leases(),
		}
	},

	// Runs.
	"run": func(r request) any {
		ttl := r.number("ttl_seconds", 300)
		return contracts.RunGranted{
			Acquired: true, RunID: r.segment("runs"), OwnerID: r.text("owner_id"), FencingToken: 1, ExpiresAt: stamp(ttl),
			RemainingMs: ttl * 1000,
			Runs:        1,
		}
	},
	"run_locked": func(r request) any {
		return contracts.RunSkipped{RunID: r.segment("runs"), Reason: contracts.SkipLocked, OwnerID: "another",
			ExpiresAt: stamp(60), RetryAfterMs: 60000}
	},
	"run_finished": func(r request) any {
		return contracts.RunSkipped{RunID: r.segment("runs"), Reason: contracts.SkipAlreadyFinished,
			Status: contracts.RunReady}
	},
	"run_refreshed": func(r request) any {
		ttl := r.number("ttl_seconds", 300)
		return contracts.RunLock{
			RunID: r.segment("runs"), OwnerID: r.text("owner_id"), FencingToken: r.number("fencing_token", 1),
			ExpiresAt: stamp(ttl), RemainingMs: ttl * 1000,
		}
	},
	"run_released": func(r request) any { return contracts.RunReleased{RunID: r.segment("runs")} },
	"run_ended": func(r request) any {
		return contracts.RunFinished{RunID: r.segment("runs"), Status: contracts.RunEnd(r.text("status"))}
	},

	// Machine IDs.
	"machine_ids": func(request) any {
		return contracts.MachineIDLeases{Leases: []contracts.MachineIDLease{{
			ID: 5, BitID: 14, BitReserve: 1, BitSeq: 8, BitTS: 41, CustomEpoch: 1767225600000,
			Created: Start.UnixMilli(), Expired: Start.UnixMilli() + 600_000, Secret: "secret-of-5",
		}}}
	},

	// Events.
	"events": func(request) any { return contracts.EventPage{Events: []contracts.PlacementEvent{}, Next: "p1"} },
}

// givenUp is the answer to a request that is given up. It has no body.
const givenUp = "given_up"

// leases are those of several locks that a request names: by keys, in the order of their bytes with the tokens 1, 2 and
// so on, or with tokens.
func (r request) leases() (all []contracts.LockSetLease) {
	if keys, ok := r.body["lock_keys"].([]any); ok {
		names := make([]string, 0, len(keys))
		for _, k := range keys {
			names = append(names, fmt.Sprint(k))
		}
		for i, k := range slices.Sorted(slices.Values(names)) {
			all = append(all, contracts.LockSetLease{LockKey: k, FencingToken: int64(i) + 1,
				LeaseID: fmt.Sprintf("lease-%d", i+1)})
		}
	}
	leases, _ := r.body["leases"].([]any)
	for _, l := range leases {
		one, _ := l.(map[string]any)
		of := request{body: one}
		all = append(all, contracts.LockSetLease{LockKey: of.text("lock_key"), FencingToken: of.number("fencing_token", 0)})
	}
	return all
}

func stamp(seconds int64) string {
	at, _ := after(strconv.FormatInt(seconds, 10))
	return at.Format(contracts.TimeFormat)
}

// problem is the body of a rejection: a code's title, status and retryability.
func problem(code string) (contracts.Problem, error) {
	if _, ok := contracts.Code(code).Info(); !ok {
		return contracts.Problem{}, fmt.Errorf("there is no code %q", code)
	}
	p := contracts.Errorf(contracts.Code(code), "as the script says").Problem()
	return p, nil
}

// response is an answer as it is sent.
type response struct {
	status      int
	contentType string
	headers     map[string]string
	body        []byte
}

// response makes the answer to a request.
func (a *Answer) response(r request, base string) (w response, err error) {
	w = response{status: 200, contentType: "application/json", headers: map[string]string{}}
	switch {
	case a.Text != nil:
		w.contentType, w.body = "text/html", []byte(strings.ReplaceAll(*a.Text, "$base", base))
	case a.JSON != nil:
		v, err := decode(a.JSON)
		if err != nil {
			return w, err
		}
		if w.body, err = encode(v, base); err != nil {
			return w, err
		}
	default:
		if w, err = a.like(w, r, base); err != nil {
			return w, err
		}
	}
	if a.Status != 0 {
		w.status = a.Status
	}
	for k, v := range a.Headers {
		if strings.EqualFold(k, "Content-Type") {
			w.contentType = v
			continue
		}
		w.headers[k] = strings.ReplaceAll(v, "$base", base)
	}
	return w, nil
}

// like makes the answer of a template.
func (a *Answer) like(w response, r request, base string) (response, error) {
	if a.Like == givenUp {
		return response{status: http.StatusNoContent, headers: w.headers}, nil
	}
	var like any
	if template, ok := templates[a.Like]; ok {
		like = template(r)
	} else {
		p, err := problem(a.Like)
		if err != nil {
			return w, fmt.Errorf("the answer is like %q, which is neither a template nor a code", a.Like)
		}
		like, w.status, w.contentType = p, p.Status, "application/problem+json"
	}
	text, err := json.Marshal(like)
	if err != nil {
		return w, err
	}
	v, err := decode(text)
	if err != nil {
		return w, err
	}
	members, _ := v.(map[string]any)
	for _, k := range slices.Sorted(maps.Keys(a.With)) {
		if members[k], err = decode(a.With[k]); err != nil {
			return w, fmt.Errorf("with.%s: %w", k, err)
		}
		if members[k] == nil {
			delete(members, k)
		}
	}
	w.body, err = encode(members, base)
	return w, err
}

// encode writes a value whose times are filled in.
func encode(v any, base string) ([]byte, error) {
	v, err := expand(v, base)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err = e.Encode(v)
	return b.Bytes(), err
}
