package machineid

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// small is a space of eight units in one page.
var small = newGeometry(kazahana.Layout{CustomEpoch: kazahana.DefaultEpoch, BitReserve: 1, BitTs: 51,
	BitID: 4, BitSeq: 8}, 8)

var pageKey = docstore.Key{Kind: Kind, Tenant: "t", ID: "page-000"}

func signed(n byte) secret { return secret{n} }

// genPage draws any page that can be stored, also those that no sequence of commands leads to. Times are around 1000.
var genPage = rapid.Custom(func(t *rapid.T) page {
	p := page{rev: rapid.Int64Range(0, 3).Draw(t, "rev"), notBefore: make([]int64, small.slots)}
	if p.rev == 0 {
		return p // there is no document
	}
	p.split = rapid.SampledFrom([]int{0, 0, 1, 2, 4}).Draw(t, "split")
	p.notBefore = make([]int64, small.slots<<p.split)
	for slot := 0; slot < len(p.notBefore); {
		bits := rapid.IntRange(0, 2).Draw(t, "bits")
		if slot&(1<<bits-1) != 0 {
			bits = 0
		}
		floor := rapid.Int64Range(990, 1010).Draw(t, "floor")
		for i := range 1 << bits {
			p.notBefore[slot+i] = floor
		}
		if rapid.Bool().Draw(t, "held") {
			p.held = append(p.held, lease{
				slot: slot, bits: bits, created: floor - rapid.Int64Range(0, 20).Draw(t, "span"), secret: signed(byte(slot)),
				service: rapid.SampledFrom([]string{"ids", "payments"}).Draw(t, "service"),
			})
		}
		slot += 1 << bits
	}
	return p
})

// stored is the document of a page.
func stored(p page) docstore.Doc {
	if p.rev == 0 {
		return nil
	}
	return p.write(pageKey).Set
}

func same(p, q page) bool {
	return p.rev == q.rev && p.split == q.split && slices.Equal(p.notBefore, q.notBefore) && slices.Equal(p.held, q.held)
}

// TestWriteAgreesWithDecide: for all pages and commands, the write of the page after a decision applies exactly to the
// page that was decided about, and makes it what the decision says.
func TestWriteAgreesWithDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, other := genPage.Draw(t, "page"), genPage.Draw(t, "other page")
		now := rapid.Int64Range(995, 1005).Draw(t, "now")
		bits := rapid.IntRange(0, 2).Draw(t, "bits")
		found := stored(p)
		if back, err := pageOf(small, pageKey, found); err != nil || !same(back, p) {
			t.Fatalf("%+v was stored as %v and read as %+v, %v", p, found, back, err)
		}
		p = p.fit(-rapid.IntRange(0, splitBits).Draw(t, "parts")) // for leases of a part of a unit
		var after page
		if rapid.Bool().Draw(t, "grant") {
			free, _ := p.runs(0, bits-p.split, bits-p.split, now)
			if len(free) == 0 {
				return
			}
			n := rapid.IntRange(1, len(free)).Draw(t, "leases")
			secrets := make([]secret, n)
			for i := range secrets {
				secrets[i] = signed(byte(100 + i))
			}
			after = p.grant(free[:n], secrets, bits-p.split, "new", now, now+10)
		} else {
			slot := rapid.IntRange(0, len(p.notBefore)/(1<<bits)-1).Draw(t, "slot") << bits
			var v releaseResult
			if after, v = p.release(slot, bits, rapid.Int64Range(970, 1020).Draw(t, "signed"), func(secret) bool { return true },
				now); v != released {
				if !same(after, p) {
					t.Fatalf("a release that changes nothing made %+v of %+v", after, p)
				}
				return
			}
		}
		w := after.write(pageKey)
		if p.rev == 0 {
			if w.Holds(nil, time.Time{}) {
				t.Fatal("a page that is missing is written without its past")
			}
			return
		}
		if !w.Holds(found, time.Time{}) {
			t.Fatalf("the write does not apply to revision %d", p.rev)
		}
		doc, err := w.Apply(found, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if back, err := pageOf(small, pageKey, doc); err != nil || !same(back, after) {
			t.Fatalf("decided %+v, stored %+v, %v", after, back, err)
		}
		if other.rev != p.rev && w.Holds(stored(other), time.Time{}) {
			t.Fatalf("a write that was decided on revision %d applies to %d", p.rev, other.rev)
		}
	})
}

