package machineid

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Kind of the documents: one for each page of a space, whose name is their tenant, and one for the space itself.
const Kind = "machine_ids"

const (
	unitBits    = 8  // of sequence in a unit, unless the configuration asks for others
	slotBits    = 7  // 128 slots in a page: below four kilobytes even while all of them are leased
	maxUnitBits = 15 // see maxUnits
	splitBits   = 4  // a page divides each of its units into 16 slots at most
)

// geometry says how a space is divided. It follows from the layout that all services share and the size of a unit.
type geometry struct {
	unit  int // bits of sequence in a unit
	pages int
	slots int // in a page whose units are not split
}

func newGeometry(l kazahana.Layout, unit int) geometry {
	units := 1 << (l.BitNode() - 1 - unit)
	slots := min(units, 1<<slotBits)
	return geometry{unit: unit, pages: units / slots, slots: slots}
}

func (g geometry) units() int { return g.pages * g.slots }

// perPage is how many leases of a size a page holds.
func (g geometry) perPage(size int) int {
	if size < 0 {
		return g.slots << -size
	}
	return g.slots >> size
}

// blank is a page without leases, of which all is free from a time on.
func (g geometry) blank(free int64) page {
	p := page{notBefore: make([]int64, g.slots)}
	for slot := range p.notBefore {
		p.notBefore[slot] = free
	}
	return p
}

// all are the indexes of all pages.
func (g geometry) all() []int {
	all := make([]int, g.pages)
	for i := range all {
		all[i] = i
	}
	return all
}

// page is what the document of a page says. A slot is a unit, or a part of one: where a service needs leases that are
// smaller than the units of its space, the page is written again with its units split, each part with the notBefore of
// the whole. So the leases that are out keep their numbers, and all configurations go on with the same pages.
type page struct {
	rev       int64   // of the document, from 1 on; 0: there is none
	split     int     // a unit has 1<<split slots
	notBefore []int64 // notBefore of each slot in Unix milliseconds; 0: never leased
	held      []lease // those that have not been released; they may have expired
}

// lease is a lease as its page keeps it. It lasts until the notBefore of its slots.
type lease struct {
	slot    int   // the first one
	bits    int   // it takes 1<<bits slots
	created int64 // Unix milliseconds
	secret  secret
	service string
}

// secret signs the release of a lease, and tells it from every other.
type secret [16]byte

// fit is the page with slots that are small enough for leases of a size. Where they are not, each is split.
func (p page) fit(size int) page {
	more := -size - p.split
	if more <= 0 {
		return p
	}
	fine := page{rev: p.rev, split: p.split + more, notBefore: make([]int64, 0, len(p.notBefore)<<more),
		held: slices.Clone(p.held)}
	for _, at := range p.notBefore {
		for range 1 << more {
			fine.notBefore = append(fine.notBefore, at)
		}
	}
	for i := range fine.held {
		fine.held[i].slot <<= more
		fine.held[i].bits += more
	}
	return fine
}

// live reports whether the lease lasts at the time now.
func (p page) live(l lease, now int64) bool { return p.notBefore[l.slot] > now }

// Fields of a page's document. The lists are bytes: records of a fixed width with numbers in big endian:
//
//	not_before  for each slot: 6 bytes, Unix milliseconds
//	leases      for each lease: slot, 1 byte bits, service, 5 bytes expired-created, 16 bytes secret; slot and service
//	            are 1 byte, or 2 in a page of more than 256 slots
//	services    the names that the leases count, a line each
const (
	fRev       = "rev"
	fNotBefore = "not_before"
	fLeases    = "leases"
	fServices  = "services"

	timeBytes  = 6
	leaseBytes = 24 // with narrow numbers of slots and services
)

// indexBytes is the width of the numbers of slots and services in a page of so many slots, and of their records.
func indexBytes(slots int) (index, record int) {
	if slots > 1<<8 {
		return 2, leaseBytes + 2
	}
	return 1, leaseBytes
}

