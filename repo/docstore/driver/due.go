package driver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/internal/cursor"
)

// DueCursor is a place in the order of [docstore.DueLister]: the field's value and the ID of the last document of a
// page. The zero DueCursor is the beginning.
type DueCursor = cursor.Cursor

// ParseDueCursor reads what [DueCursor.String] wrote; empty is the zero DueCursor. The error is [docstore.ErrInvalid].
func ParseDueCursor(s string) (DueCursor, error) {
	c, err := cursor.Parse(s)
	if err != nil {
		return DueCursor{}, fmt.Errorf("%w: %w", docstore.ErrInvalid, err)
	}
	return c, nil
}

// How many shards an index on times can have where a store needs it to have some, because what waits for a time is
// always written at the index' end. Readers look at all shards that were ever used, and at the default number at least.
const (
	DefaultDueShards = 8
	MaxDueShards     = 64
)

// DueShard is the shard of a document.
func DueShard(id string, shards int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))             // never an error
	return int(h.Sum32() % uint32(shards)) //nolint:gosec // MaxDueShards at most
}

// DuePlaces is how far a walk through a sharded index has come: in each shard, and last in the index that is not
// sharded. Documents with equal values are in an order that only the service knows, so that a place in one shard says
// nothing about another. See [BeginDue].
type DuePlaces struct {
	Shards int  `json:"shards"`           // 0 if the index is not sharded
	Single bool `json:"single,omitempty"` // an index that is not sharded is asked, too

	// At is empty for a shard at its beginning, has the value and the ID of the last document that was taken, or one text
	// when there is no more.
	At [][]string `json:"at"`
}

// BeginDue is the beginning of a walk.
func BeginDue(shards int, single bool) DuePlaces {
	p := DuePlaces{Shards: shards, Single: single}
	p.At = make([][]string, p.all())
	return p
}

func (p DuePlaces) all() int {
	if p.Single {
		return p.Shards + 1
	}
	return p.Shards
}

// ParseDuePlaces reads the next page's place, as [DuePlaces.Page] returned it. The error is [docstore.ErrInvalid].
func ParseDuePlaces(after string) (DuePlaces, error) {
	var p DuePlaces
	err := json.Unmarshal([]byte(after), &p)
	if err != nil || p.Shards < 0 || p.Shards > MaxDueShards || p.all() == 0 || len(p.At) != p.all() ||
		slices.ContainsFunc(p.At, func(x []string) bool { return len(x) > 2 || len(x) == 2 && x[1] == "" }) {
		return DuePlaces{}, fmt.Errorf("%w: after %q is not one that a page gave", docstore.ErrInvalid, after)
	}
	return p, nil
}

// DueItem is a document that was read from an index.
type DueItem struct {
	docstore.Entry

	At   DueCursor // its place in its shard
	Skip bool      // it is not on the page: another shard has it, or no one can name it
}

// DueReader reads documents of a shard in the order of the field, behind a place, some at most. ended says that there
// are no more behind those. The shard p.Shards is the index that is not sharded.
type DueReader func(ctx context.Context, shard int, after DueCursor, most int) (items []DueItem, ended bool, err error)

// Page merges the next documents of all shards by the value of the field, size at most. Next is empty when this was the
// last page. Shards of which nothing is at hand are read at once; those that have more than their part, again.
func (p DuePlaces) Page(ctx context.Context, size int, read DueReader) (entries []docstore.Entry,
	next string, err error) {
	streams := make([]*dueStream, len(p.At))
	for i, at := range p.At {
		streams[i] = &dueStream{shard: i, ended: len(at) == 1}
		if len(at) == 2 {
			streams[i].taken = DueCursor{Value: at[0], ID: at[1]}
			streams[i].read = streams[i].taken
		}
	}
	for {
		// The next document is known when none of the shards may have one that was not read.
		if err := fillStreams(ctx, streams, size, read); err != nil {
			return nil, "", err
		}
		entries = mergeStreams(entries, streams, size)
		more := slices.ContainsFunc(streams, func(x *dueStream) bool { return len(x.items) > 0 })
		switch {
		case !more && !slices.ContainsFunc(streams, func(x *dueStream) bool { return !x.ended }):
			return entries, "", nil
		case more && len(entries) == size:
			return entries, p.after(streams), nil
		}
	}
}

// after is the place behind what was taken from the streams.
func (p DuePlaces) after(streams []*dueStream) string {
	p.At = make([][]string, len(streams))
	for i, x := range streams {
		switch {
		case x.ended && len(x.items) == 0:
			p.At[i] = []string{""}
		case x.taken != DueCursor{}:
			p.At[i] = []string{x.taken.Value, x.taken.ID}
		}
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // texts have a JSON form
	}
	return string(b)
}

// dueStream is what one shard has.
type dueStream struct {
	shard int
	taken DueCursor // the last document that was taken
	read  DueCursor // the last that was read
	items []DueItem // that were read and not taken
	ended bool      // nothing lies behind what was read
}

// fillStreams reads on in all shards of which nothing is at hand.
func fillStreams(ctx context.Context, streams []*dueStream, size int, read DueReader) error {
	// A page is of one more than it has, so that the last can say that it is the last. Of several shards each has about
	// its part.
	most := size + 1
	if len(streams) > 1 {
		most = min(most, size*3/(2*len(streams))+2)
	}
	errs := make([]error, len(streams))
	var all sync.WaitGroup
	for i, x := range streams {
		if x.ended || len(x.items) > 0 {
			continue
		}
		all.Go(func() {
			if x.items, x.ended, errs[i] = read(ctx, x.shard, x.read, most); len(x.items) > 0 {
				x.read = x.items[len(x.items)-1].At
			}
		})
	}
	all.Wait()
	return cmp.Or(errs...)
}

// mergeStreams takes documents in the order of the field, until there are size of them or a shard that may have more
// has nothing at hand.
func mergeStreams(entries []docstore.Entry, streams []*dueStream, size int) []docstore.Entry {
	for {
		var next *dueStream
		for _, x := range streams {
			for len(x.items) > 0 && x.items[0].Skip {
				x.take()
			}
			switch {
			case len(x.items) == 0 && !x.ended:
				return entries
			case len(x.items) > 0 && (next == nil || x.items[0].At.Value < next.items[0].At.Value):
				next = x
			}
		}
		if next == nil || len(entries) == size {
			return entries
		}
		entries = append(entries, next.take().Entry)
	}
}

func (x *dueStream) take() DueItem {
	first := x.items[0]
	x.items, x.taken = x.items[1:], first.At
	return first
}
