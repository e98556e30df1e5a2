package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Check is one promise that an act looked at.
type Check struct {
	Act  string `json:"act"`
	What string `json:"what"` // the promise, in words
	Held bool   `json:"held"`
	Seen string `json:"seen"` // what was seen
}

// stage is where the acts speak: lines for people, or one JSON object a line for machines.
type stage struct {
	begin time.Time
	json  bool

	mu      sync.Mutex
	out     io.Writer
	act     string
	checks  []Check
	checked bool // the last line was a check
}

// line is what one step of an act looks like to a machine.
type line struct {
	Act  string `json:"act"`
	AtMs int64  `json:"at_ms"` // since the beginning
	Who  string `json:"who"`
	Did  string `json:"did"`
}

// open begins an act.
func (s *stage) open(act, about string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.act, s.checked = act, false
	if !s.json {
		fmt.Fprintf(s.out, "\n%s\n  %s\n\n", act, about)
	}
}

// sayf tells one step.
func (s *stage) sayf(who, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checked && !s.json {
		fmt.Fprintln(s.out)
	}
	s.checked = false
	l := line{Act: s.act, AtMs: time.Since(s.begin).Milliseconds(), Who: who, Did: fmt.Sprintf(format, args...)}
	if s.json {
		s.print(l)
		return
	}
	fmt.Fprintf(s.out, "  %6.3fs  %-9s %s\n", float64(l.AtMs)/1000, l.Who, l.Did)
}

// check states whether a promise held.
func (s *stage) check(held bool, what, seen string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Check{Act: s.act, What: what, Held: held, Seen: fmt.Sprintf(seen, args...)}
	s.checks = append(s.checks, c)
	if s.json {
		s.print(c)
		return
	}
	if !s.checked {
		fmt.Fprintln(s.out)
	}
	s.checked = true
	fmt.Fprintf(s.out, "  %s %s: %s\n", mark(held), c.What, c.Seen)
}

// summary ends the show and reports whether everything held.
func (s *stage) summary() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := 0
	for _, c := range s.checks {
		if c.Held {
			held++
		}
	}
	all := held == len(s.checks) && held > 0
	if s.json {
		s.print(struct {
			Held   int  `json:"held"`
			Checks int  `json:"checks"`
			OK     bool `json:"ok"`
		}{held, len(s.checks), all})
		return all
	}
	fmt.Fprint(s.out, "\nSummary\n\n")
	for _, c := range s.checks {
		fmt.Fprintf(s.out, "  %s %s\n", mark(c.Held), c.What)
	}
	fmt.Fprintf(s.out, "\n%d of %d promises held, in %.1f s.\n", held, len(s.checks), time.Since(s.begin).Seconds())
	return all
}

// print writes a value as one line of JSON. The values are this package's own, so that they can be encoded.
func (s *stage) print(v any) {
	b, _ := json.Marshal(v) //nolint:errchkjson // structs of text, numbers and truth values
	fmt.Fprintf(s.out, "%s\n", b)
}

func mark(held bool) string {
	if held {
		return "ok  "
	}
	return "FAIL"
}
