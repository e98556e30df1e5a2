package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// freezeAs writes the documents of this version: go test ./tests -run '^TestFrozenDocuments$' -freeze 2
var freezeAs = flag.String("freeze", "", "write what this version keeps to testdata/stored/`FORMAT`, which must not exist")

const frozenFolder = "testdata/stored"

// format is a folder of frozenFolder: what a store kept at a time, and what the API answered from it.
type format struct {
	At        time.Time        `json:"at"`
	Documents []frozenDocument `json:"documents"`
	answers   []frozenAnswer
}

type frozenDocument struct {
	Kind   string                 `json:"kind"`
	Tenant string                 `json:"tenant,omitempty"`
	ID     string                 `json:"id"`
	KeepMS int64                  `json:"keep_ms,omitempty"`
	Fields map[string]frozenValue `json:"fields"`
}

// frozenValue is a value with its type: one member is not nil.
type frozenValue struct {
	String *string            `json:"s,omitempty"`
	Int    *int64             `json:"i,omitempty"`
	Bool   *bool              `json:"b,omitempty"`
	Bytes  *[]byte            `json:"y,omitempty"`
	Map    *map[string]string `json:"m,omitempty"`
}

// frozenAnswer is a request and what came back. Later versions may add members to a response, and no more.
type frozenAnswer struct {
	AfterMS int64           `json:"after_ms,omitempty"` // by which the clock goes on before the request
	Method  string          `json:"method"`
	Path    string          `json:"path"`
	Body    json.RawMessage `json:"body,omitempty"`
	Status  int             `json:"status"`
	Answer  json.RawMessage `json:"answer,omitempty"`
	// Above are tokens of the response, by their names with a "." for each step in, which must be higher than these.
	Above map[string]int64 `json:"above,omitempty"`
}

// TestFrozenDocuments: every version reads what an earlier one wrote: from the documents that it kept, each store gives
// the same answers, and tokens go on increasing.
func TestFrozenDocuments(t *testing.T) {
	t.Parallel()
	if *freezeAs != "" {
		writeFrozen(t, filepath.Join(frozenFolder, *freezeAs))
	}
	folders, err := os.ReadDir(frozenFolder)
	if err != nil || len(folders) == 0 {
		t.Fatal(len(folders), err)
	}
	for _, folder := range folders {
		f := readFrozen(t, filepath.Join(frozenFolder, folder.Name()))
		for name, prepare := range stores {
			t.Run(folder.Name()+"/"+name, func(t *testing.T) {
				t.Parallel()
				clock := suite.NewClockAt(f.At)
				store := prepare(t)(t, clock.Now)
				for _, d := range f.Documents {
					w := docstore.Write{Key: docstore.Key{Kind: d.Kind, Tenant: d.Tenant, ID: d.ID}, Set: thaw(d.Fields),
						Keep: time.Duration(d.KeepMS) * time.Millisecond}
					if r, err := store.Write(t.Context(), w); err != nil || !r.Applied {
						t.Fatal(w.Key, r, err)
					}
				}
				api := frozenAPI(store, clock)
				for _, a := range f.answers {
					clock.Advance(time.Duration(a.AfterMS) * time.Millisecond)
					status, got := answerOf(t, api, a.Method, a.Path, a.Body)
					if status != a.Status || !holds(decoded(t, got), decoded(t, a.Answer)) {
						t.Errorf("%s %s %s:\ngot  %d %s\nwant %d %s", a.Method, a.Path, a.Body, status, got, a.Status, a.Answer)
					}
					for name, least := range a.Above {
						if token := number(t, decoded(t, got), name); token <= least {
							t.Errorf("%s %s: %s is %d, not above %d", a.Method, a.Path, name, token, least)
						}
					}
				}
			})
		}
	}
}

// TestFrozenStayFrozen: a folder that is there is never written to again.
func TestFrozenStayFrozen(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "1")
	if err := (&format{}).write(folder); err != nil {
		t.Fatal(err)
	}
	if err := (&format{}).write(folder); !errors.Is(err, fs.ErrExist) {
		t.Errorf("again: %v", err)
	}
}

