package placement

import (
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// # Epochs as changes
//
// The document of an epoch has what changed with the epoch, and one part of 64 of the state after it:
//
//	epoch     …  130          131          132
//	changed      a joined     b left       c drains
//	part         2 of 64      3 of 64      4 of 64
//
// A reader that knows epoch 130 reads the two documents behind it. One that knows nothing reads the latest 64: each
// part of the state is in one of them, and what changed since is in those behind that. So each change of the members
// writes the same few kilobytes, however many members there are, and no document is large.
//
// A member has a slot, a small number, from when it joins until it is gone: the table names slots, so that it stays the
// same where no partition moves. The document has a sum of the whole state: what was put together of other documents
// than the writer knew is damage, not a topology. The number of an epoch does not tell it from one that a store lost:
// see head.names.

// epochParts is in how many parts the state of a cluster is written, one with each epoch: so many documents are read by
// who knows nothing.
const epochParts = 64

const fChanges = "changes" // of an epoch: what changed and a part of the state, as epochChanges, JSON, deflated

// placed is a member with its slot.
type placed struct {
	Slot uint16 `json:"slot"`
	Member
}

// epochChanges is what an epoch says.
type epochChanges struct {
	From  int64    `json:"from"`            // the first epoch of the cluster, before which it had no members
	Set   []placed `json:"set,omitempty"`   // members that joined or changed
	Gone  []uint16 `json:"gone,omitempty"`  // slots of members that are gone
	Moved []byte   `json:"moved,omitempty"` // partitions with another slot: see appendMoves

	// The part of the state after the epoch: members whose slot, and partitions whose number, has the remainder of the
	// epoch when divided by epochParts.
	Members []placed `json:"members,omitempty"`
	Owners  []byte   `json:"owners,omitempty"` // 2 bytes for each partition, big endian: the slot of its member

	Sum uint64 `json:"sum"` // of the state after the epoch
}

// state is a topology in terms of slots, in which changes are said.
type state struct {
	epoch int64
	slots []*Member // of slot n at n-1, nil if no member has it
	table []uint16  // of each partition, the slot of its member, 0 for none
}

// partOf is the part of the state that an epoch writes.
func partOf(epoch int64) int { return int(epoch % epochParts) }

// state is the topology in terms of slots.
func (t *Topology) state() *state {
	s := &state{epoch: t.Epoch, table: make([]uint16, len(t.table))}
	for i, n := range t.slots {
		s.set(n, t.Members[i])
	}
	for p, m := range t.table {
		if m != noMember {
			s.table[p] = t.slots[m]
		}
	}
	return s
}

func (s *state) set(slot uint16, m Member) {
	for len(s.slots) < int(slot) {
		s.slots = append(s.slots, nil)
	}
	s.slots[slot-1] = &m
}

// settle gives the members of the next epoch their slots: those that they had before, or the lowest that are free.
func (t *Topology) settle(before *Topology) {
	t.slots = make([]uint16, len(t.Members))
	taken := map[uint16]bool{0: true}
	for i, m := range t.Members {
		if n, ok := before.search(m.Member); ok {
			t.slots[i] = before.slots[n]
			taken[t.slots[i]] = true
		}
	}
	free := uint16(0)
	for i, slot := range t.slots {
		if slot == 0 {
			for taken[free] {
				free++
			}
			t.slots[i], taken[free] = free, true
		}
	}
}

// sum is of all that the state says of its members, in the form in which it is stored, and of the table. The time of
// the epoch is not known when the sum is written.
func (s *state) sum() uint64 {
	h := xxhash.New()
	to := json.NewEncoder(h)
	for n, m := range s.slots {
		if m != nil {
			p := placed{uint16(n + 1), *m}
			if m.Since == s.epoch {
				p.At = time.Time{}
			}
			_ = to.Encode(p) //nolint:errchkjson // texts and numbers can always be encoded
		}
	}
	_, _ = h.Write(bytesOf(s.table, 0, 1))
	return h.Sum64()
}

// bytesOf are every so manieth of the numbers, from the first on, in 2 bytes each.
func bytesOf(numbers []uint16, first, step int) []byte {
	var b []byte
	for p := first; p < len(numbers); p += step {
		b = binary.BigEndian.AppendUint16(b, numbers[p])
	}
	return b
}

// changed is what changed from before, nil for nothing, and the part of the epoch.
func (s *state) changed(before *state, from int64) epochChanges {
	c := epochChanges{From: from}
	if before == nil {
		before = &state{table: make([]uint16, len(s.table))}
	}
	for n, m := range s.slots {
		slot := uint16(n + 1)
		if m == nil {
			continue
		}
		if m.Since == s.epoch || n >= len(before.slots) || before.slots[n] == nil {
			c.Set = append(c.Set, placed{slot, *m})
		}
		if int(slot)%epochParts == partOf(s.epoch) {
			c.Members = append(c.Members, placed{slot, *m})
		}
	}
	for n, m := range before.slots {
		if m != nil && (n >= len(s.slots) || s.slots[n] == nil) {
			c.Gone = append(c.Gone, uint16(n+1))
		}
	}
	c.Moved = appendMoves(before.table, s.table)
	c.Owners = bytesOf(s.table, partOf(s.epoch), epochParts)
	c.Sum = s.sum()
	return c
}

// appendMoves says which partitions have another slot than before: for each of those slots its number, how many
// partitions it got, and their distances.
func appendMoves(before, after []uint16) (b []byte) {
	moved := map[uint16][]int{}
	var slots []uint16
	for p, slot := range after {
		if slot != before[p] {
			if moved[slot] == nil {
				slots = append(slots, slot)
			}
			moved[slot] = append(moved[slot], p)
		}
	}
	for _, slot := range slots {
		b = binary.AppendUvarint(b, uint64(slot))
		b = binary.AppendUvarint(b, uint64(len(moved[slot])))
		last := -1
		for _, p := range moved[slot] {
			b = binary.AppendUvarint(b, uint64(p-last)) //nolint:gosec // they ascend
			last = p
		}
	}
	return b
}

// errChanges is of changes that are none of the state that they are said of.
var errChanges = errors.New("what changed is not said of this cluster")

// move applies what appendMoves says.
func (s *state) move(b []byte) error {
	next := func() int {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > MaxPartitions {
			b = nil
			return -1
		}
		b = b[size:]
		return int(n)
	}
	for len(b) > 0 {
		slot, many := next(), next()
		for p := -1; many > 0; many-- {
			n := next()
			if p += n; slot < 0 || slot >= noMember || n < 1 || p >= len(s.table) {
				return errChanges
			}
			s.table[p] = uint16(slot)
		}
		if many < 0 {
			return errChanges
		}
	}
	return nil
}

// apply makes it the state of the next epoch. The part replaces what was there: of a state of which not all parts are
// known it is the first that is.
func (s *state) apply(t *Topology, c epochChanges) error {
	s.epoch = t.Epoch
	for _, slot := range c.Gone {
		if slot > 0 && int(slot) <= len(s.slots) {
			s.slots[slot-1] = nil
		}
	}
	part := partOf(t.Epoch)
	if err := s.move(c.Moved); err != nil {
		return err
	}
	for i := range s.slots {
		if (i+1)%epochParts == part {
			s.slots[i] = nil
		}
	}
	for _, all := range [][]placed{c.Set, c.Members} {
		for _, m := range all {
			if m.Slot == 0 || m.Slot == noMember {
				return errChanges
			}
			if m.Since == t.Epoch {
				m.At = t.At
			}
			s.set(m.Slot, m.Member)
		}
	}
	for p := part; p < len(s.table); p += epochParts {
		if len(c.Owners) < 2 {
			return errChanges
		}
		s.table[p], c.Owners = binary.BigEndian.Uint16(c.Owners), c.Owners[2:]
	}
	return nil
}

// topology is the state as the topology of an epoch.
func (s *state) topology(t *Topology) (*Topology, error) {
	type at struct {
		slot uint16
		m    *Member
	}
	var all []at
	for n, m := range s.slots {
		if m != nil {
			all = append(all, at{uint16(n + 1), m})
		}
	}
	slices.SortFunc(all, func(a, b at) int { return cmp.Compare(a.m.Member, b.m.Member) })
	index := map[uint16]uint16{0: noMember}
	t.Members, t.slots = make([]Member, len(all)), make([]uint16, len(all))
	for i, a := range all {
		t.Members[i], t.slots[i], index[a.slot] = *a.m, a.slot, uint16(i)
	}
	for p, slot := range s.table {
		m, ok := index[slot]
		if !ok {
			return nil, errChanges
		}
		t.table[p] = m
	}
	return t.seal(), nil
}

// write is the epoch as its document, created once and never changed: what changed from before, which is nil for the
// first of a cluster.
func (t *Topology) write(c Cluster, before *Topology) (docstore.Write, error) {
	var from *state
	if t.first = t.Epoch; before != nil {
		from, t.first = before.state(), before.first
	}
	content, err := json.Marshal(t.state().changed(from, t.first))
	if err != nil {
		return docstore.Write{}, err
	}
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.DefaultCompression)
	if err != nil {
		return docstore.Write{}, err
	}
	if _, err := w.Write(content); err != nil {
		return docstore.Write{}, err
	}
	if err := w.Close(); err != nil {
		return docstore.Write{}, err
	}
	return docstore.Write{
		Key: c.epoch(t.Epoch),
		If:  docstore.Absent{},
		Set: map[string]docstore.Value{
			fEpoch:       docstore.Int(t.Epoch),
			fPartitions:  docstore.Int(len(t.table)),
			fHashVersion: docstore.Int(HashVersion),
			fChangedAt:   docstore.Now,
			fDrawn:       docstore.String(t.drawn),
			fCause:       docstore.String(t.Cause),
			fChanges:     docstore.Bytes(b.Bytes()),
		},
	}, nil
}

