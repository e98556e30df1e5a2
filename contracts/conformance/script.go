// Package conformance has scripts that every client library of Leasehold is held to, in whatever language, and plays
// the server's part in them.
//
// A script is a JSON file: what the program does with the client, what the client must send, what is answered or goes
// wrong on the way, how time passes, and what the program then must see.
//
//	the program with the client            the player
//	  call: acquire         ────────▶       request: it must be this one
//	  pass: 10 s            ◀────────       answer, or a fault
//	  lost, result          ────────▶       outcome
//
// README.md says how to run them from another language; `go run ./contracts/conformance/player` serves them over HTTP.
// In Go, a [Run] is used without a network.
package conformance

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Start is the time on the wall clock at which every script begins.
var Start = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// Script is one script.
type Script struct {
	Schema string `json:"$schema,omitempty"`
	Name   string `json:"name,omitempty"` // that of its file, without ".json"
	Area   Area   `json:"area"`           // which client it is for
	Proves string `json:"proves"`         // what a client that passes does, in a sentence
	Client Client `json:"client"`         // how it is set up
	Steps  []Step `json:"steps"`          // in their order
}

// Area is which client a script is for.
type Area string

// The areas.
const (
	Locks Area = "locks" // leases of locks
	Once  Area = "once"  // runs that take effect once
	IDs   Area = "ids"   // leases of machine IDs, and the IDs that are made with them

	Elections Area = "elections" // leaders, on locks
	Events    Area = "events"    // the events of a cluster of placement, followed from place to place

	OfMiddleware Area = "middleware" // HTTP requests with an Idempotency-Key, on runs
)

// Client is how the client under test is set up.
type Client struct {
	Tenant     string `json:"tenant,omitempty"`
	Owner      string `json:"owner,omitempty"`
	TTLSeconds int64  `json:"ttl_seconds,omitempty"` // unless a call says another; 0 is the client's default
	Token      string `json:"token,omitempty"`       // a bearer token
	Refused    bool   `json:"refused,omitempty"`     // nothing listens at its base URL

	Middleware *Middleware `json:"middleware,omitempty"` // of that area: what is in front of the handler
}

// Middleware is how a middleware for requests with an Idempotency-Key is set up. Its scope is the value of the header
// X-Account of the request, "ann" without one. What is left out is the library's default.
type Middleware struct {
	Name     string   `json:"name"`
	Required bool     `json:"required,omitempty"`
	Store    Policy   `json:"store,omitempty"`
	Wait     *float64 `json:"wait,omitempty"` // seconds
	MaxBody  int64    `json:"max_body,omitempty"`
}

// Policy says which responses a middleware stores.
type Policy string

// The policies.
const (
	StoreOutcome Policy = "outcome" // whatever came of a handler that began; the default
	StoreSuccess Policy = "success" // what would be the same next time
)

// HTTP is a request that a framework hands to the handler behind a middleware, at http://pay.example.
type HTTP struct {
	Method  string      `json:"method"`
	Path    string      `json:"path"`
	Headers [][2]string `json:"headers,omitempty"` // a name may be there twice
	Body    string      `json:"body,omitempty"`
}

// Response is what a handler behind a middleware responds.
type Response struct {
	Status      int         `json:"status"`
	Headers     [][2]string `json:"headers,omitempty"`
	Body        string      `json:"body,omitempty"`
	Times       int         `json:"times,omitempty"`        // the body is so many of them; 0 is 1
	NothingDone bool        `json:"nothing_done,omitempty"` // it has said before that it did nothing
}

// Step is one step. Exactly one member says which kind it is: that of its [Kind].
type Step struct {
	Note string `json:"note,omitempty"` // for readers

	// Of the program.
	Call   string  `json:"call,omitempty"`   // an operation begins
	Cancel string  `json:"cancel,omitempty"` // the caller gives up a call
	Began  string  `json:"began,omitempty"`  // the work of a call has begun
	Return string  `json:"return,omitempty"` // the work of a call returns
	Result string  `json:"result,omitempty"` // a call has ended
	Held   string  `json:"held,omitempty"`   // a lock, or a run, is not lost
	Lost   string  `json:"lost,omitempty"`   // it is, and its holder has been told
	Pass   float64 `json:"pass,omitempty"`   // so many seconds pass, without a request
	Freeze float64 `json:"freeze,omitempty"` // the process does not run for so many seconds
	Set    float64 `json:"set,omitempty"`    // the wall clock is set, by so many seconds

	// Of the player.
	Request string `json:"request,omitempty"` // method and path
	Deliver string `json:"deliver,omitempty"` // an answer that was held arrives
	Stop    string `json:"stop,omitempty"`    // requests of a Repeat are no longer expected

	// What belongs to Call.
	As      string          `json:"as,omitempty"`      // its name, and that of what it obtains
	Key     string          `json:"key,omitempty"`     // of the lock, the ID of the run, or the cluster
	Keys    []string        `json:"keys,omitempty"`    // of several locks
	Of      string          `json:"of,omitempty"`      // what was obtained by an earlier call
	Count   int             `json:"count,omitempty"`   // of IDs, events or leaders; 0 is 1
	Options json.RawMessage `json:"options,omitempty"` // see [Options]
	HTTP    *HTTP           `json:"http,omitempty"`    // of handle

	// What belongs to Request.
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"`
	Answer  *Answer           `json:"answer,omitempty"`
	Fault   Fault             `json:"fault,omitempty"`
	Hold    string            `json:"hold,omitempty"` // the answer waits for the step Deliver of this name
	// from here to the step Stop of this name, any number of such requests may come
	Repeat string `json:"repeat,omitempty"`

	// What belongs to Return, Result and Lost.
	Value json.RawMessage `json:"value,omitempty"`
	Error json.RawMessage `json:"error,omitempty"`
	Code  string          `json:"code,omitempty"`

	// seconds that may pass until the request, the result, the beginning or the loss
	Within float64 `json:"within,omitempty"`
	// the same as a time: seconds after the script's start. Without both it is at once
	Before float64 `json:"before,omitempty"`
	// of Freeze: "both" go on, which is the default, or only the "wall" clock does
	Clocks string `json:"clocks,omitempty"`
}

