package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
)

// schemas are those of the contract.
func schemas(t *testing.T) (doc map[string]any) {
	t.Helper()
	text, err := os.ReadFile("../contracts/openapi.json")
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// least is the way to a server of which each response of placement has no more than the contract requires.
type least struct {
	t     *testing.T
	doc   map[string]any
	keeps func(path, member string) bool // a member that is sent although it is optional
	left  int                            // how many it has left out
}

func at(v any, names ...string) any {
	for _, n := range names {
		m, _ := v.(map[string]any)
		v = m[n]
	}
	return v
}

// resolved is a schema with what it refers to.
func (l *least) resolved(schema any) (properties map[string]any, required []string) {
	if ref, ok := at(schema, "$ref").(string); ok {
		return l.resolved(at(l.doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...))
	}
	properties = map[string]any{}
	parts, _ := at(schema, "allOf").([]any)
	for _, part := range append(parts, map[string]any{"properties": at(schema, "properties"), "required": at(schema, "required")}) {
		var p map[string]any
		var r []string
		if at(part, "$ref") != nil {
			p, r = l.resolved(part)
		} else {
			p, _ = at(part, "properties").(map[string]any)
			names, _ := at(part, "required").([]any)
			for _, n := range names {
				r = append(r, n.(string))
			}
		}
		maps.Copy(properties, p)
		required = append(required, r...)
	}
	return properties, required
}

func (l *least) prune(path string, schema, value any) {
	switch v := value.(type) {
	case []any:
		items := at(schema, "items")
		for _, e := range v {
			l.prune(path, items, e)
		}
	case map[string]any:
		properties, required := l.resolved(schema)
		for name, s := range properties {
			if _, has := v[name]; has && !slices.Contains(required, name) && !l.keeps(path, name) {
				delete(v, name)
				l.left++
				continue
			}
			l.prune(path, s, v[name])
		}
	}
}

// RoundTrip implements [http.RoundTripper].
func (l *least) RoundTrip(r *http.Request) (*http.Response, error) {
	w, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || w.StatusCode != http.StatusOK {
		return w, err
	}
	defer w.Body.Close()
	var body any
	if err := json.NewDecoder(w.Body).Decode(&body); err != nil {
		return nil, err
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	for path, methods := range at(l.doc, "paths").(map[string]any) {
		form := strings.Split(strings.TrimPrefix(path, "/"), "/")
		if len(form) == len(parts) && !slices.ContainsFunc(form, func(s string) bool {
			i := slices.Index(form, s)
			return !strings.HasPrefix(s, "{") && s != parts[i]
		}) {
			schema := at(methods, strings.ToLower(r.Method), "responses", "200", "content", "application/json", "schema")
			if schema == nil {
				l.t.Errorf("%s has no schema", path)
			}
			l.prune(path, schema, body)
		}
	}
	text, err := json.Marshal(body)
	w.Body, w.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	w.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return w, err
}

// TestNoMoreIsDemanded: no response of placement is refused because something is missing that the contract does not
// require, and what needs it does without.
func TestNoMoreIsDemanded(t *testing.T) {
	base, _ := serve(t)
	way := &least{t: t, doc: schemas(t), keeps: func(path, member string) bool {
		// what is the answer itself: where an identity is, whose, of which identity an event tells, and where that went
		return strings.HasSuffix(path, "/activations/{kind}/{id}") || member == "placed" || member == "owner" ||
			strings.HasSuffix(path, "/events") && slices.Contains([]string{"kind", "id", "member", "incarnation"}, member)
	}}
	p := placements(t, base, way)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ok := func(what string, err error) {
		t.Helper()
		if errors.Is(err, contracts.ErrInvalidResponse) || err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	m, err := cluster.NewMember(p, "ann", servesAll{}, &cluster.Options{Kinds: []string{"room"}, Partitions: 16})
	ok("member", err)
	ok("start", m.Start(ctx))
	l := cluster.NewLocator(p, nil)
	ok("locator", l.Start(ctx))
	for _, id := range []string{"a", "b"} {
		room := cluster.Identity{Kind: "room", ID: id}
		where, err := l.Locate(ctx, room, nil)
		if ok("locate", err); where.Member != "ann" || where.Incarnation != m.Incarnation() {
			t.Errorf("%+v", where)
		}
		if id == "b" {
			_, err = l.Activate(ctx, room, nil)
		} else {
			_, err = m.Serve(ctx, room, nil)
		}
		ok("serve", err)
		where, err = l.Locate(ctx, room, nil)
		if ok("locate", err); where.Member != "ann" {
			t.Errorf("%+v", where)
		}
		ok("write", m.WriteState(ctx, room, []byte(id)))
	}
	_, err = p.Activations(ctx, client.ActivationQuery{})
	ok("activations", err)
	_, err = p.Topology(ctx)
	ok("topology", err)
	_, err = p.Members(ctx)
	ok("members", err)
	_, err = p.Heartbeat(ctx, "ann", contracts.MemberHeartbeatRequest{Incarnation: m.Incarnation(), Seq: 1000})
	ok("heartbeat", err)
	ok("offer", m.ChangeOffer(ctx, cluster.Offer{Kinds: []string{"room", "hall"}}))
	ok("deactivate", m.Deactivate(ctx, cluster.Identity{Kind: "room", ID: "a"}, "done"))
	l.Stop()
	ok("stop", m.Stop(ctx))
	if way.left < 40 {
		t.Errorf("%d members were left out", way.left)
	}
}

// servesAll is a host that serves whatever it is given.
type servesAll struct{}

func (servesAll) Activate(context.Context, cluster.Activation) error    { return nil }
func (servesAll) Deactivate(context.Context, cluster.Activation, error) {}
