package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

const chat = "/v1/tenants/acme/clusters/chat"

// cluster is everything that the store has of the cluster chat.
func (d *api) cluster() string {
	d.t.Helper()
	var all strings.Builder
	for _, kind := range []string{"placement_clusters", "placement_epochs", "placement_members", "placement_member_leases",
		"activations", "placement_events"} {
		p, err := d.store.List(d.t.Context(), docstore.Query{Kind: kind, Tenant: "acme/chat", Limit: docstore.MaxLimit})
		if err != nil {
			d.t.Fatal(err)
		}
		for _, e := range p.Entries {
			if e.Doc["to"] == docstore.String(placement.Refused) { // an event of the refusal
				continue
			}
			fmt.Fprintln(&all, e.Key, e.Doc)
		}
	}
	return all.String()
}

// number is a member of the body that is a whole number, in decimal.
func (a answer) number(name string) string {
	n, _ := a.body[name].(float64)
	return fmt.Sprintf("%.0f", n)
}

// object is a member of the body that is an object.
func (a answer) object(name string) answer {
	o, _ := a.body[name].(map[string]any)
	return answer{status: a.status, body: o}
}

// ok fails the test unless the request succeeded.
func (a answer) ok(t *testing.T) answer {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	return a
}

// join makes a member and returns its incarnation.
func (d *api) join(member, more string) string {
	d.t.Helper()
	return d.post(chat+"/members/"+member+"/join", `{"request_id":"j-`+member+`","kinds":["room"],"partitions":16`+more+
		`}`).ok(d.t).number("incarnation")
}

// hold is how the owner of an activation names it.
func hold(activation answer) string {
	return fmt.Sprintf(`"member":%q,"incarnation":%s,"fencing_token":%s`, activation.body["member"],
		activation.number("incarnation"), activation.number("fencing_token"))
}

// TestLifeOfAPlacement: PLC-PLACE-5, PLC-ONE-1: members and an identity from beginning to end, and what can be seen in
// every state.
func TestLifeOfAPlacement(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.get(chat+"/members").wants(t, 200, `{"members":[],"cluster":"chat","status":"UNDETERMINED","epoch":0}`)

	join :=
		`{"request_id":"j1","kinds":["room"],"labels":{"zone":"a"},"address":"10.0.0.5:9000","ttl_seconds":20,"partitions":16}`
	const joined = `{"member":"alice","incarnation":1767225600000001,"status":"ACTIVE","epoch":1,"moved":16,
		"expires_at":"2026-01-01T00:00:20.000Z","remaining_ms":20000,"replayed":false}`
	d.post(chat+"/members/alice/join", join).wants(t, 200, joined)
	d.post(chat+"/members/alice/join", join).wants(t, 200, strings.NewReplacer(`"moved":16,`, ``, `false`,
		`true`).Replace(joined))
	const alice = `{"member":"alice","incarnation":1767225600000001,"status":"ACTIVE","kinds":["room"],"labels":{"zone":"a"},"address":"10.0.0.5:9000",
		"since":1,"at":"2026-01-01T00:00:00.000Z"}`
	d.get(chat+"/members").wants(t, 200, `{"members":[`+alice+
		`],"cluster":"chat","status":"READY","epoch":1,"changed_at":"2026-01-01T00:00:00.000Z"}`)
	d.get(chat+"/topology").wants(t, 200, `{"members":[`+alice+
		`],"cluster":"chat","status":"READY","epoch":1,"changed_at":"2026-01-01T00:00:00.000Z",
		"cause":"join of alice","hash_version":1,"partitions":16,"table":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}`)

	d.clock.Advance(5 * time.Second)
	beat := `{"incarnation":1767225600000001,"seq":1,"ttl_seconds":30}`
	for _, replayed := range []string{"false", "true"} {
		d.post(chat+"/members/alice/heartbeat", beat).wants(t, 200, `{"member":"alice","incarnation":1767225600000001,
			"status":"ACTIVE","expires_at":"2026-01-01T00:00:35.000Z","remaining_ms":30000,"replayed":`+replayed+`}`)
	}

	lobby := chat + "/activations/room/lobby"
	d.get(lobby).refuses(t, 404, "NOT_FOUND", "")
	where := d.get(chat + "/placements/room/lobby?labels=" + url.QueryEscape(`{"zone":"a"}`)).ok(t)
	if where.body["owner"] != nil || where.body["activation"] != nil ||
		where.object("placed").body["address"] != "10.0.0.5:9000" {
		t.Errorf("before the claim: %s", where.raw)
	}
	claim := `{"request_id":"c1","labels":{"zone":"a"},"lock_ttl_seconds":7}`
	const locked = `{"kind":"room","id":"lobby","phase":"LOCKED","fencing_token":1767225605000001,"member":"alice","incarnation":1767225600000001,
		"address":"10.0.0.5:9000","epoch":1,"lock_until":"2026-01-01T00:00:12.000Z","claimed_at":"2026-01-01T00:00:05.000Z","changed_at":"2026-01-01T00:00:05.000Z"}`
	d.post(lobby+"/claim", claim).wants(t, 200, `{"activation":`+locked+`,"epoch":1,"remaining_ms":7000,"replayed":false}`)
	d.post(lobby+"/claim", claim).wants(t, 200, `{"activation":`+locked+`,"epoch":1,"remaining_ms":7000,"replayed":true}`)
	d.get(lobby).wants(t, 200, locked)

	held := hold(d.get(lobby))
	changed := func(a answer, phase string) {
		t.Helper()
		if s := a.ok(t).object("activation"); s.body["phase"] != phase || s.body["member"] != "alice" ||
			a.body["replayed"] != false {
			t.Errorf("%s, want %s", a.raw, phase)
		}
	}
	changed(d.post(lobby+"/activated", "{"+held+"}"), "ACTIVE")
	state := base64.StdEncoding.EncodeToString([]byte(`{"users":3}`))
	stored := d.post(lobby+"/state", `{`+held+`,"request_id":"s1","state_version":0,"state":"`+state+`"}`)
	changed(stored, "ACTIVE")
	if s := d.get(lobby).body; s["state"] != state || s["state_version"] != 1.0 ||
		stored.object("activation").body["state_version"] != 1.0 {
		t.Errorf("the state: %v", s)
	}
	list := d.get(chat + "/activations?kind=room&page_size=1").ok(t)
	if all, _ := list.body["activations"].([]any); len(all) != 1 || list.body["status"] != "READY" ||
		strings.Contains(list.raw, state) || list.body["epoch"] != 1.0 {
		t.Errorf("the list: %s", list.raw)
	}
	where = d.get(chat + "/placements/room/lobby").ok(t)
	if where.object("owner").body["member"] != "alice" || where.object("activation").body["state"] != state {
		t.Errorf("after the claim: %s", where.raw)
	}

	// Another member takes over all that alice has, in one epoch. It has the label that the claim of the lobby required.
	d.post(chat+"/members/bob/replace",
		`{"request_id":"r1","kinds":["room"],"labels":{"zone":"a"},"replaces":{"member":"alice","incarnation":1767225600000001}}`).wants(t, 200,
		`{"member":"bob","incarnation":1767225605000001,"status":"ACTIVE","epoch":2,"moved":16,"expires_at":"2026-01-01T00:00:15.000Z","remaining_ms":10000,"replayed":false}`)
	given := d.post(lobby+"/transfer", `{`+held+`,"request_id":"t1"}`).ok(t)
	if s := given.object("activation").body; s["member"] != "bob" || s["phase"] != "LOCKED" ||
		s["fencing_token"] != 1767225605000002.0 || s["state"] != state {
		t.Errorf("transfer: %s", given.raw)
	}
	d.post(lobby+"/state", `{`+held+`,"request_id":"s2","state_version":1,"state":""}`).refuses(t, 409, "STALE_TOKEN", "")
	bobs := hold(given.object("activation"))
	failed := d.post(lobby+"/failed", `{`+bobs+`,"reason":"no disk"}`).ok(t).object("activation").body
	if failed["phase"] != "FREE" || failed["failed"] != true || failed["reason"] != "no disk" {
		t.Errorf("failed: %v", failed)
	}
	mine := d.post(lobby+"/claim", `{"request_id":"c2","member":"bob","incarnation":1767225605000001,"epoch":2}`).ok(t)
	if s := mine.object("activation").body; s["phase"] != "ACTIVE" || s["fencing_token"] != 1767225605000003.0 {
		t.Errorf("claim for itself: %s", mine.raw)
	}
	ended := d.post(lobby+"/deactivate", `{`+hold(mine.object("activation"))+`,"reason":"empty"}`).ok(
		t).object("activation").body
	if ended["phase"] != "FREE" || ended["reason"] != "empty" || ended["failed"] != nil {
		t.Errorf("deactivated: %v", ended)
	}

	bob := `{"incarnation":1767225605000001}`
	d.post(chat+"/members/bob/offer",
		`{"incarnation":1767225605000001,"request_id":"o1","kinds":["room","device"],"weight":2,"full":true,"address":"10.0.0.6:9000"}`).wants(t, 200,
		`{"member":"bob","incarnation":1767225605000001,"status":"ACTIVE","epoch":3,"replayed":false}`)
	if s := d.get(chat + "/members").ok(t); !strings.Contains(s.raw, `"address":"10.0.0.6:9000"`) {
		t.Errorf("the address of an offer: %s", s.raw)
	}
	d.post(chat+"/members/bob/drain", bob).wants(t, 200,
		`{"member":"bob","incarnation":1767225605000001,"status":"DRAINING","epoch":4,"moved":16,"replayed":false}`)
	if s := d.post(chat+"/members/bob/heartbeat", `{"incarnation":1767225605000001,"seq":1}`).ok(
		t); s.body["status"] != "DRAINING" {
		t.Errorf("a heartbeat of a member that drains: %s", s.raw)
	}
	d.post(chat+"/members/bob/leave", bob).wants(t, 200,
		`{"member":"bob","incarnation":1767225605000001,"status":"LEFT","epoch":5,"replayed":false}`)
	d.post(chat+"/members/alice/evict", `{"incarnation":1767225600000001,"reason":"hangs"}`).wants(t, 200,
		`{"member":"alice","incarnation":1767225600000001,"status":"DEAD","epoch":6,"replayed":false}`)
	d.post(chat+"/members/alice/evict", `{"incarnation":1767225600000001,"reason":"hangs"}`).wants(t, 200,
		`{"member":"alice","incarnation":1767225600000001,"status":"DEAD","epoch":6,"replayed":true}`)

	// Nothing can be placed now, and everything can be seen.
	d.post(lobby+"/claim", `{"request_id":"c3"}`).refuses(t, 409, "TOPOLOGY_UNDETERMINED", "")
	if a := d.get(chat + "/topology").ok(t); a.body["status"] != "UNDETERMINED" ||
		!strings.Contains(a.raw, `"table":[-1,-1,`) || a.body["cause"] != "alice is evicted" {
		t.Errorf("undetermined: %s", a.raw)
	}
	if got := d.get(lobby).ok(t).body["phase"]; got != "FREE" {
		t.Errorf("phase %v", got)
	}
	if a := d.get(chat + "/activations").ok(t); a.body["status"] != "UNDETERMINED" || a.body["epoch"] != 6.0 ||
		!strings.Contains(a.raw, "lobby") {
		t.Errorf("undetermined: %s", a.raw)
	}
}

