package machineid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// guarded is a space, and what was found out about it.
type guarded struct {
	*space

	// stored is set once the document of the space was found, agrees with the configuration and says that the space is
	// complete. None of that changes afterwards, so it is looked at once: in the trip that reads the first page.
	stored atomic.Pointer[geometry]
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
	fPages   = "pages"    // how many there are, once all have been created
)

// lost is for how long the slots of a page that was deleted stay taken: for the longest lease, and a minute for clocks
// that differ.
const lost = MaxLeaseDuration + 60_000 // milliseconds

// write creates the document of the space.
func (sp *guarded) write() docstore.Write {
	return docstore.Write{Key: sp.key(), If: docstore.Absent{}, Set: map[string]docstore.Value{
		fEpoch:   docstore.Int(sp.layout.CustomEpoch),
		fReserve: docstore.Int(sp.layout.BitReserve),
		fTs:      docstore.Int(sp.layout.BitTs),
		fUnit:    docstore.Int(sp.geometry.unit),
	}}
}

// accept compares the stored document with the configuration and returns the geometry that counts, and whether all
// pages have been created. A space that was set up otherwise must not be served: IDs made under the two would be equal.
func (sp *guarded) accept(d docstore.Doc) (g geometry, complete bool, err error) {
	for _, f := range []struct {
		stored, name string
		want         int
	}{
		{fEpoch, "customEpoch", int(sp.layout.CustomEpoch)}, {fReserve, "bitReserve", sp.layout.BitReserve},
		{fTs, "bitTs", sp.layout.BitTs},
	} {
		got, ok := d[f.stored].(docstore.Int)
		if !ok {
			return geometry{}, false, fmt.Errorf("%w: %s: field %q is not a whole number", docstore.ErrDamaged,
				sp.key(), f.stored)
		}
		if int(got) != f.want {
			return geometry{}, false,
				fmt.Errorf("space %q was set up with %s %d, and the configuration says %d: it can never change, "+
					"because IDs of the two could be equal; put the old value back", sp.name, f.name, int64(got), f.want)
		}
	}
	unit, ok := d[fUnit].(docstore.Int)
	if !ok || unit < 1 || unit > 62 {
		return geometry{}, false, fmt.Errorf("%w: %s: field %q is not a number of bits", docstore.ErrDamaged, sp.key(), fUnit)
	}
	if !sp.fits(int(unit)) {
		return geometry{}, false,
			fmt.Errorf("space %q was set up for bitSeq from %d to %d, and its services now have %d to %d: change bitSeq; "+
				"move to another space only after the longest lease of this one has expired, because leases of both could make equal IDs",
				sp.name, max(1, int(unit)-splitBits, sp.layout.BitNode()-1-maxUnitBits), int(unit)+slotBits, sp.minSeq, sp.maxSeq)
	}
	g = newGeometry(sp.layout, int(unit))
	pages, complete := d[fPages]
	if complete && pages != docstore.Int(g.pages) {
		return geometry{}, false, fmt.Errorf("%w: %s: field %q is not %d", docstore.ErrDamaged, sp.key(), fPages, g.pages)
	}
	return g, complete, nil
}

// view is what was read of a space.
type view struct {
	g     geometry
	at    int64 // the store's time in Unix milliseconds
	pages map[int]page

	// lacking reports that the space is not complete, or that one of the pages was deleted since it was.
	lacking bool

	// damaged are the pages that cannot be read, by index. No one knows what is leased from them: they are full, and
	// never written.
	damaged map[int]error
}

// err is that of the damaged pages, nil if there are none.
func (v view) err() error {
	var u docstore.Unreadable
	for _, index := range slices.Sorted(maps.Keys(v.damaged)) {
		u.Take(v.damaged[index])
	}
	return u.Err()
}

// get reads documents, by halves where the store cannot read some of them: damaged are those, by their position.
func (s *Service) get(ctx context.Context, keys []docstore.Key) (snap docstore.Snapshot, damaged map[int]error,
	err error) {
	snap, err = s.store.Get(ctx, keys...)
	switch {
	case !errors.Is(err, docstore.ErrDamaged):
		return snap, nil, err
	case len(keys) == 1:
		return docstore.Snapshot{Docs: make([]docstore.Doc, 1)}, map[int]error{0: err}, nil
	}
	damaged = map[int]error{}
	for half := range slices.Chunk(keys, (len(keys)+1)/2) {
		part, bad, err := s.get(ctx, half)
		if err != nil {
			return docstore.Snapshot{}, nil, err
		}
		for i, e := range bad {
			damaged[len(snap.Docs)+i] = e
		}
		// The earliest time: what was free then is free later.
		if snap.Docs = append(snap.Docs, part.Docs...); snap.At.IsZero() || !part.At.IsZero() && part.At.Before(snap.At) {
			snap.At = part.At
		}
	}
	return snap, damaged, nil
}

