package placement

import (
	"maps"
	"slices"
	"time"
)

// # What changed since an earlier epoch
//
// Who follows the members of a cluster knows an earlier epoch, and needs what changed since. A process that saw epochs
// come knows which members each of them changed: a topology has the names, of the epochs before it that the process
// knew, and of those that it read. Earlier epochs are told by number and time, because a store that lost its latest
// writes begins numbers again. What the names say is not what became of those members: that is in the topology itself,
// so that a name too many does no harm.

// step is an earlier epoch, and the members that are others in the epoch behind it, came with it, or are gone.
type step struct {
	epoch   int64
	at      time.Time
	changed []string
}

// Since is what changed since an earlier epoch, by its number and its time: the members that joined or changed, as they
// are now, and the names of those that are gone. ok is false if it is not known here, or no shorter than all members:
// then read [Topology.Members].
func (t *Topology) Since(epoch int64, at time.Time) (members []Member, gone []string, ok bool) {
	if t.Epoch == epoch && t.At.Equal(at) {
		return nil, nil, true
	}
	names := map[string]bool{}
	for _, s := range slices.Backward(t.steps) {
		for _, name := range s.changed {
			names[name] = true
		}
		if ok = s.epoch == epoch && s.at.Equal(at); ok {
			break
		}
	}
	if !ok || len(names) > len(t.Members) {
		return nil, nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if m := t.Find(name); m != nil {
			members = append(members, *m)
		} else {
			gone = append(gone, name)
		}
	}
	return members, gone, true
}

// follows notes what changed from before, the epoch that was known until now. The members of both are compared: before
// may be one that the store lost.
func (t *Topology) follows(before *Topology) {
	read := t.steps
	t.steps = append(slices.Clip(before.steps), step{before.Epoch, before.At, differences(before.Members, t.Members)})
	for _, s := range read {
		if s.epoch > before.Epoch {
			t.steps = append(t.steps, s)
		}
	}
	t.forget()
}

// forget drops the oldest steps: those behind which more changed than there are members, and more than epochParts.
func (t *Topology) forget() {
	first, changed := len(t.steps), 0
	for first > 0 && len(t.steps)-first < epochParts {
		if changed += len(t.steps[first-1].changed); changed > len(t.Members) {
			break
		}
		first--
	}
	t.steps = slices.Clone(t.steps[first:])
}

// differences are the names of members that are in one list and not in the other, or not the same. Both are in the
// order of names.
func differences(before, after []Member) (names []string) {
	for len(before) > 0 && len(after) > 0 {
		a, b := &before[0], &after[0]
		switch {
		case a.Member < b.Member:
			names, before = append(names, a.Member), before[1:]
		case a.Member > b.Member:
			names, after = append(names, b.Member), after[1:]
		default:
			if !a.same(b) {
				names = append(names, a.Member)
			}
			before, after = before[1:], after[1:]
		}
	}
	for _, rest := range [][]Member{before, after} {
		for i := range rest {
			names = append(names, rest[i].Member)
		}
	}
	return names
}

// same reports whether two members are one, unchanged.
func (m *Member) same(o *Member) bool {
	return m.Incarnation == o.Incarnation && m.Status == o.Status && m.Address == o.Address && m.Since == o.Since &&
		m.At.Equal(o.At) && m.Weight == o.Weight && m.Full == o.Full && slices.Equal(m.Kinds, o.Kinds) &&
		maps.Equal(m.Labels, o.Labels)
}

// stepped adds an epoch to steps, whose changes the state has, and which are followed by these. Where it is not known,
// or a member that is gone is not, there are none any more.
func (s *state) stepped(steps []step, before *Topology, c epochChanges) []step {
	if before == nil {
		return nil
	}
	to := step{before.Epoch, before.At, nil}
	for i := range c.Set {
		to.changed = append(to.changed, c.Set[i].Member.Member)
	}
	for _, slot := range c.Gone {
		if slot == 0 || int(slot) > len(s.slots) || s.slots[slot-1] == nil {
			return nil
		}
		to.changed = append(to.changed, s.slots[slot-1].Member)
	}
	return append(steps, to)
}