// pageOf reads a page's document (nil: none). The error is [docstore.ErrDamaged].
func pageOf(g geometry, k docstore.Key, d docstore.Doc) (page, error) {
	if d == nil {
		return g.blank(0), nil
	}
	var p page
	damaged := func(f string) error {
		return fmt.Errorf("%w: %s: field %q is not what a page of machine IDs holds", docstore.ErrDamaged, k, f)
	}
	rev, ok := d[fRev].(docstore.Int)
	if !ok || rev < 1 {
		return page{}, damaged(fRev)
	}
	p.rev = int64(rev)
	notBefore, ok := records(d[fNotBefore], timeBytes)
	for ok && p.split < splitBits && len(notBefore) > g.slots*timeBytes<<p.split {
		p.split++
	}
	if !ok || len(notBefore) != g.slots*timeBytes<<p.split {
		return page{}, damaged(fNotBefore)
	}
	p.notBefore = make([]int64, g.slots<<p.split)
	for i := range p.notBefore {
		p.notBefore[i] = number(notBefore[i*timeBytes:][:timeBytes])
	}
	services, ok := d[fServices].(docstore.String)
	if !ok {
		return page{}, damaged(fServices)
	}
	names := strings.Split(string(services), "\n")
	index, record := indexBytes(len(p.notBefore))
	leases, ok := records(d[fLeases], record)
	if !ok {
		return page{}, damaged(fLeases)
	}
	p.held = make([]lease, 0, len(leases)/record)
	for r := range slices.Chunk(leases, record) {
		l := lease{slot: int(number(r[:index])), bits: int(r[index])}
		r = r[index+1:]
		name := int(number(r[:index]))
		if l.bits > slotBits+p.split || l.slot+1<<l.bits > len(p.notBefore) || l.slot&(1<<l.bits-1) != 0 ||
			name >= len(names) {
			return page{}, damaged(fLeases)
		}
		r = r[index:]
		l.service = names[name]
		l.created = p.notBefore[l.slot] - number(r[:5])
		copy(l.secret[:], r[5:])
		p.held = append(p.held, l)
	}
	return p, nil
}

// write is the page as the conditional write that makes it of the revision before: it applies if the document is still
// the one that was read.
func (p page) write(k docstore.Key) docstore.Write {
	set := p.fields()
	set[fRev] = docstore.Int(p.rev)
	return docstore.Write{Key: k, If: docstore.Eq{Field: fRev, Value: docstore.Int(p.rev - 1)}, Set: set}
}

// create is the page as the write that makes its document. Revisions start at the store's time, so that none comes back
// after the document was deleted: a writer that was paused since then cannot mistake the new page for the one that it
// read.
func (p page) create(k docstore.Key) docstore.Write {
	return docstore.Write{Key: k, If: docstore.Absent{}, Set: p.fields(), Add: map[string]int64{fRev: 1},
		StartAtNow: []string{fRev}}
}

// fields are those of the document, but for the revision.
func (p page) fields() map[string]docstore.Value {
	var names []string
	notBefore := make([]byte, 0, len(p.notBefore)*timeBytes)
	for _, f := range p.notBefore {
		notBefore = appendNumber(notBefore, f, timeBytes)
	}
	index, record := indexBytes(len(p.notBefore))
	leases := make([]byte, 0, len(p.held)*record)
	for _, l := range p.held {
		name := slices.Index(names, l.service)
		if name < 0 {
			name = len(names)
			names = append(names, l.service)
		}
		leases = appendNumber(leases, int64(l.slot), index) // as many leases and names as slots at most
		leases = append(leases, byte(l.bits))               //nolint:gosec // 11 at most
		leases = appendNumber(leases, int64(name), index)
		leases = appendNumber(leases, p.notBefore[l.slot]-l.created, 5)
		leases = append(leases, l.secret[:]...)
	}
	return map[string]docstore.Value{
		fNotBefore: docstore.Bytes(notBefore),
		fLeases:    docstore.Bytes(leases),
		fServices:  docstore.String(strings.Join(names, "\n")),
	}
}

// records are the bytes of a field that is a list of records of a width.
func records(v docstore.Value, width int) ([]byte, bool) {
	b, ok := v.(docstore.Bytes)
	return []byte(b), ok && len(b)%width == 0
}

// number reads up to 8 bytes.
func number(b []byte) int64 {
	var whole [8]byte
	copy(whole[8-len(b):], b)
	return int64(binary.BigEndian.Uint64(whole[:])) //nolint:gosec // the numbers are of 6 bytes at most
}

// appendNumber writes a number that is not negative in so many bytes.
func appendNumber(b []byte, n int64, width int) []byte {
	whole := binary.BigEndian.AppendUint64(nil, uint64(n)) //nolint:gosec // times and durations are not negative
	return append(b, whole[8-width:]...)
}
