package analysis

import (
	"testing"

	"github.com/leasehold-dev/leasehold/repo/rule"
)

// TestRequestsAreToldApart: of commands that differ only in where one part ends and the next begins, none is taken for
// another.
func TestRequestsAreToldApart(t *testing.T) {
	entries := map[string]string{}
	for name, c := range map[string]interface{ request() rule.Request }{
		"acquire":          Acquire{Owner: "ann", RequestID: "r1", TTLSeconds: 30},
		"acquire, owner":   Acquire{Owner: "annr", RequestID: "1", TTLSeconds: 30},
		"acquire, request": Acquire{Owner: "an", RequestID: "nr1", TTLSeconds: 30},
		"acquire, ttl":     Acquire{Owner: "ann", RequestID: "r13", TTLSeconds: 0},
		"retry":            Retry{By: "ann", RequestID: "r1", Reason: "30"},
		"retry, by":        Retry{By: "annr", RequestID: "1", Reason: "30"},
		"retry, reason":    Retry{By: "ann", RequestID: "r13", Reason: "0"},
	} {
		entry := string(c.request().Entry())
		if other, taken := entries[entry]; taken {
			t.Errorf("%s is taken for %s", name, other)
		}
		entries[entry] = name
	}
}
