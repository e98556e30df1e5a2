package audit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// excludes reports whether two leases of a lock cannot last at the same time.
func excludes(one, other Lease) bool {
	exclusive := func(l Lease) bool { return l.Mode == "" || l.Mode == string(contracts.LockModeExclusive) }
	switch {
	case one.Mode == string(contracts.LockModeRate):
		return false
	case one.Mode == string(contracts.LockModePermits) && other.Mode == one.Mode:
		return one.Permit == other.Permit
	default:
		return exclusive(one) || exclusive(other) || one.Mode != other.Mode
	}
}

// TestLater: what is kept of later leases finds the first that excludes one, as a look at all of them does.
func TestLater(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	modes := []string{"", "exclusive", "shared", "shared", "permits", "permits", "permits", "rate", "strange"}
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	found := 0
	for range 2000 {
		leases := make([]Lease, 1+r.IntN(12))
		for i := range leases {
			leases[i].FencingToken, leases[i].Mode = int64(i+1), modes[r.IntN(len(modes))]
			if leases[i].Mode == "permits" {
				leases[i].Permit = 1 + r.Int64N(3)
			}
			if r.IntN(5) > 0 {
				leases[i].from = begun
			}
		}
		var after later
		for i := range slices.Backward(leases) {
			want := slices.IndexFunc(leases[i+1:], func(n Lease) bool { return !n.from.IsZero() && excludes(leases[i], n) })
			got := -1
			if next := after.firstExcludedBy(&leases[i]); next != nil {
				got = int(next.FencingToken) - i - 2
			}
			if got != want {
				t.Fatalf("of %+v the %d. is excluded by %d later, want %d", leases, i+1, got, want)
			}
			if want >= 0 {
				found++
			}
			after.add(&leases[i])
		}
	}
	if found < 2000 {
		t.Errorf("%d of the leases are excluded by a later one: the test asks too little", found)
	}
}

// acquired are events of leases of a lock, one a second, with the tokens from 1 on.
func acquired(n int) (events []contracts.AuditEvent) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		at := begun.Add(time.Duration(i) * time.Second)
		events = append(events, contracts.AuditEvent{ID: fmt.Sprint("a", i), Action: "lock.acquire", Outcome: "ok",
			At: stamp(at), GrantedAt: stamp(at), ExpiresAt: stamp(at.Add(time.Hour)), FencingToken: int64(i + 1)})
	}
	return events
}

// forced is the event of the end of all leases of a lock at a second, up to a token.
func forced(id string, second int, token int64) contracts.AuditEvent {
	at := stamp(time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC))
	return contracts.AuditEvent{ID: id, Action: "lock.force_release", Outcome: "ok", At: at, EndedAt: at, AllLeases: true,
		FencingToken: token}
}

// TestForcedEnds: of the events that end all leases up to one, the first ends each, as a look at all of them does.
func TestForcedEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 2000 {
		log := Log{About: Thing{Kind: Lock}}
		log.Events = acquired(1 + r.IntN(8))
		for i := range log.Events {
			log.Events[i].Mode = "shared"
		}
		var all []contracts.AuditEvent
		for i := range r.IntN(4) {
			all = append(all, forced(fmt.Sprint("f", i), 10+r.IntN(50), 20+r.Int64N(5)-r.Int64N(25)))
		}
		log.Events = append(log.Events, all...)
		for _, l := range log.leases() {
			var want contracts.Time
			for _, e := range all {
				if e.FencingToken >= l.FencingToken && (want == "" || e.EndedAt < want) {
					want = e.EndedAt
				}
			}
			// An event that names a lease ends that one by itself, at the time that was read first.
			named := slices.ContainsFunc(all, func(e contracts.AuditEvent) bool { return e.FencingToken == l.FencingToken })
			if !named && l.EndedAt != want || named && l.Ended != Forced {
				t.Fatalf("%+v ended at %q, want %q, by %+v", l, l.EndedAt, want, all)
			}
			if want != "" && !named {
				found++
			}
		}
	}
	if found < 2000 {
		t.Errorf("%d leases were ended: the test asks too little", found)
	}
}

