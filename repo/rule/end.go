package rule

import (
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

// until gives a write the end of its command, if that has one.
func until(command any, w docstore.Write) docstore.Write {
	for {
		if c, ok := command.(limited); ok {
			w.Until = c.end()
			return w
		}
		inner, ok := command.(Wrapper)
		if !ok {
			return w
		}
		command = inner.Unwrap()
	}
}

// Late reports whether a refused command came after its end, by the latest that the store's time can have been.
func (e End) Late(w When) bool { return !e.NotAfter.IsZero() && w.Latest().After(e.NotAfter) }

// Far reports whether the end of a refused command was further away than it may be.
func (e End) Far(w When) bool { return e.NotAfter.After(w.Latest().Add(docstore.MaxAhead)) }

// Said says what [End.Late] and [End.Far] found, in words; empty if neither.
func (e End) Said(w When) string {
	end, now := string(docstore.FormatTime(e.NotAfter)), string(docstore.FormatTime(docstore.TruncateMilli(w.Latest())))
	switch {
	case e.Late(w):
		return "the request ended at " + end + ", and the store's time is " + now + "; nothing was changed"
	case e.Far(w):
		return "must be within an hour of the store's time, which is " + now + "; nothing was changed"
	default:
		return ""
	}
}