// TestUnitsThatAreSplit: each part has the notBefore of the whole, leases stay where they are, and a page of 2048 slots
// is stored as one of 128.
func TestUnitsThatAreSplit(t *testing.T) {
	g := geometry{unit: 8, pages: 1, slots: 128}
	p := page{rev: 1, notBefore: make([]int64, 128)}
	for slot := range p.notBefore {
		p.notBefore[slot] = int64(2000 + slot/2)
	}
	p.held = []lease{{slot: 127, created: 1000, secret: signed(1), service: "a"},
		{slot: 2, bits: 1, created: 1500, secret: signed(2), service: "b"}}
	fine := p.fit(-splitBits)
	if len(fine.notBefore) != 2048 || fine.split != splitBits || !same(fine, fine.fit(0)) || !same(fine, fine.fit(-1)) ||
		!same(p, p.fit(3)) {
		t.Fatalf("%d slots, split in 1<<%d", len(fine.notBefore), fine.split)
	}
	for slot, at := range fine.notBefore {
		if at != p.notBefore[slot>>splitBits] {
			t.Errorf("part %d is free from %d", slot, at)
		}
	}
	if want := []lease{{slot: 2032, bits: 4, created: 1000, secret: signed(1), service: "a"},
		{slot: 32, bits: 5, created: 1500, secret: signed(2), service: "b"}}; !slices.Equal(fine.held, want) {
		t.Errorf("%+v, want %+v", fine.held, want)
	}
	// More names than a byte counts.
	free, _ := fine.runs(0, -splitBits, -splitBits, 3000)
	for i, r := range free[:300] {
		fine = fine.grant([]run{r}, []secret{signed(byte(i))}, -splitBits, fmt.Sprint("service ", i), 3000, 4000)
	}
	back, err := pageOf(g, pageKey, stored(fine))
	if err != nil || !same(back, fine) || len(back.held) != 300 || back.held[299].service != "service 299" {
		t.Errorf("%d leases, %v", len(back.held), err)
	}
}

// TestPageThatIsDamaged: what no rule wrote is rejected, and named.
func TestPageThatIsDamaged(t *testing.T) {
	good := func() docstore.Doc {
		free, _ := page{notBefore: make([]int64, 8)}.runs(0, 0, 0, 1000)
		return stored(page{notBefore: make([]int64, 8)}.grant(free[:1], []secret{signed(1)}, 0, "ids", 1000, 2000))
	}
	lease := func(slot, bits, name byte) docstore.Bytes {
		return docstore.Bytes(append([]byte{slot, bits, name}, make([]byte, leaseBytes-3)...))
	}
	for name, c := range map[string]struct {
		field string
		value docstore.Value
	}{
		"no revision":              {fRev, nil},
		"revision 0":               {fRev, docstore.Int(0)},
		"no notBefore":             {fNotBefore, nil},
		"notBefore of other pages": {fNotBefore, docstore.Bytes(make([]byte, 12))},
		"half a time":              {fNotBefore, docstore.Bytes(make([]byte, 8*timeBytes+3))},
		"notBefore as text":        {fNotBefore, docstore.String(strings.Repeat("A", 64))}, // as early builds stored it
		"no notBefore in text":     {fNotBefore, docstore.String("")},
		"leases as text":           {fLeases, docstore.String("")},
		"no leases":                {fLeases, docstore.Int(1)},
		"half a lease":             {fLeases, docstore.Bytes("\x00\x00\x00")},
		"slot beyond the page":     {fLeases, lease(8, 0, 0)},
		"run beyond the page":      {fLeases, lease(4, 3, 0)},
		"run not aligned":          {fLeases, lease(1, 1, 0)},
		"absurd bits":              {fLeases, lease(0, 200, 0)},
		"service not listed":       {fLeases, lease(0, 0, 1)},
		"no services":              {fServices, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := good()
			if _, err := pageOf(small, pageKey, d); err != nil {
				t.Fatal(err)
			}
			d[c.field] = c.value
			if c.value == nil {
				delete(d, c.field)
			}
			_, err := pageOf(small, pageKey, d)
			if want := fmt.Sprintf(
				`docstore: damaged document: machine_ids/t/page-000: field %q is not what a page of machine IDs holds`,
				c.field); err == nil || err.Error() != want {
				t.Errorf("error %v, want %s", err, want)
			}
		})
	}
}

