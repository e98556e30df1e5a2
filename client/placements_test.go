package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
)

// chat is the client of a cluster on a wire.
func chat(t *testing.T, w http.RoundTripper) *client.Placements {
	t.Helper()
	c, err := client.New("http://127.0.0.1:8080", &client.Options{HTTP: &http.Client{Transport: w}})
	if err != nil {
		t.Fatal(err)
	}
	return c.Placements("acme", "chat")
}

const (
	joinedBody  = `{"member":"w1","incarnation":9,"status":"ACTIVE","epoch":1,"moved":16,"expires_at":"2026-01-01T00:00:10.000Z","remaining_ms":10000,"replayed":false}`
	activeBody  = `{"activation":{"kind":"room","id":"a/b","phase":"ACTIVE","fencing_token":7,"member":"w1","incarnation":9},"replayed":false}`
	movedBody   = `{"activation":{"kind":"room","id":"a/b","phase":"LOCKED","fencing_token":8,"member":"w2","incarnation":3},"remaining_ms":10000,"replayed":false}`
	aMember     = `{"member":"w1","incarnation":9,"status":"ACTIVE","kinds":["room"],"since":1}`
	membersBody = `{"members":[` + aMember + `],"cluster":"chat","status":"READY","epoch":1}`
	tableBody   = `{"members":[` + aMember +
		`],"cluster":"chat","status":"READY","epoch":1,"hash_version":1,"partitions":16,"table":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,-1]}`
	whereBody  = `{"kind":"room","id":"a/b","epoch":1,"partition":3,"placed":` + aMember + `}`
	recordBody = `{"kind":"room","id":"a/b","phase":"ACTIVE","fencing_token":7,"member":"w1","incarnation":9,"state":"aGk="}`
	listBody   = `{"activations":[` + recordBody + `],"status":"READY","epoch":1}`
	eventsBody = `{"events":[{"event_id":"e1","at":"2026-01-01T00:00:00.000Z","member":"w1","incarnation":9,"to":"ACTIVE"}],"next":"e1~0"}`
)

// hold is what the owner names the activation of the tests by.
var hold = contracts.ActivationHoldRequest{Member: "w1", Incarnation: 9, FencingToken: 7}

type placementCall struct {
	do             func(context.Context, *client.Placements) (any, error)
	method, target string // of the request that is sent
	body           string // "" for none
	right          string // the response
	identified     bool   // the request has a request_id
}

