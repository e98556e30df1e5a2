//go:build unix

package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/kazahana"
)

// git is what a git command says, of this repository.
func git(t *testing.T, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "git", append([]string{"-C", ".."}, args...)...)
	out, err := c.Output()
	return strings.TrimSpace(string(out)), err
}

// previous is the version that runs beside this one during an upgrade: the latest tag before it.
func previous(t *testing.T) (tag string) {
	t.Helper()
	tag, err := git(t, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^")
	if err != nil {
		t.Skip("SKIPPED: no version is tagged before this one, so that none runs beside it " +
			"(in a shallow clone: git fetch --unshallow --tags)")
	}
	return tag
}

// programs are those of one version.
type programs struct{ leasehold, shop string }

const shopPackage = "tests/testdata/shop"

// earlier builds the programs of an earlier version, of which git has the files. The shop's source is that of this
// version: it uses what packages promise.
func earlier(t *testing.T, tag string) programs {
	t.Helper()
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "tree.tar")
	if _, err := git(t, "archive", "--format=tar", "--output="+archive, tag); err != nil {
		t.Fatal(err)
	}
	in := func(name string, args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir = tree
		c.Env = append(c.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	in("tar", "-xf", archive)
	in("mkdir", "-p", shopPackage)
	source, err := filepath.Abs(filepath.Join("testdata", "shop", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	in("cp", source, shopPackage)
	// The cache of builds has what both versions have in common.
	in("go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", dir+"/", "./cmd/leasehold", "./"+shopPackage)
	return programs{filepath.Join(dir, "leasehold"), filepath.Join(dir, "shop")}
}

// TestNeighbours: servers of this version and of the one before work on one store, as they do during an upgrade and
// after a rollback. Each command of a conversation goes to one of them, the next to the other, and each is sent once
// more to the server that did not carry it out: that knows it, and has no other opinion of what is stored. It plays
// each conversation in both directions.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	if os.Getenv("LEASEHOLD_TEST_PREVIOUS") != "1" {
		t.Skip("it builds another version: set LEASEHOLD_TEST_PREVIOUS=1")
	}
	tag := previous(t)
	old, present := earlier(t, tag), programs{build(t, "cmd/leasehold"), build(t, shopPackage)}
	t.Logf("beside %s", tag)
	stores := map[string]func(t *testing.T) []string{
		"sqlite": func(t *testing.T) []string { t.Helper(); return []string{"--data", t.TempDir()} },
		"redis": func(t *testing.T) []string {
			t.Helper()
			return []string{"--store", "redis", "--redis-addr", redistest.StandIn(t).URL()}
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			// The bounds are far above what is done here: their documents are written and read by both.
			args := append([]string{"serve", "--listen", "127.0.0.1:0",
				"--tenant-rate", "5000", "--subject-rate", "5000",
				"--max-locks-per-tenant", "5000", "--max-runs-per-tenant", "5000",
				"--max-identities-per-cluster", "5000", "--max-clusters-per-tenant", "5000"}, open(t)...)
			both := [2]*process{launchOf(t, old.leasehold, nil, args...), launchOf(t, present.leasehold, nil, args...)}
			for direction, first := range []string{"the old one begins", "the new one begins"} {
				t.Run(first, func(t *testing.T) {
					for what, c := range conversations {
						t.Run(what, func(t *testing.T) {
							t.Parallel()
							c.play(t, both, direction)
						})
					}
					t.Run("machine IDs", func(t *testing.T) { neighbouringIDs(t, both, direction) })
					shops := [2]*process{launchOf(t, old.shop, nil, both[0].url), launchOf(t, present.shop, nil, both[1].url)}
					t.Run("idempotency", func(t *testing.T) { neighbouringShops(t, shops, direction) })
				})
			}
		})
	}
}

// conversation is what callers do with subjects of one kind.
type conversation struct {
	commands []saidTo
	looks    []string // what is read of both after each command
}

// saidTo is a request. {n} in its texts is a name that the direction has for itself, other words in braces are what
// was kept of a response.
type saidTo struct {
	send string // METHOD path
	body string
	want int
	keep string // members of the response, as word=member
	once bool   // it has no request_id, and is another command when it is sent again
}

const (
	tenant  = "/v1/tenants/acme"
	lockOne = "POST " + tenant + "/locks/{n}-"
)

// acquireBody is that of an acquire of one owner, whose request is named after it.
func acquireBody(owner, more string) string {
	return fmt.Sprintf(`{"request_id":"a-%[1]s","owner_id":%[1]q%[2]s}`, owner, more)
}

// holderBody is that of a renewal or a release by an owner, whose token was kept under its name.
func holderBody(owner, more string) string {
	return fmt.Sprintf(`{"request_id":"h-%[1]s","owner_id":%[1]q,"fencing_token":{%[1]s}%[2]s}`, owner, more)
}

const lasts = `,"ttl_seconds":3600`

var conversations = map[string]conversation{
	"a lock": {commands: []saidTo{
		{lockOne + "k/acquire", acquireBody("ann", lasts+`,"metadata":{"build":"991"}`), 200, "ann=fencing_token", false},
		{lockOne + "k/acquire", acquireBody("bob", lasts), 409, "", false},
		{lockOne + "k/renew", holderBody("ann", lasts), 200, "", false},
		{lockOne + "k/release", holderBody("ann", ""), 200, "", false},
		{lockOne + "k/renew", holderBody("ann", `,"ttl_seconds":60`), 409, "", false},
		{lockOne + "k/acquire", acquireBody("carl", lasts+`,"lock_delay_seconds":1,"replace":true`), 200,
			"carl=fencing_token", false},
		{lockOne + "k/force-release", `{"request_id":"f","owner_id":"root","reason":"it hangs"}`, 200, "", false},
		{lockOne + "k/release", holderBody("carl", ""), 409, "", false},
		{lockOne + "k/acquire", acquireBody("dora", lasts+`,"give_up":true`), 204, "", false},
		{lockOne + "k/acquire", acquireBody("dora", lasts), 422, "", false},
		{lockOne + "k/acquire", acquireBody("ann", lasts+`,"metadata":{"build":"991"}`), 422, "", false},
	}, looks: []string{tenant + "/locks/{n}-k", tenant + "/locks?prefix={n}-k"}},
	"readers and a writer": {commands: []saidTo{
		{lockOne + "rw/acquire", acquireBody("ann", lasts+`,"mode":"shared"`), 200, "ann=fencing_token", false},
		{lockOne + "rw/acquire", acquireBody("bob", lasts+`,"mode":"shared"`), 200, "bob=fencing_token", false},
		{lockOne + "rw/acquire", acquireBody("writer", lasts+`,"fair":true,"wait_seconds":1`), 409, "", false},
		{lockOne + "rw/acquire", acquireBody("carl", lasts+`,"mode":"shared","wait_seconds":1`), 409, "", false},
		{lockOne + "rw/release", holderBody("ann", ""), 200, "", false},
		{lockOne + "rw/renew", holderBody("bob", lasts), 200, "", false},
		{lockOne + "rw/release", holderBody("bob", ""), 200, "", false},
		{lockOne + "rw/acquire", acquireBody("writer", lasts+`,"fair":true,"wait_seconds":1`), 200,
			"writer=fencing_token", false},
		{lockOne + "rw/release", holderBody("writer", ""), 200, "", false},
		{lockOne + "rw/acquire", acquireBody("carl", lasts+`,"mode":"shared","wait_seconds":1`), 200,
			"carl=fencing_token", false},
	}, looks: []string{tenant + "/locks/{n}-rw"}},
	"permits": {commands: []saidTo{
		{lockOne + "p/acquire", acquireBody("ann", lasts+`,"mode":"permits","limit":2`), 200, "ann=fencing_token", false},
		{lockOne + "p/acquire", acquireBody("bob", lasts+`,"mode":"permits","limit":2`), 200, "bob=fencing_token", false},
		{lockOne + "p/acquire", acquireBody("carl", lasts+`,"mode":"permits","limit":2`), 409, "", false},
		{lockOne + "p/renew", holderBody("bob", lasts), 200, "", false},
		{lockOne + "p/release", holderBody("ann", ""), 200, "", false},
		{lockOne + "p/acquire", acquireBody("dora", lasts+`,"mode":"permits","limit":2`), 200, "", false},
		{lockOne + "p/acquire", acquireBody("eve", lasts+`,"mode":"permits","limit":3`), 409, "", false},
	}, looks: []string{tenant + "/locks/{n}-p"}},
	"a rate": {commands: []saidTo{
		{lockOne + "r/acquire", acquireBody("ann", `,"mode":"rate","limit":2,"window_seconds":3600`), 200, "", false},
		{lockOne + "r/acquire", acquireBody("bob", `,"mode":"rate","limit":2,"window_seconds":3600`), 200, "", false},
		{lockOne + "r/acquire", acquireBody("carl", `,"mode":"rate","limit":2,"window_seconds":3600`), 409, "", false},
	}, looks: []string{tenant + "/locks/{n}-r"}},
	"a line": {commands: []saidTo{
		{lockOne + "l/acquire", acquireBody("ann", lasts), 200, "ann=fencing_token", false},
		{lockOne + "l/acquire", acquireBody("bob", lasts+`,"fair":true,"wait_seconds":1`), 409, "", false},
		{lockOne + "l/acquire", acquireBody("carl", lasts+`,"fair":true,"wait_seconds":1,"max_waiting":2`), 409, "", false},
		{lockOne + "l/acquire", acquireBody("dora", lasts+`,"fair":true,"wait_seconds":1,"max_waiting":2`), 409, "", false},
		{lockOne + "l/acquire", acquireBody("carl", lasts+`,"fair":true,"max_waiting":2,"give_up":true`), 204, "", false},
		{lockOne + "l/release", holderBody("ann", ""), 200, "", false},
		{lockOne + "l/acquire", acquireBody("bob", lasts+`,"fair":true,"wait_seconds":1`), 200, "bob=fencing_token", false},
		{lockOne + "l/renew", holderBody("bob", lasts), 200, "", false},
		{lockOne + "l/release", holderBody("bob", ""), 200, "", false},
	}, looks: []string{tenant + "/locks/{n}-l"}},
	"several locks": {commands: []saidTo{
		{"POST " + tenant + "/lock-sets/acquire", acquireBody("ann", lasts+`,"lock_keys":["{n}-x","{n}-y"]`), 200,
			"x=leases.0.fencing_token y=leases.1.fencing_token", false},
		{"POST " + tenant + "/lock-sets/acquire", acquireBody("bob", lasts+`,"lock_keys":["{n}-y","{n}-z"]`), 409, "", false},
		{"POST " + tenant + "/lock-sets/renew", `{"request_id":"n","owner_id":"ann"` + lasts + leasesXY, 200, "", false},
		{"POST " + tenant + "/lock-sets/release", `{"request_id":"e","owner_id":"ann"` + leasesXY, 200, "", false},
		{"POST " + tenant + "/lock-sets/acquire", acquireBody("carl", lasts+`,"lock_keys":["{n}-y","{n}-z"]`), 200, "",
			false},
		{"POST " + tenant + "/lock-sets/acquire", acquireBody("dora", lasts+`,"lock_keys":["{n}-x"],"give_up":true`), 204, "",
			false},
	}, looks: []string{tenant + "/locks/{n}-x", tenant + "/locks/{n}-y"}},
	"a fence": {commands: []saidTo{
		{"POST " + tenant + "/fences/{n}/check", `{"fencing_token":7,"subject":"lock/db"}`, 200, "", false},
		{"POST " + tenant + "/fences/{n}/check", `{"fencing_token":6,"subject":"lock/db"}`, 409, "", false},
		{"POST " + tenant + "/fences/{n}/reset", `{"owner_id":"root","highest_token":7,"reason":"a typo"}`, 200, "", false},
		{"POST " + tenant + "/fences/{n}/check", `{"fencing_token":6,"subject":"lock/db"}`, 200, "", false},
		{"POST " + tenant + "/fences/{n}/remove", `{"owner_id":"root","highest_token":6,"reason":"over"}`, 200, "", false},
	}, looks: []string{tenant + "/fences/{n}"}},
	"an analysis": {commands: []saidTo{
		{"PUT /v1/analyses/{n}", "", 200, "", false},
		{"POST /v1/analyses/{n}/lock", acquireBody("ann", lasts), 200, "ann=fencing_token", false},
		{"POST /v1/analyses/{n}/lock", acquireBody("bob", lasts), 200, "", false}, // skipped
		{"POST /v1/analyses/{n}/refresh", `{"owner_id":"ann","fencing_token":{ann}` + lasts + `}`, 200, "", true},
		{"POST /v1/analyses/{n}/release", `{"owner_id":"ann","fencing_token":{ann},"failure_reason":"no disk"}`, 200, "", false},
		{"POST /v1/analyses/{n}/lock", acquireBody("carl", lasts), 200, "carl=fencing_token", false},
		{"POST /v1/analyses/{n}/finish", `{"owner_id":"carl","fencing_token":{carl},"status":"FAILED","failure_reason":"bad"}`,
			200, "", false},
		{"POST /v1/analyses/{n}/lock", acquireBody("dora", lasts), 200, "", false}, // already finished
		{"POST /v1/analyses/{n}/retry", `{"request_id":"r","owner_id":"root","reason":"mended"}`, 200, "", false},
		{"POST /v1/analyses/{n}/lock", acquireBody("eve", lasts+`,"give_up":true`), 204, "", false},
		{"POST /v1/analyses/{n}/lock", acquireBody("fay", lasts), 200, "fay=fencing_token", false},
		{"POST /v1/analyses/{n}/finish", `{"owner_id":"fay","fencing_token":{fay},"status":"READY","result":"s3://r"}`, 200, "",
			false},
	}, looks: []string{"/v1/analyses/{n}"}},
	"a run": {commands: []saidTo{
		{"POST " + tenant + "/runs/{n}/begin", acquireBody("ann", lasts+`,"fingerprint":"q1v","keep_seconds":7200`), 200,
			"ann=fencing_token", false},
		{"POST " + tenant + "/runs/{n}/begin", acquireBody("bob", lasts+`,"fingerprint":"q1v"`), 200, "", false},
		{"POST " + tenant + "/runs/{n}/begin", acquireBody("carl", lasts+`,"fingerprint":"other"`), 422, "", false},
		{"POST " + tenant + "/runs/{n}/refresh", `{"owner_id":"ann","fencing_token":{ann}` + lasts + `}`, 200, "", true},
		{"POST " + tenant + "/runs/{n}/release", `{"owner_id":"ann","fencing_token":{ann},"failure_reason":"busy"}`, 200, "",
			false},
		{"POST " + tenant + "/runs/{n}/begin", acquireBody("dora", lasts+`,"fingerprint":"q1v"`), 200, "dora=fencing_token",
			false},
		{"POST " + tenant + "/runs/{n}/finish", `{"owner_id":"dora","fencing_token":{dora},"status":"READY","result":"ch_1"}`,
			200, "", false},
		{"POST " + tenant + "/runs/{n}/begin", acquireBody("eve", lasts+`,"fingerprint":"q1v"`), 200, "", false},
	}, looks: []string{tenant + "/runs/{n}"}},
	"placement": {commands: []saidTo{
		{"POST " + members + "one/join", `{"request_id":"j1","kinds":["room"],"address":"10.0.0.5:9000","ttl_seconds":60}`, 200,
			"one=incarnation", false},
		{"POST " + members + "two/join", `{"request_id":"j2","kinds":["hall"],"labels":{"zone":"b"},"ttl_seconds":60}`, 200,
			"two=incarnation", false},
		{"POST " + members + "one/heartbeat", `{"incarnation":{one},"seq":1,"ttl_seconds":60}`, 200, "", false},
		{"POST " + room + "claim", `{"request_id":"c1","member":"one","incarnation":{one}}`, 200,
			"room=activation.fencing_token", false},
		{"POST " + members + "two/offer", `{"incarnation":{two},"request_id":"o","kinds":["room","hall"]}`, 200, "", false},
		{"POST " + room + "activated", ofOne + "}", 200, "", false},
		{"POST " + room + "state", ofOne + `,"request_id":"s1","state_version":0,"state":"eyJ1c2VycyI6M30="}`, 200, "", false},
		{"POST " + room + "state", ofOne + `,"request_id":"s2","state_version":1,"state":"eyJ1c2VycyI6NH0="}`, 200, "", false},
		{"POST " + room + "transfer", ofOne + `,"request_id":"t1","to":"two"}`, 200, "moved=activation.fencing_token", false},
		{"POST " + room + "activated", `{"member":"two","incarnation":{two},"fencing_token":{moved}}`, 200, "", false},
		{"POST " + room + "deactivate", `{"member":"two","incarnation":{two},"fencing_token":{moved},"reason":"empty"}`, 200, "",
			false},
		{"POST " + members + "two/drain", `{"incarnation":{two}}`, 200, "", false},
		{"POST " + members + "two/leave", `{"incarnation":{two}}`, 200, "", false},
		{"POST " + members + "one/evict", `{"incarnation":{one},"reason":"silent"}`, 200, "", false},
	}, looks: []string{halls + "members", halls + "topology", halls + "activations/room/7"}},
}

const (
	leasesXY = `,"leases":[{"lock_key":"{n}-x","fencing_token":{x}},{"lock_key":"{n}-y","fencing_token":{y}}]}`
	halls    = tenant + "/clusters/{n}/"
	members  = halls + "members/"
	room     = halls + "activations/room/7/"
	ofOne    = `{"member":"one","incarnation":{one},"fencing_token":{room}`
)

// changing are members of responses that depend on when they are asked for, or who carries a request out.
var changing = map[string]bool{"remaining_ms": true, "retry_after_ms": true, "replayed": true, "instance": true,
	"type": true, "waited_ms": true, "store_time": true, "detail": true, "until": true, "at": true, "created": true,
	"released_at": true}

// alike says where two responses differ, of what both have; empty if nowhere.
func alike(where string, a, b any) string {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		for name := range a {
			if _, both := b[name]; both && !changing[name] {
				if differs := alike(where+"."+name, a[name], b[name]); differs != "" {
					return differs
				}
			}
		}
		if ok {
			return ""
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			for i := range a {
				if differs := alike(fmt.Sprint(where, ".", i), a[i], b[i]); differs != "" {
					return differs
				}
			}
			return ""
		}
	default:
		if reflect.DeepEqual(a, b) {
			return ""
		}
	}
	return fmt.Sprintf("%s: %v and %v", where, a, b)
}