// frozenAPI is the API as a server of one machine has it. No request is held: the clock does not go on by itself.
func frozenAPI(store docstore.Store, clock *suite.Clock) http.Handler {
	return httpapi.New(store, httpapi.Development{}, &httpapi.Options{Now: clock.Now, MaxWait: -1,
		RecordRefusals: time.Minute})
}

func answerOf(t *testing.T, api http.Handler, method, path string, body []byte) (status int, answer []byte) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8080"+path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	return w.Code, bytes.TrimSpace(w.Body.Bytes())
}

// decoded is JSON as values, numbers as they are written; nil of nothing.
func decoded(t *testing.T, text []byte) (v any) {
	t.Helper()
	if len(text) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// holds reports whether a response has everything that an earlier one had.
func holds(got, want any) bool {
	switch want := want.(type) {
	case nil:
		return true
	case map[string]any:
		got, ok := got.(map[string]any)
		for name, v := range want {
			g, has := got[name]
			ok = ok && has && holds(g, v)
		}
		return ok
	case []any:
		got, ok := got.([]any)
		return ok && slices.EqualFunc(got, want, holds)
	default:
		return got == want
	}
}

func number(t *testing.T, v any, name string) int64 {
	t.Helper()
	for step := range strings.SplitSeq(name, ".") {
		m, _ := v.(map[string]any)
		v = m[step]
	}
	n, _ := v.(json.Number)
	i, err := n.Int64()
	if err != nil {
		t.Fatalf("%s: %v", name, v)
	}
	return i
}

func readFrozen(t *testing.T, folder string) (f format) {
	t.Helper()
	for name, into := range map[string]any{"documents.json": &f, "answers.json": &f.answers} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatal(folder, name, err)
		}
	}
	if len(f.Documents) == 0 || len(f.answers) == 0 {
		t.Fatal(folder, "has nothing")
	}
	return f
}

// write makes the folder; it is an error if it is there.
func (f *format) write(folder string) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		return fmt.Errorf("what was frozen stays as it is; name a new format: %w", err)
	}
	for name, v := range map[string]any{"documents.json": f, "answers.json": f.answers} {
		text, err := json.Marshal(v)
		text = bytes.ReplaceAll(text, []byte(`},{"kind":`), []byte("},\n{\"kind\":")) // a document a line, and a request
		text = bytes.ReplaceAll(text, []byte(`},{"method":`), []byte("},\n{\"method\":"))
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), append(text, '\n'), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func thaw(fields map[string]frozenValue) map[string]docstore.Value {
	thawed := make(map[string]docstore.Value, len(fields))
	for name, v := range fields {
		switch {
		case v.String != nil:
			thawed[name] = docstore.String(*v.String)
		case v.Int != nil:
			thawed[name] = docstore.Int(*v.Int)
		case v.Bool != nil:
			thawed[name] = docstore.Bool(*v.Bool)
		case v.Bytes != nil:
			thawed[name] = docstore.Bytes(*v.Bytes)
		case v.Map != nil:
			thawed[name] = docstore.Map(*v.Map)
		}
	}
	return thawed
}

func frozenFields(t *testing.T, fields map[string]docstore.Value) map[string]frozenValue {
	t.Helper()
	all := make(map[string]frozenValue, len(fields))
	for name, v := range fields {
		var f frozenValue
		switch v := v.(type) {
		case docstore.String:
			f.String = (*string)(&v)
		case docstore.Int:
			f.Int = (*int64)(&v)
		case docstore.Bool:
			f.Bool = (*bool)(&v)
		case docstore.Bytes:
			f.Bytes = new([]byte(v))
		case docstore.Map:
			f.Map = (*map[string]string)(&v)
		default:
			t.Fatalf("%s: %T", name, v)
		}
		all[name] = f
	}
	return all
}