// Options are those of a call. Times are in seconds.
type Options struct {
	TTL       int64             `json:"ttl,omitempty"`
	Wait      *float64          `json:"wait,omitempty"` // at most; 0 does not wait; left out, until the call is cancelled
	Shared    bool              `json:"shared,omitempty"`
	Permits   int               `json:"permits,omitempty"`
	Fair      bool              `json:"fair,omitempty"`
	Waiting   int               `json:"max_waiting,omitempty"`
	Replace   bool              `json:"replace,omitempty"`
	LockDelay int64             `json:"lock_delay,omitempty"`
	MaxHold   float64           `json:"max_hold,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`

	Limit  int   `json:"limit,omitempty"`  // of a rate
	Window int64 `json:"window,omitempty"` // of a rate

	Heartbeat   float64 `json:"heartbeat,omitempty"` // of a run
	MaxFailures int64   `json:"max_failures,omitempty"`
	Takeovers   *int64  `json:"max_takeovers,omitempty"`
	Fingerprint string  `json:"fingerprint,omitempty"`

	Service     string `json:"service,omitempty"` // of a generator
	Throughput  int64  `json:"throughput_per_ms,omitempty"`
	NoFallback  bool   `json:"no_fallback,omitempty"`
	MaxBackward *int64 `json:"max_backward_ms,omitempty"`

	After  string `json:"after,omitempty"`  // a place in the events
	Member string `json:"member,omitempty"` // only the events that this member needs
}

// Answer is a response. Exactly one of Text, JSON and Like is its body.
type Answer struct {
	Status  int               `json:"status,omitempty"` // 0 is that of Like, or 200
	Headers map[string]string `json:"headers,omitempty"`
	Text    *string           `json:"text,omitempty"`
	JSON    json.RawMessage   `json:"json,omitempty"`

	// a body of the contract that fits the request: see templates.go
	Like string                     `json:"like,omitempty"`
	With map[string]json.RawMessage `json:"with,omitempty"` // its members that are not as usual; null leaves one out
}

// Fault is what goes wrong on the way. The client cannot tell whether the request was carried out.
type Fault string

// The faults.
const (
	RequestLost Fault = "request_lost" // the connection ends without an answer
	AnswerLost  Fault = "answer_lost"  // the connection ends in the middle of the answer
	Hang        Fault = "hang"         // no answer comes: it is for the client to give up
)

// Kind is which kind of step it is: the name of its member.
func (s *Step) Kind() string {
	for _, k := range s.kinds() {
		if k.set {
			return k.name
		}
	}
	return ""
}

type kind struct {
	name string
	set  bool
	has  []string // which other members it may have
}

func (s *Step) kinds() []kind {
	return []kind{
		{"call", s.Call != "", []string{"as", "key", "keys", "of", "count", "options", "http"}},
		{"cancel", s.Cancel != "", nil},
		{"began", s.Began != "", []string{"value", "within", "before"}},
		{"return", s.Return != "", []string{"value", "error"}},
		{"result", s.Result != "", []string{"value", "error", "within", "before"}},
		{"held", s.Held != "", nil},
		{"lost", s.Lost != "", []string{"code", "within", "before"}},
		{"pass", s.Pass != 0, nil},
		{"freeze", s.Freeze != 0, []string{"clocks"}},
		{"set", s.Set != 0, nil},
		{"request", s.Request != "", []string{"headers", "body", "answer", "fault", "hold", "repeat", "within", "before"}},
		{"deliver", s.Deliver != "", nil},
		{"stop", s.Stop != "", nil},
	}
}