// TestAlarm: the owner sets an alarm, replaces and clears it, and whoever looks sees it. One in the past is due at
// once; one that is further away than what no one uses is kept is refused, and so is what is no time.
func TestAlarm(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.join("alice", `,"ttl_seconds":3600`)
	lobby := chat + "/activations/room/lobby"
	held := d.post(lobby+"/claim", `{"request_id":"c1","member":"alice","incarnation":1767225600000001}`).ok(t)
	me := hold(held.object("activation"))
	set := func(version int, at string) answer {
		t.Helper()
		if at != "" {
			at = `,"alarm_at":"` + at + `"`
		}
		return d.post(lobby+"/alarm", fmt.Sprintf(`{%s,"alarm_version":%d%s}`, me, version, at))
	}
	for range 2 {
		got := set(0, "2026-01-01T09:00:00+01:00").ok(t).object("activation")
		if got.body["alarm_at"] != "2026-01-01T08:00:00.000Z" || got.number("alarm_version") != "1" {
			t.Errorf("%v", got.body)
		}
	}
	set(0, "2026-01-01T10:00:00Z").refuses(t, 409, "STATE_CHANGED", "")
	if got := d.get(lobby).ok(t).body; got["alarm_at"] != "2026-01-01T08:00:00.000Z" || got["alarm_tries"] != nil {
		t.Errorf("%v", got)
	}
	before := d.cluster()
	for _, at := range []string{"soon", "2026-01-01", "2026-01-31T01:00:00Z", "2026-13-01T00:00:00Z"} {
		set(1, at).refuses(t, 400, "INVALID_ARGUMENT", "alarm_at")
	}
	set(-1, "2026-01-01T10:00:00Z").refuses(t, 400, "INVALID_ARGUMENT", "alarm_version")
	d.post(lobby+"/alarm", `{`+strings.Replace(me, "alice", "bob", 1)+`,"alarm_version":1}`).refuses(t, 403, "NOT_OWNER", "")
	failed := func(more string) answer {
		return d.post(lobby+"/alarm", fmt.Sprintf(`{%s,"alarm_version":1,%s}`, me, more))
	}
	failed(`"failed":""`).refuses(t, 400, "INVALID_ARGUMENT", "failed")
	failed(`"failed":"no disk","alarm_at":"2026-01-01T09:00:00Z"`).refuses(t, 400, "INVALID_ARGUMENT", "alarm_at")
	if d.cluster() != before {
		t.Error("a refused alarm changed something")
	}
	failed(`"failed":"no disk"`).ok(t)
	if got := d.get(lobby).ok(t).body; got["alarm_at"] != "2026-01-01T08:00:00.000Z" || got["alarm_version"] != 1.0 {
		t.Errorf("%v", got)
	}
	set(1, "2026-01-31T00:00:00Z").ok(t) // thirty days, which is the retention
	set(2, "1969-01-01T00:00:00Z").ok(t)
	if got := set(3, "").ok(t).object("activation").body; got["alarm_at"] != nil {
		t.Errorf("%v", got)
	}
}

