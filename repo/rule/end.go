package rule

import (
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// End is when a command ends: a command that grants something embeds it. The zero End is none.
type End struct {
	// NotAfter is the store's time, in whole milliseconds, after which the command has no effect. It may be up to
	// [docstore.MaxAhead] from now; a command whose end is further away has no effect either, because a wrong clock has
	// named it. It is no parameter of the effect: the same request may be sent with another end.
	NotAfter time.Time
}

// limited is a command with an [End].
type limited interface{ end() time.Time }

func (e End) end() time.Time { return e.NotAfter }

// until gives a write the end of its command, if that has one, and the write none that is earlier.
func until(command any, w docstore.Write) docstore.Write {
	for {
		if c, ok := command.(limited); ok {
			if end := c.end(); w.Until.IsZero() || !end.IsZero() && end.Before(w.Until) {
				w.Until = end
			}
			return w
		}
		inner, ok := command.(Wrapper)
		if !ok {
			return w
		}
		command = inner.Unwrap()
	}
}

// What [End.Refuses] says: the codes of the rules, which are outcomes of their commands.
const (
	TooLate = "TOO_LATE" // the command came after its end
	TooFar  = "TOO_FAR"  // the end of the command is further away than it may be
)

// Refuses says why a command has no effect because of its end, and in words; both are empty if it came in time. It is
// judged by the latest that the store's time can have been. What had its effect before is no matter of its end: a rule
// recognises that first.
func (e End) Refuses(w When) (code, why string) {
	latest := w.Latest()
	switch {
	case e.NotAfter.IsZero():
		return "", ""
	case latest.After(e.NotAfter):
		return TooLate, fmt.Sprintf("the request ended at %s, and the store's time is %s; nothing was changed",
			docstore.FormatTime(e.NotAfter), docstore.FormatTime(latest))
	case e.NotAfter.After(latest.Add(docstore.MaxAhead)):
		return TooFar, fmt.Sprintf("the end must be within an hour of the store's time, which is %s; nothing was changed",
			docstore.FormatTime(latest))
	default:
		return "", ""
	}
}