// TestRelease shows where the next lease may begin, for each time that can be signed.
func TestRelease(t *testing.T) {
	// Slot 2 is leased for [1000, 2000), slots 4 and 5 together too; slot 0 had a lease until 900.
	p := page{rev: 5, notBefore: []int64{900, 0, 2000, 0, 2000, 2000, 0, 0}, held: []lease{
		{slot: 0, created: 100, secret: signed(0), service: "ids"},
		{slot: 2, created: 1000, secret: signed(2), service: "ids"},
		{slot: 4, bits: 1, created: 1000, secret: signed(4), service: "ids"},
	}}
	for _, c := range []struct {
		name           string
		slot, bits     int
		secret         byte
		signed, now    int64
		releaseResult  releaseResult
		floor, besides int64
	}{
		{"in the middle", 2, 0, 2, 1500, 1500, released, 1501, 0},
		{"at the first timestamp", 2, 0, 2, 1000, 1500, released, 1001, 0},
		{"before it began", 2, 0, 2, 400, 1500, released, 1000, 0},
		{"at the last timestamp", 2, 0, 2, 1999, 1500, released, 2000, 0},
		{"behind its end", 2, 0, 2, 9000, 1500, released, 2000, 0},
		{"a run", 4, 1, 4, 1500, 1500, released, 1501, 1501},
		{"another holder's signature", 2, 0, 9, 1500, 1500, refused, 2000, 0},
		{"one that has run out", 0, 0, 0, 1500, 1500, notThere, 900, 0},
		{"one that has run out, any signature", 0, 0, 9, 1500, 1500, notThere, 900, 0},
		{"at its end", 2, 0, 2, 1500, 2000, notThere, 2000, 0},
		{"never leased", 6, 0, 2, 1500, 1500, notThere, 0, 0},
		{"half of a run", 4, 0, 4, 1500, 1500, refused, 2000, 2000},
		{"the other half", 5, 0, 4, 1500, 1500, refused, 2000, 0},
		{"a run over a single lease", 2, 1, 2, 1500, 1500, refused, 2000, 0},
	} {
		after, v := p.release(c.slot, c.bits, c.signed, func(s secret) bool { return s == signed(c.secret) }, c.now)
		if v != c.releaseResult || after.notBefore[c.slot] != c.floor || after.notBefore[c.slot+1] != c.besides {
			t.Errorf("%s: releaseResult %d, notBefore %v; want %d, %d and %d", c.name, v, after.notBefore, c.releaseResult,
				c.floor, c.besides)
		}
		if v != released {
			continue
		}
		// Released once, nothing is left to release, even if its time is still to come.
		if again, v := after.release(c.slot, c.bits, c.signed, func(secret) bool { return true }, c.now); v != notThere ||
			!same(again, after) {
			t.Errorf("%s, again: releaseResult %d", c.name, v)
		}
	}
}

// TestChoose: one page for all leases if there is one, several if there must be, a single lease if there are too few.
func TestChoose(t *testing.T) {
	const now = 1000
	with := func(notBefore ...int64) page { return page{notBefore: notBefore} }
	first := func(int) int { return 0 }
	last := func(n int) int { return n - 1 }
	for _, c := range []struct {
		name   string
		pages  map[int]page
		bits   int
		want   int
		spread func(int) int
		picked string
		next   int64
	}{
		{"the oldest", map[int]page{0: with(900, 700, 2000, 800)}, 0, 2, first, "0:1 0:3", 2000},
		{"free from now on", map[int]page{0: with(1000, 1001, 2000, 2000)}, 0, 1, first, "0:0", 1001},
		{"a page that has them all", map[int]page{0: with(0, 0, 2000, 2000), 1: with(0, 2000, 0, 0)}, 0, 3, first,
			"1:0 1:2 1:3", 2000},
		{"any page, by its share", map[int]page{0: with(0, 0, 0, 2000), 1: with(2000, 2000, 2000, 0)}, 0, 1,
			last, "1:3", 2000},
		{"several pages, the emptiest first", map[int]page{0: with(0, 2000, 2000, 2000), 1: with(0, 0, 2000, 2000)}, 0, 3,
			first, "1:0 1:1 0:0", 2000},
		{"fewer than wanted", map[int]page{0: with(0, 0, 2000, 2000), 1: with(2000, 2000, 2000, 0)}, 0, 4, last, "1:3", 2000},
		{"none", map[int]page{0: with(2000, 1500, 2000, 2000), 1: with(2000, 2000, 1400, 2000)}, 0, 1, first, "", 1400},
		{"an aligned run", map[int]page{0: with(2000, 0, 0, 2000, 10, 20, 30, 0)}, 1, 1, first, "0:4", 2000},
		{"the run that is free for longest", map[int]page{0: with(10, 0, 0, 0, 5, 5, 30, 0)}, 1, 2, first, "0:2 0:4", 0},
		{"no aligned run", map[int]page{0: with(2000, 0, 0, 1800, 0, 1500, 1600, 0)}, 1, 1, first, "", 1500},
	} {
		picked, next := choose(geometry{pages: len(c.pages), slots: len(c.pages[0].notBefore)}, c.pages,
			alike(c.bits, c.want), now, c.spread)
		var got []string
		for _, r := range picked {
			got = append(got, fmt.Sprintf("%d:%d", r.page, r.slot))
		}
		if strings.Join(got, " ") != c.picked || next != c.next {
			t.Errorf("%s: %v, next at %d; want %q, %d", c.name, got, next, c.picked, c.next)
		}
	}
}

