package machineid

import (
	"encoding/base64"
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
	slotBits    = 7  // 128 slots in a page: four kilobytes while three quarters of them are leased
	maxUnitBits = 15 // see maxUnits
	maxPages    = 99 // of one write: docstore.MaxWrites less one for the document of the space
)

// geometry says how a space is divided. It follows from the layout that all services share and the size of a unit.
type geometry struct {
	unit  int // bits of sequence in a unit
	pages int
	slots int // in a page
}

func newGeometry(l kazahana.Layout, unit int) geometry {
	units := 1 << (l.BitNode() - 1 - unit)
	slots := min(units, 1<<slotBits)
	return geometry{unit: unit, pages: units / slots, slots: slots}
}

func (g geometry) units() int { return g.pages * g.slots }

// all are the indexes of all pages.
func (g geometry) all() []int {
	all := make([]int, g.pages)
	for i := range all {
		all[i] = i
	}
	return all
}

// page is what the document of a page says.
type page struct {
	rev       int64   // of the document; 0: there is none yet
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

// live reports whether the lease lasts at the time now.
func (p page) live(l lease, now int64) bool { return p.notBefore[l.slot] > now }

// Fields of a page's document. The lists are base64url of records of a fixed width with numbers in big endian:
//
//	not_before  for each slot: 6 bytes, Unix milliseconds
//	leases      for each lease: 1 byte slot, 1 byte bits, 1 byte service, 5 bytes expired-created, 16 bytes secret
//	services    the names that the leases count, a line each
const (
	fRev       = "rev"
	fNotBefore = "not_before"
	fLeases    = "leases"
	fServices  = "services"

	timeBytes  = 6
	leaseBytes = 24
)

var encoding = base64.RawURLEncoding.Strict()

// pageOf reads a page's document (nil: none). The error is [docstore.ErrDamaged].
func pageOf(g geometry, k docstore.Key, d docstore.Doc) (page, error) {
	p := page{notBefore: make([]int64, g.slots)}
	if d == nil {
		return p, nil
	}
	damaged := func(f string) error {
		return fmt.Errorf("%w: %s: field %q is not what a page of machine IDs holds", docstore.ErrDamaged, k, f)
	}
	rev, ok := d[fRev].(docstore.Int)
	if !ok || rev < 1 {
		return page{}, damaged(fRev)
	}
	p.rev = int64(rev)
	notBefore, ok := records(d[fNotBefore], timeBytes)
	if !ok || len(notBefore) != g.slots*timeBytes {
		return page{}, damaged(fNotBefore)
	}
	for i := range p.notBefore {
		p.notBefore[i] = number(notBefore[i*timeBytes:][:timeBytes])
	}
	services, ok := d[fServices].(docstore.String)
	if !ok {
		return page{}, damaged(fServices)
	}
	names := strings.Split(string(services), "\n")
	leases, ok := records(d[fLeases], leaseBytes)
	if !ok {
		return page{}, damaged(fLeases)
	}
	p.held = make([]lease, 0, len(leases)/leaseBytes)
	for r := range slices.Chunk(leases, leaseBytes) {
		l := lease{slot: int(r[0]), bits: int(r[1])}
		if l.bits > slotBits || l.slot+1<<l.bits > g.slots || l.slot&(1<<l.bits-1) != 0 || int(r[2]) >= len(names) {
			return page{}, damaged(fLeases)
		}
		l.service = names[r[2]]
		l.created = p.notBefore[l.slot] - number(r[3:8])
		copy(l.secret[:], r[8:])
		p.held = append(p.held, l)
	}
	return p, nil
}

// write is the page as the conditional write that makes it of the revision before: it applies if the document is still
// the one that was read.
func (p page) write(k docstore.Key) docstore.Write {
	var names []string
	notBefore := make([]byte, 0, len(p.notBefore)*timeBytes)
	for _, f := range p.notBefore {
		notBefore = appendNumber(notBefore, f, timeBytes)
	}
	leases := make([]byte, 0, len(p.held)*leaseBytes)
	for _, l := range p.held {
		name := slices.Index(names, l.service)
		if name < 0 {
			name = len(names)
			names = append(names, l.service)
		}
		leases = append(leases, byte(l.slot), byte(l.bits), byte(name)) //nolint:gosec // 128 slots, and so as many leases and names
		leases = appendNumber(leases, p.notBefore[l.slot]-l.created, 5)
		leases = append(leases, l.secret[:]...)
	}
	w := docstore.Write{
		Key: k,
		If:  docstore.Absent{},
		Set: map[string]docstore.Value{
			fRev:       docstore.Int(p.rev),
			fNotBefore: docstore.String(encoding.EncodeToString(notBefore)),
			fLeases:    docstore.String(encoding.EncodeToString(leases)),
			fServices:  docstore.String(strings.Join(names, "\n")),
		},
	}
	if p.rev > 1 {
		w.If = docstore.Eq{Field: fRev, Value: docstore.Int(p.rev - 1)}
	}
	return w
}

// records are the bytes of a field that is a list of records of a width.
func records(v docstore.Value, width int) ([]byte, bool) {
	s, ok := v.(docstore.String)
	if !ok {
		return nil, false
	}
	b, err := encoding.DecodeString(string(s))
	return b, err == nil && len(b)%width == 0
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
