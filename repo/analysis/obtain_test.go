package analysis

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// asksOnce holds the acquire of one that asks once against any document, at a time at which most locks have ended: of
// whatever a document says, whichever program wrote it, a stale analysis is acquired, and one that has ended says so.
// It returns what the document is.
func asksOnce(c command, found docstore.Doc, w rule.When) (is string, err error) {
	s, err := ID("a1").State(found)
	if err != nil || s.Token == docstore.MaxInt || s.Runs == docstore.MaxInt {
		return "damaged", nil //nolint:nilerr // that is what it is
	}
	_, to, plain := judge(found[fExpiresAt])
	after, o, err := rule.Step(c, found, w)
	switch {
	case err != nil:
		return "", fmt.Errorf("%v: %w", found, err)
	case !s.Exists:
		return "missing", nil
	case s.Status.Finished():
		if o.Code != AlreadyFinished || o.Grant.Status != s.Status {
			return "", fmt.Errorf("%v is %s, and one that asks gets %+v", found, s.Status, o)
		}
		return "finished", nil
	case s.Owner != "" && (!plain || w.At.Before(to)):
		return "locked", nil
	case o.Code != OK || o.Replayed || s.Token > 0 && o.Grant.Token != s.Token+1:
		return "", fmt.Errorf("%v is stale, and one that asks once gets %+v", found, o)
	}
	other := Acquire{ID: "a1", Owner: "another", RequestID: "another", TTLSeconds: 60}
	if _, o, err := rule.Step(other, after, w); err != nil || o.Code != Locked || o.Grant.Owner != "eve" {
		return "", fmt.Errorf("%v was acquired, and another gets %+v: %w", found, o, err)
	}
	if s.Owner != "" {
		return "stale", nil
	}
	return "free", nil
}

// byEve is an acquire that no document remembers.
var byEve = Acquire{ID: "a1", Owner: "eve", RequestID: "once", TTLSeconds: 60, MaxTakeovers: docstore.MaxInt}

// twoDays is when every time of these tests has passed that is not far in the future, wherever it is meant.
var twoDays = epoch.Add(48 * time.Hour)

// TestWhatIsStaleIsAcquired (BE-041-RULE-3): by one that asks once, whatever other programs wrote into its document.
func TestWhatIsStaleIsAcquired(t *testing.T) {
	met := map[string]int{}
	for seed := range cases / 10 {
		w := rule.When{At: twoDays, Margin: time.Duration(seed%2) * time.Second}
		is, err := asksOnce(byEve, genDoc.Example(seed), w)
		if err != nil {
			t.Fatalf("%.2000s", err)
		}
		met[is]++
	}
	for _, is := range []string{"missing", "finished", "locked", "stale", "free"} {
		if met[is] < 25 {
			t.Errorf("%d documents are %s: %v", met[is], is, met)
		}
	}
	for _, expiry := range append([]docstore.Value{nil}, times...) { // each spelling, at its very end
		d := docstore.Doc{fOwner: docstore.String("ann"), fToken: docstore.Int(1), fRuns: docstore.Int(1)}
		if expiry != nil {
			d[fExpiresAt] = expiry
		}
		_, to, plain := judge(expiry)
		if !plain || to.Year() > 9000 { // the last year has no room for another lease
			continue
		}
		if to.Before(epoch) {
			to = epoch
		}
		if is, err := asksOnce(byEve, d, rule.When{At: to}); err != nil || is != "stale" {
			t.Errorf("%.100v: %s, %v", expiry, is, err)
		}
	}
}