// changesOf reads the document of an epoch that says what changed.
func (c Cluster) changesOf(epoch int64, d docstore.Doc) (*Topology, epochChanges, error) {
	r := rule.Read(c.epoch(epoch), d)
	var said epochChanges
	t := &Topology{Epoch: r.Number(fEpoch), At: r.Time(fChangedAt), Cause: r.Text(fCause), drawn: r.Text(fDrawn)}
	partitions := int(r.Number(fPartitions))
	content, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(r.Bytes(fChanges))),
		64*docstore.MaxBytes))
	if t.Epoch != epoch {
		r.Fail(fEpoch, "that of the document's ID")
	}
	if err != nil || json.Unmarshal(content, &said) != nil || checkPartitions(partitions) != nil {
		r.Fail(fChanges, "what changed with the epoch")
	}
	r.Required(fHashVersion, fChangedAt, fDrawn, fCause)
	if r.Err() != nil {
		return nil, said, r.Err()
	}
	t.table, t.first = make([]uint16, partitions), said.From
	return t, said, nil
}

// errMissing is of a document that would be needed.
var errMissing = fmt.Errorf("%w: one of the 64 before it is missing", docstore.ErrDamaged)

// unroll puts the topology of an epoch together, of the documents up to it; its own is the last. base is what is known
// of the epoch before the first of them, nil for nothing.
func (c Cluster) unroll(epoch int64, docs []docstore.Doc, base *Topology) (*Topology, error) {
	var s *state       // nil: nothing is known
	missing := 0       // parts of it that are not known
	var err error      // of the latest document that could not be read
	var last *Topology // the epoch before, if its document was read, too: number and time
	var steps []step
	if base != nil {
		s = base.state()
	}
	for i, d := range docs {
		n := epoch - int64(len(docs)-1-i)
		var t *Topology
		var said epochChanges
		failed := errMissing
		if d != nil {
			t, said, failed = c.changesOf(n, d)
		}
		if failed != nil {
			s, err = nil, failed
			continue
		}
		if begins := said.From == n; begins || s == nil || len(s.table) != t.Partitions() {
			s, missing, last = &state{table: make([]uint16, t.Partitions())}, epochParts, nil
			if begins {
				missing = 0
			}
		}
		missing = max(0, missing-1)
		steps = s.stepped(steps, last, said)
		last = t
		// what follows the first document behind base is then said of its state, too
		sure := n == epoch || base != nil && i == 0
		if failed = s.apply(t, said); failed == nil && sure && missing == 0 {
			if s.sum() != said.Sum {
				failed = errChanges
			} else if n == epoch {
				if t, failed = s.topology(t); failed == nil {
					t.steps = steps
					return t, nil
				}
			}
		}
		if failed != nil {
			r := rule.Read(c.epoch(n), d)
			r.Fail(fChanges, "what changed with the epoch, of what was before")
			s, err = nil, r.Err()
		}
	}
	return nil, fmt.Errorf("epoch %d of %q cannot be put together: %w", epoch, c.Name, cmp.Or(err, errMissing))
}