func placementCalls() map[string]placementCall {
	const base, act = "/v1/tenants/acme/clusters/chat", "/v1/tenants/acme/clusters/chat/activations/room/a%2Fb"
	const held = `"fencing_token":7,"incarnation":9,"member":"w1"`
	drained := strings.Replace(joinedBody, "ACTIVE", "DRAINING", 1)
	return map[string]placementCall{
		"join": {func(ctx context.Context, p *client.Placements) (any, error) {
			return p.Join(ctx, "w1", contracts.MemberJoinRequest{RequestID: "r1", TTLSeconds: 10})
		}, "POST", base + "/members/w1/join", `{"kinds":[],"request_id":"r1","ttl_seconds":10}`, joinedBody, true},
		"replace": {func(ctx context.Context, p *client.Placements) (any, error) {
			return p.Replace(ctx, "w1", contracts.MemberReplaceRequest{
				RequestID: "r1", Kinds: []string{"room"}, Replaces: contracts.Incarnation{Member: "w0", Incarnation: 4},
			})
		}, "POST", base + "/members/w1/replace",
			`{"kinds":["room"],"replaces":{"incarnation":4,"member":"w0"},"request_id":"r1"}`, joinedBody, true},
		"heartbeat": {func(ctx context.Context, p *client.Placements) (any, error) {
			return p.Heartbeat(ctx, "w1", contracts.MemberHeartbeatRequest{Incarnation: 9, Seq: 3, TTLSeconds: 10})
		}, "POST", base + "/members/w1/heartbeat", `{"incarnation":9,"seq":3,"ttl_seconds":10}`, joinedBody, false},
		"drain": {func(ctx context.Context, p *client.Placements) (any, error) {
			return p.Drain(ctx, "w1", contracts.MemberRequest{Incarnation: 9})
		}, "POST", base + "/members/w1/drain", `{"incarnation":9}`, drained, false},
		"leave": {func(ctx context.Context, p *client.Placements) (any, error) {
			return p.Leave(ctx, "w1", contracts.MemberRequest{Incarnation: 9})
		}, "POST", base + "/members/w1/leave", `{"incarnation":9}`, drained, false},
		"evict": {func(ctx context.Context, p *client.Placements) (any, error) {
			return p.Evict(ctx, "w1", contracts.MemberEvictRequest{Incarnation: 9, Reason: "hangs"})
		}, "POST", base + "/members/w1/evict", `{"incarnation":9,"reason":"hangs"}`, drained, false},
		"offer": {func(ctx context.Context, p *client.Placements) (any, error) {
			return p.ChangeOffer(ctx, "w1", contracts.MemberOfferRequest{Incarnation: 9, RequestID: "r1", Full: true})
		}, "POST", base + "/members/w1/offer", `{"full":true,"incarnation":9,"kinds":[],"request_id":"r1"}`,
			joinedBody, true},
		"members": {func(ctx context.Context, p *client.Placements) (any, error) { return p.Members(ctx) }, "GET",
			base + "/members", "", membersBody, false},
		"topology": {func(ctx context.Context, p *client.Placements) (any, error) { return p.Topology(ctx) },
			"GET", base + "/topology", "", tableBody, false},
		"epoch": {func(ctx context.Context, p *client.Placements) (any, error) { return p.Epoch(ctx, 1) },
			"GET", base + "/topology?epoch=1", "", tableBody, false},
		"lookup": {func(ctx context.Context, p *client.Placements) (any, error) {
			return p.Lookup(ctx, "room", "a/b", cluster.Query{Labels: map[string]string{"zone": "a&b"}, Epoch: 3})
		}, "GET", base + "/placements/room/a%2Fb?epoch=3&labels=%7B%22zone%22%3A%22a%5Cu0026b%22%7D", "", whereBody, false},
		"claim": {func(ctx context.Context, p *client.Placements) (any, error) {
			return p.Claim(ctx, "room", "a/b", contracts.ActivationClaimRequest{RequestID: "r1", Member: "w1", Incarnation: 9})
		}, "POST", act + "/claim", `{"incarnation":9,"member":"w1","request_id":"r1"}`, activeBody, true},
		"activated": {func(ctx context.Context, p *client.Placements) (any, error) {
			return p.Activated(ctx, "room", "a/b", hold)
		},
			"POST", act + "/activated", `{` + held + `}`, activeBody, false},
		"failed": {func(ctx context.Context, p *client.Placements) (any, error) {
			return p.Failed(ctx, "room", "a/b", contracts.ActivationFailedRequest{Member: "w1", Incarnation: 9,
				FencingToken: 7, Reason: "no"})
		}, "POST", act + "/failed", `{` + held + `,"reason":"no"}`, activeBody, false},
		"deactivate": {func(ctx context.Context, p *client.Placements) (any, error) {
			return p.Deactivate(ctx, "room", "a/b", contracts.ActivationEndRequest{Member: "w1", Incarnation: 9,
				FencingToken: 7})
		}, "POST", act + "/deactivate", `{` + held + `}`, activeBody, false},
		"state": {func(ctx context.Context, p *client.Placements) (any, error) {
			return p.WriteState(ctx, "room", "a/b", contracts.ActivationStateRequest{Member: "w1", Incarnation: 9,
				FencingToken: 7, RequestID: "r1"})
		}, "POST", act + "/state", `{` + held + `,"request_id":"r1","state":"","state_version":0}`, activeBody, true},
		"transfer": {func(ctx context.Context, p *client.Placements) (any, error) {
			return p.Transfer(ctx, "room", "a/b", contracts.ActivationTransferRequest{Member: "w1", Incarnation: 9,
				FencingToken: 7, RequestID: "r1", To: "w2"})
		}, "POST", act + "/transfer", `{` + held + `,"request_id":"r1","to":"w2"}`, movedBody, true},
		"activation": {func(ctx context.Context, p *client.Placements) (any,
			error) {
			return p.Activation(ctx, "room", "a/b")
		}, "GET", act, "", recordBody, false},
		"activations": {func(ctx context.Context, p *client.Placements) (any, error) {
			return p.Activations(ctx, client.ActivationQuery{Kind: "room", PageSize: 5, PageToken: "x"})
		}, "GET", base + "/activations?kind=room&page_size=5&page_token=x", "", listBody, false},
		"events": {func(ctx context.Context, p *client.Placements) (any, error) {
			return p.Events(ctx, cluster.EventQuery{After: "e0", Wait: 5 * time.Second})
		}, "GET", base + "/events?after=e0&wait_seconds=5", "", eventsBody, false},
	}
}

