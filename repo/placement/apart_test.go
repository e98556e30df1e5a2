package placement

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/rule"
)

// TestRequestsAreToldApart: of commands that differ only in where one part ends and the next begins, none is taken for
// another.
func TestRequestsAreToldApart(t *testing.T) {
	claim := func(labels, prefer map[string]string, by string, number int64) Claim {
		return Claim{
			Need: Need{Labels: labels, Prefer: prefer}, RequestID: "r1", LockTTL: time.Second, By: Incarnation{by, number},
		}
	}
	transfer := func(token int64, request string, labels, prefer map[string]string, to string) Transfer {
		return Transfer{
			Hold: Hold{Token: token}, Need: Need{Labels: labels, Prefer: prefer}, RequestID: request,
			LockTTL: time.Second, To: to,
		}
	}
	join := func(member, request, address, replaces string, number int64, kinds ...string) Join {
		return Join{
			Offer: Offer{Kinds: kinds}, Member: member, Address: address, RequestID: request, TTL: time.Second,
			Replaces: Incarnation{replaces, number},
		}
	}
	offer := func(member string, number int64, request, address string, kinds ...string) ChangeOffer {
		return ChangeOffer{
			Incarnation: Incarnation{member, number}, RequestID: request, Offer: Offer{Kinds: kinds}, Address: address,
		}
	}
	store := func(token, version int64, request, data string) WriteState {
		return WriteState{Hold: Hold{Token: token}, RequestID: request, Version: version, Data: []byte(data)}
	}
	type m = map[string]string
	entries := map[string]string{}
	for name, c := range map[string]interface{ request() rule.Request }{
		"claim":                          claim(nil, nil, "m1", 1),
		"claim, number":                  claim(nil, nil, "m", 11),
		"claim, label":                   claim(m{"ab": "c"}, nil, "m1", 1),
		"claim, value":                   claim(m{"a": "bc"}, nil, "m1", 1),
		"claim, preference":              claim(nil, m{"a": "bc"}, "m1", 1),
		"claim, two labels":              claim(m{"a": "b", "c": "d"}, nil, "m1", 1),
		"claim, label and preference":    claim(m{"a": "b"}, m{"c": "d"}, "m1", 1),
		"claim, two preferences":         claim(nil, m{"a": "b", "c": "d"}, "m1", 1),
		"claim, label as a count":        claim(m{"a": "1"}, m{"0": ""}, "m1", 1),
		"claim, preference as a label":   claim(m{"a": "1", "0": ""}, nil, "m1", 1),
		"transfer":                       transfer(1, "1r1", nil, nil, "m1"),
		"transfer, token":                transfer(11, "r1", nil, nil, "m1"),
		"transfer, member in the label":  transfer(1, "1r1", m{"m": "1"}, nil, ""),
		"join":                           join("ab", "c", "", "", 0, "k"),
		"join, request":                  join("a", "bc", "", "", 0, "k"),
		"join, address":                  join("ab", "c", "x", "", 0, "k"),
		"join, replaces":                 join("ab", "c", "", "x", 1, "k"),
		"join, number":                   join("ab", "c", "x1s", "", 1, "k"),
		"join, kinds":                    join("ab", "c", "", "", 0, "k", "l"),
		"join, kind":                     join("ab", "c", "", "", 0, `k","l`),
		"offer":                          offer("a", 11, "r", "x", "k"),
		"offer, member":                  offer("a1", 1, "r", "x", "k"),
		"offer, request":                 offer("a", 1, "1r", "x", "k"),
		"offer, address":                 offer("a", 11, "r", "", "kx"),
		"state":                          store(1, 12, "r", "3"),
		"state, version in the data":     store(1, 1, "r", "23"),
		"state, token":                   store(11, 2, "r", "3"),
		"state, token and request":       store(1, 2, "1r", "3"),
		"state, request and the version": store(1, 2, "r1", "3"),
	} {
		entry := string(c.request().Entry())
		if other, taken := entries[entry]; taken {
			t.Errorf("%s is taken for %s", name, other)
		}
		entries[entry] = name
	}
}

// TestKeysAreToldApart: two clusters share no document, and neither do two identities, wherever their names could be
// cut.
func TestKeysAreToldApart(t *testing.T) {
	taken := map[any]string{}
	for _, tenant := range []string{"a", "a/b", "a/b/c", "a/", "/"} {
		for _, cluster := range []string{"a", "b", "b/c", "c"} {
			c := Cluster{tenant, cluster}
			for _, i := range []Identity{{"a", "b"}, {"a", "b/c"}, {"a/b", "c"}, {"b", "a"}, {"b", "/a"}, {"b.", "a"}} {
				s := subject{c, i}
				if s.validate() != nil {
					continue // no name of a cluster or a kind has a slash
				}
				if other, known := taken[s.key()]; known {
					t.Errorf("%q is taken for %s", s, other)
				}
				taken[s.key()] = tenant + ", " + cluster + ", " + i.Kind + ", " + i.ID
			}
		}
	}
	if want := 5 * 3 * 5; len(taken) != want {
		t.Errorf("%d identities, want %d", len(taken), want)
	}
}
