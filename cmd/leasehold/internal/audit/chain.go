package audit

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// Chain says which of the events that were read are whole, about whatever they are: an event shows by what it has of
// the one before it that that one is as it was written.
type Chain struct {
	Whole     bool      `json:"whole"`               // nothing is known to be missing, changed or added
	Streams   int       `json:"streams"`             // which processes wrote, each file of one by itself
	Events    int       `json:"events"`              // in them, each once
	Unchained int       `json:"unchained,omitempty"` // events that are in no stream, and may have been added
	Unended   int       `json:"unended,omitempty"`   // streams without an end, of which later events may be missing
	Stretches []Stretch `json:"stretches"`           // the first mostStretches
	LeftOff   int       `json:"left_off,omitempty"`  // how many more stretches there are
}

// mostStretches is how many stretches an answer has.
const mostStretches = 1000

// Stretch is events of one stream, in one piece and as they were written.
type Stretch struct {
	Stream string         `json:"stream"`
	First  int64          `json:"first"` // number in the stream
	Last   int64          `json:"last"`
	From   contracts.Time `json:"from"`
	To     contracts.Time `json:"to"`
	Begins bool           `json:"begins,omitempty"` // it has the first event of the stream
	Ends   bool           `json:"ends,omitempty"`   // it has the last
	Before string         `json:"before,omitempty"` // what lies between it and the stretch before
	After  string         `json:"after,omitempty"`  // what lies behind the last stretch of a stream and is not whole
}

// link is an event in the chain. So much is kept of each that is read.
type link struct {
	stream   int
	number   int64
	at       int64 // Unix ms
	hash     digest
	previous digest
	end      bool
}

// digest is the first half of a hash; zero of none.
type digest [16]byte

func digestOf(text string) (d digest) {
	if full, err := hex.DecodeString(text); err == nil {
		copy(d[:], full)
	}
	return d
}

// actionEnd is the action of the last event of a stream.
const actionEnd = "audit.end"

// slack is how much later than its effect an event is written, in ms: no request takes longer.
const slack = 60_000

// links are the events of streams.
type links struct {
	of        []link
	streams   map[string]int
	names     []string
	unchained int
	judged    *judgement // of all of them; nil if there are more by now
}

// decode reads an event, and reports whether its hash covers all of it: if not, a later version wrote it, or someone
// added members.
func decode(text []byte, e *contracts.AuditEvent) (covered bool, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err = d.Decode(e); err == nil {
		return true, nil
	}
	*e = contracts.AuditEvent{}
	return false, json.Unmarshal(text, e)
}

// add keeps the place of an event in its chain, and returns it; zero if it is in none.
func (l *links) add(e *contracts.AuditEvent, covered bool) link {
	l.judged = nil
	if e.Stream == "" || e.Number < 1 {
		l.unchained++
		return link{}
	}
	if l.streams == nil {
		l.streams = map[string]int{}
	}
	n, ok := l.streams[e.Stream]
	if !ok {
		l.names = append(l.names, e.Stream)
		n = len(l.names) // from 1
		l.streams[e.Stream] = n
	}
	one := link{
		stream: n, number: e.Number, at: when(e.At).UnixMilli(), previous: digestOf(e.Previous),
		end: e.Action == actionEnd,
	}
	if covered {
		one.hash = digestOf(e.Hash())
	}
	l.of = append(l.of, one)
	return one
}

// judgement is what the chains of all streams show.
type judgement struct {
	chain Chain
	holes []hole        // in their order, and apart
	false map[link]bool // events that are not as they were written
}

// hole is a time of which events may be missing, in Unix ms.
type hole struct{ from, to int64 }

// always is before and after all times.
var always = hole{math.MinInt64, math.MaxInt64}

// judge says what the chains show.
func (l *links) judge() *judgement {
	if l.judged != nil {
		return l.judged
	}
	j := &judgement{false: map[link]bool{}}
	j.chain = Chain{
		Whole: len(l.names) > 0 && l.unchained == 0, Streams: len(l.names), Unchained: l.unchained,
		Stretches: []Stretch{},
	}
	slices.SortFunc(l.of, func(a, b link) int {
		return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.number, b.number),
			bytes.Compare(a.hash[:], b.hash[:]), bytes.Compare(a.previous[:], b.previous[:]), cmp.Compare(a.at, b.at))
	})
	l.of = slices.Compact(l.of)
	for rest := l.of; len(rest) > 0; {
		of := rest[0].stream
		end := slices.IndexFunc(rest, func(k link) bool { return k.stream != of })
		if end < 0 {
			end = len(rest)
		}
		j.stream(l.names[of-1], rest[:end])
		rest = rest[end:]
	}
	slices.SortFunc(j.holes, func(a, b hole) int { return cmp.Compare(a.from, b.from) })
	apart := j.holes[:0]
	for _, h := range j.holes {
		if n := len(apart); n > 0 && h.from <= apart[n-1].to {
			apart[n-1].to = max(apart[n-1].to, h.to)
			continue
		}
		apart = append(apart, h)
	}
	j.holes, l.judged = apart, j
	return j
}

