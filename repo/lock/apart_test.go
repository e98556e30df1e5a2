package lock

import (
	"testing"

	"github.com/leasehold-dev/leasehold/repo/rule"
)

// TestRequestsAreToldApart: of commands that differ only in where one part ends and the next begins, none is taken for
// another. A line of metadata, a policy and the key of a set are texts that callers choose.
func TestRequestsAreToldApart(t *testing.T) {
	acquire := func(change func(*Acquire)) Acquire {
		c := Acquire{Owner: "ann", RequestID: "r1", TTLSeconds: 30}
		change(&c)
		return c
	}
	metadata := func(kv ...string) Acquire {
		return acquire(func(c *Acquire) {
			c.Metadata = map[string]string{}
			for i := 0; i < len(kv); i += 2 {
				c.Metadata[kv[i]] = kv[i+1]
			}
		})
	}
	set := func(keys ...string) Acquire {
		s := AcquireSet{Tenant: "acme", Keys: keys, Owner: "ann", RequestID: "r1", TTLSeconds: 30}
		return s.commands(nil, 0)[0]
	}
	shared := acquire(func(c *Acquire) { c.Mode = Shared })
	entries := map[string]string{}
	for name, entry := range map[string]string{
		"plain":                        entryOf(metadata()),
		"owner, request":               entryOf(acquire(func(c *Acquire) { c.Owner, c.RequestID = "annr", "1" })),
		"request, owner":               entryOf(acquire(func(c *Acquire) { c.Owner, c.RequestID = "an", "nr1" })),
		"metadata":                     entryOf(metadata("ab", "c")),
		"key, value":                   entryOf(metadata("a", "bc")),
		"two values":                   entryOf(metadata("a", "b", "c", "")),
		"value, key":                   entryOf(metadata("a", "", "b", "c")),
		"value as a ttl":               entryOf(metadata("30", "30")),
		"value as a policy":            entryOf(metadata("30", "replace ")),
		"replace":                      entryOf(acquire(func(c *Acquire) { c.Replace = true })),
		"delay":                        entryOf(acquire(func(c *Acquire) { c.LockDelaySeconds = 5 })),
		"replace with a delay":         entryOf(acquire(func(c *Acquire) { c.Replace, c.LockDelaySeconds = true, 5 })),
		"shared":                       entryOf(shared),
		"permits":                      entryOf(acquire(func(c *Acquire) { c.Mode, c.Limit = Permits, 11 })),
		"one permit more, in a window": entryOf(acquire(func(c *Acquire) { c.Mode, c.Limit, c.WindowSeconds = Rate, 1, 1 })),
		"a rate":                       entryOf(acquire(func(c *Acquire) { c.Mode, c.Limit, c.WindowSeconds = Rate, 11, 1 })),
		"a rate in a window":           entryOf(acquire(func(c *Acquire) { c.Mode, c.Limit, c.WindowSeconds = Rate, 1, 11 })),
		"a set":                        entryOf(set("k")),
		"a set of a key as replace":    entryOf(set("replace ")),
		"a set of a key as a delay":    entryOf(set("delay=5 ")),
		"a set of a key as both":       entryOf(set("replace delay=5 ")),
		"a set of a key as a mode":     entryOf(set(shared.policies()[0])),
		"a set of a key as a ttl":      entryOf(set("30")),
		"a set of two":                 entryOf(set("a", "bc")),
		"a set of another two":         entryOf(set("ab", "c")),
		"a set of both as one":         entryOf(set("abc")),
		"renew":                        entryOf(Renew{Owner: "ann", Token: 11, RequestID: "1", TTLSeconds: 30}),
		"renew, token":                 entryOf(Renew{Owner: "ann", Token: 1, RequestID: "11", TTLSeconds: 30}),
		"renew, owner":                 entryOf(Renew{Owner: "ann1", Token: 1, RequestID: "1", TTLSeconds: 30}),
		"renew of a set":               entryOf(Renew{Owner: "ann", Token: 11, RequestID: "1", TTLSeconds: 3, set: "0"}),
		"release":                      entryOf(Release{Owner: "ann", Token: 11, RequestID: "1"}),
		"release, token":               entryOf(Release{Owner: "ann", Token: 1, RequestID: "11"}),
		"force-release":                entryOf(ForceRelease{By: "ann", RequestID: "1", Reason: "ab", LeaseID: "c"}),
		"force-release, reason":        entryOf(ForceRelease{By: "ann", RequestID: "1", Reason: "a", LeaseID: "bc"}),
		"force-release, by":            entryOf(ForceRelease{By: "ann1", RequestID: "", Reason: "ab", LeaseID: "c"}),
	} {
		if other, taken := entries[entry]; taken {
			t.Errorf("%s is taken for %s: %s", name, other, entry)
		}
		entries[entry] = name
	}
}

func entryOf(c interface{ request() rule.Request }) string { return string(c.request().Entry()) }
