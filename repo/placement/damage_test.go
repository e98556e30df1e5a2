package placement_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// damage writes a field of a document, as no version of the program does.
func (w *world) damage(kind, id, field string, v docstore.Value) {
	w.Helper()
	k := docstore.Key{Kind: kind, Tenant: "acme/prod", ID: id}
	must[docstore.Result](w)(w.store.Write(w.Context(), docstore.Write{Key: k, Set: docstore.Doc{field: v}}))
}

// TestDamagedLeases: leases that cannot be read, first in the list, one more than a page has, and ten times as many,
// keep no other member from being evicted, by a sweep; all are counted, and the first twenty said.
func TestDamagedLeases(t *testing.T) {
	for _, n := range []int{1, docstore.MaxLimit - 1, docstore.MaxLimit + 1, 10*docstore.MaxLimit + 1} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			w := newWorld(t)
			for i := range n {
				w.damage("placement_member_leases", fmt.Sprintf("a%05d", i), "expires_at", docstore.Int(7))
			}
			for i := range 35 { // more than one epoch evicts
				w.join(fmt.Sprintf("m%02d", i))
			}
			bob := w.join("zoe", func(j *placement.Join) { j.TTL = time.Hour })
			w.clock.Advance(15 * time.Second)
			w.wantSurvey(placement.Survey{Clusters: 1, Active: 36, Expired: 35, Damaged: n, Imbalance: 36. * 2 / 64})
			swept, err := w.Sweep(t.Context(), 0)
			if passed, failed := docstore.Failure(err); swept.Evicted != 35 || swept.Errors != n || swept.Damaged != n ||
				failed != nil || passed.Count != n ||
				strings.Count(err.Error(), `"expires_at"`) != min(n, 20) {
				t.Fatalf("%+v, %v", swept, err)
			}
			if p := w.lookup(room("lobby")); p.Placed == nil || p.Placed.Incarnation != bob {
				t.Errorf("placed %+v", p)
			}
		})
	}
}

// TestDamagedSeat: a member whose other document cannot be read is not evicted, and those in the same epoch are; a
// lookup of what they had gets it placed.
func TestDamagedSeat(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"ann", "bob", "cat"} {
		w.join(name)
	}
	w.damage("placement_members", "bob", "incarnation", docstore.String("7"))
	w.clock.Advance(15 * time.Second)
	dead, err := w.Evict(t.Context(), w.cluster)
	if len(dead) != 2 || dead[0].Member != "ann" || dead[1].Member != "cat" || !errors.Is(err, docstore.ErrDamaged) ||
		!strings.Contains(err.Error(), "bob") {
		t.Errorf("%v, %v", dead, err)
	}
}

// TestDocumentsThatLackAField: a document without a field that all of its kind have is damaged, and the error names the
// field.
func TestDocumentsThatLackAField(t *testing.T) {
	t.Parallel()
	topology := func(w *world) error {
		_, err := w.another().Topology(w.Context(), w.cluster)
		return err
	}
	lookup := func(w *world) error {
		_, err := w.another().Lookup(w.Context(), placement.Lookup{Cluster: w.cluster, Identity: room("lobby")})
		return err
	}
	sweep := func(w *world) error {
		_, err := w.another().Sweep(w.Context(), 0)
		return err
	}
	for kind, c := range map[string]struct {
		fields string
		read   func(*world) error
	}{
		"placement_clusters": {"epoch partitions hash_version changed_at drawn", topology},
		"placement_epochs":   {"epoch partitions hash_version changed_at drawn cause changes", topology},
		"placement_members": {"incarnation status since", func(w *world) error {
			_, err := w.DrainMember(w.Context(), w.cluster, placement.Incarnation{Member: "ann", Number: 1})
			return err
		}},
		"placement_member_leases": {"incarnation seq", lookup},
		placement.ActivationKind: {"token rev phase member incarnation epoch claimed_at activated_at changed_at",
			lookup},
		"placement_events": {"at member incarnation to", func(w *world) error {
			p := must[placement.EventPage](w)(w.Events(w.Context(), w.cluster, placement.EventQuery{}))
			var errs []error
			for _, d := range p.Damaged {
				errs = append(errs, d.Err)
			}
			return errors.Join(errs...)
		}},
		"placement_registry":        {"epoch changed_at walked_at", sweep},
		"placement_registry, begun": {"after began began_changed_at", sweep},
	} {
		for field := range strings.FieldsSeq(c.fields) {
			t.Run(kind+", "+field, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
				w.active(room("lobby"))
				kind, begun := strings.CutSuffix(kind, ", begun")
				limit := 0
				if begun {
					limit = 1 // the sweep comes no further than the first page
				}
				w.sweep(limit)
				if err := c.read(w); err != nil {
					t.Fatal(err)
				}
				if w.sweep(limit); begun {
					w.clock.Advance(25 * time.Hour)
					w.sweep(limit)
				}
				k := docstore.Key{Kind: kind, ID: "acme/prod"}
				if kind != "placement_registry" {
					k.Tenant, k.ID = "acme/prod", w.kinds(kind)[0]
				}
				must[docstore.Result](w)(w.store.Write(t.Context(), docstore.Write{Key: k, If: docstore.Has{Field: field},
					Unset: []string{field}}))
				if err := c.read(w); !errors.Is(err, docstore.ErrDamaged) || !strings.Contains(err.Error(), k.String()) ||
					field != "partitions" && !strings.Contains(err.Error(), strconv.Quote(field)) {
					t.Errorf("without %s: %v", field, err)
				}
			})
		}
	}
}

