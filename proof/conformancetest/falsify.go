package conformancetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts/conformance"
)

// Falsify demands that each script can fail: if one of its steps says something else than what the client does, the run
// fails. A step of which that is not so proves nothing.
func Falsify(t *testing.T, area conformance.Area, open func(*testing.T, Env) Program) {
	t.Helper()
	all, err := conformance.Scripts()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, s := range all {
		if s.Area != area {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			for name, wrong := range falsified(t, s) {
				n++
				if Play(t, wrong, open, nil).Passed {
					t.Errorf("%s: the client passes all the same", name)
				}
			}
		})
	}
	t.Logf("%d falsified scripts", n)
}

// falsified are the scripts that differ from one in one thing, by what that is.
func falsified(t *testing.T, s *conformance.Script) map[string]*conformance.Script {
	t.Helper()
	all := map[string]*conformance.Script{}
	change := func(i int, what string, do func(*conformance.Step)) {
		other := *s
		other.Steps = slices.Clone(s.Steps)
		do(&other.Steps[i])
		all[fmt.Sprintf("steps[%d]: %s", i, what)] = &other
	}
	for i := range s.Steps {
		step := &s.Steps[i]
		switch step.Kind() {
		case "request":
			change(i, "another path", func(s *conformance.Step) { s.Request += "/x" })
			members(t, step.Body, func(name string, changed json.RawMessage) {
				change(i, "another "+name, func(s *conformance.Step) { s.Body = changed })
			})
			if step.Repeat == "" && step.Within == 0 && step.Before == 0 {
				change(i, "a request too many", func(s *conformance.Step) { *s = conformance.Step{Pass: 1e-9} })
			}
		case "result", "began":
			if step.Error == nil {
				change(i, "an error", func(s *conformance.Step) { s.Value, s.Error = nil, json.RawMessage(`{"class": "held"}`) })
			} else {
				change(i, "no error", func(s *conformance.Step) { s.Error = nil })
			}
			members(t, step.Value, func(name string, changed json.RawMessage) {
				change(i, "another "+name, func(s *conformance.Step) { s.Value = changed })
			})
			members(t, step.Error, func(name string, changed json.RawMessage) {
				change(i, "another "+name, func(s *conformance.Step) { s.Error = changed })
			})
		case "held":
			change(i, "lost", func(s *conformance.Step) { s.Held, s.Lost = "", s.Held })
		case "lost":
			held := *s
			held.Steps = slices.Insert(slices.Clone(s.Steps), i, conformance.Step{Pass: step.Within + step.Before + 1e-9})
			held.Steps[i+1] = conformance.Step{Held: step.Lost}
			all[fmt.Sprintf("steps[%d]: held", i)] = &held
			if step.Code != "" {
				change(i, "another code", func(s *conformance.Step) { s.Code = "LOCK_HELD" })
			}
		}
	}
	return all
}

// members calls do for each member of an object that is a pattern, with the object in which that member is another.
func members(t *testing.T, pattern json.RawMessage, do func(name string, changed json.RawMessage)) {
	t.Helper()
	if pattern == nil {
		return
	}
	var object map[string]any
	if err := json.Unmarshal(pattern, &object); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		p, isText := object[name].(string)
		if p == "$maybe" {
			continue
		}
		changed := maps.Clone(object)
		changed[name] = "$same:what there is not"
		if isText && !strings.HasPrefix(p, "$") {
			changed[name] = p + "-another"
		}
		if isText && strings.HasPrefix(p, "@") {
			changed[name] = "@-1"
		}
		text, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		do(name, text)
	}
}

// Faults are faulty clients: what a library could get wrong.
func Faults() map[string]func(*Env) {
	through := func(do func(next http.RoundTripper, q *http.Request) (*http.Response, error)) func(*Env) {
		return func(e *Env) {
			next := e.HTTP.Transport
			e.HTTP.Transport = transport(func(q *http.Request) (*http.Response, error) { return do(next, q) })
		}
	}
	var n atomic.Int64
	return map[string]func(*Env){
		"each try has another request_id": through(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
			return next.RoundTrip(edited(q, func(body map[string]any) {
				if _, ok := body["request_id"]; ok {
					body["request_id"] = fmt.Sprint("try-", n.Add(1))
				}
			}))
		}),
		"all commands have one request_id": through(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
			return next.RoundTrip(edited(q, func(body map[string]any) {
				if _, ok := body["request_id"]; ok {
					body["request_id"] = "always"
				}
			}))
		}),
		"each request is sent twice": through(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
			first := edited(q, nil)
			go func() {
				if w, err := next.RoundTrip(first); err == nil {
					_ = w.Body.Close()
				}
			}()
			return next.RoundTrip(edited(q, nil))
		}),
		"no credentials": through(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
			q = q.Clone(q.Context())
			q.Header.Del("Authorization")
			return next.RoundTrip(q)
		}),
		"redirects are followed": through(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
			w, err := next.RoundTrip(q)
			if err != nil || w.Header.Get("Location") == "" {
				return w, err
			}
			to, err := http.NewRequestWithContext(q.Context(), http.MethodGet, w.Header.Get("Location"), nil)
			if err != nil {
				return nil, err
			}
			to.Body = http.NoBody
			return next.RoundTrip(to)
		}),
		"any content type will do": through(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
			w, err := next.RoundTrip(q)
			if err == nil && w.StatusCode == http.StatusOK {
				w.Header.Set("Content-Type", "application/json")
			}
			return w, err
		}),
		"no one is asked to wait": through(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
			w, err := next.RoundTrip(q)
			if err == nil {
				w.Header.Del("Retry-After")
				text, _ := io.ReadAll(w.Body)
				for _, member := range []string{"retry_after_ms", "poll_after_ms"} {
					text = bytes.ReplaceAll(text, []byte(member), []byte("ignored"))
				}
				w.Body = io.NopCloser(bytes.NewReader(text))
			}
			return w, err
		}),
		"the clocks are not looked at": func(e *Env) { e.Clock = &Clock{start: time.Now()} },
	}
}

// transport is a function as an http.RoundTripper.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(q *http.Request) (*http.Response, error) { return t(q) }

// edited is a request with another body. It may be called again.
func edited(q *http.Request, edit func(map[string]any)) *http.Request {
	own := q.Clone(q.Context())
	if q.Body == nil {
		own.Body = http.NoBody
		return own
	}
	text, _ := io.ReadAll(q.Body)
	q.Body = io.NopCloser(bytes.NewReader(text))
	var body map[string]any
	if edit != nil && json.Unmarshal(text, &body) == nil {
		edit(body)
		if changed, err := json.Marshal(body); err == nil {
			text = changed
		}
	}
	own.Body = io.NopCloser(bytes.NewReader(text))
	return own
}

// Catch demands that each of the faults makes a script of the area fail.
func Catch(t *testing.T, area conformance.Area, open func(*testing.T, Env) Program, faults ...string) {
	t.Helper()
	all, err := conformance.Scripts()
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Run(fault, func(t *testing.T) {
			meddle, ok := Faults()[fault]
			if !ok {
				t.Fatal("there is no such fault")
			}
			var failed []string
			for _, s := range all {
				if s.Area == area && !Play(t, s, open, meddle).Passed {
					failed = append(failed, s.Name)
				}
			}
			if len(failed) == 0 {
				t.Error("all scripts pass")
			}
			t.Logf("%d scripts fail: %s", len(failed), strings.Join(failed, " "))
		})
	}
}