// numbered are the events of a stream that have one number: one, unless it was written by more than the server.
type numbered struct {
	link

	good      bool // the event after it says that it is as it was written, or there is none after it
	added     bool // there are others
	unvouched bool // there is none after it
}

// vouch finds the events of a stream, which are in order, for which the one after them vouches; the others are false.
func (j *judgement) vouch(of []link) []numbered {
	var found []numbered // the last first
	for rest := of; len(rest) > 0; {
		begin := len(rest) - 1
		for begin > 0 && rest[begin-1].number == rest[begin].number {
			begin--
		}
		var same []link
		rest, same = rest[:begin], rest[begin:]
		one := numbered{link: same[0], added: len(same) > 1, unvouched: true}
		one.good = !one.added && one.hash != digest{}
		if n := len(found); n > 0 && found[n-1].number == one.number+1 {
			one.unvouched = false
			i := slices.IndexFunc(same, func(l link) bool { return l.hash == found[n-1].previous && l.hash != digest{} })
			one.link, one.good = same[max(0, i)], i >= 0
			if last := &found[n-1]; !one.good && last.unvouched { // either may be the wrong one
				last.good, j.false[last.link] = false, true
			}
		}
		if one.number == 1 && one.previous != (digest{}) {
			one.good = false
		}
		for _, l := range same {
			if !one.good || l != one.link {
				j.false[l] = true
			}
		}
		found = append(found, one)
	}
	slices.Reverse(found)
	return found
}

// What lies between the stretches of a stream.
const (
	missing  = "missing"
	changed  = "not as written"
	added    = "added"
	afterEnd = "behind the end of the stream"
)

// between is numbers that are in no stretch.
type between struct {
	what        string
	first, last int64
}

// stream adds what the chain of a stream shows.
func (j *judgement) stream(name string, of []link) {
	now := -1 // the stretch that goes on
	var gap []between
	note := func(what string, first, last int64) {
		j.chain.Whole, now = false, -1
		if n := len(gap); n > 0 && gap[n-1].what == what && gap[n-1].last == first-1 {
			gap[n-1].last = last
			return
		}
		gap = append(gap, between{what, first, last})
	}
	before := link{at: always.from} // the last one that is good
	next, ended := int64(1), false
	for _, one := range j.vouch(of) {
		if one.number > next && next > 1 {
			note(missing, next, one.number-1)
		}
		if next = one.number + 1; ended {
			j.false[one.link] = true
			note(afterEnd, one.number, one.number)
			continue
		}
		if !one.good {
			note(changed, one.number, one.number)
			continue
		}
		if now < 0 {
			if before.number == 0 && (one.number > 1 || len(gap) > 0) || lacks(gap) {
				j.holes = append(j.holes, hole{max(always.from+slack, before.at) - slack, one.at})
			}
			j.chain.Stretches = append(j.chain.Stretches, Stretch{
				Stream: name, First: one.number, From: stamp(time.UnixMilli(one.at)), Begins: one.number == 1, Before: told(gap),
			})
			now, gap = len(j.chain.Stretches)-1, nil
		}
		j.chain.Events++
		s := &j.chain.Stretches[now]
		s.Last, s.To, s.Ends = one.number, stamp(time.UnixMilli(one.at)), one.end
		before, ended = one.link, one.end
		if one.added {
			note(added, one.number, one.number)
		}
	}
	if !ended {
		j.chain.Unended++
	}
	if len(gap) == 0 {
		return
	}
	if lacks(gap) {
		j.holes = append(j.holes, hole{max(always.from+slack, before.at) - slack, always.to})
	}
	if before.number == 0 { // nothing of it is whole
		j.chain.Stretches = append(j.chain.Stretches, Stretch{Stream: name})
	}
	j.chain.Stretches[len(j.chain.Stretches)-1].After = told(gap)
}

// lacks reports whether an event may have been where something else is, or nothing.
func lacks(gap []between) bool {
	return slices.ContainsFunc(gap, func(b between) bool { return b.what == missing || b.what == changed })
}

// told is what lies between two stretches, in words.
func told(gap []between) string {
	const most = 5
	var parts []string
	for _, b := range gap[:min(len(gap), most)] {
		numbers := fmt.Sprintf("%d to %d are ", b.first, b.last)
		if b.first == b.last {
			numbers = fmt.Sprintf("%d is ", b.first)
		}
		switch b.what {
		case added:
			parts = append(parts, fmt.Sprintf("another event with the number %d was added", b.first))
		default:
			parts = append(parts, numbers+b.what)
		}
	}
	if len(gap) > most {
		parts = append(parts, "and more")
	}
	return strings.Join(parts, ", ")
}

// doubt reports whether events may be missing that took effect after one time and before another; zero is before all.
func (j *judgement) doubt(after, before time.Time) bool {
	from := always.from
	if !after.IsZero() {
		from = after.UnixMilli()
	}
	i, _ := slices.BinarySearchFunc(j.holes, from, func(h hole, t int64) int {
		if h.to > t {
			return 1
		}
		return -1
	})
	return i < len(j.holes) && j.holes[i].from < before.UnixMilli()
}