// TestManyEvents: a log that another one wrote, with as many events as fit, costs a look at each: with a look at each
// for each this test would take hours.
func TestManyEvents(t *testing.T) {
	const many = 100_000
	log := Log{About: Thing{Kind: Lock}}
	log.Events = acquired(many)
	for i := range many {
		log.Events = append(log.Events, forced(fmt.Sprint("f", i), i, int64(many-i)))
	}
	if got := len(log.leases()); got != many {
		t.Errorf("%d leases, want %d", got, many)
	}
	one := Log{About: Thing{Kind: Lock}}
	for i := range many { // of one lease, each earlier than the one before, and none that says when it ended
		e := forced(fmt.Sprint("f", i), many-i, 7)
		e.EndedAt, e.AllLeases = "", false
		one.Events = append(one.Events, e)
	}
	if got := one.leases(); len(got) != 1 || len(got[0].Events) != many {
		t.Errorf("%d leases", len(got))
	}
	ids := Log{About: Thing{Kind: MachineID}}
	for i, e := range acquired(many) {
		e.Action, e.FencingToken = "machine_ids.lease", 0
		ids.Events = append(ids.Events, e)
		e = forced(fmt.Sprint("f", i), i, 0)
		e.Action, e.AllLeases = "machine_ids.force_release", false
		ids.Events = append(ids.Events, e)
	}
	if got := len(ids.leases()); got != many {
		t.Errorf("%d leases of a machine ID, want %d", got, many)
	}
}

// TestThingsKeepNoOthers: events about another number, cluster, tenant or kind are not kept, and of one about many
// machine IDs the list is not: a line has room for a hundred thousand of them.
func TestThingsKeepNoOthers(t *testing.T) {
	seven := int64(7)
	line := func(id, more string) string {
		return `{"msg":"audit","audit":{"schema":1,"id":"` + id + `","at":"2026-11-26T22:00:00.000Z","clock":"store",` +
			`"action":"x","outcome":"ok",` + more + "}}\n"
	}
	for _, c := range []struct {
		about Thing
		kept  string
		not   []string
	}{
		{Thing{Kind: MachineID, Key: "default", MachineID: &seven},
			`"kind":"machine_ids","key":"default","machine_ids":[` + strings.Repeat("1,", 1000) + `7]`, []string{
				`"kind":"machine_ids","key":"default","machine_ids":[77]`, `"kind":"machine_ids","key":"other","machine_ids":[7]`,
				`"kind":"machine_ids","key":"default","machine_ids":[7],"replayed":true`,
			}},
		{Thing{Kind: Identity, Tenant: "acme", Cluster: "chat", Key: "room/a"},
			`"kind":"activation","tenant":"acme","cluster":"chat","key":"room/a","fencing_token":1`, []string{
				`"kind":"activation","tenant":"acme","cluster":"chat","key":"room/a"`,
				`"kind":"activation","tenant":"acme","cluster":"cha","key":"room/a","fencing_token":1`,
				`"kind":"activation","tenant":"acmf","cluster":"chat","key":"room/a","fencing_token":1`,
			}},
		{Thing{Kind: Run, Tenant: "acme", Key: "r"}, `"kind":"run","tenant":"acme","key":"r","fencing_token":1`, []string{
			`"kind":"analysis","tenant":"acme","key":"r","fencing_token":1`,
			`"kind":"lock","tenant":"acme","key":"r","fencing_token":1`,
			`"kind":"run","key":"r","fencing_token":1`,
		}},
	} {
		log := Log{About: c.about}
		lines := []string{line("1", c.kept), line("1", c.kept)}
		for i, n := range c.not {
			lines = append(lines, line(fmt.Sprint("n", i), n))
		}
		if err := log.Read("lines", strings.NewReader(strings.Join(lines, ""))); err != nil || len(log.Events) != 1 ||
			log.Events[0].ID != "1" || log.Events[0].MachineIDs != nil || log.BrokenLines != 0 {
			t.Errorf("%+v: %v, %d broken, %+v", c.about, err, log.BrokenLines, log.Events)
		}
	}
}