// TestWalkAtAStageThatIsNone: a sweep that finds a stage of the walk which there is not begins the walk anew, and comes
// to its end.
func TestWalkAtAStageThatIsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann := w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	w.active(room("lobby"))
	w.sweep(1)
	must[placement.MemberOutcome](w)(w.Leave(t.Context(), w.cluster, ann))
	k := docstore.Key{Kind: "placement_registry", ID: "acme/prod"}
	must[docstore.Result](w)(w.store.Write(t.Context(), docstore.Write{Key: k, If: docstore.Has{Field: "stage"},
		Set: docstore.Doc{"stage": docstore.String("placement_others"), "after": docstore.String("zz")}}))
	w.wantSwept(w.sweep(0), placement.Swept{Clusters: 1, Freed: 1})
	d := must[docstore.Snapshot](w)(w.store.Get(t.Context(), k)).Docs[0]
	if d["stage"] != nil || d["walked_at"] == nil {
		t.Errorf("the walk is at %v", d)
	}
}

// elsewhere is a store with something else in the place of a document.
type elsewhere struct {
	docstore.Store

	key docstore.Key
}

func (s elsewhere) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	if slices.Contains(keys, s.key) {
		return docstore.Snapshot{}, fmt.Errorf("%w: %s", docstore.ErrDamaged, s.key)
	}
	return s.Store.Get(ctx, keys...)
}

// TestDamagedHead: what is in the place of a cluster's head, or of the mark where the next sweep begins, is no
// document. The members of the other clusters are evicted, and the sweep has not failed.
func TestDamagedHead(t *testing.T) {
	for _, k := range []docstore.Key{{Kind: "placement_clusters", Tenant: "acme/a", ID: "head"},
		{Kind: "placement_sweeps", ID: "next"}} {
		t.Run(k.Kind, func(t *testing.T) {
			w := newWorld(t)
			w.join("ann")
			named := docstore.Write{Key: docstore.Key{Kind: "placement_registry", ID: "acme/a"},
				Set: docstore.Doc{"at": docstore.FormatTime(w.clock.Now())}}
			must[docstore.Result](w)(w.store.Write(t.Context(), named))
			w.clock.Advance(15 * time.Second)
			swept, err := placement.New(elsewhere{w.store, k}, &placement.Options{Now: w.clock.Now}).Sweep(t.Context(), 0)
			if passed, failed := docstore.Failure(err); swept.Evicted != 1 || failed != nil || passed.Count != 1 {
				t.Errorf("%+v, %v", swept, err)
			}
		})
	}
}

// TestDamagedProgress: where the sweep notes how far it came is damaged, and members are evicted all the same.
func TestDamagedProgress(t *testing.T) {
	w := newWorld(t)
	w.join("ann")
	k := docstore.Key{Kind: "placement_registry", ID: "acme/prod"}
	must[docstore.Result](w)(
		w.store.Write(t.Context(), docstore.Write{Key: k, Set: docstore.Doc{"rev": docstore.String("x")}}))
	w.clock.Advance(15 * time.Second)
	if swept, err := w.Sweep(t.Context(), 0); swept.Evicted != 1 || swept.Damaged != 1 ||
		!errors.Is(err, docstore.ErrDamaged) {
		t.Errorf("%+v, %v", swept, err)
	}
}

// TestListsPassDamage: activations and events that cannot be read are said beside the others, wherever they are on a
// page.
func TestListsPassDamage(t *testing.T) {
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	const each = 7
	for i := range each {
		w.active(room(fmt.Sprintf("b%d", i)))
	}
	for _, prefix := range []string{"a", "b3x", "c"} {
		for i := range 25 {
			w.damage(placement.ActivationKind, fmt.Sprintf("room/%s%02d", prefix, i), "token", docstore.String("x"))
		}
	}
	found, damaged := 0, 0
	for q := (placement.Query{Limit: 10}); ; {
		snap := must[placement.Snapshot](w)(w.Snapshot(t.Context(), w.cluster, q))
		found, damaged = found+len(snap.Activations), damaged+len(snap.Damaged)
		if q.After = snap.Next; snap.Next == "" {
			break
		}
	}
	if found != each || damaged != 75 {
		t.Errorf("%d activations and %d damaged ones", found, damaged)
	}

	events := len(w.events())
	first := w.events()[0]
	for i := range 25 {
		w.damage("placement_events", fmt.Sprintf("%s%02d", first.ID, i), "epoch", docstore.String("x"))
	}
	w.clock.Advance(time.Hour) // all are settled
	found, damaged = 0, 0
	for after, page := "", (placement.EventPage{Next: "-"}); page.Next != after; {
		after = page.Next
		if after == "-" {
			after = ""
		}
		page = must[placement.EventPage](w)(w.Events(t.Context(), w.cluster, placement.EventQuery{After: after, Limit: 10}))
		found, damaged = found+len(page.Events), damaged+len(page.Damaged)
	}
	if found != events || damaged != 25 {
		t.Errorf("%d of %d events, and %d damaged ones", found, events, damaged)
	}
}

