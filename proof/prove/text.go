package prove

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Text is the report for people. took is how long the proof took.
func (r *Report) Text(took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s operations in %s histories, %.1f s.\n\nWhat went wrong, and how often:\n",
		grouped(r.Operations), grouped(r.Histories), took.Seconds())
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, f := range r.Faults {
		fmt.Fprintf(w, "%s\t  %s\n", grouped(f.Count), f.What)
	}
	_ = w.Flush() // a Builder takes all
	b.WriteString("\nWhat was judged, and how often:\n")
	w = tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, j := range r.Judged {
		fmt.Fprintf(w, "%s\t  %s\n", grouped(j.Count), j.Words)
	}
	_ = w.Flush()
	if r.Broken == nil {
		b.WriteString("\nNo promise was broken.\n")
	}
	return b.String()
}

// grouped is a number with its thousands apart.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + " " + text[i:]
	}
	return text
}

// Text is what became of a small world, for people.
func (e *Explored) Text() string {
	if e.Broken != nil {
		return fmt.Sprintf("%s: BROKEN after %d steps: %s\n  %s\n\n%s\n", e.World, e.Steps, e.Broken.Words, e.Broken.What,
			strings.Join(e.Path, "\n"))
	}
	covered := fmt.Sprintf("every order, up to %d steps", e.Steps-1)
	if !e.Whole {
		covered = fmt.Sprintf("every order of up to %d steps, and some longer ones", e.Steps)
	}
	return fmt.Sprintf("%s: %s states, %s ways between them, %s; no promise was broken\n", e.World, grouped(e.States),
		grouped(e.Moves), covered)
}