// member is one of a response, by a path such as leases.0.fencing_token.
func member(t *testing.T, body any, path string) string {
	t.Helper()
	for name := range strings.SplitSeq(path, ".") {
		switch at := body.(type) {
		case map[string]any:
			body = at[name]
		case []any:
			body = at[int(name[0]-'0')]
		}
	}
	n, ok := body.(json.Number)
	if !ok {
		t.Fatalf("%s is %v", path, body)
	}
	return n.String()
}

// play carries the conversation out, in one direction: which server begins.
func (c conversation) play(t *testing.T, both [2]*process, direction int) {
	t.Helper()
	kept := []string{"{n}", fmt.Sprint("n", direction)}
	told := func(text string) string { return strings.NewReplacer(kept...).Replace(text) }
	for i, step := range c.commands {
		first := both[(i+direction)%2]
		other := both[(i+direction+1)%2]
		method, path, _ := strings.Cut(told(step.send), " ")
		body := told(step.body)
		got := ask(t, http.DefaultClient, method, first.url+path, body)
		if got.status != step.want {
			t.Fatalf("%s %s: %d %v, want %d", path, body, got.status, got.body, step.want)
		}
		for keep := range strings.FieldsSeq(step.keep) {
			word, from, _ := strings.Cut(keep, "=")
			kept = append(kept, "{"+word+"}", member(t, got.body, from))
		}
		if !step.once {
			again := ask(t, http.DefaultClient, method, other.url+path, body)
			if differs := alike("", got.body, again.body); again.status != got.status || differs != "" {
				t.Errorf("%s %s: %d %v\nat the other version: %d %v\n%s", path, body, got.status, got.body, again.status,
					again.body, differs)
			}
		}
		for _, look := range c.looks {
			a := ask(t, http.DefaultClient, "GET", both[0].url+told(look), "")
			b := ask(t, http.DefaultClient, "GET", both[1].url+told(look), "")
			if differs := alike("", a.body, b.body); a.status != b.status || differs != "" {
				t.Errorf("after %s: %s is %d %v for the old version, %d %v for the new one\n%s", path, told(look), a.status,
					a.body, b.status, b.body, differs)
			}
		}
	}
}

