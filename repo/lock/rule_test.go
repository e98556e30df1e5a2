package lock

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// epoch is the instant around which the states of these tests live.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var subject = ID{Tenant: "acme", Key: "deploy"}

// TestFence: LS-FENCE-001.
func TestFence(t *testing.T) {
	for highest := range int64(6) {
		for token := int64(1); token < 6; token++ {
			c := Fence{Tenant: "acme", Resource: "db", Lease: fencing.OfLock("db", 0, token)}
			var found docstore.Doc
			if highest > 0 {
				found = docstore.Doc{fToken: docstore.Int(highest), fToken + subjectSuffix: docstore.String("lock/db")}
			}
			after, o, err := rule.Step(c, found, rule.When{At: epoch})
			want := FenceOutcome{Passed: token >= highest, Highest: max(token, highest)}
			if err != nil || o != want || after[fToken] != docstore.Int(want.Highest) {
				t.Errorf("token %d after %d: %+v with %v, %v", token, highest, o, after, err)
			}
		}
	}
}

// TestStoredForm: what other versions of Leasehold find in a store. Each command is told by what it changes in the
// document: a field that has another value, or one that is removed.
func TestStoredForm(t *testing.T) {
	var d docstore.Doc
	for i, step := range []struct {
		c    command
		want string
	}{
		{Acquire{ID: subject, Owner: "ann", RequestID: "r1", TTLSeconds: 60, LeaseID: "l1",
			Metadata: map[string]string{"build": "1"}, Replace: true, LockDelaySeconds: 5},
			"a1=W3f5byR-RhYMilQ a2= a3= a4= acquired_at=2026-01-01T00:00:00.000Z b1= b2= c1= c2= d1= d2= " +
				"expires_at=2026-01-01T00:01:00.000Z lease_id=l1 lock_delay_seconds=5 m= metadata=map[build:1] " +
				"o0=ann o1= o2= owner_id=ann replaceable=true s1= s2= s3= s4= state=ACTIVE token=1767225600000001 ttl_seconds=60 " +
				"w1= w2="},
		{Renew{ID: subject, Owner: "ann", RequestID: "r2", Token: token(1), TTLSeconds: 30},
			"expires_at=2026-01-01T00:00:40.000Z r1=vJzywpDVV9QXvrI r2= r3= r4= ttl_seconds=30"},
		{ForceRelease{ID: subject, By: "root", RequestID: "f1", Reason: "hangs"},
			"f1=KR0HuWrGhgIQlkC f2= f3= f4= forced_at=2026-01-01T00:00:20.000Z forced_by=root " +
				"forced_reason=hangs released_at=2026-01-01T00:00:20.000Z state=RELEASED w0=root"},
		{Acquire{ID: subject, Owner: "bob", RequestID: "r1", TTLSeconds: 60, LeaseID: "l2"},
			"-forced_at -forced_by -forced_reason -lock_delay_seconds -r1 -r2 -r3 -r4 -released_at " +
				"-replaceable -w0 a1=RPGrEuPt8fMjILY a2=W3f5byR-RhYMilQ acquired_at=2026-01-01T00:00:30.000Z " +
				"b1=2026-01-01T00:00:00.000Z c1=2026-01-01T00:00:20.000Z d1=2026-01-01T00:00:40.000Z " +
				"expires_at=2026-01-01T00:01:30.000Z lease_id=l2 metadata=map[] o0=bob o1=ann owner_id=bob " +
				"state=ACTIVE token=1767225600000002 ttl_seconds=60 w1=root"},
		{Release{ID: subject, Owner: "bob", RequestID: "r2", Token: token(2)},
			"e2=OKjIpS4IU-g released_at=2026-01-01T00:00:40.000Z state=RELEASED"},
	} {
		after, o, err := rule.Step(step.c, d, rule.When{At: epoch.Add(time.Duration(i) * 10 * time.Second)})
		var changes []string
		for f, v := range after {
			if old, had := d[f]; !had || fmt.Sprint(old) != fmt.Sprint(v) {
				changes = append(changes, fmt.Sprintf("%s=%v", f, v))
			}
		}
		for f := range d {
			if _, has := after[f]; !has {
				changes = append(changes, "-"+f)
			}
		}
		slices.Sort(changes)
		if got := strings.Join(changes, " "); err != nil || o.Code != OK || got != step.want {
			t.Errorf("step %d: %s, %v\ngot  %s\nwant %s", i, o.Code, err, got, step.want)
		}
		d = after
	}
}

func TestDamagedDocumentsAreNotFreeLocks(t *testing.T) {
	whole := docstore.Doc{fToken: docstore.Int(3), fState: docstore.String(Active), fOwner: docstore.String("ann"),
		fExpiresAt: docstore.FormatTime(epoch)}
	for name, damage := range map[string]docstore.Doc{
		"token":              {fToken: docstore.String("3")},
		"state":              {fState: docstore.String("HELD")},
		"owner_id":           {fOwner: docstore.Int(1)},
		"expires_at":         {fExpiresAt: docstore.String("tomorrow")},
		"ttl_seconds":        {fTTL: docstore.Opaque{}},
		"replaceable":        {fReplaceable: docstore.Int(1)},
		"lock_delay_seconds": {fDelay: docstore.Int(-1)},
		"metadata":           {fMetadata: docstore.Bool(true)},
		"e5":                 {"e5": docstore.Map{"token": "five"}},
		"a4":                 {"a4": docstore.Int(1)},
		"o1":                 {"o1": docstore.Int(1)},
		"b2":                 {"b2": docstore.String("then")},
		"w2":                 {"w2": docstore.Bool(true)},
		"refused_at":         {fRefusedAt: docstore.String("now")},
		"r1":                 {"r1": docstore.Bool(true)},
		"s4":                 {"s4": docstore.String("soon")},
		"t1":                 {"t1": docstore.Int(1)},
		"m":                  {"m": docstore.String("later")},
		"f2":                 {"f2": docstore.Opaque{}},
	} {
		t.Run(name, func(t *testing.T) {
			d := whole.Clone()
			maps.Copy(d, damage)
			_, err := subject.State(d)
			if !errors.Is(err, docstore.ErrDamaged) {
				t.Fatalf("got %v, want ErrDamaged", err)
			}
			if want := strconv.Quote(name); !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not name the field %s", err, want)
			}
		})
	}
}