// TestIntervalsNeverOverlap: whatever the clocks of store and callers do, in whatever order writes arrive, and however
// late, no timestamp of a machine ID is stamped under two leases.
func TestIntervalsNeverOverlap(t *testing.T) {
	for name, callersClock := range map[string]bool{"as it is": false, "even by the clocks of the callers": true} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10_000) {
				if err := schedule(callersClock, randomSteps(seed)); err != nil {
					t.Fatalf("schedule %d: %v", seed, err)
				}
			}
		})
	}
}

// step is something that happens to one of three callers, or to the clocks.
type step struct {
	do     string
	caller int
	by     int64 // milliseconds
}

var doings = []string{"acquire", "release", "write", "write", "stamp", "stamp", "store's clock", "caller's clock"}

func randomSteps(seed uint64) []step {
	r := rand.New(rand.NewPCG(seed, 0))
	steps := make([]step, 80)
	for i := range steps {
		steps[i] = step{do: doings[r.IntN(len(doings))], caller: r.IntN(3), by: r.Int64N(61) - 20}
	}
	return steps
}

// schedule runs three callers on one slot, by the store's clock or by their own. It stamps for each lease what its
// holder could stamp, and reports a timestamp that two leases gave.
func schedule(callersClock bool, steps []step) error {
	type caller struct {
		skew    int64
		secret  secret
		slot    int // of the lease, -1: none
		from    int64
		to      int64
		stamped int64 // the latest
		pending *docstore.Write
		then    func() // when the pending write is applied
	}
	const ttl = 30
	store := int64(10_000)
	memory := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return time.UnixMilli(store) }})
	tiny := geometry{unit: 8, pages: 1, slots: 1}
	if r, err := memory.Write(context.Background(), tiny.blank(0).create(pageKey)); err != nil || !r.Applied {
		return fmt.Errorf("set up: %v, %w", r, err)
	}
	var callers [3]caller
	for i := range callers {
		callers[i].slot = -1
	}
	stamps := make(map[secret][2]int64) // from the first to the last timestamp of a lease
	drawn := byte(0)
	for _, s := range steps {
		c := &callers[s.caller]
		switch s.do {
		case "store's clock":
			store += s.by
		case "caller's clock":
			c.skew += s.by
		case "acquire", "release":
			snap, err := memory.Get(context.Background(), pageKey)
			if err != nil {
				return err
			}
			p, err := pageOf(tiny, pageKey, snap.Docs[0])
			if err != nil {
				return err
			}
			now := store
			if callersClock {
				now += c.skew
			}
			if s.do == "release" {
				if c.slot < 0 {
					continue
				}
				// The signer makes no IDs with a later timestamp than the signed one.
				at, held := max(store+c.skew, c.stamped), c.secret
				after, v := p.release(c.slot, 0, at, func(k secret) bool { return k == held }, now)
				c.slot, c.pending = -1, nil
				if v == released {
					w := after.write(pageKey)
					c.pending, c.then = &w, func() {}
				}
				continue
			}
			picked, _ := choose(small, map[int]page{0: p}, alike(0, 1), now, func(int) int { return 0 })
			if len(picked) == 0 {
				continue
			}
			drawn++
			mine := signed(drawn)
			w := p.grant(picked, []secret{mine}, 0, "ids", now, now+ttl).write(pageKey)
			c.pending, c.then = &w, func() {
				c.secret, c.slot, c.from, c.to, c.stamped = mine, picked[0].slot, now, now+ttl, 0
			}
		case "write":
			if c.pending == nil {
				continue
			}
			r, err := memory.Write(context.Background(), *c.pending)
			if err != nil {
				return err
			}
			if r.Applied {
				c.then()
			}
			c.pending = nil
		case "stamp":
			at := store + c.skew
			if c.slot < 0 || at < c.from || at >= c.to {
				continue
			}
			c.stamped = max(c.stamped, at)
			mine := [2]int64{c.from, at} // a busy holder has used all that came before
			for other, theirs := range stamps {
				if other != c.secret && mine[0] <= theirs[1] && theirs[0] <= mine[1] {
					return fmt.Errorf("one lease stamped %v, another %v", mine, theirs)
				}
			}
			stamps[c.secret] = [2]int64{c.from, c.stamped}
		}
	}
	return nil
}