// recorded is a store that remembers which documents were written, and for how long they are kept.
type recorded struct {
	*docstore.Memory

	mu   sync.Mutex
	keep map[docstore.Key]time.Duration
}

func (s *recorded) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	r, err := s.Memory.Write(ctx, writes...)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range writes {
		if r.Applied {
			s.keep[w.Key] = max(w.Keep, s.keep[w.Key])
		}
	}
	return r, err
}

// writeFrozen writes what this version keeps after the requests of [frozenProgram].
func writeFrozen(t *testing.T, folder string) {
	t.Helper()
	clock := suite.NewClock()
	store := &recorded{Memory: docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now}),
		keep: map[docstore.Key]time.Duration{}}
	p := &frozenProgram{t: t, clock: clock, api: frozenAPI(store, clock), tokens: map[string]int64{}}
	p.begin()
	f := format{At: clock.Now()}
	keys := slices.SortedFunc(maps.Keys(store.keep), func(a, b docstore.Key) int {
		return strings.Compare(a.String(), b.String())
	})
	for _, k := range keys {
		snap, err := store.Get(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		if snap.Docs[0] != nil {
			f.Documents = append(f.Documents, frozenDocument{k.Kind, k.Tenant, k.ID, store.keep[k].Milliseconds(),
				frozenFields(t, snap.Docs[0])})
		}
	}
	p.end()
	f.answers = p.answers
	if err := f.write(folder); err != nil {
		t.Fatal(err)
	}
}

// frozenProgram makes the requests. What is to be read later is of its second half.
type frozenProgram struct {
	t       *testing.T
	clock   *suite.Clock
	api     http.Handler
	repeats []frozenAnswer // requests of the first half that are sent again: whoever lost a response may do so
	answers []frozenAnswer
	tokens  map[string]int64 // the highest of each lock
}

// do sends a request that has to be carried out.
func (p *frozenProgram) do(method, path string, body map[string]any) any {
	p.t.Helper()
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body)
	}
	status, answer := answerOf(p.t, p.api, method, path, text)
	if status/100 != 2 {
		p.t.Fatalf("%s %s %s: %d %s", method, path, text, status, answer)
	}
	p.repeats = append(p.repeats, frozenAnswer{Method: method, Path: path, Body: text})
	return decoded(p.t, answer)
}

// refused sends one that is refused with a status.
func (p *frozenProgram) refused(status int, path string, body map[string]any) {
	p.t.Helper()
	text, _ := json.Marshal(body)
	if got, answer := answerOf(p.t, p.api, "POST", path, text); got != status {
		p.t.Fatalf("%s %s: %d %s", path, text, got, answer)
	}
}

// has records what comes back of a request. Of a problem only the code is promised.
func (p *frozenProgram) has(a frozenAnswer) {
	p.t.Helper()
	a.Status, a.Answer = answerOf(p.t, p.api, a.Method, a.Path, a.Body)
	if a.Status >= http.StatusBadRequest {
		problem, _ := decoded(p.t, a.Answer).(map[string]any)
		a.Answer, _ = json.Marshal(object{"code": problem["code"]})
	}
	p.answers = append(p.answers, a)
}

type object = map[string]any

const (
	frozenLocks  = "/v1/tenants/acme/locks/"
	frozenChat   = "/v1/tenants/acme/clusters/chat"
	frozenRuns   = "/v1/tenants/acme/runs/"
	frozenFences = "/v1/tenants/acme/fences/"
)

func (p *frozenProgram) acquire(key, owner string, more object) any {
	p.t.Helper()
	body := object{"request_id": key + "-" + owner, "owner_id": owner}
	if more["mode"] != "rate" {
		body["ttl_seconds"] = 300
	}
	maps.Copy(body, more)
	lease := p.do("POST", frozenLocks+key+"/acquire", body)
	p.tokens[key] = max(p.tokens[key], number(p.t, lease, "fencing_token"))
	return lease
}

