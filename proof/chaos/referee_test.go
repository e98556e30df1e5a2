package chaos_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/proof/chaos"
)

// at is a time some seconds after the beginning.
func at(seconds int) time.Time { return time.Date(2026, 1, 1, 0, 0, seconds, 0, time.UTC) }

func granted(token int64, from, until int) chaos.Event {
	return chaos.Event{Kind: chaos.Granted, Subject: "a1", Token: token, At: at(from), Until: at(until)}
}

// lasting is a grant that lasts until the next.
func lasting(token int64, from int) chaos.Event {
	return chaos.Event{Kind: chaos.Granted, Subject: "a1", Token: token, At: at(from)}
}

func event(k chaos.EventKind, token int64, seconds int) chaos.Event {
	return chaos.Event{Kind: k, Subject: "a1", Token: token, At: at(seconds), Until: at(seconds + 10)}
}

func over(token int64, at time.Time) chaos.Event {
	return chaos.Event{Kind: chaos.Over, Subject: "a1", Token: token, At: at}
}

func finished(token int64, seconds int) chaos.Event {
	return chaos.Event{Kind: chaos.Finished, Subject: "a1", Token: token, At: at(seconds)}
}

// TestReferee: what may happen, and what each thing that must not is called.
func TestReferee(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []chaos.Event
		want   string // in the error; empty: none
	}{
		{"a run that ends", []chaos.Event{
			granted(1, 0, 10), event(chaos.Begun, 1, 0), event(chaos.Extended, 1, 5), event(chaos.Looked, 1, 14),
			event(chaos.Over, 1, 14), finished(1, 14),
		}, ""},
		{"a takeover after a death", []chaos.Event{
			granted(1, 0, 10), event(chaos.Begun, 1, 0), event(chaos.Looked, 1, 9), granted(2, 10, 20),
			event(chaos.Begun, 2, 10), event(chaos.Over, 2, 12),
			finished(2, 12),
		}, ""},
		{"a run that is released before it expires", []chaos.Event{
			granted(1, 0, 10), event(chaos.Begun, 1, 0), event(chaos.Over, 1, 4), granted(2, 4, 14),
		}, ""},
		{"a release and a grant within a millisecond", []chaos.Event{
			granted(1, 0, 10), event(chaos.Begun, 1, 0), over(1, at(4).Add(97*time.Microsecond)), granted(2, 4, 14),
		}, ""},
		{"a body a millisecond too long", []chaos.Event{
			granted(1, 0, 10), event(chaos.Begun, 1, 0), over(1, at(4).Add(time.Millisecond)), granted(2, 4, 14),
		}, "tokens 1 and 2, one of which excludes others"},
		{"a report that comes late", []chaos.Event{granted(2, 10, 20), granted(1, 0, 10), event(chaos.Begun, 1, 0)}, ""},
		{"two at once", []chaos.Event{granted(1, 0, 10), event(chaos.Begun, 1, 0), granted(2, 9, 19)},
			"tokens 1 and 2, one of which excludes others"},
		{"two at once, one of which ends at once", []chaos.Event{granted(1, 0, 10), event(chaos.Begun, 1, 0),
			granted(2, 9, 19), event(chaos.Begun, 2, 9), over(2, at(9))}, "tokens 1 and 2, one of which excludes others"},
		{"two at once after a heartbeat", []chaos.Event{
			granted(1, 0, 10), event(chaos.Begun, 1, 0), event(chaos.Extended, 1, 9), granted(2, 12, 22),
		}, "tokens 1 and 2, one of which excludes others"},
		{"one token, two bodies", []chaos.Event{granted(1, 0, 10), event(chaos.Begun, 1, 0), event(chaos.Begun, 1, 1)},
			"2 bodies ran under it"},
		{"one token, two grants", []chaos.Event{granted(1, 0, 10), granted(1, 11, 21)}, "token 1 was granted 2 times"},
		{"a body without a grant", []chaos.Event{event(chaos.Begun, 1, 0)}, "token 1 was granted 0 times, and 1 bodies"},
		{"a run that believes too long", []chaos.Event{granted(1, 0, 10), event(chaos.Begun, 1, 0),
			event(chaos.Looked, 1, 11)}, "was told at"},
		{"two ends", []chaos.Event{granted(1, 0, 10), finished(1, 5), finished(1, 6)}, "finished 2 times"},
		{"a stale finish", []chaos.Event{granted(1, 0, 10), granted(2, 10, 20), finished(1, 12)},
			"Last:true"},
		{"a body of another", []chaos.Event{{Kind: chaos.Granted, Token: 1, Owner: "ann", At: at(0)},
			{Kind: chaos.Begun, Token: 1, Owner: "bob"}}, "a body of bob ran under token 1, which was granted to ann"},
		{"what lasts until the next", []chaos.Event{lasting(1, 0), event(chaos.Begun, 1, 0), event(chaos.Looked, 1, 100),
			event(chaos.Over, 1, 200), lasting(2, 100)}, ""},
		{"what lasts beyond the next", []chaos.Event{lasting(1, 0), event(chaos.Begun, 1, 0), event(chaos.Looked, 1, 101),
			lasting(2, 100)}, "tokens 1 and 2, one of which excludes others"},
		{"what lasts and begins again", []chaos.Event{lasting(1, 0), event(chaos.Begun, 1, 0), event(chaos.Over, 1, 1),
			event(chaos.Begun, 1, 2)}, ""},
		{"what lasts and begins twice", []chaos.Event{lasting(1, 0), event(chaos.Begun, 1, 0), event(chaos.Begun, 1, 2)},
			"2 bodies ran under it"},
		{"a run that begins again", []chaos.Event{granted(1, 0, 10), event(chaos.Begun, 1, 0), event(chaos.Over, 1, 1),
			event(chaos.Begun, 1, 2)}, "2 bodies ran under it"},
		{"what is lost unawares", []chaos.Event{{Kind: chaos.Granted, Subject: "a1", Token: 1, At: at(0), Prepares: true},
			event(chaos.Begun, 1, 0), event(chaos.Looked, 1, 101), lasting(2, 100)}, ""},
		{"what is lost after it was prepared", []chaos.Event{
			{Kind: chaos.Granted, Subject: "a1", Token: 1, At: at(0), Prepares: true}, event(chaos.Begun, 1, 0),
			event(chaos.Activated, 1, 50), event(chaos.Looked, 1, 101), lasting(2, 100),
		}, "tokens 1 and 2, one of which excludes others"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := chaos.NewReferee()
			for _, e := range c.events {
				r.Note(e)
			}
			err := r.Err()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestResource: a step passes unless a higher token was there before.
func TestResource(t *testing.T) {
	r := chaos.NewReferee()
	for i, c := range []struct {
		token int64
		want  bool
	}{{1, true}, {2, true}, {1, false}, {2, true}, {5, true}, {4, false}} {
		if got := r.Step(chaos.Event{Subject: "a1", Token: c.token, At: at(i)}); got != c.want {
			t.Errorf("step %d under token %d: %v", i, c.token, got)
		}
	}
	if !r.Step(chaos.Event{Subject: "a2", Token: 1, At: at(0)}) {
		t.Error("another analysis has tokens of its own")
	}
}