// TestReuseDistance: at half occupancy a machine ID that was released is not used again before 1700 others were taken,
// and all are used about equally often.
func TestReuseDistance(t *testing.T) {
	const pairs, leased = 50_000, 4096
	g := newGeometry(kazahana.DefaultLayout(), unitBits)
	r := rand.New(rand.NewPCG(1, 2))
	pages := make([]page, g.pages)
	for i := range pages {
		pages[i].notBefore = make([]int64, g.slots)
	}
	var (
		held     []run
		returned = make(map[[2]int]int) // when a slot was released, counted in acquires
		uses     = make(map[[2]int]int)
		acquired int
		distance = pairs
		now      = int64(1_000)
	)
	acquire := func() {
		now++
		index := r.IntN(g.pages)
		picked, _ := choose(g, map[int]page{index: pages[index]}, alike(0, 1), now, r.IntN)
		if len(picked) == 0 {
			t.Fatal("a page is full at half occupancy")
		}
		p := pages[index].grant(picked, []secret{{}}, 0, "ids", now, now+1_000_000_000)
		p.held = nil // no one signs here
		pages[index] = p
		slot := [2]int{index, picked[0].slot}
		if at, before := returned[slot]; before {
			distance = min(distance, acquired-at)
		}
		uses[slot]++
		acquired++
		held = append(held, picked[0])
	}
	for range leased {
		acquire()
	}
	for range pairs {
		i := r.IntN(len(held))
		old := held[i]
		held[i] = held[len(held)-1]
		held = held[:len(held)-1]
		now++
		pages[old.page].notBefore[old.slot] = now
		returned[[2]int{old.page, old.slot}] = acquired
		acquire()
	}
	often := slices.Sorted(maps.Values(uses))
	if distance < 1700 || len(uses) != g.units() || often[len(often)/100] < 4 || often[len(often)*99/100] > 9 {
		t.Errorf("distance %d; %d machine IDs used, from %d to %d times", distance, len(uses), often[len(often)/100],
			often[len(often)*99/100])
	}
}

// TestPlaces: every machine ID of every layout has a place of its own, and comes back from it.
func TestPlaces(t *testing.T) {
	base := kazahana.DefaultLayout()
	for bits := range 3 {
		l := base
		l.BitID, l.BitSeq = base.BitID-bits, base.BitSeq+bits
		g := newGeometry(base, unitBits)
		if want := (geometry{unit: 8, pages: 64, slots: 128}); !reflect.DeepEqual(g, want) {
			t.Fatalf("%+v, want %+v", g, want)
		}
		for split := range splitBits + 1 {
			p := page{notBefore: make([]int64, g.slots)}.fit(-split)
			seen := make(map[[2]int]bool)
			for id := range l.MaxMachineID() + 1 {
				index, first := g.place(l.BitSeq, id)
				slot := p.slot(g, first)
				if p.split != split || index >= g.pages || slot+1<<(bits+split) > len(p.notBefore) || seen[[2]int{index, slot}] ||
					g.id(run{page: index, slot: slot, split: split}, bits) != id {
					t.Fatalf("machine ID %d of %d bits is at %d:%d of units split in %d", id, l.BitID, index, slot, 1<<split)
				}
				seen[[2]int{index, slot}] = true
			}
		}
	}
}