func (p *frozenProgram) begin() {
	p.locks()
	p.work()
	p.cluster()
	p.do("POST", "/v1/machine-ids/lease", object{"serviceId": "payments", "meta": object{"host": "web-1"}})
	p.do("POST", "/v1/machine-ids/lease", object{"serviceId": "default", "throughputPerMs": 256})
	p.clock.Advance(time.Second)
}

// locks: each mode, with holders, a line, what was released, forced, refused, and has ended.
func (p *frozenProgram) locks() {
	t, token := p.t, "fencing_token"
	first := p.acquire("deploy", "ci-1", object{"metadata": object{"build": "991"}})
	p.do("POST", frozenLocks+"deploy/renew", object{"request_id": "renew", "owner_id": "ci-1", "ttl_seconds": 600,
		token: number(t, first, token)})
	p.refused(409, frozenLocks+"deploy/acquire", object{"request_id": "r", "owner_id": "ci-2", "ttl_seconds": 30})
	p.acquire("line", "ci-1", nil)
	for _, who := range []string{"ci-2", "ci-3"} {
		p.refused(409, frozenLocks+"line/acquire", object{"request_id": "line-" + who, "owner_id": who,
			"ttl_seconds": 30, "wait_seconds": 20, "fair": true})
	}
	for _, who := range []string{"reader-1", "reader-2"} {
		p.acquire("report", who, object{"mode": "shared"})
		p.acquire("permits", who, object{"mode": "permits", "limit": 3})
		p.acquire("rate", who, object{"mode": "rate", "limit": 3, "window_seconds": 60})
	}
	released := p.acquire("released", "ci-1", nil)
	p.do("POST", frozenLocks+"released/release", object{"request_id": "release", "owner_id": "ci-1",
		token: number(t, released, token)})
	p.acquire("forced", "ci-1", object{"lock_delay_seconds": 20})
	p.do("POST", frozenLocks+"forced/force-release", object{"request_id": "force", "owner_id": "admin", "reason": "gone"})
	p.acquire("replaced", "ci-1", object{"replace": true})
	p.acquire("replaced", "ci-2", object{"replace": true})
	p.acquire("ended", "ci-1", object{"ttl_seconds": 5})
	p.do("POST", "/v1/tenants/acme/lock-sets/acquire", object{"request_id": "set", "owner_id": "ci-4",
		"lock_keys": []string{"account-4", "account-17"}, "ttl_seconds": 300})
	p.do("POST", frozenFences+"orders/check", object{token: number(t, first, token), "subject": "lock/deploy"})
	p.clock.Advance(10 * time.Second)
}

// work: runs and analyses that are under way, finished, failed and given back.
func (p *frozenProgram) work() {
	for _, w := range []struct{ id, end string }{{"open", ""}, {"ready", "READY"}, {"failed", "FAILED"}, {"back", "release"}} {
		run := object{"owner_id": "web-3", "request_id": w.id, "ttl_seconds": 300}
		analysis := maps.Clone(run)
		run["fingerprint"] = "q1vXo2kPz0"
		p.do("PUT", "/v1/analyses/"+w.id, nil)
		for _, at := range []struct {
			path string
			lock any
		}{
			{frozenRuns + w.id, p.do("POST", frozenRuns+w.id+"/begin", run)},
			{"/v1/analyses/" + w.id, p.do("POST", "/v1/analyses/"+w.id+"/lock", analysis)},
		} {
			lock, _ := at.lock.(map[string]any)
			if inner, ok := lock["lock"]; ok {
				lock, _ = inner.(map[string]any)
			}
			end := object{"owner_id": "web-3", "fencing_token": lock["fencing_token"]}
			switch w.end {
			case "READY":
				end["status"], end["result"] = w.end, "charge ch_1"
				p.do("POST", at.path+"/finish", end)
			case "FAILED":
				end["status"], end["failure_reason"] = w.end, "the bank did not respond"
				p.do("POST", at.path+"/finish", end)
			case "release":
				end["failure_reason"] = "later"
				p.do("POST", at.path+"/release", end)
			}
		}
	}
}

