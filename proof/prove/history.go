package prove

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// Event is a line of a history.
type Event struct {
	AtMs  int64  `json:"at_ms"`
	What  string `json:"what"`            // sent, arrived, decided, client or world
	Who   string `json:"who"`             // the client
	Thing string `json:"thing,omitempty"` // the lock, the run or the space of machine IDs
	Text  string `json:"text"`

	message int  // the number of the message
	server  int  // that it goes to, or comes from
	back    bool // it is a response
	client  int
	lost    bool
	holds   bool // the client holds its lease after it
}

// String is the event as a line of text.
func (e Event) String() string { return fmt.Sprintf("%9s  %s", clock(e.AtMs), e.Text) }

// history is what happened, for people. A nil one records nothing.
type history struct{ events []Event }

// add records an event of a client, and which of the clients hold a lease then.
func (h *history) add(w *world, e Event) {
	e.AtMs = w.now
	if e.client >= 0 {
		e.Who, e.holds = owner(e.client), w.holds(&w.clients[e.client])
	}
	h.events = append(h.events, e)
}

// subject is what a request is about, in words.
func (q *request) subject(k kind) string {
	switch k {
	case ids:
		return "a machine ID"
	case aRun:
		return "run " + q.name
	default:
		return "lock " + q.name
	}
}

// words are what a request says.
func (q *request) words(k kind) string {
	text := opNames[q.op] + " " + q.subject(k) + " (" + q.id
	if q.op != acquire && q.op != giveUp && k != ids {
		text += ", token " + short(q.token)
	}
	return text + ")"
}

// short is a token for people: tokens begin at the time in microseconds.
func short(token int64) string {
	if first := epoch.UnixMicro(); token >= first {
		return "T+" + strconv.FormatInt(token-first, 10)
	}
	return strconv.FormatInt(token, 10)
}

// words are what an answer says.
func (a *answer) words(q *request, k kind) string {
	if e, ok := errors.AsType[*contracts.Error](a.err); ok {
		if e.Position > 0 {
			return fmt.Sprintf("%s, place %d in line", e.Code, e.Position)
		}
		return string(e.Code)
	}
	switch {
	case a.err != nil:
		if code, ok := errors.AsType[contracts.Code](a.err); ok {
			return string(code)
		}
		return a.err.Error()
	case k == ids && len(a.ids) > 0:
		l := a.ids[0]
		return fmt.Sprintf("machine ID %d, from %s to %s", l.ID, clock(l.Created-epoch.UnixMilli()),
			clock(l.Expired-epoch.UnixMilli()))
	case q.op == acquire && k == aRun && a.run.Code != analysis.OK:
		return string(a.run.Code)
	case q.op == acquire && k == aRun:
		return fmt.Sprintf("token %s until %s", short(a.run.Grant.Token), clock(ms(a.run.Grant.ExpiresAt)))
	case (q.op == acquire || q.op == renew) && a.lease.FencingToken > 0:
		return fmt.Sprintf("token %s until %s", short(a.lease.FencingToken), strings.TrimPrefix(a.lease.ExpiresAt,
			"2026-01-01T"))
	default:
		return "OK"
	}
}

func (h *history) sent(w *world, m *message, met fault) {
	if h == nil {
		return
	}
	who, verb := owner(m.who), "sends: "
	if m.back {
		who, verb = fmt.Sprintf("server %d", m.server+1), "answers "+owner(m.who)+": "
	}
	text := m.words(w.scene.keys[m.key])
	if m.back {
		text = m.answer.words(&m.request, w.scene.keys[m.key])
	}
	if text = who + " " + verb + text; faultNames[met] != "" {
		text += " [" + faultNames[met] + "]"
	}
	h.add(w, Event{What: "sent", Thing: m.name, Text: text, message: m.seq, server: m.server, back: m.back, client: m.who,
		lost: met == lostRequest || met == lostAnswer})
}

func (h *history) arrived(w *world, m *message) {
	if h == nil {
		return
	}
	k := w.scene.keys[m.key]
	text := fmt.Sprintf("server %d gets: %s", m.server+1, m.words(k))
	if m.back {
		text = fmt.Sprintf("%s receives: %s", owner(m.who), m.answer.words(&m.request, k))
	}
	h.add(w, Event{What: "arrived", Thing: m.name, Text: text, message: m.seq, server: m.server, back: m.back,
		client: m.who})
}

func (h *history) decided(w *world, m *message, a *answer) {
	if h == nil {
		return
	}
	k := w.scene.keys[m.key]
	text := fmt.Sprintf("the store decides for %s: %s: %s", owner(m.who), m.words(k), a.words(&m.request, k))
	if faultNames[m.fault] != "" {
		text += " [" + faultNames[m.fault] + "]"
	}
	h.add(w, Event{What: "decided", Thing: m.name, Text: text, message: m.seq, server: m.server, client: m.who})
}

func (h *history) acted(w *world, c *client, a act, key int) {
	if h == nil {
		return
	}
	thing := c.name
	if a == start {
		thing = w.nameOf(key)
	}
	h.add(w, Event{What: "client", Thing: thing, Text: owner(c.who) + " " + actNames[a] + ": " + thing, client: c.who})
}

func (h *history) note(w *world, c *client, text string) {
	if h == nil {
		return
	}
	h.add(w, Event{What: "client", Thing: c.name, Text: owner(c.who) + ": " + text, client: c.who})
}

func (h *history) world(w *world, text string) {
	if h == nil {
		return
	}
	h.add(w, Event{What: "world", Text: text, client: -1})
}

// Replay carries out the history of a seed once more, and returns what happened to the thing that it broke a promise
// about, or all of it if it broke none.
func Replay(seed uint64) ([]Event, *Violation) {
	var h history
	_, broken := one(seed, &h)
	if broken == nil {
		return h.events, nil
	}
	var about []Event
	for _, e := range h.events {
		if e.Thing == broken.Thing || e.Thing == "" {
			about = append(about, e)
		}
	}
	return about, broken
}

// lost records that a message does not arrive.
func (h *history) lost(w *world, m *message) { h.meets(w, m, "is lost, or late") }

// twice records that a message stays on its way when it arrives.
func (h *history) twice(w *world, m *message) { h.meets(w, m, "arrives now, and once more later") }

func (h *history) meets(w *world, m *message, what string) {
	if h == nil {
		return
	}
	text := "the request of "
	if m.back {
		text = "the response to "
	}
	h.add(w, Event{What: "client", Thing: m.name, Text: text + owner(m.who) + " " + what + ": " +
		m.words(w.scene.keys[m.key]), client: m.who})
}