// TestPlacementExchanges: what goes over the wire, and what becomes of the response, whole and without its required
// members.
func TestPlacementExchanges(t *testing.T) {
	for name, c := range placementCalls() {
		t.Run(name, func(t *testing.T) {
			w := &wire{answer: always(reply(200, "application/json", c.right))}
			got, err := c.do(t.Context(), chat(t, w))
			if err != nil || len(w.sent) != 1 {
				t.Fatalf("%v after %d requests", err, len(w.sent))
			}
			if s := w.sent[0]; s.method != c.method || s.target != c.target || !sameJSON(withoutEnd(s.body), c.body) {
				t.Errorf("sent %s %s %s\nwant %s %s %s", s.method, s.target, s.body, c.method, c.target, c.body)
			}
			if b, err := json.Marshal(got); err != nil || !sameJSON(string(b), c.right) {
				t.Errorf("got %s, %v\nwant %s", b, err, c.right)
			}
			w = &wire{answer: always(reply(200, "application/json", `{}`))}
			if got, err := c.do(t.Context(), chat(t, w)); err == nil {
				t.Errorf("an empty response: %+v", got)
			}
		})
	}
}

// sameJSON compares two texts as JSON; two empty ones are alike.
func sameJSON(a, b string) bool {
	if a == "" || b == "" {
		return a == b
	}
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// TestPlacementRefusals: the codes of the server arrive as errors with what else they say; a redirect is not followed.
func TestPlacementRefusals(t *testing.T) {
	problem, err := json.Marshal(contracts.Problem{
		Code: contracts.CodeActivationExists, Status: 409, Epoch: 5, Activation: &contracts.Activation{
			Kind: "room", ID: "a/b", Phase: contracts.PhaseActive, Member: "w2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range placementCalls() {
		t.Run(name, func(t *testing.T) {
			w := &wire{answer: always(reply(409, "application/problem+json", string(problem)))}
			_, err := c.do(t.Context(), chat(t, w))
			e, ok := errors.AsType[*contracts.Error](err)
			if !ok || !errors.Is(err, contracts.CodeActivationExists) || e.Epoch != 5 || e.Activation == nil ||
				e.Activation.Member != "w2" || len(w.sent) != 1 {
				t.Errorf("%v after %d requests", err, len(w.sent))
			}
			w = &wire{answer: always(reply(307, "text/html", ""))}
			if _, err := c.do(t.Context(), chat(t, w)); err == nil ||
				!strings.Contains(err.Error(), "redirects are not followed") || len(w.sent) != 1 {
				t.Errorf("a redirect: %v after %d requests", err, len(w.sent))
			}
		})
	}
}

// TestPlacementRetries: a request whose response was lost is sent again as it was but for its end, so that it takes
// effect once; when no response comes, the error of a command with a request_id names it.
func TestPlacementRetries(t *testing.T) {
	for name, c := range placementCalls() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: func(try int, _ *http.Request) answer {
					if try == 1 {
						return answer{lost: errors.New("connection reset")}
					}
					return reply(200, "application/json", c.right)
				}}
				if _, err := c.do(t.Context(), chat(t, w)); err != nil || len(w.sent) != 2 ||
					withoutEnd(w.sent[0].body) != withoutEnd(w.sent[1].body) ||
					w.sent[0].target != w.sent[1].target {
					t.Errorf("%v after %d requests", err, len(w.sent))
				}
				w = &wire{answer: always(answer{lost: errors.New("connection reset")})}
				_, err := c.do(t.Context(), chat(t, w))
				unknown, ok := errors.AsType[*client.UnknownOutcomeError](err)
				if err == nil || ok != c.identified || ok && unknown.RequestID != "r1" || len(w.sent) != 4 {
					t.Errorf("no response: %v after %d requests", err, len(w.sent))
				}
			})
		})
	}
}

// TestPlacementRequestID: a command without a request_id gets one, and keeps it over retries.
func TestPlacementRequestID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(try int, _ *http.Request) answer {
			if try == 1 {
				return answer{lost: errors.New("connection reset")}
			}
			return reply(200, "application/json", joinedBody)
		}}
		if _, err := chat(t, w).Join(t.Context(), "w1", contracts.MemberJoinRequest{Kinds: []string{"room"}}); err != nil {
			t.Fatal(err)
		}
		var r contracts.MemberJoinRequest
		if err := json.Unmarshal([]byte(w.sent[0].body), &r); err != nil || len(r.RequestID) < 20 ||
			withoutEnd(w.sent[0].body) != withoutEnd(w.sent[1].body) {
			t.Errorf("sent %s, then %s", w.sent[0].body, w.sent[1].body)
		}
	})
}

