package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// promise is what a scene looked at.
type promise struct {
	Scene string `json:"scene"`
	What  string `json:"what"` // in words
	Held  bool   `json:"held"`
	Seen  string `json:"seen"` // what was seen
}

// record is where the scenes say what happens: lines for people, or one JSON object a line for machines.
type record struct {
	begin time.Time
	json  bool

	mu      sync.Mutex
	out     io.Writer
	scene   string
	checks  []promise
	checked bool // the last line was a check
}

// line is what one step of a scene looks like to a machine.
type line struct {
	Scene string `json:"scene"`
	AtMs  int64  `json:"at_ms"` // since the beginning
	Who   string `json:"who"`
	Did   string `json:"did"`
}

// open begins a scene.
func (t *record) open(s scene) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scene, t.checked = s.title, false
	if !t.json {
		fmt.Fprintf(t.out, "\n%s\n  %s\n\n", s.title, s.about)
	}
}

// sayf tells one step.
func (t *record) sayf(who, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.checked && !t.json {
		fmt.Fprintln(t.out)
	}
	t.checked = false
	l := line{Scene: t.scene, AtMs: time.Since(t.begin).Milliseconds(), Who: who, Did: fmt.Sprintf(format, args...)}
	if t.json {
		t.print(l)
		return
	}
	fmt.Fprintf(t.out, "  %6.3fs  %-9s %s\n", float64(l.AtMs)/1000, l.Who, l.Did)
}

// check states whether a promise held.
func (t *record) check(held bool, what, seen string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := promise{Scene: t.scene, What: what, Held: held, Seen: fmt.Sprintf(seen, args...)}
	t.checks = append(t.checks, c)
	if t.json {
		t.print(c)
		return
	}
	if !t.checked {
		fmt.Fprintln(t.out)
	}
	t.checked = true
	fmt.Fprintf(t.out, "  %s %s: %s\n", mark(held), c.What, c.Seen)
}

// summary ends the record and reports whether everything held.
func (t *record) summary() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := 0
	for _, c := range t.checks {
		if c.Held {
			held++
		}
	}
	all := held == len(t.checks) && held > 0
	if t.json {
		t.print(struct {
			Held   int  `json:"held"`
			Checks int  `json:"checks"`
			OK     bool `json:"ok"`
		}{held, len(t.checks), all})
		return all
	}
	fmt.Fprint(t.out, "\nSummary\n\n")
	for _, c := range t.checks {
		fmt.Fprintf(t.out, "  %s %s\n", mark(c.Held), c.What)
	}
	fmt.Fprintf(t.out, "\n%d of %d promises held, in %.1f s.\n"+
		"To freeze and kill workers yourself, open the page that \"leasehold demo --no-browser\" names.\n",
		held, len(t.checks), time.Since(t.begin).Seconds())
	return all
}

// print writes a value as one line of JSON. The values are this package's own, so that they can be encoded.
func (t *record) print(v any) {
	b, _ := json.Marshal(v) //nolint:errchkjson // structs of text, numbers and truth values
	fmt.Fprintf(t.out, "%s\n", b)
}

func mark(held bool) string {
	if held {
		return "ok  "
	}
	return "FAIL"
}