// TestEventsBehindStrangeNames: documents whose names no event has, more than a page has, before the events and among
// them, keep no reader from the events behind them, also one that waits for young ones.
func TestEventsBehindStrangeNames(t *testing.T) {
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	w.active(room("b"))
	all := w.events()
	for i := range 25 {
		w.damage("placement_events", fmt.Sprintf("!%02d", i), "epoch", docstore.String("x"))
		w.damage("placement_events", fmt.Sprintf("%s~%02d", all[0].ID, i), "epoch", docstore.String("x"))
		w.damage("placement_events", fmt.Sprintf("zz%02d", i), "epoch", docstore.String("x"))
	}
	for _, young := range []bool{true, false} {
		seen, damaged := map[string]bool{}, map[string]bool{}
		for after, n := "", 0; ; n++ {
			page := must[placement.EventPage](w)(w.Events(t.Context(), w.cluster, placement.EventQuery{After: after, Limit: 10}))
			if n > 20 || len(page.Events)+len(page.Damaged) > 70 {
				t.Fatal(n, len(page.Events), len(page.Damaged))
			}
			for _, e := range page.Events {
				seen[e.ID] = true
			}
			for _, d := range page.Damaged {
				damaged[d.Key.ID] = true
			}
			if page.Next == after || n > 0 && young {
				break
			}
			after = page.Next
		}
		if len(seen) == 0 || len(damaged) < 25 || !young && (len(seen) != len(all) || len(damaged) < 50) {
			t.Errorf("young %v: %d of %d events, and %d damaged ones", young, len(seen), len(all), len(damaged))
		}
		w.clock.Advance(time.Minute)
	}
}

// TestListsBehindStrangeNames: documents that no command can name are where a page ends, and keep no cluster and no
// activation behind them from being listed.
func TestListsBehindStrangeNames(t *testing.T) {
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	w.active(room("b"))
	for _, name := range []string{"a\tb", "no cluster", strings.Repeat("x", 300), "zz"} {
		k := docstore.Key{Kind: "placement_registry", ID: "acme/" + name}
		must[docstore.Result](w)(w.store.Write(t.Context(), docstore.Write{Key: k, Set: docstore.Doc{"at": docstore.Int(1)}}))
		w.damage(placement.ActivationKind, "room/"+name, "token", docstore.Int(1))
	}
	var names []string
	for q := (placement.Clusters{Tenant: "acme", Limit: 1}); ; {
		some, next, err := w.Clusters(t.Context(), q)
		if err != nil || len(names) > 5 {
			t.Fatal(names, err)
		}
		names = append(names, some...)
		if q.After = next; next == "" {
			break
		}
	}
	if fmt.Sprint(names) != "[prod zz]" {
		t.Errorf("clusters %q", names)
	}
	listed := 0
	for q := (placement.Query{Limit: 1}); ; {
		snap, err := w.Snapshot(t.Context(), w.cluster, q)
		if err != nil || listed > 5 {
			t.Fatal(listed, err)
		}
		listed += len(snap.Activations) + len(snap.Damaged)
		if q.After = snap.Next; snap.Next == "" {
			break
		}
	}
	if listed != 5 {
		t.Errorf("%d activations", listed)
	}
}

// TestRetentionPassesDamage: old events and epochs are removed behind more damaged ones than a page has.
func TestRetentionPassesDamage(t *testing.T) {
	w := newWorld(t)
	for i := range 251 {
		w.damage("placement_events", fmt.Sprintf("1999-01-01T00:00:00.000Z-%03d", i), "at", docstore.Int(7))
	}
	for i := range 3 {
		w.join(fmt.Sprint("m", i), func(j *placement.Join) { j.TTL = time.Hour })
	}
	before := len(w.kinds("placement_events"))
	w.damage("placement_epochs", w.kinds("placement_epochs")[1], "changed_at", docstore.Int(7))
	for day := range 120 {
		w.clock.Advance(24 * time.Hour)
		if _, err := w.Sweep(t.Context(), 0); err != nil && !errors.Is(err, docstore.ErrDamaged) {
			t.Fatal(day, err)
		}
	}
	if got := len(w.kinds("placement_events")); got >= before {
		t.Errorf("%d events of %d are there", got, before)
	}
	if got := w.kinds("placement_epochs"); len(got) > 2 {
		t.Errorf("epochs %v are there", got)
	}
}
