package analysis

import (
	"cmp"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// A document of a shape that is not kept for ever says how long it is kept after its lock has ended, and until when
// that is. From then on it counts as none, wherever it is read or written, whether the store has removed it or not: not
// every store does, and those that do may be hours late. Two things of it stay for as long as it is there. Its token
// goes on, so that a new run has a higher one. The requests that it remembers obtain nothing, however late they come.

// gone holds when the document is certainly kept no longer. Then no lock lasts: every write of a lock's end says until
// when the document is kept.
func (sh *Shape) gone() docstore.Cond {
	return docstore.LE{Field: fKeptUntil, Value: docstore.Earliest}
}

// gone is [Shape.gone] for the state, by the earliest that the store's time can be.
func (s State) gone(now time.Time) bool { return s.until != "" && s.until <= docstore.FormatTime(now) }

// At is the state at the store's time now: a document that is kept no longer is none.
func (s State) At(now time.Time) State {
	if s.gone(now) {
		return State{Token: s.Token, Requests: s.Requests}
	}
	return s
}

// KeptUntil is until when the document is kept; ok is false if it is kept for ever, or that cannot be read.
func (s State) KeptUntil() (until time.Time, ok bool) {
	until, err := docstore.ParseTime(s.until)
	return until, err == nil
}

// Changed is when a command last changed the run: began it, refreshed it, or ended it. The zero time if the document
// does not say.
func (s State) Changed() time.Time {
	if s.Owner != "" {
		return s.Heartbeat
	}
	until, ok := s.KeptUntil()
	if !ok || s.keepSeconds == 0 {
		return time.Time{}
	}
	return until.Add(-time.Duration(s.keepSeconds) * time.Second)
}

// present holds for a document that can be read and is not gone, and where there is none.
func (sh *Shape) present() docstore.All {
	if sh.KeepSeconds == 0 {
		return sh.readable()
	}
	return append(sh.readable(), docstore.Not{Cond: sh.gone()})
}

// readKept reads for how long a document is kept, as [Shape.readable] asks.
func (d Document) readKept(s *State, found docstore.Doc) error {
	if v := found[fKeepSeconds]; v != nil {
		n, ok := v.(docstore.Int)
		if !ok || n < 1 || int64(n) > d.MaxKeepSeconds {
			return d.damaged(fKeepSeconds, "is not for how many seconds a "+d.Thing+" can be kept")
		}
		s.keepSeconds = int64(n)
	}
	if v := found[fKeptUntil]; v != nil {
		if s.until, _ = v.(docstore.String); s.until == "" || !isText(v) {
			return d.damaged(fKeptUntil, "is not text: it must say until when the "+d.Thing+" is kept")
		}
	}
	return nil
}

// keep adds to a write for how long the document is kept from now on, of which a lock may take ttlSeconds. A command
// that does not say it leaves what the document says, s if it was found. The first write of a command does not know
// that, and applies where it is what documents say of which no command has said anything.
func (d Document) keep(s State, ttlSeconds int64, w docstore.Write) docstore.Write {
	usual := d.Shape.KeepSeconds
	if usual == 0 {
		return w
	}
	seconds := cmp.Or(d.KeepSeconds, s.keepSeconds, usual)
	if d.KeepSeconds == 0 {
		same := docstore.Cond(docstore.Eq{Field: fKeepSeconds, Value: docstore.Int(seconds)})
		if seconds == usual {
			same = docstore.Any{docstore.Not{Cond: docstore.Has{Field: fKeepSeconds}}, same}
		}
		holds, _ := w.If.(docstore.All)
		w.If = append(slices.Clone(holds), same)
	}
	w.Keep = time.Duration(seconds+ttlSeconds) * time.Second
	w.Set[fKeepSeconds], w.Set[fKeptUntil] = docstore.Int(seconds), after(seconds+ttlSeconds)
	return w
}