// cluster: two object, one of which drains, and identities with a state, an alarm, that failed and are free.
func (p *frozenProgram) cluster() {
	join := object{"request_id": "j-a", "kinds": []string{"room"}, "partitions": 16, "labels": object{"zone": "a"},
		"address": "10.0.0.5:9000", "ttl_seconds": 60}
	p.do("POST", frozenChat+"/members/alice/join", join)
	join["request_id"], join["address"] = "j-b", "10.0.0.6:9000"
	bob, _ := p.do("POST", frozenChat+"/members/bob/join", join).(map[string]any)
	for _, id := range []string{"state", "alarm", "failed", "free"} {
		at := frozenChat + "/activations/room/" + id
		claimed, _ := p.do("POST", at+"/claim", object{"request_id": "c-" + id}).(map[string]any)
		a, _ := claimed["activation"].(map[string]any)
		hold := object{"member": a["member"], "incarnation": a["incarnation"], "fencing_token": a["fencing_token"]}
		with := func(name string, v any) object {
			m := maps.Clone(hold)
			m[name] = v
			return m
		}
		if id == "failed" {
			p.do("POST", at+"/failed", with("reason", "the snapshot cannot be read"))
			continue
		}
		p.do("POST", at+"/activated", hold)
		switch id {
		case "state":
			state := with("state", "eyJ1c2VycyI6M30=")
			state["state_version"], state["request_id"] = 0, "s"
			p.do("POST", at+"/state", state)
		case "alarm":
			alarm := with("alarm_version", 0)
			alarm["alarm_at"] = docstore.FormatTime(p.clock.Now().Add(time.Hour))
			p.do("POST", at+"/alarm", alarm)
		case "free":
			p.do("POST", at+"/deactivate", with("reason", "the room is empty"))
		}
	}
	p.do("POST", frozenChat+"/members/bob/drain", object{"incarnation": bob["incarnation"]})
}

// end reads everything, sends again what was sent, and goes on once the leases have ended.
func (p *frozenProgram) end() {
	get := func(path string) { p.has(frozenAnswer{Method: "GET", Path: path}) }
	for _, key := range slices.Sorted(maps.Keys(p.tokens)) {
		get(frozenLocks + key)
	}
	for _, path := range []string{
		frozenLocks[:len(frozenLocks)-1], frozenRuns[:len(frozenRuns)-1], "/v1/analyses", frozenFences + "orders",
		"/v1/tenants/acme/clusters", frozenChat + "/members", frozenChat + "/topology", frozenChat + "/activations",
		frozenChat + "/events", "/v1/machine-ids", "/v1/machine-ids/spaces/payments", "/v1/machine-ids/spaces/default",
	} {
		get(path)
	}
	for _, id := range []string{"open", "ready", "failed", "back"} {
		get(frozenRuns + id)
		get("/v1/analyses/" + id)
	}
	for _, id := range []string{"state", "alarm", "failed", "free"} {
		get(frozenChat + "/activations/room/" + id)
		get(frozenChat + "/placements/room/" + id)
	}
	for _, r := range p.repeats {
		if !strings.HasPrefix(r.Path, "/v1/machine-ids/") { // what is free is chosen by chance
			p.has(r)
		}
	}
	after := int64(time.Hour / time.Millisecond)
	p.clock.Advance(time.Hour)
	for _, key := range slices.Sorted(maps.Keys(p.tokens)) {
		a := frozenAnswer{AfterMS: after, Method: "POST", Path: frozenLocks + key + "/acquire", Status: 200,
			Body: json.RawMessage(`{"request_id":"later","owner_id":"later","ttl_seconds":30}`)}
		status, answer := answerOf(p.t, p.api, a.Method, a.Path, a.Body)
		if status != 200 {
			p.t.Fatalf("%s: %d %s", key, status, answer)
		}
		a.Above = map[string]int64{"fencing_token": p.tokens[key]}
		p.answers, after = append(p.answers, a), 0
	}
}