// TestPlacementResponsesForOthers: a response that is about another member, identity, incarnation, token or cluster is
// not taken.
func TestPlacementResponsesForOthers(t *testing.T) {
	for name, changes := range map[string][][2]string{
		"join":      {{`"w1"`, `"w2"`}, {`"incarnation":9`, `"incarnation":-9`}},
		"replace":   {{`"w1"`, `"w2"`}},
		"heartbeat": {{`"w1"`, `"w2"`}, {`"incarnation":9`, `"incarnation":8`}},
		"drain":     {{`"w1"`, `"w2"`}, {`"incarnation":9`, `"incarnation":8`}},
		"leave":     {{`"w1"`, `"w2"`}},
		"evict":     {{`"w1"`, `"w2"`}},
		"offer":     {{`"incarnation":9`, `"incarnation":8`}},
		"members":   {{`"chat"`, `"chaz"`}},
		"topology":  {{`"chat"`, `"chaz"`}, {`[0,0`, `[0,1`}, {`-1]`, `-2]`}},
		"lookup":    {{`"a/b"`, `"a/c"`}, {`"kind":"room"`, `"kind":"roon"`}, {`"epoch":1,`, ``}},
		"claim": {{`"a/b"`, `"a/c"`}, {`"w1"`, `"w2"`}, {`"incarnation":9`, `"incarnation":8`},
			{`"ACTIVE"`, `"FREE"`}, {`"fencing_token":7`, `"fencing_token":0`}},
		"activated":   {{`"a/b"`, `"a/c"`}, {`"fencing_token":7`, `"fencing_token":8`}, {`"w1"`, `"w2"`}},
		"failed":      {{`"fencing_token":7`, `"fencing_token":8`}},
		"deactivate":  {{`"fencing_token":7`, `"fencing_token":8`}},
		"state":       {{`"fencing_token":7`, `"fencing_token":8`}},
		"transfer":    {{`"w2"`, `"w3"`}, {`"fencing_token":8`, `"fencing_token":7`}, {`"a/b"`, `"a/c"`}},
		"activation":  {{`"a/b"`, `"a/c"`}},
		"activations": {{`"kind":"room"`, `"kind":"roon"`}},
		"events":      {{`"event_id":"e1"`, `"event_id":""`}, {`"next":"e1~0"`, `"next":""`}},
	} {
		c := placementCalls()[name]
		for i, change := range changes {
			t.Run(fmt.Sprint(name, "/", i), func(t *testing.T) {
				changed := strings.ReplaceAll(c.right, change[0], change[1])
				w := &wire{answer: always(reply(200, "application/json", changed))}
				if got, err := c.do(t.Context(), chat(t, w)); err == nil || changed == c.right || len(w.sent) != 1 {
					t.Errorf("%s: got %+v, %v after %d requests", changed, got, err, len(w.sent))
				}
			})
		}
	}
	w := &wire{answer: always(reply(200, "application/json", strings.ReplaceAll(joinedBody, `"w1"`, `"sub#w1"`)))}
	if _, err := placementCalls()["join"].do(t.Context(), chat(t, w)); err != nil {
		t.Errorf("a member after the token's subject: %v", err)
	}
}

// tagged answers like a server that knows one epoch.
type tagged struct {
	tag  string
	body string
	full int // how often it sent the body
}

func (s *tagged) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &wire{answer: always(reply(200, "application/json", s.body))}
	if r.Header.Get("If-None-Match") == s.tag {
		w.answer = always(reply(304, "", ""))
	} else {
		s.full++
	}
	got, err := w.RoundTrip(r)
	got.Header.Set("ETag", s.tag)
	return got, err
}

// TestMembersAreSentOnce: the members of an epoch never change, so they are sent again only when there is another.
func TestMembersAreSentOnce(t *testing.T) {
	s := &tagged{tag: `"1"`, body: membersBody}
	p := chat(t, s)
	for i, tag := range []string{`"1"`, `"1"`, `"2"`, `"2"`} {
		epoch := int64(i/2 + 1)
		s.tag, s.body = tag, strings.Replace(membersBody, `"epoch":1`, fmt.Sprintf(`"epoch":%d`, epoch), 1)
		if got, err := p.Members(t.Context()); err != nil || got.Epoch != epoch || len(got.Members) != 1 ||
			s.full != int(epoch) {
			t.Errorf("epoch %d, %v, sent %d times", got.Epoch, err, s.full)
		}
	}
}

// TestTopologyIsSentOnce: an epoch never changes, so it is read again only when there is another.
func TestTopologyIsSentOnce(t *testing.T) {
	s := &tagged{tag: `"1"`, body: tableBody}
	p := chat(t, s)
	read := func(epoch int64, full int) {
		t.Helper()
		if got, err := p.Topology(t.Context()); err != nil || got.Epoch != epoch || len(got.Table) != 16 || s.full != full {
			t.Errorf("epoch %d, %v, sent %d times", got.Epoch, err, s.full)
		}
	}
	read(1, 1)
	read(1, 1)
	s.tag, s.body = `"2"`, strings.Replace(tableBody, `"epoch":1`, `"epoch":2`, 1)
	read(2, 2)
	read(2, 2)
	w := &wire{answer: always(reply(304, "", ""))}
	if _, err := chat(t, w).Topology(t.Context()); err == nil {
		t.Error("304 to a request without a condition was taken for an epoch")
	}
}
