package rates_test

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rates"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// bucket is the rule in other words: a bucket of exact fractions of requests, which fills at the rate up to the burst.
// It keeps all that was taken, by time, because a take may be made at a time that has passed.
type bucket struct {
	rate, burst *big.Rat
	taken       []taken
}

type taken struct {
	at time.Time
	n  int64
}

func newBucket(rate int64) *bucket {
	return &bucket{rate: big.NewRat(rate, 1), burst: big.NewRat(2*rate, 1)}
}

// take takes n at a time.
func (b *bucket) take(n int64, at time.Time) {
	i := len(b.taken)
	for i > 0 && b.taken[i-1].at.After(at) {
		i--
	}
	b.taken = slices.Insert(b.taken, i, taken{at, n})
}

// level is what is there at a time, and the least that there ever was.
func (b *bucket) level(now time.Time) (level, least *big.Rat) {
	level, least = new(big.Rat).Set(b.burst), new(big.Rat).Set(b.burst)
	var at time.Time
	for _, t := range append(slices.Clone(b.taken), taken{now, 0}) {
		if !at.IsZero() {
			level.Add(level, new(big.Rat).Mul(b.rate, big.NewRat(t.at.Sub(at).Microseconds(), 1e6)))
		}
		if level.Cmp(b.burst) > 0 {
			level.Set(b.burst)
		}
		if level.Sub(level, big.NewRat(t.n, 1)); level.Cmp(least) < 0 {
			least.Set(level)
		}
		at = t.at
	}
	return level, least
}

// TestStepAgreesWithTheBucket (LIM-RATE-1): whatever is asked for and whatever is known of the document, each take
// leaves the bucket with no less than nothing; it gets what it wants if that is there, ten requests while half of the
// burst is left besides, and what there is otherwise.
func TestStepAgreesWithTheBucket(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.SampledFrom([]int64{1, 2, 3, 7, 10, 100, 300, 1000, 30_000}).Draw(t, "rate")
		b, now := newBucket(rate), time.UnixMilli(1_800_000_000_000)
		var doc docstore.Doc
		var known []rates.Outcome
		total := int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "takes") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int64{0, 0, 1, 3, 50, 400, 1000, 2500}).Draw(t, "later")) *
				time.Millisecond)
			c := rates.Take{Key: docstore.Key{Kind: rates.Kind, Tenant: "acme", ID: "tenant"}, Rate: float64(rate),
				Want: rapid.Int64Range(1, 3*rate).Draw(t, "want")}
			if len(known) > 0 && rapid.Bool().Draw(t, "knows") { // what it knew some takes ago, up to now
				o := known[rapid.IntRange(max(0, len(known)-4), len(known)-1).Draw(t, "since")]
				c.TAT, c.At = o.TAT, o.At
				if rapid.Bool().Draw(t, "knows the time") {
					c.At = now
				}
			}
			var o rates.Outcome
			var err error
			doc, o, err = rule.Step(c, doc, rule.When{At: now})
			if err != nil {
				t.Fatal(err)
			}
			known = append(known, o)
			from := o.TAT.Add(-time.Second * time.Duration(o.Granted) / time.Duration(rate))
			if from.After(now) {
				from = now
			}
			if o.Granted > 0 && now.Sub(from) > rates.Fresh+time.Millisecond {
				t.Fatalf("granted by what was known %v ago", now.Sub(from))
			}
			b.take(o.Granted, from)
			level, lowest := b.level(now)
			total += o.Granted
			// A take is rounded up to a microsecond. One by what was known takes less than there is now, not more.
			slack := new(big.Rat).Mul(b.rate, big.NewRat(int64(len(known)), 1e6))
			if lowest.Sign() < 0 {
				t.Fatalf("%d of %d were granted beyond what there was: %s", o.Granted, c.Want, lowest.FloatString(6))
			}
			before := new(big.Rat).Add(level, big.NewRat(o.Granted, 1))
			enough := before.Cmp(new(big.Rat).Add(big.NewRat(c.Want, 1), slack)) >= 0
			switch {
			case o.Granted > c.Want && o.Granted != min(rates.Least, rate):
				t.Fatalf("%d were granted, more than the %d that were wanted", o.Granted, c.Want)
			case c.At.IsZero() && o.Granted > c.Want && level.Cmp(big.NewRat(rate, 1)) < 0:
				t.Fatalf("more was granted than was wanted, and %s of %d is left", level.FloatString(3), 2*rate)
			case c.At.IsZero() && enough && o.Granted < c.Want:
				t.Fatalf("%d of %d were granted, and there were %s", o.Granted, c.Want, before.FloatString(3))
			case c.At.IsZero() && o.Granted == 0 && before.Cmp(new(big.Rat).Add(big.NewRat(1, 1), slack)) >= 0:
				t.Fatalf("refused, and there were %s", before.FloatString(3))
			case o.Granted == 0 && (o.Wait <= 0 || o.Wait > time.Second/time.Duration(rate)+time.Millisecond):
				t.Fatalf("refused until %v from now", o.Wait)
			}
		}
		if total == 0 {
			t.Fatal("nothing was ever granted")
		}
	})
}