// TestStateWithAlarm: a state is stored with an alarm, both or neither.
func TestStateWithAlarm(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.join("alice", `,"ttl_seconds":3600`)
	lobby := chat + "/activations/room/lobby"
	held := d.post(lobby+"/claim", `{"request_id":"c1","member":"alice","incarnation":1767225600000001}`).ok(t)
	me := hold(held.object("activation"))
	write := func(version int, alarm string) answer {
		t.Helper()
		return d.post(lobby+"/state", fmt.Sprintf(`{%s,"request_id":"s%d","state_version":%d,"state":"AA==","alarm":%s}`, me,
			version, version, alarm))
	}
	got := write(0, `{"alarm_version":0,"alarm_at":"2026-01-01T09:00:00+01:00"}`).ok(t).object("activation").body
	if got["alarm_at"] != "2026-01-01T08:00:00.000Z" || got["alarm_next_at"] != got["alarm_at"] || got["state_version"] != 1.0 ||
		got["alarm_version"] != 1.0 || got["state"] != nil {
		t.Errorf("%v", got)
	}
	before := d.cluster()
	write(0, `{"alarm_version":1}`).refuses(t, 422, "REQUEST_ID_REUSED", "")
	write(2, `{"alarm_version":1}`).refuses(t, 409, "STATE_CHANGED", "")
	write(1, `{"alarm_version":0}`).refuses(t, 409, "STATE_CHANGED", "")
	write(1, `{"alarm_version":1,"alarm_at":"soon"}`).refuses(t, 400, "INVALID_ARGUMENT", "alarm_at")
	write(1, `{"alarm_version":1,"alarm_next_at":"soon"}`).refuses(t, 400, "INVALID_ARGUMENT", "alarm_next_at")
	write(1, `{"alarm_version":1,"alarm_at":"2026-01-31T00:00:01Z"}`).refuses(t, 400, "INVALID_ARGUMENT", "alarm_at")
	write(1, `{"alarm_version":1,"at":"2026-01-02T00:00:00Z"}`).refuses(t, 400, "INVALID_ARGUMENT", "alarm.at")
	write(1, `null`).refuses(t, 400, "INVALID_ARGUMENT", "alarm")
	if d.cluster() != before {
		t.Error("a refused one changed something")
	}
	write(1, `{"alarm_version":1,"alarm_at":"2026-01-01T10:00:00Z","alarm_next_at":"2026-01-01T08:00:00.000Z"}`).ok(t)
	got = write(2, `{"alarm_version":2}`).ok(t).object("activation").body
	if got["alarm_at"] != nil || got["alarm_next_at"] != nil || got["state_version"] != 3.0 {
		t.Errorf("%v", got)
	}
}

// TestTopologyIsCached: the response names its epoch, and one that the caller has is not sent again.
func TestTopologyIsCached(t *testing.T) {
	d := open(t, httpapi.Development{})
	get := func(match string) answer {
		t.Helper()
		d.header.Set("If-None-Match", match)
		defer d.header.Del("If-None-Match")
		return d.get(chat + "/topology")
	}
	first := get("").ok(t)
	if tag := first.header.Get("ETag"); tag != `"0"` || get(tag).status != 304 ||
		len(first.body["table"].([]any)) != 4096 {
		t.Errorf("before the first epoch: %s %.100s", tag, first.raw)
	}
	d.join("alice", "")
	one := get(`"0"`).ok(t)
	tag := one.header.Get("ETag")
	if tag != `"1-1767225600000"` || one.header.Get("Cache-Control") != "private, no-cache" {
		t.Errorf("%v", one.header)
	}
	for match, want := range map[string]int{tag: 304, "W/" + tag: 304, `"0", ` + tag: 304, `"1"`: 200,
		tag[1:]: 200, "": 200} {
		if a := get(match); a.status != want || want == 304 && (a.raw != "" || a.header.Get("ETag") != tag ||
			a.header.Get("Cache-Control") == "no-store") {
			t.Errorf("%s: %d %v %.100s, want %d", match, a.status, a.header, a.raw, want)
		}
	}
	d.join("bob", "")
	if two := get(tag).ok(t); two.header.Get("ETag") == tag || two.body["epoch"] != 2.0 {
		t.Errorf("another epoch: %v %s", two.header, two.raw)
	}
	// What one caller was sent, the next is sent, too.
	if a, b := get(""), get(""); a.raw != b.raw || !strings.Contains(a.raw, `"bob"`) {
		t.Errorf("%s\n%s", a.raw, b.raw)
	}
}

