package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/audit"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// night is a server on a clock of its own, whose audit events are kept.
type night struct {
	t     *testing.T
	now   time.Time
	api   http.Handler
	audit bytes.Buffer
}

func newNight(t *testing.T) *night {
	n := &night{t: t}
	n.at("21:00")
	lines := slog.New(slog.DiscardHandler)
	clock := func() time.Time { return n.now }
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: clock})
	n.api = httpapi.New(store, httpapi.Development{}, &httpapi.Options{
		Log:   telemetry.AtLeast(slog.LevelError, lines),
		Audit: slog.New(httpapi.ChainAudit(telemetry.NewHandler(slog.NewJSONHandler(&n.audit, nil)))),
		Now:   clock, MaxWait: -1, // who waits keeps a place in line and asks again
		MachineIDs: twoMachineIDs(t, store),
	})
	return n
}

// twoMachineIDs leases the machine IDs 0 and 1, for 10 minutes.
func twoMachineIDs(t *testing.T, store docstore.Store) *machineid.Service {
	t.Helper()
	c := machineid.DefaultService()
	c.BitTs, c.BitID, c.BitSeq = 60, 2, 1
	ids, err := machineid.New(store, []machineid.ServiceConfig{c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// timeAt is a time of the night.
func timeAt(t *testing.T, clock string) time.Time {
	t.Helper()
	form := "2006-01-02T15:04:05"
	at, err := time.Parse(form, "2026-11-26T"+(clock + ":00")[:8])
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func (n *night) at(clock string) { n.now = timeAt(n.t, clock) }

// send sends a command on the lock "nightly" or on several locks, and returns the token that the response has.
func (n *night) send(clock, command, body string, status int) int64 {
	n.t.Helper()
	path := "/v1/tenants/acme/locks/nightly/" + command
	if set, ok := strings.CutPrefix(command, "set/"); ok {
		path = "/v1/tenants/acme/lock-sets/" + set
	}
	var lease struct {
		FencingToken int64 `json:"fencing_token"`
	}
	_ = json.Unmarshal(n.call(clock, http.MethodPost, path, body, status), &lease) // some have no body
	return lease.FencingToken
}

// call sends a request, and returns the body of the response.
func (n *night) call(clock, method, path, body string, status int) []byte {
	n.t.Helper()
	n.at(clock)
	w := httptest.NewRecorder()
	n.api.ServeHTTP(w, httptest.NewRequestWithContext(n.t.Context(), method, "http://127.0.0.1:8080"+path,
		strings.NewReader(body)))
	if w.Code != status {
		n.t.Fatalf("%s %s: %d %s", clock, path, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// play plays a night: an acquire, a hand-over in line, a takeover, a force-release, a replay, a request that is given
// up, several locks at once, and a lease that no one ends.
func (n *night) play() (first int64) {
	acquire := func(clock, owner string, ttl int, more string, status int) int64 {
		return n.send(clock, "acquire", fmt.Sprintf(`{"owner_id":%q,"request_id":"of-%s","ttl_seconds":%d%s}`, owner, owner,
			ttl, more), status)
	}
	const waits = `,"fair":true,"wait_seconds":20`
	first = acquire("22:00", "ann", 3600, "", 200)
	acquire("22:09:59", "ben", 600, waits, 409)
	acquire("22:10", "ben", 600, waits, 409)    // it has its place
	acquire("22:10:05", "ben", 600, waits, 409) // which counts for as long as it comes again
	n.send("22:10:05", "release", fmt.Sprintf(`{"owner_id":"ann","request_id":"e","fencing_token":%d}`, first), 200)
	acquire("22:10:08", "ben", 600, waits, 200)
	acquire("22:30", "cho", 600, "", 200)
	n.send("22:35", "force-release", `{"owner_id":"root","request_id":"f","reason":"it hangs"}`, 200)
	acquire("22:40", "dan", 600, "", 200)
	acquire("22:41", "dan", 600, "", 200)
	acquire("22:42", "dan", 600, `,"give_up":true`, 204)
	const set = `{"owner_id":"eve","request_id":"of-eve","lock_keys":["nightly","other"],"ttl_seconds":60}`
	n.send("22:44", "set/acquire", set, 200)
	n.send("22:44:30", "set/release", fmt.Sprintf(`{"owner_id":"eve","request_id":"e","leases":[`+
		`{"lock_key":"nightly","fencing_token":%d},{"lock_key":"other","fencing_token":%d}]}`, first+4, n.tokenOf("other")), 200)
	acquire("22:50", "fay", 60, "", 200)
	n.send("22:51", "acquire", `{"owner_id":"gus","request_id":"of-gus"`, 400)
	return first
}

// tokenOf is the token of the latest event about a lock.
func (n *night) tokenOf(key string) (token int64) {
	for _, e := range contracttest.AuditEvents(n.t, n.audit.String()) {
		if e.Key == key {
			token = e.FencingToken
		}
	}
	return token
}

// ask asks who had the lock at a time.
func ask(t *testing.T, clock, key string, files ...string) (a audit.Answer, stderr string, code int) {
	t.Helper()
	return askAbout(t, clock, []string{"--lock", key}, files...)
}

// askAbout asks who had something at a time, or at any if there is none.
func askAbout(t *testing.T, clock string, thing []string, files ...string) (a audit.Answer, stderr string, code int) {
	t.Helper()
	args := append([]string{"audit", "--tenant", "acme", "--json"}, thing...)
	if clock != "" {
		args = append(args, "--at", timeAt(t, clock).Format("2006-01-02T15:04:05"))
	}
	for _, f := range files {
		args = append(args, "--file", f)
	}
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		t.Fatalf("%v in %s; %s", err, &out, &errs)
	}
	return a, errs.String(), code
}

// save writes a file.
func save(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// summary is an answer in a few words: who for certain, who possibly, and how that ended; the leases before and after.
func summary(a audit.Answer, first int64) string {
	lease := func(l contracts.RecordedLease) string {
		text := l.Owner
		if l.FencingToken != 0 {
			text += fmt.Sprintf("+%d", l.FencingToken-first)
		}
		if l.Runs != 0 {
			text += fmt.Sprintf(", attempt %d after %d failures", l.Runs, l.Failures)
		}
		if l.TakenFrom != "" {
			text += " from " + l.TakenFrom
		}
		if l.InLine {
			text += " in line"
		}
		if l.TookOver {
			text += " took over"
		}
		text += ", granted " + clockOf(l.GrantedAt)
		if l.EndedAt != "" {
			text += ", " + l.Ended + " " + clockOf(l.EndedAt)
		}
		if l.EndedBy+l.Reason != "" {
			text += " by " + l.EndedBy + ": " + l.Reason
		}
		if l.Result != "" {
			text += " as " + l.Result
		}
		if l.NextToken != 0 {
			text += fmt.Sprintf(", then %s+%d", l.NextOwner, l.NextToken-first)
		}
		return text
	}
	var parts []string
	for _, l := range a.Leases {
		parts = append(parts, lease(l))
	}
	for _, h := range a.Holders {
		text := lease(h)
		if !*h.Certain {
			text = "possibly " + text
		}
		parts = append(parts, text)
	}
	if a.Before != nil {
		parts = append(parts, "before "+lease(*a.Before))
	}
	if a.After != nil {
		parts = append(parts, "after "+lease(*a.After))
	}
	return strings.Join(parts, "; ")
}

// clockOf is a time of the night in short.
func clockOf(at contracts.Time) string {
	_, clock, _ := strings.Cut(strings.TrimSuffix(at, ".000Z"), "T")
	return strings.TrimSuffix(clock, ":00")
}

// questions are what is asked about the night, and the answers.
var questions = []struct{ clock, want string }{
	{"21:59", "after ann+0, granted 22:00, released 22:10:05, then ben+1"},
	{"22:00", "ann+0, granted 22:00, released 22:10:05, then ben+1"},
	{"22:09:59", "ann+0, granted 22:00, released 22:10:05, then ben+1"},
	{"22:10:05", "ben+1 in line, granted 22:10:05, expired 22:30, then cho+2"},
	{"22:15", "ben+1 in line, granted 22:10:05, expired 22:30, then cho+2"},
	{"22:25", "possibly ben+1 in line, granted 22:10:05, expired 22:30, then cho+2; " +
		"before ann+0, granted 22:00, released 22:10:05, then ben+1; after cho+2 took over, granted 22:30, forced 22:35 by root: it hangs, then dan+3"},
	{"22:32", "cho+2 took over, granted 22:30, forced 22:35 by root: it hangs, then dan+3"},
	{"22:37", "before cho+2 took over, granted 22:30, forced 22:35 by root: it hangs, then dan+3; " +
		"after dan+3, granted 22:40, given up 22:42, then eve+4"},
	{"22:41:30", "dan+3, granted 22:40, given up 22:42, then eve+4"},
	{"22:43", "before dan+3, granted 22:40, given up 22:42, then eve+4; " +
		"after eve+4, granted 22:44, released 22:44:30, then fay+5"},
	{"22:44:10", "eve+4, granted 22:44, released 22:44:30, then fay+5"},
	{"22:50:30", "fay+5, granted 22:50"},
	{"23:59", "possibly fay+5, granted 22:50; before eve+4, granted 22:44, released 22:44:30, then fay+5"},
}

// TestAuditOfANight: the audit's answer at each time of a night that was played.
func TestAuditOfANight(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	first := n.play()
	events := n.audit.String()
	contracttest.AuditEvents(t, events)
	file := save(t, "audit.jsonl", events)
	for _, q := range questions {
		a, errs, code := ask(t, q.clock, "nightly", file)
		wantCode := exitOK
		if len(a.Holders) == 0 {
			wantCode = exitMissing
		}
		if got := summary(a, first); got != q.want || errs != "" ||
			code != wantCode {
			t.Errorf("%s\ngot  %s\nwant %s\nexit code %d, %s", q.clock, got, q.want, code, errs)
		}
	}
	for _, key := range []string{"none", "nightl"} {
		if a, _, code := ask(t, "22:05", key, file); code != exitMissing || a.Events != 0 {
			t.Errorf("%s: %+v, exit code %d", key, a, code)
		}
	}
	if a, _, code := ask(t, "22:44:10", "other", file); code != exitOK || a.Holders[0].Owner != "eve" {
		t.Errorf("the other lock: %+v, exit code %d", a, code)
	}
}

// TestHistoryOfAServer: a server answers from its audit file as the command does, for administrators, about what is of
// their tenant; also when the file was rotated.
func TestHistoryOfAServer(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	first := n.play()
	lines := strings.SplitAfter(n.audit.String(), "\n")
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	for name, content := range map[string]string{
		"": strings.Join(lines[len(lines)/2:], ""), ".1": strings.Join(lines[:len(lines)/2], ""),
		".old": "it is not a rotated file\n", "s": "nor is this\n",
	} {
		if err := os.WriteFile(file+name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := docstore.NewMemory(nil)
	api := contracttest.Handler(t, httpapi.New(store, httpapi.Development{}, &httpapi.Options{History: history(file)}))
	get := func(query string) (h contracts.LeaseHistory) {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://127.0.0.1:8080/v1/history?kind=lock&tenant_id=acme&key=nightly"+query, nil))
		if err := json.Unmarshal(w.Body.Bytes(), &h); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s, %v", w.Code, w.Body, err)
		}
		return h
	}
	for _, q := range questions {
		h := get("&at=" + timeAt(t, q.clock).Format(time.RFC3339))
		if got := summary(audit.Answer{LeaseHistory: h}, first); got != q.want || h.BrokenLines != 0 {
			t.Errorf("%s\ngot  %s\nwant %s\n%d broken lines", q.clock, got, q.want, h.BrokenLines)
		}
	}
	if h := get(""); len(h.Leases) != 6 || h.LeftOff != 0 || h.Leases[5].Owner != "fay" {
		t.Errorf("all: %+v", h)
	}
}

// playOthers plays a night of a run, a machine ID and an identity, and returns their first tokens and the machine ID.
func (n *night) playOthers() (run, identity, id int64) {
	begin := func(clock, owner string, ttl int) (token int64) {
		var granted contracts.RunGranted
		if err := json.Unmarshal(n.call(clock, http.MethodPost, "/v1/tenants/acme/runs/nightly/begin",
			fmt.Sprintf(`{"owner_id":%q,"request_id":"of-%s","ttl_seconds":%d}`, owner, owner, ttl), 200), &granted); err != nil {
			n.t.Fatal(err)
		}
		return granted.FencingToken
	}
	end := func(clock, owner, command string, token int64, more string) {
		n.call(clock, http.MethodPost, "/v1/tenants/acme/runs/nightly/"+command,
			fmt.Sprintf(`{"owner_id":%q,"fencing_token":%d%s}`, owner, token, more), 200)
	}
	run = begin("22:00", "ann", 600)
	begin("22:01", "ann", 600)
	end("22:05", "ann", "release", run, `,"failure_reason":"the disk is full"`)
	begin("22:10", "ben", 60)
	begin("22:20", "cho", 600)
	end("22:25", "cho", "finish", run+2, `,"status":"READY"`)

	lease := func(clock string) kazahana.Lease {
		var r kazahana.AcquireResponse
		if err := json.Unmarshal(n.call(clock, http.MethodPost, "/v1/machine-ids/lease", `{}`, 200), &r); err != nil ||
			len(r.Leases) != 1 {
			n.t.Fatalf("%v, %d leases", err, len(r.Leases))
		}
		return r.Leases[0]
	}
	l := lease("22:00")
	id = l.ID
	lease("22:04") // the other one
	at := timeAt(n.t, "22:05").UnixMilli()
	release := fmt.Sprintf(`{"signature":%q,"timestamp":%d}`, kazahana.Sign(l.Secret, id, at), at)
	path := fmt.Sprint("/v1/machine-ids/lease/", id)
	n.call("22:05", http.MethodDelete, path, release, 204)
	n.call("22:05", http.MethodDelete, path, release, 204) // again, when it is no one's
	lease("22:06")
	n.call("22:08", http.MethodPost, "/v1/machine-ids/force-release",
		fmt.Sprintf(`{"first":%d,"last":%d,"reason":"gone"}`, id, id), 200)
	lease("22:09")

	const chat = "/v1/tenants/acme/clusters/chat"
	join := func(clock, member string) {
		n.call(clock, http.MethodPost, chat+"/members/"+member+"/join",
			`{"request_id":"j","kinds":["room"],"partitions":16,"ttl_seconds":3600}`, 200)
	}
	const lobby = chat + "/activations/room/lobby"
	command := func(clock, name string, of contracts.Activation, more string) contracts.Activation {
		body := `{"request_id":"of-` + clock + `"`
		if of.Member != "" {
			body = fmt.Sprintf(`{"member":%q,"incarnation":%d,"fencing_token":%d`, of.Member, of.Incarnation, of.FencingToken)
		}
		var o contracts.ActivationOutcome
		if err := json.Unmarshal(n.call(clock, http.MethodPost, lobby+"/"+name, body+more+"}", 200), &o); err != nil {
			n.t.Fatal(err)
		}
		return o.Activation
	}
	join("22:00", "alice")
	had := command("22:01", "claim", contracts.Activation{}, "")
	identity = had.FencingToken
	command("22:02", "activated", had, "")
	join("22:05", "bob")
	had = command("22:10", "transfer", had, `,"request_id":"t","to":"bob"`)
	n.call("22:20", http.MethodPost, chat+"/members/bob/evict",
		fmt.Sprintf(`{"incarnation":%d,"reason":"hangs"}`, had.Incarnation), 200)
	had = command("22:30", "claim", contracts.Activation{}, "")
	command("22:31", "activated", had, "")
	command("22:40", "deactivate", had, `,"reason":"idle"`)
	return run, identity, id
}

// TestAuditOfOtherThings: who ran a run, which attempt and how it ended; who had a machine ID; which member had an
// identity: the answer at each time of a night that was played, whatever the order of the events.
func TestAuditOfOtherThings(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	run, identity, id := n.playOthers()
	lines := strings.SplitAfter(n.audit.String(), "\n")
	contracttest.AuditEvents(t, n.audit.String())
	rand.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	file := save(t, "audit.jsonl", n.audit.String()+strings.Join(lines, ""))
	shuffled := save(t, "shuffled.jsonl", strings.Join(lines, ""))

	const (
		ann   = "ann+0, attempt 1 after 1 failures, granted 22:00, failed 22:05 as failed, then ben+1"
		ben   = "ben+1, attempt 1 after 1 failures, granted 22:10, expired 22:20, then cho+2"
		cho   = "cho+2, attempt 2 after 1 failures took over, granted 22:20, finished 22:25 as READY"
		one   = ", granted 22:00, released 22:05:00.001Z"
		two   = ", granted 22:06, forced 22:08 by : gone"
		three = ", granted 22:09, expired 22:19"
	)
	// Tokens of identities are above the time: those of another hour are as many microseconds apart.
	minutes := func(n int64) string { return strconv.FormatInt(n*time.Minute.Microseconds(), 10) }
	alice := "alice+0, granted 22:01, handed over 22:10, then bob+" + minutes(9)
	bob := "bob+" + minutes(9) + " from alice, granted 22:10, taken over 22:30, then alice+" + minutes(29)
	again := "alice+" + minutes(29) + " from bob took over, granted 22:30, released 22:40"
	ofRun, ofID := []string{"--run", "nightly"}, []string{"--machine-id", strconv.FormatInt(id, 10)}
	ofIdentity := []string{"--identity", "room/lobby", "--cluster", "chat"}
	for _, q := range []struct {
		thing       []string
		first       int64
		clock, want string
	}{
		{ofRun, run, "21:59", "after " + ann},
		{ofRun, run, "22:02", ann},
		{ofRun, run, "22:07", "before " + ann + "; after " + ben},
		{ofRun, run, "22:10:30", ben},
		{ofRun, run, "22:15", "possibly " + ben + "; before " + ann + "; after " + cho},
		{ofRun, run, "22:24", cho},
		{ofRun, run, "22:25", "before " + cho},
		{ofRun, run, "", ann + "; " + ben + "; " + cho},
		{ofID, 0, "22:03", one},
		{ofID, 0, "22:05:30", "before " + one + "; after " + two},
		{ofID, 0, "22:07", two},
		{ofID, 0, "22:08", "before " + two + "; after " + three},
		{ofID, 0, "22:18:59", three},
		{ofID, 0, "22:19", "before " + three},
		{[]string{"--machine-id", strconv.FormatInt(1-id, 10)}, 0, "22:13", ", granted 22:04, expired 22:14"},
		{ofIdentity, identity, "22:05", alice},
		{ofIdentity, identity, "22:15", "possibly " + bob + "; before " + alice + "; after " + again},
		{ofIdentity, identity, "22:35", again},
		{ofIdentity, identity, "22:50", "before " + again},
		{ofIdentity, identity, "", alice + "; " + bob + "; " + again},
		{[]string{"--analysis", "nightly"}, 0, "22:02", ""},
		{[]string{"--lock", "nightly"}, 0, "22:02", ""},
		{[]string{"--identity", "room/lobby", "--cluster", "chatt"}, 0, "22:05", ""},
		{append(slices.Clone(ofID), "--service", "other"), 0, "22:03", ""},
	} {
		for _, f := range []string{file, shuffled} {
			a, errs, code := askAbout(t, q.clock, q.thing, f)
			if got := summary(a, q.first); got != q.want || errs != "" ||
				(code == exitOK) != (len(a.Holders)+len(a.Leases) > 0) {
				t.Errorf("%v %s\ngot  %s\nwant %s\nexit code %d, %s", q.thing, q.clock, got, q.want, code, errs)
			}
		}
	}
}

// TestAuditReadsWhatSinksExport: the answers are the same for lines in any order, twice, in several files, and within
// what exports put around them; what cannot be read is counted and named.
func TestAuditReadsWhatSinksExport(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	first := n.play()
	lines := strings.Split(strings.TrimSpace(n.audit.String()), "\n")
	of, _, _ := ask(t, "22:05", "nightly", save(t, "audit.jsonl", n.audit.String()))
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	lambda := func(line string) string { return strings.Replace(line, `"msg":"audit"`, `"message":"audit"`, 1) }
	each := func(around func(string) string) string {
		var all []string
		for _, l := range lines {
			all = append(all, around(l))
		}
		return strings.Join(all, "\n")
	}
	mixed := slices.Concat(lines, lines)
	rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(n.audit.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	entries, messages := []object{}, []object{}
	for _, l := range lines {
		entries = append(entries, object{"severity": "INFO", "jsonPayload": json.RawMessage(lambda(l))})
		messages = append(messages, object{"id": "1", "timestamp": 1, "message": lambda(l)})
	}
	indented, err := json.MarshalIndent(entries, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	printed, err := json.MarshalIndent(object{"events": messages, "searchedLogStreams": []string{}}, "", "    ")
	if err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string][]string{
		"in any order, twice": {strings.Join(mixed, "\n")},
		"rotated":             {strings.Join(lines[5:], "\n"), strings.Join(lines[:6], "\n") + "\n"},
		"gzip":                {zipped.String()},
		"a server's log": {`{"msg":"started"}` + "\n" +
			each(func(l string) string { return l + "\n" + `{"msg":"request"}` })},
		"export to S3": {each(func(l string) string {
			return "2026-11-26T22:00:00.000Z " + lambda(l)
		})},
		"Firehose":                   {text(object{"messageType": "DATA_MESSAGE", "logEvents": messages})},
		"several in a line":          {strings.Join(lines, "")},
		"aws logs filter-log-events": {string(printed)},
		"gcloud logging read":        {string(indented)},
		"a sink to a bucket": {each(func(l string) string {
			return text(object{"jsonPayload": json.RawMessage(lambda(l))})
		})},
		"a message in a message of a log": {each(func(l string) string {
			return text(object{"message": text(object{"message": lambda(l)})})
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var paths []string
			for i, content := range files {
				paths = append(paths, save(t, fmt.Sprint("audit.", i), content))
			}
			for _, q := range questions {
				if a, errs, _ := ask(t, q.clock, "nightly", paths...); summary(a, first) != q.want || errs != "" ||
					a.Events != of.Events {
					t.Errorf("%s\ngot  %s\nwant %s\n%s", q.clock, summary(a, first), q.want, errs)
				}
			}
		})
	}

	broken := slices.Clone(lines)
	broken[0] = broken[0][:100]
	broken = slices.Insert(broken, 1, "", strings.Repeat("x", audit.MaxLineBytes+1), `{"msg":"audit","audit":{"action":"lock.acquire"}}`,
		`{"msg":"audit","audit":{"schema":2,"id":"x"}}`, `level=INFO msg=audit audit.schema=1`,
		`{"msg":"audit","audit":{"schema":1,"id":7}}`)
	file := save(t, "broken.jsonl", strings.Join(broken, "\n"))
	a, errs, code := ask(t, "22:32", "nightly", file)
	if code != exitOK || len(a.Broken) != 6 || !strings.HasPrefix(summary(a, first), "cho+2") ||
		!strings.Contains(errs, "6 lines could not be read") {
		t.Errorf("exit code %d, %+v, %s", code, a.Broken, errs)
	}
	for line, why := range map[int]string{1: "not JSON", 3: "longer than 1048576 bytes", 4: "schema is 0",
		5: "schema is 2", 6: "text format", 7: "no audit event"} {
		if !slices.ContainsFunc(a.Broken, func(b audit.Broken) bool {
			return b.Line == line && strings.Contains(b.Why, why)
		}) {
			t.Errorf("line %d is not named as %q: %+v", line, why, a.Broken)
		}
		if !strings.Contains(errs, fmt.Sprintf("broken.jsonl:%d: ", line)) {
			t.Errorf("line %d is not on standard error: %s", line, errs)
		}
	}
}

// endless is a text, and then one letter again and again.
type endless struct {
	text io.Reader
	left int
}

func (e *endless) Read(b []byte) (int, error) {
	if n, err := e.text.Read(b); err == nil {
		return n, nil
	}
	if e.left -= len(b); e.left < 0 {
		return 0, errors.New("all of it was read")
	}
	for i := range b {
		b[i] = 'a'
	}
	return len(b), nil
}

// TestAuditOfFilesThatOthersWrote: a file cannot write to the terminal, and its size is not that of the memory.
func TestAuditOfFilesThatOthersWrote(t *testing.T) {
	t.Parallel()
	const event = `{"msg":"audit","audit":{"schema":1,"id":"%s","at":"%s","kind":"lock","tenant":"acme","key":"%s",` +
		`"action":"lock.acquire","outcome":"ok","mode":"%s","owner":"%s","fencing_token":1}}` + "\n"
	const night, escape = "2026-11-26T22:00:00.000Z", `\u001b]0;x\u0007\n`
	file := save(t, "audit.jsonl", fmt.Sprintf(event, "1", night, "nightly", escape, escape)+
		fmt.Sprintf(event, "2", escape, "nightly", "", "")+fmt.Sprintf(event, escape, night, "nightly", "", "ann"))
	var out, errs bytes.Buffer
	run(t.Context(), []string{"audit", "-f", file, "--tenant", "acme", "--lock", "nightly", "--at", "2026-11-26T21:00"},
		&out, &errs)
	if text := out.String() + errs.String(); strings.Contains(text, "\x1b") ||
		!strings.Contains(text, "audit.jsonl:2: it is an audit event without a time") {
		t.Errorf("%q", text)
	}

	log := audit.Log{About: audit.Thing{Kind: audit.Lock, Tenant: "acme", Key: "nightly"}}
	others := strings.Repeat("x\n", 5000) + fmt.Sprintf(event, "3", night, "other", "", "ann")
	if err := log.Read("lines", strings.NewReader(others)); err != nil || log.BrokenLines != 5000 ||
		len(log.Broken) > 100 || len(log.Events) != 0 || log.At(timeAt(t, "22:05")).First != night {
		t.Errorf("%v: %d of %d broken lines, %d events, %+v", err, len(log.Broken), log.BrokenLines, len(log.Events),
			log.At(timeAt(t, "22:05")))
	}
	for _, begin := range []string{"[\n" + strings.TrimSpace(fmt.Sprintf(event, "4", night, "nightly", "", "ann")) + `, "`,
		"{\n" + `"msg": "`} {
		log := audit.Log{About: audit.Thing{Kind: audit.Lock, Tenant: "acme", Key: "nightly"}}
		if err := log.Read("document", &endless{strings.NewReader(begin), 200 << 20}); err != nil || log.BrokenLines != 1 ||
			!strings.Contains(log.Broken[0].Why, "longer than") || len(log.Events) != strings.Count(begin, "[") {
			t.Errorf("%.20q: %v, %d events, %v", begin, err, len(log.Events), log.Broken)
		}
	}
	for _, cut := range []string{"[\n", "[\n{}", "[\n{},", "{\n"} {
		log := audit.Log{About: audit.Thing{Kind: audit.Lock, Tenant: "acme", Key: "nightly"}}
		if err := log.Read("cut off", strings.NewReader(cut)); err != nil || log.BrokenLines != 1 {
			t.Errorf("%q: %v, %v", cut, err, log.Broken)
		}
	}
}

// TestAuditInWords is what a person reads.
func TestAuditInWords(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	first := n.play()
	file := save(t, "audit.jsonl", n.audit.String())
	for at, want := range map[string]string{
		"2026-11-26T23:32:00+01:00": "nightly of tenant acme at 2026-11-26T22:32:00.000Z: cho, with fencing token TOKEN2\n" +
			"  granted  2026-11-26T22:30:00.000Z, after the lease before had expired\n" +
			"  lease    to 2026-11-26T22:40:00.000Z, unless it was renewed\n" +
			"  ended    2026-11-26T22:35:00.000Z, forced by root: \"it hangs\"\n" +
			"  next     dan, with fencing token TOKEN3\n",
		"2026-11-26 22:25": "nightly of tenant acme at 2026-11-26T22:25:00.000Z: possibly ben, with fencing token TOKEN1, " +
			"if its lease lasted until then\n" +
			"  granted  2026-11-26T22:10:05.000Z, as the next in line\n" +
			"  lease    to 2026-11-26T22:20:08.000Z, unless it was renewed\n" +
			"  ended    it had expired by 2026-11-26T22:30:00.000Z\n" +
			"  next     cho, with fencing token TOKEN2\n",
		"2026-11-27T03:12Z": "The events are from 2026-11-26T22:00:00.000Z to 2026-11-26T22:50:00.000Z: " +
			"what happened outside is not known.\n",
		"2026-11-26T21:00Z": "at 2026-11-26T21:00:00.000Z: the events begin at 2026-11-26T22:00:00.000Z: " +
			"what was before is not known\nafter: ann, ",
	} {
		var out, errs bytes.Buffer
		run(t.Context(), []string{"audit", "-f", file, "--tenant", "acme", "--lock", "nightly", "--at", at}, &out, &errs)
		for i := range int64(6) {
			want = strings.ReplaceAll(want, fmt.Sprint("TOKEN", i), strconv.FormatInt(first+i, 10))
		}
		if !strings.Contains(out.String(), want) || errs.Len() > 0 || strings.Contains(want, "begin at") &&
			strings.Contains(out.String(), "no one had it") {
			t.Errorf("at %s:\n%s%s\nwant\n%s", at, &out, &errs, want)
		}
	}
	for _, args := range [][]string{{"--lock", "k", "--at", "03:12"}, {"--lock", "k", "--at", "yesterday"}, {},
		{"--lock", "k", "--run", "r"}, {"--machine-id", "x"}, {"--identity", "room/lobby"},
		{"--lock", "k", "--cluster", "c"}, {"--lock", "k", "--service", "orders"}} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), append([]string{"audit", "-f", file}, args...), &out,
			&errs); code != exitUsage {
			t.Errorf("%v: exit code %d, %s", args, code, &errs)
		}
	}
	var out, errs bytes.Buffer
	missing := []string{"audit", "-f", file + "x", "--lock", "nightly", "--at", "2026-11-26T03:12Z"}
	if code := run(t.Context(), missing, &out, &errs); code != exitFailed ||
		!strings.Contains(errs.String(), "audit.jsonlx") || !strings.Contains(errs.String(), "LEASEHOLD_AUDIT_LOG") {
		t.Errorf("exit code %d, %s", code, &errs)
	}
}

// TestAuditWithoutEvents: files in which no event can be read are an error that says what to do, and no answer.
func TestAuditWithoutEvents(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	slog.New(telemetry.NewHandler(slog.NewTextHandler(&text, nil))).Info("audit", "audit", map[string]any{"kind": "lock"})
	for name, c := range map[string]struct {
		content string
		code    int
		says    string
	}{
		"text":  {"listening\n" + text.String(), exitFailed, "set LEASEHOLD_LOG=json or LEASEHOLD_AUDIT_LOG"},
		"noise": {"x\n", exitFailed, "no audit event could be read"},
		"empty": {"", exitMissing, ""},
		"list":  {"[]\n", exitMissing, ""},
		"json":  {`{"msg":"request"}` + "\n", exitFailed, "LEASEHOLD_AUDIT_LOG"},
		"other": {"{\n\"tokens\": []\n}\n", exitFailed, "LEASEHOLD_AUDIT_LOG"},
	} {
		for _, more := range [][]string{nil, {"--at", "2026-11-26T21:00"}, {"--json"}} {
			var out, errs bytes.Buffer
			code := run(t.Context(), append([]string{"audit", "-f", save(t, name, c.content), "--lock", "k"}, more...), &out,
				&errs)
			if code != c.code || !strings.Contains(errs.String(), c.says) || (code == exitFailed) == (out.Len() > 0) ||
				code == exitFailed && !strings.Contains(errs.String(), "no audit event could be read") {
				t.Errorf("%s %v: %d\n%s%s", name, more, code, &out, &errs)
			}
		}
	}
}
