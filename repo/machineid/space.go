package machineid

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// guarded is a space, and whether its document was found to agree with the configuration. That document never changes
// once it is there, so it is looked at once: in the trip that reads the first page.
type guarded struct {
	*space
	stored atomic.Pointer[geometry] // nil until the document was found
}

func (sp *guarded) page(index int) docstore.Key {
	return docstore.Key{Kind: Kind, Tenant: sp.name, ID: fmt.Sprintf("page-%03d", index)}
}

func (sp *guarded) key() docstore.Key { return docstore.Key{Kind: Kind, Tenant: sp.name, ID: "space"} }

// Fields of the document of a space.
const (
	fEpoch   = "custom_epoch"
	fReserve = "bit_reserve"
	fTs      = "bit_ts"
	fUnit    = "bit_unit" // of sequence in a unit
)

// write creates the document of the space.
func (sp *guarded) write() docstore.Write {
	return docstore.Write{Key: sp.key(), If: docstore.Absent{}, Set: map[string]docstore.Value{
		fEpoch:   docstore.Int(sp.layout.CustomEpoch),
		fReserve: docstore.Int(sp.layout.BitReserve),
		fTs:      docstore.Int(sp.layout.BitTs),
		fUnit:    docstore.Int(sp.geometry.unit),
	}}
}

// accept compares the stored document with the configuration and returns the geometry that counts. A space that was set
// up otherwise must not be served: IDs made under the two would be equal.
func (sp *guarded) accept(d docstore.Doc) (geometry, error) {
	for _, f := range []struct {
		stored, name string
		want         int
	}{
		{fEpoch, "customEpoch", int(sp.layout.CustomEpoch)}, {fReserve, "bitReserve", sp.layout.BitReserve}, {fTs, "bitTs", sp.layout.BitTs},
	} {
		got, ok := d[f.stored].(docstore.Int)
		if !ok {
			return geometry{}, fmt.Errorf("%w: %s: field %q is not a whole number", docstore.ErrDamaged, sp.key(), f.stored)
		}
		if int(got) != f.want {
			return geometry{}, fmt.Errorf("space %q was set up with %s %d, and the configuration says %d: it can never change, "+
				"because IDs of the two could be equal; put the old value back", sp.name, f.name, int64(got), f.want)
		}
	}
	unit, ok := d[fUnit].(docstore.Int)
	if !ok || unit < 1 || unit > 62 {
		return geometry{}, fmt.Errorf("%w: %s: field %q is not a number of bits", docstore.ErrDamaged, sp.key(), fUnit)
	}
	if !sp.fits(int(unit)) {
		return geometry{}, fmt.Errorf("space %q was set up for bitSeq from %d to %d, and its services now have %d to %d: change bitSeq; "+
			"move to another space only after the longest lease of this one has expired, because leases of both could make equal IDs",
			sp.name, max(1, int(unit)-splitBits, sp.layout.BitNode()-1-maxUnitBits), int(unit)+slotBits, sp.minSeq, sp.maxSeq)
	}
	return newGeometry(sp.layout, int(unit)), nil
}

// view is what was read of a space.
type view struct {
	g       geometry
	at      int64 // the store's time in Unix milliseconds
	pages   map[int]page
	created bool // the document of the space is there
}

// read reads pages of a space in one request. The first one of a process also looks at the document of the space, and may
// need another if that has a geometry of its own.
func (s *Service) read(ctx context.Context, sp *guarded, which func(geometry) []int) (view, error) {
	for {
		g, known := sp.geometry, sp.stored.Load()
		if known != nil {
			g = *known
		}
		indexes := which(g)
		keys := make([]docstore.Key, len(indexes), len(indexes)+1)
		for i, index := range indexes {
			keys[i] = sp.page(index)
		}
		if known == nil {
			keys = append(keys, sp.key())
		}
		if len(keys) == 0 {
			return view{g: g, created: true}, nil // nothing but the document of the space was asked for, and it is known
		}
		snap, err := s.store.Get(ctx, keys...)
		if err != nil {
			return view{}, fmt.Errorf("machine IDs of space %q: %w", sp.name, err)
		}
		v := view{g: g, at: snap.At.UnixMilli(), pages: make(map[int]page, len(indexes)), created: known != nil}
		if known == nil && snap.Docs[len(indexes)] != nil {
			stored, err := sp.accept(snap.Docs[len(indexes)])
			if err != nil {
				return view{}, err
			}
			sp.stored.Store(&stored)
			if stored != g {
				continue
			}
			v.created = true
		}
		for i, index := range indexes {
			if v.pages[index], err = pageOf(g, keys[i], snap.Docs[i]); err != nil {
				return view{}, err
			}
		}
		return v, nil
	}
}

// Check reads the documents of all spaces and reports the first that was set up otherwise than it is configured. One read
// for each space; every call finds that out by itself, Check does it before there are callers.
func (s *Service) Check(ctx context.Context) error {
	for _, name := range s.Spaces() {
		if _, err := s.read(ctx, s.spaces[name], func(geometry) []int { return nil }); err != nil {
			return err
		}
	}
	return nil
}