//go:embed scripts/*.json
var files embed.FS

// Schema is the JSON schema of a script.
//
//go:embed schema.json
var Schema []byte

// Scripts are all scripts, by their names.
func Scripts() ([]*Script, error) {
	entries, err := files.ReadDir("scripts")
	if err != nil {
		return nil, err
	}
	all := make([]*Script, 0, len(entries))
	for _, e := range entries {
		text, err := files.ReadFile("scripts/" + e.Name())
		if err != nil {
			return nil, err
		}
		s, err := Parse(strings.TrimSuffix(e.Name(), ".json"), text)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Parse reads a script, and says what is wrong with it.
func Parse(name string, text []byte) (*Script, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	s := &Script{}
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("script %s: %w", name, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("script %s: something follows the script", name)
	}
	s.Name = name
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("script %s: %w", name, err)
	}
	return s, nil
}

// check says what is wrong with a script.
func (s *Script) check() error {
	if !slices.Contains([]Area{Locks, Once, IDs, Elections, Events, OfMiddleware}, s.Area) {
		return fmt.Errorf("area is %q", s.Area)
	}
	if (s.Area == OfMiddleware) != (s.Client.Middleware != nil) {
		return errors.New("client.middleware: it is of the area middleware, which needs it")
	}
	if s.Proves == "" || len(s.Steps) == 0 {
		return errors.New("proves and steps are required")
	}
	names, held := map[string]bool{}, map[string]bool{}
	for i := range s.Steps {
		step := &s.Steps[i]
		if err := step.check(names, held); err != nil {
			return fmt.Errorf("steps[%d]: %w", i, err)
		}
		if s.Client.Refused && step.Request != "" {
			return fmt.Errorf("steps[%d]: no request arrives where nothing listens", i)
		}
	}
	for name := range held {
		if rest, ok := strings.CutPrefix(name, repeated); ok {
			return fmt.Errorf("the requests %q are never stopped", rest)
		}
	}
	for name, open := range names {
		if open {
			return fmt.Errorf("the call %q has no result", name)
		}
	}
	return nil
}

// check says what is wrong with a step. names are the calls so far, and whether their results are open; held the
// answers that are held.
func (s *Step) check(names, held map[string]bool) error {
	if err := s.shape(); err != nil {
		return err
	}
	known := func(name string) error {
		if _, ok := names[name]; !ok {
			return fmt.Errorf("there is no call %q before", name)
		}
		return nil
	}
	switch s.Kind() {
	case "call":
		if _, ok := names[s.As]; ok || s.As == "" {
			return fmt.Errorf("as is %q: must be a new name", s.As)
		}
		names[s.As] = true
		if (s.Call == "handle") != (s.HTTP != nil) {
			return errors.New("http is the request of handle")
		}
		if s.Of != "" {
			return known(s.Of)
		}
		if _, err := s.CallOptions(); err != nil {
			return err
		}
	case "result":
		if !names[s.Result] {
			return fmt.Errorf("there is no call %q that has not ended", s.Result)
		}
		names[s.Result] = false
	case "request":
		if s.Hold != "" {
			held[s.Hold] = true
		}
		if s.Repeat != "" {
			held[repeated+s.Repeat] = true
			if s.Hold != "" || s.Within != 0 || s.Before != 0 {
				return errors.New("requests that repeat are not held, and have no time")
			}
		}
		if (s.Answer == nil) == (s.Fault == "") && s.Fault != AnswerLost {
			return errors.New("a request has an answer or a fault")
		}
	case "deliver":
		if !held[s.Deliver] {
			return fmt.Errorf("no answer %q is held", s.Deliver)
		}
		delete(held, s.Deliver)
	case "stop":
		if !held[repeated+s.Stop] {
			return fmt.Errorf("no requests %q are repeated", s.Stop)
		}
		delete(held, repeated+s.Stop)
	case "pass", "freeze", "set":
		if s.Pass < 0 || s.Freeze < 0 {
			return errors.New("time does not go back")
		}
	default:
		return known(s.Cancel + s.Began + s.Return + s.Held + s.Lost)
	}
	return nil
}

const repeated = "repeat "

// shape checks which members a step has.
func (s *Step) shape() error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	delete(members, "note")
	own := s.Kind()
	for _, k := range s.kinds() {
		if k.name != own {
			continue
		}
		delete(members, own)
		for _, m := range k.has {
			delete(members, m)
		}
		for m := range members {
			return fmt.Errorf("a step %q has no member %q", own, m)
		}
		return nil
	}
	return errors.New("it is of no kind")
}

// CallOptions are the options of a call.
func (s *Step) CallOptions() (o Options, err error) {
	if s.Options == nil {
		return o, nil
	}
	d := json.NewDecoder(bytes.NewReader(s.Options))
	d.DisallowUnknownFields()
	err = d.Decode(&o)
	return o, err
}