// TestTakeOfWhatIsDamaged: a document that no take has made holds no one up.
func TestTakeOfWhatIsDamaged(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_800_000_000_000)
	c := rates.Take{Key: docstore.Key{Kind: rates.Kind, Tenant: "acme", ID: "tenant"}, Rate: 5, Want: 3}
	for name, found := range map[string]docstore.Doc{
		"text":    {"tat_us": docstore.String("soon")},
		"nothing": {},
	} {
		for _, at := range []time.Time{{}, now} {
			c.At = at
			after, o, err := rule.Step(c, found, rule.When{At: now})
			if want := now.Add(time.Second); err != nil || o.Granted != 5 || !o.TAT.Equal(want) ||
				after["tat_us"] != docstore.Int(want.UnixMicro()) {
				t.Errorf("%s: %+v %v %v", name, o, after, err)
			}
		}
	}
}

// TestTakeAfterAClockThatWasAhead: an arrival time that no take can have written by the time of the store counts as a
// burst that was taken at the first look. That is written down: the rate goes on from there, and is not exceeded.
func TestTakeAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_800_000_000_000)
	c := rates.Take{Key: docstore.Key{Kind: rates.Kind, Tenant: "acme", ID: "tenant"}, Rate: 5, Want: 3}
	for _, off := range []time.Duration{time.Second, time.Second + time.Millisecond, time.Minute, time.Hour, 24 * time.Hour} {
		for _, known := range []time.Time{{}, now} {
			d, took := docstore.Doc{"tat_us": docstore.Int(now.Add(2*time.Second + off).UnixMicro())}, int64(0)
			c.At = known
			for ms := 0; ms <= 10_000; ms += 100 {
				after, o, err := rule.Step(c, d, rule.When{At: now.Add(time.Duration(ms) * time.Millisecond)})
				if err != nil || o.Granted == 0 && (o.Wait <= 0 || o.Wait > 200*time.Millisecond+time.Second) {
					t.Fatalf("off by %v: %+v %v", off, o, err)
				}
				if took += o.Granted; took*1000 > int64(5*ms) {
					t.Fatalf("off by %v: %d were granted %d ms after the first look", off, took, ms)
				}
				d, c.At = after, time.Time{}
			}
			if took < 5*8 {
				t.Errorf("off by %v: only %d were granted in ten seconds", off, took)
			}
		}
	}
}

// TestTakeByAnOldTime: what a process knew before it was frozen is not what it takes by.
func TestTakeByAnOldTime(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_800_000_000_000)
	full := docstore.Doc{"tat_us": docstore.Int(now.Add(2 * time.Second).UnixMicro())}
	c := rates.Take{Key: docstore.Key{Kind: rates.Kind, Tenant: "acme", ID: "tenant"}, Rate: 5, Want: 3}
	for _, at := range []time.Time{now.Add(-time.Minute), now.Add(-time.Second), now} {
		c.At, c.TAT = at, at
		if _, o, err := rule.Step(c, full, rule.When{At: now}); err != nil || o.Granted != 0 ||
			o.Wait != 200*time.Millisecond {
			t.Errorf("%v ago: %+v %v", now.Sub(at), o, err)
		}
	}
	// A document of a minute ago says nothing, and is not moved from there: what is taken counts from now.
	gone := docstore.Doc{"tat_us": docstore.Int(now.Add(-time.Minute).UnixMicro())}
	c.At, c.TAT = now.Add(-time.Minute), now.Add(-time.Minute)
	if _, o, err := rule.Step(c, gone, rule.When{At: now}); err != nil || o.Granted != 5 ||
		!o.TAT.Equal(now.Add(time.Second)) {
		t.Errorf("%+v %v", o, err)
	}
}