// neighbouringIDs: no two leases of machine IDs overlap, and each version ends those of the other.
func neighbouringIDs(t *testing.T, both [2]*process, direction int) {
	t.Helper()
	var providers [2]*client.MachineIDs
	for i := range providers {
		c, err := client.New(both[(i+direction)%2].url, nil)
		if err != nil {
			t.Fatal(err)
		}
		providers[i] = c.MachineIDs()
	}
	before := leased(t, both[0])
	var all []kazahana.Lease
	taken := map[int64]bool{}
	for i := range 8 {
		r, err := providers[i%2].Acquire(t.Context(), kazahana.AcquireOptions{ServiceID: "default", ThroughputPerMs: 512})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range r.Leases {
			if taken[l.ID] {
				t.Errorf("%v is leased twice", l)
			}
			taken[l.ID] = true
		}
		all = append(all, r.Leases...)
	}
	for _, p := range both {
		if now := leased(t, p); now != before+len(all) {
			t.Errorf("%d machine IDs are leased, want %d more than %d", now, len(all), before)
		}
	}
	for i, l := range all {
		at := l.Created + 1
		for _, p := range []int{i + 1, i} { // released already for the second one
			if err := providers[p%2].Release(t.Context(), kazahana.ReleaseOptions{ServiceID: "default", ID: l.ID,
				Signature: kazahana.Sign(l.Secret, l.ID, at), Timestamp: at}); err != nil {
				t.Errorf("%v: %v", l, err)
			}
		}
	}
}

// neighbouringShops: a payment that one version has made is known to the other.
func neighbouringShops(t *testing.T, shops [2]*process, direction int) {
	t.Helper()
	first, second := shops[direction], shops[1-direction]
	pay := func(p *process, order string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/pay", strings.NewReader(order))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "shop.example"
		r.Header.Set("Idempotency-Key", fmt.Sprint("key-", direction))
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.Body.Close() }()
		var b bytes.Buffer
		if _, err := b.ReadFrom(w.Body); err != nil {
			t.Fatal(err)
		}
		return w.StatusCode, w.Header.Get("Content-Type") + " " + b.String()
	}
	code, paid := pay(first, "10 euros")
	again, told := pay(second, "10 euros")
	if code != http.StatusCreated || again != code || told != paid {
		t.Errorf("%d %s, then %d %s", code, paid, again, told)
	}
	if code, text := pay(second, "11 euros"); code != http.StatusUnprocessableEntity {
		t.Errorf("the key with another payment: %d %s", code, text)
	}
}