// read reads pages of a space in one request. The first one of a process also looks at the document of the space, and
// may need another if that has a geometry of its own. In a complete space, all of a page that is missing is taken.
func (s *Service) read(ctx context.Context, sp *guarded, which func(geometry) []int) (view, error) {
	g, known := sp.geometry, sp.stored.Load()
	for {
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
			return view{g: g}, nil // nothing but the document of the space was asked for, and it is known
		}
		snap, damaged, err := s.get(ctx, keys)
		if err == nil && known == nil {
			err = damaged[len(indexes)] // without the document of the space nothing can be said of its pages
		}
		if err != nil {
			return view{}, fmt.Errorf("machine IDs of space %q: %w", sp.name, err)
		}
		complete := known != nil
		if !complete && snap.Docs[len(indexes)] != nil {
			var stored geometry
			if stored, complete, err = sp.accept(snap.Docs[len(indexes)]); err != nil {
				return view{}, err
			}
			if complete {
				known = &stored
				sp.stored.Store(known)
			}
			if stored != g {
				g = stored
				continue
			}
		}
		v := view{g: g, pages: make(map[int]page, len(indexes)), lacking: !complete, damaged: map[int]error{}}
		if !snap.At.IsZero() { // it is if no document could be read
			v.at = snap.At.UnixMilli()
		}
		for i, index := range indexes {
			err := damaged[i]
			if err == nil {
				v.pages[index], err = pageOf(g, keys[i], snap.Docs[i])
			}
			switch {
			case err != nil:
				v.damaged[index], v.pages[index] = err, g.blank(v.at+lost)
			case complete && snap.Docs[i] == nil:
				v.pages[index] = g.blank(v.at + lost)
				v.lacking = true
			}
		}
		s.report(ctx, sp, v)
		if len(v.damaged) == g.pages {
			return view{}, fmt.Errorf("machine IDs of space %q: all pages: %w", sp.name, v.err())
		}
		return v, nil
	}
}

// report says in one line of the log which pages cannot be read.
func (s *Service) report(ctx context.Context, sp *guarded, v view) {
	if err := v.err(); err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn,
			"pages of machine IDs cannot be read: nothing is leased from them until they are repaired",
			slog.String("space", sp.name), slog.Any("pages", slices.Sorted(maps.Keys(v.damaged))),
			slog.String("err", err.Error()))
	}
}

// complete creates the documents that a space lacks, and then says so in that of the space: from then on a page that is
// missing was deleted, and with it what was leased. Its slots are taken until the longest lease would have ended.
//
// One read of everything and one write, for each hundred documents of the space; then nothing until one is missing. Any
// number of processes may do it at once.
func (s *Service) complete(ctx context.Context, sp *guarded) error {
	g, bare := sp.geometry, false
	for range maxTries {
		keys := make([]docstore.Key, g.pages, g.pages+1)
		for i := range keys {
			keys[i] = sp.page(i)
		}
		snap, damaged, err := s.get(ctx, append(keys, sp.key()))
		if err == nil {
			err = damaged[g.pages]
		}
		if err != nil {
			return fmt.Errorf("set up space %q: %w", sp.name, err)
		}
		own := snap.Docs[g.pages]
		var missing []int
		for i, d := range snap.Docs[:g.pages] {
			if d == nil && damaged[i] == nil {
				missing = append(missing, i)
			}
		}
		was := sp.stored.Load() != nil
		if own == nil && (was || len(missing) < g.pages) {
			// Another process may have set it up while the documents were read: then the next read sees it all.
			if bare {
				return fmt.Errorf(
					"%w: %s is missing, and the space was in use: documents of machine IDs were deleted; restore it, or stop "+
						"all who lease from the space, wait for the longest lease, delete the other documents of the space, and start again",
					docstore.ErrDamaged, sp.key())
			}
			bare = true
			continue
		}
		done := false
		if own != nil {
			var stored geometry
			if stored, done, err = sp.accept(own); err != nil {
				return err
			}
			if stored != g {
				g = stored
				continue
			}
			if done {
				sp.stored.Store(&stored)
			}
		}
		if done && len(missing) == 0 {
			return nil
		}
		free := int64(0)
		if done {
			free = snap.At.UnixMilli() + lost
		}
		if all, err := s.create(ctx, sp, g, missing, free, own != nil, done); err != nil || all {
			return err
		}
	}
	return busy(sp, maxTries)
}

// create writes as many of the missing pages as one write takes, with slots that are free from a time on. With the last
// ones, or before them if there are many, it writes the document of the space. all reports that nothing is missing any
// more.
func (s *Service) create(ctx context.Context, sp *guarded, g geometry, missing []int, free int64, exists,
	done bool) (all bool, err error) {
	var writes []docstore.Write
	now := missing[:min(len(missing), docstore.MaxWrites-1)]
	for _, index := range now {
		writes = append(writes, g.blank(free).create(sp.page(index)))
	}
	last := len(now) == len(missing)
	switch {
	case !exists:
		w := sp.write()
		if last {
			w.Set[fPages] = docstore.Int(g.pages)
		}
		writes = append(writes, w)
	case !done && last:
		writes = append(writes, docstore.Write{
			Key: sp.key(), If: docstore.Has{Field: fUnit}, Set: map[string]docstore.Value{fPages: docstore.Int(g.pages)},
		})
	}
	r, err := s.store.Write(ctx, writes...)
	if err != nil {
		return false, fmt.Errorf("set up space %q: %w", sp.name, err)
	}
	if done && r.Applied {
		s.log.LogAttrs(ctx, slog.LevelWarn,
			"pages of machine IDs were deleted; nothing is leased from them until the longest lease has ended",
			slog.String("space", sp.name), slog.Any("pages", now), slog.Time("free", time.UnixMilli(free).UTC()))
	}
	return r.Applied && last, nil
}

// Check reads the documents of all spaces and reports the first that was set up otherwise than it is configured. One
// read for each space; every call finds that out by itself, Check does it before there are callers.
func (s *Service) Check(ctx context.Context) error {
	for _, name := range s.Spaces() {
		if _, err := s.read(ctx, s.spaces[name], func(geometry) []int { return nil }); err != nil {
			return err
		}
	}
	return nil
}