// TestPlacementRejections, PLC-PLACE-3, PLC-ONE-2, PLC-ONE-3, PLC-ONE-4: each has its code, its status, and what the
// caller needs next, and nothing is changed.
func TestPlacementRejections(t *testing.T) {
	d := open(t, httpapi.Development{})
	alice := d.join("alice", `,"labels":{"zone":"a"},"ttl_seconds":3600`)
	dora := d.join("dora", "")
	d.post(chat+"/members/dora/evict", `{"incarnation":`+dora+`,"reason":"hangs"}`).ok(t)
	bob := d.join("bob", `,"ttl_seconds":3600`)
	carol := d.join("carol", `,"ttl_seconds":3600`)
	d.post(chat+"/members/carol/drain", `{"incarnation":`+carol+`}`).ok(t)
	d.join("full", `,"ttl_seconds":3600,"full":true,"labels":{"size":"xl"}`)

	at := func(id string) string { return chat + "/activations/room/" + id }
	claim := func(id, request string) answer {
		t.Helper()
		return d.post(at(id)+"/claim", `{"request_id":"`+request+`"}`).ok(t).object("activation")
	}
	active := hold(claim("active", "c-active"))
	d.post(at("active")+"/activated", "{"+active+"}").ok(t)
	d.post(at("active")+"/state", `{`+active+`,"request_id":"s1","state_version":0,"state":"YQ=="}`).ok(t)
	locked := hold(claim("locked", "c-locked"))
	failed := hold(claim("failed", "c-failed"))
	d.post(at("failed")+"/failed", `{`+failed+`,"reason":"no disk"}`).ok(t)
	gone := claim("gone", "c-gone")
	d.post(at("gone")+"/deactivate", "{"+hold(gone)+"}").ok(t)
	stale := active[:strings.LastIndex(active, ":")+1] + "1"
	foreign := regexp.MustCompile(`"member":"[a-z]+"`).ReplaceAllString(active, `"member":"zoe"`)
	elsewhere := `"member":"bob","incarnation":` + bob
	if d.get(chat + "/placements/room/x").ok(t).object("placed").body["member"] == "bob" {
		elsewhere = `"member":"alice","incarnation":` + alice
	}
	epoch := d.get(chat + "/members").ok(t).number("epoch")

	big := base64.StdEncoding.EncodeToString(make([]byte, 32<<10+1))
	for _, c := range []struct {
		name, target, body string // without a body it is a GET
		status             int
		code, field        string
		also               string // members that the problem has, as JSON
	}{
		{"two members with one name", "/members/alice/join", `{"request_id":"other","kinds":["room"]}`, 409,
			"MEMBER_EXISTS", "",
			`{"retryable":true,"incarnation":` + alice +
				`,"retry_after_ms":3600000,"expires_at":"2026-01-01T01:00:00.000Z","epoch":` + epoch + `}`},
		{"another number of partitions", "/members/eve/join", `{"request_id":"e","kinds":[],"partitions":32}`, 409,
			"CLUSTER_DIFFERS", "", `{"retryable":false}`},
		{"a request_id with other parameters", "/members/alice/join", `{"request_id":"j-alice","kinds":[]}`, 422,
			"REQUEST_ID_REUSED", "", `{}`},
		{"replacing an unknown member", "/members/eve/replace",
			`{"request_id":"e","kinds":[],"replaces":{"member":"zoe","incarnation":1}}`, 404, "MEMBER_UNKNOWN", "",
			`{"retryable":false}`},
		{"replacing an incarnation that ended", "/members/eve/replace",
			`{"request_id":"e","kinds":[],"replaces":{"member":"alice","incarnation":1}}`, 409, "STALE_INCARNATION", "",
			`{"retryable":false,"incarnation":` + alice + `}`},
		{"heartbeat of an unknown member", "/members/zoe/heartbeat", `{"incarnation":1,"seq":1}`, 404, "MEMBER_UNKNOWN", "",
			`{}`},
		{"heartbeat of another incarnation", "/members/alice/heartbeat", `{"incarnation":1,"seq":1}`, 409,
			"STALE_INCARNATION", "", `{"incarnation":` + alice + `}`},
		{"heartbeat of an evicted member", "/members/dora/heartbeat", `{"incarnation":` + dora + `,"seq":1}`, 409,
			"STALE_INCARNATION", "", `{"incarnation":` + dora + `}`},
		{"drain of an unknown member", "/members/zoe/drain", `{"incarnation":1}`, 404, "MEMBER_UNKNOWN", "", `{}`},
		{"drain of another incarnation", "/members/alice/drain", `{"incarnation":1}`, 409, "STALE_INCARNATION", "",
			`{"incarnation":` + alice + `}`},
		{"leave of an evicted member", "/members/dora/leave", `{"incarnation":` + dora + `}`, 409, "STALE_INCARNATION", "",
			`{}`},
		{"leave of an unknown member", "/members/zoe/leave", `{"incarnation":1}`, 404, "MEMBER_UNKNOWN", "", `{}`},
		{"offer of another incarnation", "/members/alice/offer", `{"incarnation":1,"request_id":"o","kinds":[]}`, 409,
			"STALE_INCARNATION", "", `{}`},
		{"offer of an unknown member", "/members/zoe/offer", `{"incarnation":1,"request_id":"o","kinds":[]}`, 404,
			"MEMBER_UNKNOWN", "", `{}`},
		{"eviction of an unknown member", "/members/zoe/evict", `{"incarnation":1,"reason":"x"}`, 404, "MEMBER_UNKNOWN", "",
			`{}`},
		{"eviction of another incarnation", "/members/alice/evict", `{"incarnation":1,"reason":"x"}`, 409,
			"STALE_INCARNATION", "", `{"incarnation":` + alice + `}`},

		{"a kind that no member hosts", "/activations/device/d1/claim", `{"request_id":"c"}`, 409, "NO_ELIGIBLE_MEMBER", "",
			`{"retryable":true,"epoch":` + epoch + `}`},
		{"labels that no member has", "/activations/room/x/claim", `{"request_id":"c","labels":{"zone":"z"}}`, 409,
			"NO_ELIGIBLE_MEMBER", "", `{}`},
		{"labels of a member that is full", "/activations/room/x/claim", `{"request_id":"c","labels":{"size":"xl"}}`, 409,
			"NO_ELIGIBLE_MEMBER", "", `{}`},
		{"lookup of a kind that no member hosts", "/placements/device/d1", "", 409, "NO_ELIGIBLE_MEMBER", "", `{}`},
		{"lookup by labels that no member has", "/placements/room/x?labels=" + url.QueryEscape(`{"zone":"z"}`), "", 409,
			"NO_ELIGIBLE_MEMBER", "", `{}`},
		{"claim by an unknown member", "/activations/room/x/claim", `{"request_id":"c","member":"zoe","incarnation":1}`, 409,
			"MEMBER_INELIGIBLE", "", `{"ineligible":"NOT_A_MEMBER"}`},
		{"claim by another incarnation", "/activations/room/x/claim", `{"request_id":"c","member":"alice","incarnation":1}`,
			409, "MEMBER_INELIGIBLE", "", `{"ineligible":"NOT_A_MEMBER"}`},
		{"claim by one that drains", "/activations/room/x/claim", `{"request_id":"c","member":"carol","incarnation":` +
			carol + `}`, 409, "MEMBER_INELIGIBLE", "", `{"ineligible":"DRAINING"}`},
		{"claim of another kind", "/activations/device/x/claim", `{"request_id":"c","member":"alice","incarnation":` + alice +
			`}`, 409, "MEMBER_INELIGIBLE", "", `{"ineligible":"LACKS_KIND"}`},
		{"claim without the labels", "/activations/room/x/claim",
			`{"request_id":"c","labels":{"zone":"a"},"member":"bob","incarnation":` + bob + `}`, 409, "MEMBER_INELIGIBLE", "",
			`{"ineligible":"LACKS_LABELS"}`},
		{"claim of what is placed on another", "/activations/room/x/claim", `{"request_id":"c",` + elsewhere + `}`, 409,
			"MEMBER_INELIGIBLE", "", `{"ineligible":"PLACED_ON_OTHER"}`},
		{"claim of what is active", "/activations/room/active/claim", `{"request_id":"c"}`, 409, "ACTIVATION_EXISTS", "",
			`{"retryable":false,"activation.phase":"ACTIVE","activation.state_version":1}`},
		{"claim of what is being activated", "/activations/room/locked/claim", `{"request_id":"c"}`, 409, "ACTIVATION_LOCKED",
			"", `{"retryable":true,"retry_after_ms":10000,"activation.phase":"LOCKED"}`},
		{"claim that failed", "/activations/room/failed/claim", `{"request_id":"c-failed"}`, 409, "ACTIVATION_FAILED", "",
			`{"retryable":false,"detail":"no disk","activation.reason":"no disk","activation.failed":true}`},
		{"claim that has ended", "/activations/room/gone/claim", `{"request_id":"c-gone"}`, 422, "REQUEST_ID_REUSED", "",
			`{}`},
		{"claim with other parameters", "/activations/room/locked/claim", `{"request_id":"c-locked","labels":{"zone":"a"}}`,
			422, "REQUEST_ID_REUSED", "", `{}`},
		{"claim by an epoch that is over", "/activations/room/x/claim", `{"request_id":"c","epoch":1}`, 409, "STALE_EPOCH",
			"", `{"retryable":false,"epoch":` + epoch + `}`},
		{"lookup by an epoch that is over", "/placements/room/x?epoch=1", "", 409, "STALE_EPOCH", "",
			`{"epoch":` + epoch + `}`},

		{"stale token", "/activations/room/active/deactivate", `{` + stale + `}`, 409, "STALE_TOKEN", "",
			`{"retryable":false}`},
		{"state under a stale token", "/activations/room/active/state", `{` + stale +
			`,"request_id":"s","state_version":1,"state":""}`, 409, "STALE_TOKEN", "", `{}`},
		{"transfer under a stale token", "/activations/room/active/transfer", `{` + stale + `,"request_id":"t"}`, 409,
			"STALE_TOKEN", "", `{}`},
		{"another's activation", "/activations/room/active/activated", `{` + foreign + `}`, 403, "NOT_OWNER", "",
			`{"retryable":false}`},
		{"failing what is active", "/activations/room/active/failed", `{` + active + `,"reason":"x"}`, 409, "WRONG_PHASE", "",
			`{"retryable":false,"activation.phase":"ACTIVE"}`},
		{"transfer of what is not active yet", "/activations/room/locked/transfer", `{` + locked + `,"request_id":"t"}`, 409,
			"WRONG_PHASE", "", `{"activation.phase":"LOCKED"}`},
		{"state of another version", "/activations/room/active/state", `{` + active +
			`,"request_id":"s","state_version":7,"state":""}`, 409, "STATE_CHANGED", "",
			`{"retryable":false,"activation.state_version":1}`},
		{"state under a used request_id", "/activations/room/active/state", `{` + active +
			`,"request_id":"s1","state_version":0,"state":""}`, 422, "REQUEST_ID_REUSED", "", `{}`},
		{"state over its limit", "/activations/room/active/state", `{` + active +
			`,"request_id":"s","state_version":1,"state":"` + big + `"}`, 400, "INVALID_ARGUMENT", "state", `{}`},
		{"transfer to an unknown member", "/activations/room/active/transfer", `{` + active + `,"request_id":"t","to":"zoe"}`,
			409, "MEMBER_INELIGIBLE", "", `{"ineligible":"NOT_A_MEMBER"}`},
		{"transfer to one that is full", "/activations/room/active/transfer", `{` + active + `,"request_id":"t","to":"full"}`,
			409, "MEMBER_INELIGIBLE", "", `{"ineligible":"FULL"}`},
		{"activation that never was", "/activations/room/never", "", 404, "NOT_FOUND", "", `{}`},
		{"owner's command where nothing ever was", "/activations/room/never/activated", `{"member":"alice","incarnation":` +
			alice + `,"fencing_token":1}`, 409, "STALE_TOKEN", "", `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := d.cluster()
			var a answer
			if c.body == "" {
				a = d.get(chat + c.target)
			} else {
				a = d.post(chat+c.target, c.body)
			}
			a.refuses(t, c.status, c.code, c.field)
			var also map[string]any
			if err := json.Unmarshal([]byte(c.also), &also); err != nil {
				t.Fatal(err)
			}
			for name, want := range also {
				from := a
				if _, inner, ok := strings.Cut(name, "."); ok {
					from, name = a.object("activation"), inner
				}
				if from.body[name] != want {
					t.Errorf("%s is %v, want %v, in %s", name, from.body[name], want, a.raw)
				}
			}
			if a.body["detail"] == nil {
				t.Errorf("no detail: %s", a.raw)
			}
			if strings.Contains(a.raw, `"state":`) {
				t.Errorf("a problem shows a state: %s", a.raw)
			}
			if after := d.cluster(); after != before {
				t.Errorf("something was changed:\n%s\n%s", before, after)
			}
		})
	}
}

// TestMembersBelongToSubjects: with authentication a member is its subject's, by its name. Others of the tenant see it,
// and act neither for it nor for what it has; administrators drain and evict it.
func TestMembersBelongToSubjects(t *testing.T) {
	as := func(d *api, c httpapi.Caller) { c.Tenant = "acme"; d.serve(verified{caller: c}, d.store) }
	d := open(t, httpapi.Development{})
	as(d, httpapi.Caller{Subject: "svc"})
	const join = `{"request_id":"j","kinds":["room"],"partitions":16}`
	a := d.post(chat+"/members/w1/join", join).ok(t)
	if a.body["member"] != "svc#w1" {
		t.Errorf("%s", a.raw)
	}
	if again := d.post(chat+"/members/svc%23w1/join", join).ok(t); again.body["replayed"] != true {
		t.Errorf("by the whole name: %s", again.raw)
	}
	number := a.number("incarnation")
	lobby := chat + "/activations/room/lobby"
	claimed := d.post(lobby+"/claim", `{"request_id":"c"}`).ok(t).object("activation")
	mine := `"member":"w1","incarnation":` + number + `,"fencing_token":` + claimed.number("fencing_token")
	whole := hold(claimed)

	as(d, httpapi.Caller{Subject: "rival"})
	if seen := d.get(lobby).ok(t); seen.body["member"] != "svc#w1" {
		t.Errorf("%s", seen.raw)
	}
	before := d.cluster()
	for target, body := range map[string]string{
		"/members/svc%23w1/join": join, "/members/svc%23w1/heartbeat": `{"incarnation":` + number + `,"seq":1}`,
		"/members/svc%23w1/drain": `{"incarnation":` + number + `}`,
		"/members/svc%23w1/leave": `{"incarnation":` + number + `}`, "/members/svc%23w1/offer": `{"incarnation":` + number +
			`,"request_id":"o","kinds":[]}`,
		"/members/svc%23w1/evict": `{"incarnation":` + number + `,"reason":"x"}`,
		"/remove":                 `{"epoch":1,"reason":"x"}`,
		"/members/w2/replace": `{"request_id":"r","kinds":[],"replaces":{"member":"svc#w1","incarnation":` +
			number + `}}`,
		"/activations/room/lobby/activated":  "{" + whole + "}",
		"/activations/room/lobby/failed":     "{" + whole + `,"reason":"x"}`,
		"/activations/room/lobby/deactivate": "{" + whole + "}",
		"/activations/room/lobby/state":      "{" + whole + `,"request_id":"s","state_version":0,"state":""}`,
		"/activations/room/lobby/transfer":   "{" + whole + `,"request_id":"t"}`,
		"/activations/room/attic/claim":      `{"request_id":"c","member":"svc#w1","incarnation":` + number + `}`,
	} {
		d.post(chat+target, body).refuses(t, 403, "PERMISSION_DENIED", "")
	}
	d.post(lobby+"/activated", "{"+mine+"}").refuses(t, 403, "NOT_OWNER", "") // w1 of the other subject
	d.post(chat+"/members/w1/heartbeat", `{"incarnation":`+number+`,"seq":1}`).refuses(t, 404, "MEMBER_UNKNOWN", "")
	d.post(chat+"/members/a%20b/join", join).refuses(t, 400, "INVALID_ARGUMENT", "member")
	if after := d.cluster(); after != before {
		t.Errorf("something was changed:\n%s\n%s", before, after)
	}
	for _, line := range []string{`"action":"placement.join","outcome":"PERMISSION_DENIED"`,
		`"action":"placement.evict","outcome":"PERMISSION_DENIED"`} {
		if !strings.Contains(d.log.String(), line) {
			t.Errorf("the log lacks %s", line)
		}
	}

	as(d, httpapi.Caller{Subject: "svc"})
	d.post(lobby+"/activated", "{"+mine+"}").ok(t)
	as(d, httpapi.Caller{Subject: "root", Rights: httpapi.Admin})
	d.post(chat+"/members/svc%23w1/leave", `{"incarnation":`+number+`}`).refuses(t, 403, "PERMISSION_DENIED", "")
	d.post(chat+"/members/svc%23w1/drain", `{"incarnation":`+number+`}`).ok(t)
	d.post(chat+"/members/svc%23w1/evict", `{"incarnation":`+number+`,"reason":"hangs"}`).ok(t)
	as(d, httpapi.Caller{Subject: "svc"})
	d.post(chat+"/members/w1/heartbeat", `{"incarnation":`+number+`,"seq":1}`).refuses(t, 409, "STALE_INCARNATION", "")
	d.post(chat+"/members/svc/join", join).ok(t) // one that is named like its subject
}

// TestClustersStayInTheirTenant: another tenant's cluster is not reached, and one of the same name is another one.
func TestClustersStayInTheirTenant(t *testing.T) {
	d := open(t, verified{caller: httpapi.Caller{Subject: "svc", Tenant: "acme", Rights: httpapi.Admin}})
	const other = "/v1/tenants/rival/clusters/chat"
	for _, target := range []string{"join", "replace", "heartbeat", "drain", "leave", "evict", "offer"} {
		d.post(other+"/members/w1/"+target, `{}`).refuses(t, 403, "PERMISSION_DENIED", "")
	}
	for _, target := range []string{"claim", "activated", "failed", "deactivate", "state", "transfer"} {
		d.post(other+"/activations/room/lobby/"+target, `{}`).refuses(t, 403, "PERMISSION_DENIED", "")
	}
	for _, target := range []string{"members", "topology", "placements/room/lobby", "activations",
		"activations/room/lobby", "events"} {
		d.get(other+"/"+target).refuses(t, 403, "PERMISSION_DENIED", "")
	}
	d.join("w1", "")
	d.serve(verified{caller: httpapi.Caller{Subject: "svc", Tenant: "rival"}}, d.store)
	d.get(other+"/members").wants(t, 200, `{"members":[],"cluster":"chat","status":"UNDETERMINED","epoch":0}`)
}

// TestPlacementIsAudited: who joins, replaces, drains, leaves, evicts, and who claims, transfers, takes over and
// releases what, with which token, is in the log; states are not.
func TestPlacementIsAudited(t *testing.T) {
	d := open(t, httpapi.Development{})
	audited := func(what string, a answer, want ...string) {
		t.Helper()
		a.ok(t)
		lines := strings.Split(strings.TrimSpace(d.log.String()), "\n")
		var event string
		for _, l := range lines {
			if strings.Contains(l, `"msg":"audit"`) {
				event = l
			}
		}
		d.log.Reset()
		if want == nil {
			if event != "" {
				t.Errorf("%s: %s", what, event)
			}
			return
		}
		for _, w := range want {
			if !strings.Contains(event, w) {
				t.Errorf("%s: %q lacks %s", what, event, w)
			}
		}
		if token := a.object("activation").number("fencing_token"); token != "0" &&
			!strings.Contains(event, `"fencing_token":`+token) {
			t.Errorf("%s: %q lacks the token %s", what, event, token)
		}
		contracttest.AuditEvents(t, event)
	}
	join := d.post(chat+"/members/alice/join", `{"request_id":"j","kinds":["room"],"partitions":16}`)
	audited("join", join, `"action":"placement.join"`, `"outcome":"ok"`, `"owner":"alice"`)
	alice := join.number("incarnation")
	audited("claim", d.post(chat+"/activations/room/lobby/claim", `{"request_id":"c1"}`), `"action":"placement.claim"`,
		`"kind":"activation","key":"room/lobby","cluster":"chat"`, `"owner":"alice"`, `"request_id":"c1"`)
	audited("heartbeat", d.post(chat+"/members/alice/heartbeat", `{"incarnation":`+alice+`,"seq":1}`))
	audited("replace", d.post(chat+"/members/bob/replace",
		`{"request_id":"j","kinds":["room"],"replaces":{"member":"alice","incarnation":`+alice+`}}`),
		`"action":"placement.replace"`, `"owner":"bob"`, `"replaces":"alice"`)
	audited("leave", d.post(chat+"/members/alice/leave", `{"incarnation":`+alice+`}`), `"action":"placement.leave"`,
		`"owner":"alice"`)
	claim := d.post(chat+"/activations/room/lobby/claim", `{"request_id":"c2"}`)
	audited("takeover", claim, `"action":"placement.takeover"`, `"owner":"bob"`, `"taken_from":"alice"`, `"takeover":true`)
	audited("takeover, again", d.post(chat+"/activations/room/lobby/claim", `{"request_id":"c2"}`),
		`"action":"placement.claim"`, `"owner":"bob"`, `"replayed":true`)
	bobs := "{" + hold(claim.object("activation"))
	audited("activated", d.post(chat+"/activations/room/lobby/activated", bobs+"}"))
	bob := claim.object("activation").number("incarnation")
	d.join("carol", "")
	d.log.Reset()
	audited("transfer", d.post(chat+"/activations/room/lobby/transfer", bobs+`,"request_id":"t","to":"carol"}`),
		`"action":"placement.transfer"`, `"owner":"carol"`, `"taken_from":"bob"`)
	audited("drain", d.post(chat+"/members/bob/drain", `{"incarnation":`+bob+`}`), `"action":"placement.drain"`,
		`"owner":"bob"`)
	audited("evict", d.post(chat+"/members/bob/evict", `{"incarnation":`+bob+`,"reason":"hangs"}`),
		`"action":"placement.evict"`, `"owner":"bob"`, `"reason":"hangs"`)
}

// TestBadPlacementInput: each gets its code and names the field, and nothing is changed.
func TestBadPlacementInput(t *testing.T) {
	d := open(t, httpapi.Development{})
	alice := d.join("alice", "")
	claimed := d.post(chat+"/activations/room/lobby/claim", `{"request_id":"c"}`).ok(t).object("activation")
	own := hold(claimed)
	long := strings.Repeat("x", 300)
	before := d.cluster()
	for _, c := range []struct{ name, target, body, field string }{
		{"no body", "/members/bob/join", ``, "body"},
		{"null", "/members/bob/join", `null`, "body"},
		{"no kinds", "/members/bob/join", `{"request_id":"j"}`, "kinds"},
		{"kinds null", "/members/bob/join", `{"request_id":"j","kinds":null}`, "kinds"},
		{"kinds as text", "/members/bob/join", `{"request_id":"j","kinds":"room"}`, "kinds"},
		{"a kind twice", "/members/bob/join", `{"request_id":"j","kinds":["a","a"]}`, "kinds"},
		{"a kind with a slash", "/members/bob/join", `{"request_id":"j","kinds":["a/b"]}`, "kinds"},
		{"an empty kind", "/members/bob/join", `{"request_id":"j","kinds":[""]}`, "kinds"},
		{"a kind that is a number", "/members/bob/join", `{"request_id":"j","kinds":[1]}`, "kinds.0"},
		{"no request_id", "/members/bob/join", `{"kinds":[]}`, "request_id"},
		{"unknown member", "/members/bob/join", `{"request_id":"j","kinds":[],"color":"red"}`, "color"},
		{"labels as a list", "/members/bob/join", `{"request_id":"j","kinds":[],"labels":["a"]}`, "labels"},
		{"17 labels", "/members/bob/join", `{"request_id":"j","kinds":[],"labels":{` + entries(17) + `}}`, "labels"},
		{"weight negative", "/members/bob/join", `{"request_id":"j","kinds":[],"weight":-1}`, "weight"},
		{"weight too large", "/members/bob/join", `{"request_id":"j","kinds":[],"weight":4294967297}`, "weight"},
		{"full as text", "/members/bob/join", `{"request_id":"j","kinds":[],"full":"yes"}`, "full"},
		{"address too long", "/members/bob/join", `{"request_id":"j","kinds":[],"address":"` + long + `"}`, "address"},
		{"ttl 0", "/members/bob/join", `{"request_id":"j","kinds":[],"ttl_seconds":0}`, "ttl_seconds"},
		{"ttl of more than an hour", "/members/bob/join", `{"request_id":"j","kinds":[],"ttl_seconds":3601}`, "ttl_seconds"},
		{"ttl beyond all", "/members/bob/join", `{"request_id":"j","kinds":[],"ttl_seconds":9223372036854775807}`,
			"ttl_seconds"},
		{"partitions no power of two", "/members/bob/join", `{"request_id":"j","kinds":[],"partitions":100}`, "partitions"},
		{"partitions beyond all", "/members/bob/join", `{"request_id":"j","kinds":[],"partitions":4294967312}`, "partitions"},
		{"member too long", "/members/" + long + "/join", `{"request_id":"j","kinds":[]}`, "member"},
		{"member with a control character", "/members/a%00/join", `{"request_id":"j","kinds":[]}`, "member"},
		{"member empty", "/members//join", `{"request_id":"j","kinds":[]}`, "member"},
		{"member ..", "/members/%2E%2E/join", `{"request_id":"j","kinds":[]}`, "member"},
		{"replaces nothing", "/members/bob/replace", `{"request_id":"j","kinds":[]}`, "replaces"},
		{"replaces text", "/members/bob/replace", `{"request_id":"j","kinds":[],"replaces":"alice"}`, "replaces"},
		{"replaces no incarnation", "/members/bob/replace", `{"request_id":"j","kinds":[],"replaces":{"member":"alice"}}`,
			"replaces"},
		{"replaces itself", "/members/alice/replace",
			`{"request_id":"j","kinds":[],"replaces":{"member":"alice","incarnation":` + alice + `}}`, "replaces"},
		{"heartbeat without a number", "/members/alice/heartbeat", `{"incarnation":` + alice + `}`, "seq"},
		{"heartbeat 0", "/members/alice/heartbeat", `{"incarnation":` + alice + `,"seq":0}`, "seq"},
		{"heartbeat without an incarnation", "/members/alice/heartbeat", `{"seq":1}`, "incarnation"},
		{"incarnation beyond 2^53", "/members/alice/heartbeat", `{"incarnation":9007199254740993,"seq":1}`, "incarnation"},
		{"incarnation as text", "/members/alice/drain", `{"incarnation":"1"}`, "incarnation"},
		{"evict without a reason", "/members/alice/evict", `{"incarnation":` + alice + `}`, "reason"},
		{"offer without kinds", "/members/alice/offer", `{"incarnation":` + alice + `,"request_id":"o"}`, "kinds"},
		{"claim without a request_id", "/activations/room/x/claim", `{}`, "request_id"},
		{"claim by a member without a name", "/activations/room/x/claim", `{"request_id":"c","member":""}`, "member"},
		{"claim by an incarnation without a member", "/activations/room/x/claim", `{"request_id":"c","incarnation":1}`,
			"incarnation"},
		{"claim by a member without its incarnation", "/activations/room/x/claim", `{"request_id":"c","member":"alice"}`,
			"incarnation"},
		{"claim with a lock of two hours", "/activations/room/x/claim", `{"request_id":"c","lock_ttl_seconds":7200}`,
			"lock_ttl_seconds"},
		{"claim with a negative epoch", "/activations/room/x/claim", `{"request_id":"c","epoch":-1}`, "epoch"},
		{"kind with a blank", "/activations/a%20b/x/claim", `{"request_id":"c"}`, "kind"},
		{"kind empty", "/activations//x/claim", `{"request_id":"c"}`, "kind"},
		{"id empty", "/activations/room//claim", `{"request_id":"c"}`, "id"},
		{"id ..", "/activations/room/%2E%2E/claim", `{"request_id":"c"}`, "id"},
		{"id /", "/activations/locks/%2F/claim", `{"request_id":"c"}`, "id"},
		{"id with a newline", "/activations/room/a%0Ab/claim", `{"request_id":"c"}`, "id"},
		{"id too long", "/activations/room/" + long + "/claim", `{"request_id":"c"}`, "id"},
		{"no owner", "/activations/room/lobby/activated", `{"incarnation":1,"fencing_token":1}`, "member"},
		{"no token", "/activations/room/lobby/activated", `{"member":"alice","incarnation":1}`, "fencing_token"},
		{"token 0", "/activations/room/lobby/activated", `{"member":"alice","incarnation":1,"fencing_token":0}`, "fencing_token"},
		{"failed without a reason", "/activations/room/lobby/failed", `{` + own + `}`, "reason"},
		{"reason too long", "/activations/room/lobby/deactivate", `{` + own + `,"reason":"` + long + long + `"}`, "reason"},
		{"no state", "/activations/room/lobby/state", `{` + own + `,"request_id":"s","state_version":0}`, "state"},
		{"no version", "/activations/room/lobby/state", `{` + own + `,"request_id":"s","state":""}`, "state_version"},
		{"state that is no base64", "/activations/room/lobby/state", `{` + own +
			`,"request_id":"s","state_version":0,"state":"#"}`, "state"},
		{"state as an object", "/activations/room/lobby/state", `{` + own + `,"request_id":"s","state_version":0,"state":{}}`,
			"state"},
		{"transfer to a member without a name", "/activations/room/lobby/transfer", `{` + own + `,"request_id":"t","to":""}`,
			"to"},
		{"transfer with a lock of 0 s", "/activations/room/lobby/transfer",
			`{` + own + `,"request_id":"t","lock_ttl_seconds":0}`, "lock_ttl_seconds"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d.post(chat+c.target, c.body).refuses(t, 400, "INVALID_ARGUMENT", c.field)
		})
	}
	for target, field := range map[string]string{
		"/placements/room/x?labels=zone": "labels", "/placements/room/x?labels=null": "labels",
		`/placements/room/x?prefer=[]`:                               "prefer",
		"/placements/room/x?labels=" + url.QueryEscape(`{"a":null}`): "labels", "/placements/room/x?epoch=-1": "epoch",
		"/placements/room/x?epoch=one": "epoch",
		"/placements/a%20b/x":          "kind", "/placements/room/": "id", "/placements/room/x?zone=a": "zone",
		"/activations?page_size=101":  "page_size",
		"/activations?page_token=%21": "page_token", "/activations?page_token=AA": "page_token",
		"/activations?kind=a%20b": "kind", "/activations/room/%00": "id",
	} {
		d.get(chat+target).refuses(t, 400, "INVALID_ARGUMENT", field)
	}
	d.get("/v1/tenants/acme/clusters/a%20b/members").refuses(t, 400, "INVALID_ARGUMENT", "cluster")
	d.get("/v1/tenants/acme/clusters/"+strings.Repeat("c", 64)+"/topology").refuses(t, 400, "INVALID_ARGUMENT", "cluster")
	d.get("/v1/tenants/acme/clusters//topology").refuses(t, 400, "INVALID_ARGUMENT", "cluster")
	if w := d.post(chat+"/activations/room/lobby/state",
		`{`+own+`,"request_id":"s","state_version":0,"state":"%%"}`); w.body["detail"] !=
		`state is not base64: use the standard alphabet (A-Z, a-z, 0-9, "+", "/"), and "=" at the end` {
		t.Errorf("text that is not base64: %s", w.raw)
	}
	d.post(chat+"/activations/room/lobby/state", `{`+own+`,"request_id":"s","state_version":0,"state":"`+
		strings.Repeat("A", 1<<17)+`"}`).refuses(t, 413, "PAYLOAD_TOO_LARGE", "")
	if after := d.cluster(); after != before {
		t.Errorf("something was changed:\n%s\n%s", before, after)
	}
}