func FuzzPage(f *testing.F) {
	f.Add(int64(1), strings.Repeat("\x00", 8*timeBytes), "", "")
	f.Add(int64(7), strings.Repeat("\x00\x00\x00\x00\x03\xe8", 8), strings.Repeat("\x00", leaseBytes), "ids")
	f.Fuzz(func(_ *testing.T, rev int64, notBefore, leases, services string) {
		p, err := pageOf(small, pageKey, docstore.Doc{
			fRev: docstore.Int(rev), fNotBefore: docstore.Bytes(notBefore), fLeases: docstore.Bytes(leases),
			fServices: docstore.String(services),
		})
		if err != nil {
			return
		}
		for bits := range 3 {
			picked, _ := choose(small, map[int]page{0: p}, need{size: bits, want: 1, large: 2}, 1000, func(int) int { return 0 })
			for _, r := range picked {
				p.grant([]run{r}, []secret{{}}, bits, "ids", 1000, 2000).write(pageKey)
			}
		}
	})
}

// alike is what an acquire needs where all leases have one size.
func alike(size, want int) need { return need{size: size, want: want, small: size, large: size} }

// TestBestFit: whatever number of leases a page grants, it keeps as many free blocks of each larger size as it can:
// blocks are begun only when there is no smaller gap left.
func TestBestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPage.Draw(t, "page")
		p = p.fit(-rapid.IntRange(0, 2).Draw(t, "parts"))
		now := rapid.Int64Range(990, 1010).Draw(t, "now")
		bits, large := rapid.IntRange(0, 2).Draw(t, "bits"), rapid.IntRange(0, 3).Draw(t, "large")
		large = max(bits, large)
		free, _ := p.runs(0, bits-p.split, large-p.split, now)
		whole := func(bits int) (n int) {
			for at := 0; at < len(p.notBefore); at += 1 << bits {
				if slices.Max(p.notBefore[at:at+1<<bits]) <= now {
					n++
				}
			}
			return n
		}
		if len(free) != whole(bits) {
			t.Fatalf("%d runs, and %d are free", len(free), whole(bits))
		}
		before := make([]int, large+1)
		for level := range before {
			before[level] = whole(level)
		}
		for n, r := range free {
			if now < slices.Max(p.notBefore[r.slot:r.slot+1<<bits]) || r.slot&(1<<bits-1) != 0 {
				t.Fatalf("the run at %d is not free and aligned", r.slot)
			}
			for slot := r.slot; slot < r.slot+1<<bits; slot++ {
				p.notBefore[slot] = now + 1
			}
			for level := bits; level <= large; level++ {
				each := 1 << (level - bits) // leases in a block
				outside := before[bits] - before[level]*each
				want := before[level] - (max(0, n+1-outside)+each-1)/each
				if got := whole(level); got != want {
					t.Fatalf("after %d leases %d blocks of %d slots are free, and %d could be", n+1, got, 1<<level, want)
				}
			}
		}
	})
}

// TestRegions: sizes begin at different ends of a space, and every page has a rank.
func TestRegions(t *testing.T) {
	for _, c := range []struct {
		pages, size, small, large int
		want                      string
	}{
		{64, 0, 0, 0, "[{0 64}]"}, {64, 0, 0, 4, "[{0 32} {32 48}]"}, {64, 3, 0, 4, "[{0 32} {32 48}]"},
		{64, 4, 0, 4, "[{32 64} {16 32}]"},
		{1, 0, 0, 4, "[{0 1}]"}, {2, 0, 0, 4, "[{0 1}]"}, {2, 4, 0, 4, "[{1 2}]"}, {4, 0, -2, 4, "[{0 2} {2 3}]"},
	} {
		got := geometry{pages: c.pages}.regions(need{size: c.size, small: c.small, large: c.large})
		if fmt.Sprint(got) != c.want {
			t.Errorf("%d pages, size %d of %d to %d: %v, want %s", c.pages, c.size, c.small, c.large, got, c.want)
		}
		for page := range c.pages {
			if r := rank(got, page); r < 0 || r > len(got) {
				t.Errorf("page %d has the rank %d", page, r)
			}
		}
	}
}
