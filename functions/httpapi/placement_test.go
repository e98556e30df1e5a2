package httpapi_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

const chat = "/v1/tenants/acme/clusters/chat"

// cluster is everything that the store has of the cluster chat.
func (d *api) cluster() string {
	d.t.Helper()
	var all strings.Builder
	for _, kind := range []string{"placement_clusters", "placement_epochs", "placement_members", "placement_member_leases", "activations", "placement_events"} {
		p, err := d.store.List(d.t.Context(), docstore.Query{Kind: kind, Tenant: "acme/chat", Limit: docstore.MaxLimit})
		if err != nil {
			d.t.Fatal(err)
		}
		for _, e := range p.Entries {
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
	return d.post(chat+"/members/"+member+"/join", `{"request_id":"j-`+member+`","kinds":["room"],"partitions":16`+more+`}`).ok(d.t).number("incarnation")
}

// hold is how the owner of an activation names it.
func hold(activation answer) string {
	return fmt.Sprintf(`"member":%q,"incarnation":%s,"fencing_token":%s`, activation.body["member"], activation.number("incarnation"), activation.number("fencing_token"))
}

func TestLifeOfAPlacement(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.get(chat+"/members").wants(t, 200, `{"members":[],"cluster":"chat","status":"UNDETERMINED","epoch":0}`)

	join := `{"request_id":"j1","kinds":["room"],"labels":{"zone":"a"},"address":"10.0.0.5:9000","ttl_seconds":20,"partitions":16}`
	const joined = `{"member":"alice","incarnation":1767225600000001,"status":"ACTIVE","epoch":1,"moved":16,
		"expires_at":"2026-01-01T00:00:20.000Z","remaining_ms":20000,"replayed":false}`
	d.post(chat+"/members/alice/join", join).wants(t, 200, joined)
	d.post(chat+"/members/alice/join", join).wants(t, 200, strings.NewReplacer(`"moved":16,`, ``, `false`, `true`).Replace(joined))
	const alice = `{"member":"alice","incarnation":1767225600000001,"status":"ACTIVE","kinds":["room"],"labels":{"zone":"a"},"address":"10.0.0.5:9000",
		"since":1,"at":"2026-01-01T00:00:00.000Z"}`
	d.get(chat+"/members").wants(t, 200, `{"members":[`+alice+`],"cluster":"chat","status":"READY","epoch":1,"changed_at":"2026-01-01T00:00:00.000Z"}`)
	d.get(chat+"/topology").wants(t, 200, `{"members":[`+alice+`],"cluster":"chat","status":"READY","epoch":1,"changed_at":"2026-01-01T00:00:00.000Z",
		"cause":"join of alice","hash_version":1,"partitions":16,"table":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}`)

	d.clock.Advance(5 * time.Second)
	beat := `{"incarnation":1767225600000001,"seq":1,"ttl_seconds":30}`
	for _, replayed := range []string{"false", "true"} {
		d.post(chat+"/members/alice/heartbeat", beat).wants(t, 200, `{"member":"alice","incarnation":1767225600000001,
			"expires_at":"2026-01-01T00:00:35.000Z","remaining_ms":30000,"replayed":`+replayed+`}`)
	}

	lobby := chat + "/activations/room/lobby"
	d.get(lobby).refuses(t, 404, "NOT_FOUND", "")
	where := d.get(chat + "/placements/room/lobby?labels=" + url.QueryEscape(`{"zone":"a"}`)).ok(t)
	if where.body["owner"] != nil || where.body["activation"] != nil || where.object("placed").body["address"] != "10.0.0.5:9000" {
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
		if s := a.ok(t).object("activation"); s.body["phase"] != phase || s.body["member"] != "alice" || a.body["replayed"] != false {
			t.Errorf("%s, want %s", a.raw, phase)
		}
	}
	changed(d.post(lobby+"/activated", "{"+held+"}"), "ACTIVE")
	state := base64.StdEncoding.EncodeToString([]byte(`{"users":3}`))
	stored := d.post(lobby+"/state", `{`+held+`,"request_id":"s1","state_version":0,"state":"`+state+`"}`)
	changed(stored, "ACTIVE")
	if s := d.get(lobby).body; s["state"] != state || s["state_version"] != 1.0 || stored.object("activation").body["state_version"] != 1.0 {
		t.Errorf("the state: %v", s)
	}
	list := d.get(chat + "/activations?kind=room&page_size=1").ok(t)
	if all, _ := list.body["activations"].([]any); len(all) != 1 || list.body["status"] != "READY" || strings.Contains(list.raw, state) || list.body["epoch"] != 1.0 {
		t.Errorf("the list: %s", list.raw)
	}
	where = d.get(chat + "/placements/room/lobby").ok(t)
	if where.object("owner").body["member"] != "alice" || where.object("activation").body["state"] != state {
		t.Errorf("after the claim: %s", where.raw)
	}

	// Another member takes over all that alice has, in one epoch.
	d.post(chat+"/members/bob/replace", `{"request_id":"r1","kinds":["room"],"replaces":{"member":"alice","incarnation":1767225600000001}}`).wants(t, 200,
		`{"member":"bob","incarnation":1767225605000001,"status":"ACTIVE","epoch":2,"moved":16,"expires_at":"2026-01-01T00:00:15.000Z","remaining_ms":10000,"replayed":false}`)
	changed(d.post(lobby+"/drain", "{"+held+"}"), "DRAINING")
	given := d.post(lobby+"/transfer", `{`+held+`,"request_id":"t1"}`).ok(t)
	if s := given.object("activation").body; s["member"] != "bob" || s["phase"] != "LOCKED" || s["fencing_token"] != 1767225605000002.0 || s["state"] != state {
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
	ended := d.post(lobby+"/deactivate", `{`+hold(mine.object("activation"))+`,"reason":"empty"}`).ok(t).object("activation").body
	if ended["phase"] != "FREE" || ended["reason"] != "empty" || ended["failed"] != nil {
		t.Errorf("deactivated: %v", ended)
	}

	bob := `{"incarnation":1767225605000001}`
	d.post(chat+"/members/bob/offer", `{"incarnation":1767225605000001,"request_id":"o1","kinds":["room","device"],"weight":2,"full":true}`).wants(t, 200,
		`{"member":"bob","incarnation":1767225605000001,"status":"ACTIVE","epoch":3,"replayed":false}`)
	d.post(chat+"/members/bob/drain", bob).wants(t, 200, `{"member":"bob","incarnation":1767225605000001,"status":"DRAINING","epoch":4,"moved":16,"replayed":false}`)
	d.post(chat+"/members/bob/leave", bob).wants(t, 200, `{"member":"bob","incarnation":1767225605000001,"status":"LEFT","epoch":5,"replayed":false}`)
	d.post(chat+"/members/alice/evict", `{"incarnation":1767225600000001,"reason":"hangs"}`).wants(t, 200,
		`{"member":"alice","incarnation":1767225600000001,"status":"DEAD","epoch":6,"replayed":false}`)
	d.post(chat+"/members/alice/evict", `{"incarnation":1767225600000001,"reason":"hangs"}`).wants(t, 200,
		`{"member":"alice","incarnation":1767225600000001,"status":"DEAD","epoch":6,"replayed":true}`)

	// Nothing can be placed now, and everything can be seen.
	d.post(lobby+"/claim", `{"request_id":"c3"}`).refuses(t, 409, "TOPOLOGY_UNDETERMINED", "")
	if a := d.get(chat + "/topology").ok(t); a.body["status"] != "UNDETERMINED" || !strings.Contains(a.raw, `"table":[-1,-1,`) || a.body["cause"] != "alice is evicted" {
		t.Errorf("undetermined: %s", a.raw)
	}
	if got := d.get(lobby).ok(t).body["phase"]; got != "FREE" {
		t.Errorf("phase %v", got)
	}
	if a := d.get(chat + "/activations").ok(t); a.body["status"] != "UNDETERMINED" || a.body["epoch"] != 6.0 || !strings.Contains(a.raw, "lobby") {
		t.Errorf("undetermined: %s", a.raw)
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
	if tag := first.header.Get("ETag"); tag != `"0"` || get(tag).status != 304 || len(first.body["table"].([]any)) != 4096 {
		t.Errorf("before the first epoch: %s %.100s", tag, first.raw)
	}
	d.join("alice", "")
	one := get(`"0"`).ok(t)
	tag := one.header.Get("ETag")
	if tag != `"1-1767225600000"` || one.header.Get("Cache-Control") != "private, no-cache" {
		t.Errorf("%v", one.header)
	}
	for match, want := range map[string]int{tag: 304, "W/" + tag: 304, `"0", ` + tag: 304, `"1"`: 200, tag[1:]: 200, "": 200} {
		if a := get(match); a.status != want || want == 304 && (a.raw != "" || a.header.Get("ETag") != tag || a.header.Get("Cache-Control") == "no-store") {
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

// TestPlacementRejections: each has its code, its status, and what the caller needs next, and nothing is changed.
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
		{"two members with one name", "/members/alice/join", `{"request_id":"other","kinds":["room"]}`, 409, "MEMBER_EXISTS", "",
			`{"retryable":true,"incarnation":` + alice + `,"retry_after_ms":3600000,"expires_at":"2026-01-01T01:00:00.000Z","epoch":` + epoch + `}`},
		{"another number of partitions", "/members/eve/join", `{"request_id":"e","kinds":[],"partitions":32}`, 409, "CLUSTER_DIFFERS", "", `{"retryable":false}`},
		{"a request_id with other parameters", "/members/alice/join", `{"request_id":"j-alice","kinds":[]}`, 422, "REQUEST_ID_REUSED", "", `{}`},
		{"replacing nobody", "/members/eve/replace", `{"request_id":"e","kinds":[],"replaces":{"member":"zoe","incarnation":1}}`, 404, "MEMBER_UNKNOWN", "", `{"retryable":false}`},
		{"replacing an incarnation that ended", "/members/eve/replace", `{"request_id":"e","kinds":[],"replaces":{"member":"alice","incarnation":1}}`, 409, "STALE_INCARNATION", "",
			`{"retryable":false,"incarnation":` + alice + `}`},
		{"heartbeat of nobody", "/members/zoe/heartbeat", `{"incarnation":1,"seq":1}`, 404, "MEMBER_UNKNOWN", "", `{}`},
		{"heartbeat of another incarnation", "/members/alice/heartbeat", `{"incarnation":1,"seq":1}`, 409, "STALE_INCARNATION", "", `{"incarnation":` + alice + `}`},
		{"heartbeat of an evicted member", "/members/dora/heartbeat", `{"incarnation":` + dora + `,"seq":1}`, 409, "STALE_INCARNATION", "", `{"incarnation":` + dora + `}`},
		{"drain of nobody", "/members/zoe/drain", `{"incarnation":1}`, 404, "MEMBER_UNKNOWN", "", `{}`},
		{"drain of another incarnation", "/members/alice/drain", `{"incarnation":1}`, 409, "STALE_INCARNATION", "", `{"incarnation":` + alice + `}`},
		{"leave of an evicted member", "/members/dora/leave", `{"incarnation":` + dora + `}`, 409, "STALE_INCARNATION", "", `{}`},
		{"leave of nobody", "/members/zoe/leave", `{"incarnation":1}`, 404, "MEMBER_UNKNOWN", "", `{}`},
		{"offer of another incarnation", "/members/alice/offer", `{"incarnation":1,"request_id":"o","kinds":[]}`, 409, "STALE_INCARNATION", "", `{}`},
		{"offer of nobody", "/members/zoe/offer", `{"incarnation":1,"request_id":"o","kinds":[]}`, 404, "MEMBER_UNKNOWN", "", `{}`},
		{"eviction of nobody", "/members/zoe/evict", `{"incarnation":1,"reason":"x"}`, 404, "MEMBER_UNKNOWN", "", `{}`},
		{"eviction of another incarnation", "/members/alice/evict", `{"incarnation":1,"reason":"x"}`, 409, "STALE_INCARNATION", "", `{"incarnation":` + alice + `}`},

		{"a kind that nobody hosts", "/activations/device/d1/claim", `{"request_id":"c"}`, 409, "NO_ELIGIBLE_MEMBER", "", `{"retryable":true,"epoch":` + epoch + `}`},
		{"labels that nobody has", "/activations/room/x/claim", `{"request_id":"c","labels":{"zone":"z"}}`, 409, "NO_ELIGIBLE_MEMBER", "", `{}`},
		{"labels of a member that is full", "/activations/room/x/claim", `{"request_id":"c","labels":{"size":"xl"}}`, 409, "NO_ELIGIBLE_MEMBER", "", `{}`},
		{"lookup of a kind that nobody hosts", "/placements/device/d1", "", 409, "NO_ELIGIBLE_MEMBER", "", `{}`},
		{"lookup by labels that nobody has", "/placements/room/x?labels=" + url.QueryEscape(`{"zone":"z"}`), "", 409, "NO_ELIGIBLE_MEMBER", "", `{}`},
		{"claim by nobody", "/activations/room/x/claim", `{"request_id":"c","member":"zoe","incarnation":1}`, 409, "MEMBER_INELIGIBLE", "", `{"ineligible":"NOT_A_MEMBER"}`},
		{"claim by another incarnation", "/activations/room/x/claim", `{"request_id":"c","member":"alice","incarnation":1}`, 409, "MEMBER_INELIGIBLE", "", `{"ineligible":"NOT_A_MEMBER"}`},
		{"claim by one that drains", "/activations/room/x/claim", `{"request_id":"c","member":"carol","incarnation":` + carol + `}`, 409, "MEMBER_INELIGIBLE", "", `{"ineligible":"DRAINING"}`},
		{"claim of another kind", "/activations/device/x/claim", `{"request_id":"c","member":"alice","incarnation":` + alice + `}`, 409, "MEMBER_INELIGIBLE", "", `{"ineligible":"LACKS_KIND"}`},
		{"claim without the labels", "/activations/room/x/claim", `{"request_id":"c","labels":{"zone":"a"},"member":"bob","incarnation":` + bob + `}`, 409, "MEMBER_INELIGIBLE", "", `{"ineligible":"LACKS_LABELS"}`},
		{"claim of what is placed on another", "/activations/room/x/claim", `{"request_id":"c",` + elsewhere + `}`, 409, "MEMBER_INELIGIBLE", "", `{"ineligible":"PLACED_ON_OTHER"}`},
		{"claim of what is active", "/activations/room/active/claim", `{"request_id":"c"}`, 409, "ACTIVATION_EXISTS", "", `{"retryable":false,"activation.phase":"ACTIVE","activation.state_version":1}`},
		{"claim of what is being activated", "/activations/room/locked/claim", `{"request_id":"c"}`, 409, "ACTIVATION_LOCKED", "", `{"retryable":true,"retry_after_ms":10000,"activation.phase":"LOCKED"}`},
		{"claim that failed", "/activations/room/failed/claim", `{"request_id":"c-failed"}`, 409, "ACTIVATION_FAILED", "", `{"retryable":false,"detail":"no disk","activation.reason":"no disk","activation.failed":true}`},
		{"claim that has ended", "/activations/room/gone/claim", `{"request_id":"c-gone"}`, 422, "REQUEST_ID_REUSED", "", `{}`},
		{"claim with other parameters", "/activations/room/locked/claim", `{"request_id":"c-locked","labels":{"zone":"a"}}`, 422, "REQUEST_ID_REUSED", "", `{}`},
		{"claim by an epoch that is over", "/activations/room/x/claim", `{"request_id":"c","epoch":1}`, 409, "STALE_EPOCH", "", `{"retryable":false,"epoch":` + epoch + `}`},
		{"lookup by an epoch that is over", "/placements/room/x?epoch=1", "", 409, "STALE_EPOCH", "", `{"epoch":` + epoch + `}`},

		{"stale token", "/activations/room/active/deactivate", `{` + stale + `}`, 409, "STALE_TOKEN", "", `{"retryable":false}`},
		{"state under a stale token", "/activations/room/active/state", `{` + stale + `,"request_id":"s","state_version":1,"state":""}`, 409, "STALE_TOKEN", "", `{}`},
		{"transfer under a stale token", "/activations/room/active/transfer", `{` + stale + `,"request_id":"t"}`, 409, "STALE_TOKEN", "", `{}`},
		{"another's activation", "/activations/room/active/drain", `{` + foreign + `}`, 403, "NOT_OWNER", "", `{"retryable":false}`},
		{"failing what is active", "/activations/room/active/failed", `{` + active + `,"reason":"x"}`, 409, "WRONG_PHASE", "", `{"retryable":false,"activation.phase":"ACTIVE"}`},
		{"draining what is not active yet", "/activations/room/locked/drain", `{` + locked + `}`, 409, "WRONG_PHASE", "", `{"activation.phase":"LOCKED"}`},
		{"transfer of what is not active yet", "/activations/room/locked/transfer", `{` + locked + `,"request_id":"t"}`, 409, "WRONG_PHASE", "", `{}`},
		{"state of another version", "/activations/room/active/state", `{` + active + `,"request_id":"s","state_version":7,"state":""}`, 409, "STATE_CHANGED", "", `{"retryable":false,"activation.state_version":1}`},
		{"state under a used request_id", "/activations/room/active/state", `{` + active + `,"request_id":"s1","state_version":0,"state":""}`, 422, "REQUEST_ID_REUSED", "", `{}`},
		{"state over its limit", "/activations/room/active/state", `{` + active + `,"request_id":"s","state_version":1,"state":"` + big + `"}`, 400, "INVALID_ARGUMENT", "state", `{}`},
		{"transfer to nobody", "/activations/room/active/transfer", `{` + active + `,"request_id":"t","to":"zoe"}`, 409, "MEMBER_INELIGIBLE", "", `{"ineligible":"NOT_A_MEMBER"}`},
		{"transfer to one that is full", "/activations/room/active/transfer", `{` + active + `,"request_id":"t","to":"full"}`, 409, "MEMBER_INELIGIBLE", "", `{"ineligible":"FULL"}`},
		{"activation that never was", "/activations/room/never", "", 404, "NOT_FOUND", "", `{}`},
		{"owner's command where nothing ever was", "/activations/room/never/activated", `{"member":"alice","incarnation":` + alice + `,"fencing_token":1}`, 409, "STALE_TOKEN", "", `{}`},
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