// TestClusterIsFull: what all members of an epoch offer is bounded.
func TestClusterIsFull(t *testing.T) {
	d := open(t, httpapi.Development{})
	most := placement.Offer{Labels: map[string]string{}}
	for i := range placement.MaxKinds {
		most.Kinds = append(most.Kinds, fmt.Sprintf("k%063d", i))
	}
	for i := range placement.MaxLabels {
		most.Labels[fmt.Sprintf("l%063d", i)] = strings.Repeat("v", placement.MaxLabelValueBytes)
	}
	s, members := placement.New(d.store, nil), 0
	for ; ; members++ {
		o, err := s.Join(t.Context(), placement.Join{Cluster: placement.Cluster{Tenant: "acme", Name: "chat"},
			Member: fmt.Sprint("m", members), RequestID: "j", Partitions: 16, TTL: time.Hour, Offer: most})
		if err != nil || members > 300 {
			t.Fatal(members, err)
		}
		if o.Code == placement.ClusterFull {
			break
		}
	}
	offer, err := json.Marshal(most)
	if err != nil {
		t.Fatal(err)
	}
	before := d.cluster()
	a := d.post(chat+"/members/one-more/join", `{"request_id":"j","partitions":16,`+string(offer[1:]))
	a.refuses(t, 409, "CLUSTER_FULL", "")
	if a.body["retryable"] != true || a.body["retry_after_ms"] == nil || a.number("epoch") != strconv.Itoa(members) ||
		d.cluster() != before {
		t.Errorf("after %d members with all that they can offer: %s", members, a.raw)
	}
}