// readEpoch reads an epoch from the store, nil if it is not there. It takes the changes since base, if that is one of
// the epochs shortly before, in one request; otherwise all that are needed, in two.
func (s *Service) readEpoch(ctx context.Context, c Cluster, epoch int64, base *Topology) (*Topology, error) {
	if base != nil && base.Epoch < epoch && base.Epoch+epochParts > epoch {
		docs, err := s.epochDocs(ctx, c, base.Epoch+1, epoch)
		if err != nil {
			return nil, err
		}
		t, err := c.unroll(epoch, docs, base)
		if !errors.Is(err, docstore.ErrDamaged) {
			return t, err
		}
		// a store that was set back has begun an epoch anew that is known as another
	}
	docs, err := s.epochDocs(ctx, c, epoch, epoch)
	if err != nil || docs[0] == nil {
		return nil, err
	}
	_, said, err := c.changesOf(epoch, docs[0])
	if err != nil {
		return nil, err
	}
	if from := max(said.From, epoch-epochParts+1); from < epoch {
		before, err := s.epochDocs(ctx, c, from, epoch-1)
		if err != nil {
			return nil, err
		}
		docs = append(before, docs...)
	}
	return c.unroll(epoch, docs, nil)
}

// epochDocs reads the documents of epochs.
func (s *Service) epochDocs(ctx context.Context, c Cluster, from, to int64) ([]docstore.Doc, error) {
	var keys []docstore.Key
	for n := from; n <= to; n++ {
		keys = append(keys, c.epoch(n))
	}
	snap, err := s.store.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("epoch %d of %q: %w", to, c.Name, err)
	}
	return snap.Docs, nil
}