// TestLateResponsesOfPlacement: a store that takes longer to respond than the lease lasts.
func TestLateResponsesOfPlacement(t *testing.T) {
	d := open(t, httpapi.Development{})
	now := time.Now()
	d.handler = contracttest.Handler(t, httpapi.New(d.store, httpapi.Development{},
		&httpapi.Options{Now: func() time.Time {
			now = now.Add(11 * time.Second)
			return now
		}}))
	d.post(chat+"/members/alice/join", `{"request_id":"j","kinds":["room"],"partitions":16}`).refuses(t, 409,
		"LEASE_EXPIRED", "")
	alice := d.get(chat + "/members").ok(t).body["members"].([]any)[0].(map[string]any)
	d.post(chat+"/members/alice/heartbeat", `{"seq":1,"incarnation":`+answer{body: alice}.number("incarnation")+
		`}`).refuses(t, 409, "LEASE_EXPIRED", "")
	d.post(chat+"/activations/room/lobby/claim", `{"request_id":"c","lock_ttl_seconds":10}`).refuses(t, 409,
		"LEASE_EXPIRED", "")
}

// TestRetentionOfPlacement: what has ended can be removed with its state when that of states is over, and not before.
func TestRetentionOfPlacement(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.handler = contracttest.Handler(t, httpapi.New(d.store, httpapi.Development{},
		&httpapi.Options{Retention: time.Hour, StateRetention: 48 * time.Hour}))
	d.join("alice", `,"ttl_seconds":3600`)
	claimed := d.post(chat+"/activations/room/lobby/claim", `{"request_id":"c"}`).ok(t).object("activation")
	d.post(chat+"/activations/room/lobby/deactivate", "{"+hold(claimed)+"}").ok(t)
	for _, want := range []bool{true, false} {
		if d.clock.Advance(2 * time.Second); want {
			d.clock.Advance(48*time.Hour - 3*time.Second)
		}
		if _, err := d.store.(docstore.Pruner).Prune(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(d.cluster(), "room%2Flobby"); got != want {
			t.Errorf("the activation is there: %v, want %v", got, want)
		}
	}
}

// TestMembersAreSmall: what a locator reads of a cluster has no table, is compressed, and is sent once for each epoch.
func TestMembersAreSmall(t *testing.T) {
	d := open(t, httpapi.Development{})
	const members = 200
	for i := range members {
		d.join(fmt.Sprint("member-", i), fmt.Sprintf(`,"address":"10.0.%d.%d:9000"`, i/100, i))
	}
	get := func(path, encoding, tag string) *httptest.ResponseRecorder {
		t.Helper()
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8080"+chat+path, nil)
		r.Header.Set("Accept-Encoding", encoding)
		r.Header.Set("If-None-Match", tag)
		d.handler.ServeHTTP(w, r)
		return w
	}
	plain, small, table := get("/members", "", ""), get("/members", "br, gzip", ""), get("/topology", "gzip;q=0", "")
	for name, w := range map[string]*httptest.ResponseRecorder{"plain": plain, "small": small, "table": table} {
		if w.Code != http.StatusOK || w.Header().Get("ETag") == "" || w.Header().Get("Vary") != "Accept-Encoding" ||
			(w.Header().Get("Content-Encoding") == "gzip") != (name == "small") {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
	z, err := gzip.NewReader(bytes.NewReader(small.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if whole, err := io.ReadAll(z); err != nil || string(whole) != plain.Body.String() {
		t.Errorf("%d bytes, want %d: %v", len(whole), plain.Body.Len(), err)
	}
	if small.Body.Len() > plain.Body.Len()/8 || plain.Body.Len() >= table.Body.Len() {
		t.Errorf("%d bytes compressed, %d plain, %d with the table", small.Body.Len(), plain.Body.Len(), table.Body.Len())
	}
	t.Logf("%d members: %d bytes compressed, %d plain, %d with the table", members, small.Body.Len(), plain.Body.Len(),
		table.Body.Len())
	for _, encoding := range []string{"", "gzip"} {
		if w := get("/members", encoding, plain.Header().Get("ETag")); w.Code != http.StatusNotModified || w.Body.Len() > 0 ||
			w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%d with %d bytes, %v", w.Code, w.Body.Len(), w.Header())
		}
	}
}

// FuzzClaimBody sends any bytes as the body of a claim: each is either refused with a reason, and then nothing was
// changed, or it is a JSON object that the contract allows.
func FuzzClaimBody(f *testing.F) {
	for _, seed := range []string{
		`{"request_id":"r1"}`, `{"request_id":"r1","member":"alice","incarnation":1767225600000001}`,
		`{"request_id":"r1","labels":{"zone":"a"},"prefer":{}}`,
		`{"request_id":"r1","lock_ttl_seconds":1e1}`, `{"request_id":"r1","epoch":1,"epoch":1}`,
		`{"request_id":"r1","member":null}`, `null`, `{}`, ``, `[`,
	} {
		f.Add([]byte(seed))
	}
	contracttest.Handler(f, nil) // as in FuzzBody
	f.Fuzz(func(t *testing.T, body []byte) {
		d := open(t, httpapi.Development{})
		d.join("alice", `,"labels":{"zone":"a"}`)
		before := d.cluster()
		a := d.post(chat+"/activations/room/lobby/claim", string(body))
		switch a.status {
		case 200:
			if d.cluster() == before || !json.Valid(body) {
				t.Errorf("granted for %q: %s", body, a.raw)
			}
		case 400, 409, 413:
			if name, _ := a.body["field"].(string); a.status == 400 && name == "" || d.cluster() != before {
				t.Errorf("refused %q without a field, or something was changed: %s", body, a.raw)
			}
		default:
			t.Errorf("%q: %d %s", body, a.status, a.raw)
		}
	})
}

// TestEarlierEpochs: an epoch that is over can be read by its number, as it was, while its table is kept.
func TestEarlierEpochs(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.get(chat+"/topology?epoch=1").refuses(t, 404, "NOT_FOUND", "")
	d.join("alice", "")
	first := d.get(chat + "/topology").ok(t)
	d.join("bob", "")
	now := d.get(chat + "/topology").ok(t)
	for query, want := range map[string]answer{"?epoch=1": first, "?epoch=2": now, "?epoch=0": now} {
		if got := d.get(chat + "/topology" + query).ok(t); got.raw != want.raw ||
			got.header.Get("ETag") != want.header.Get("ETag") {
			t.Errorf("%s\n%s\n%s", query, got.raw, want.raw)
		}
	}
	if d.header.Set("If-None-Match", first.header.Get("ETag")); d.get(chat+"/topology?epoch=1").status != 304 ||
		d.get(chat+"/topology?epoch=2").status != 200 {
		t.Error("the tag of an earlier epoch does not name it")
	}
	d.header.Del("If-None-Match")
	d.get(chat+"/topology?epoch=3").refuses(t, 404, "NOT_FOUND", "")
	d.get(chat+"/topology?epoch=-1").refuses(t, 400, "INVALID_ARGUMENT", "epoch")
	d.get(chat+"/topology?epoch=01").refuses(t, 400, "INVALID_ARGUMENT", "epoch")
	d.get(chat+"/topology?epochs=1").refuses(t, 400, "INVALID_ARGUMENT", "epochs")
	d.get("/v1/tenants/acme/clusters/other/topology?epoch=1").refuses(t, 404, "NOT_FOUND", "")
}

// TestMembersSince: who names an epoch by number and time gets what changed since, and the whole list where either is
// another one's.
func TestMembersSince(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.join("alice", "")
	d.clock.Advance(time.Second)
	bob := d.join("bob", "")
	list := d.get(chat + "/members").ok(t)
	since := "/members?since=2&changed_at=" + list.body["changed_at"].(string)
	d.clock.Advance(time.Second)
	d.join("carol", "")
	d.post(chat+"/members/bob/leave", `{"incarnation":`+bob+`}`).ok(t)
	d.get(chat + "/members").ok(t)
	if got := d.get(chat + since).ok(t); got.number("since") != "2" || got.number("epoch") != "4" ||
		strings.Count(got.raw, `"member":`) != 1 || !strings.Contains(got.raw, `"member":"carol"`) ||
		!strings.Contains(got.raw, `"gone":["bob"]`) {
		t.Errorf("%s", got.raw)
	}
	for _, query := range []string{"", "?since=3&changed_at=2026-01-01T00:00:01.000Z",
		"?since=2&changed_at=2026-01-01T00:00:01.001Z", "?since=9&changed_at=2026-01-01T00:00:09.000Z"} {
		if got := d.get(chat + "/members" + query).ok(t); got.body["since"] != nil || got.body["gone"] != nil ||
			strings.Count(got.raw, `"member":`) != 2 {
			t.Errorf("%s: %s", query, got.raw)
		}
	}
	d.get(chat+"/members?since=2").refuses(t, 400, "INVALID_ARGUMENT", "changed_at")
	d.get(chat+"/members?changed_at=2026-01-01T00:00:01.000Z").refuses(t, 400, "INVALID_ARGUMENT", "changed_at")
	d.get(chat+"/members?since=2&changed_at=soon").refuses(t, 400, "INVALID_ARGUMENT", "changed_at")
	d.get(chat+"/members?since=0&changed_at=2026-01-01T00:00:01.000Z").refuses(t, 400, "INVALID_ARGUMENT", "since")
	d.get(chat+"/members?epoch=2").refuses(t, 400, "INVALID_ARGUMENT", "epoch")
}
