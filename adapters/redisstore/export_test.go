package redisstore

import (
	"context"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// MostShapes is how many shapes of writes a store compiles.
const MostShapes = mostShapes

// Carry lets the text of the script come along with every write, as it does with those of which a server keeps none. It
// is that of several writes.
func (s *Store) Carry() { s.shapes.most, s.shapes.locals = -1, -1 }

// Shapes is how many shapes of writes the store keeps a script for.
func (s *Store) Shapes() int {
	s.shapes.mu.RLock()
	defer s.shapes.mu.RUnlock()
	return len(s.shapes.all)
}

// Flights is how many connections requests that are sent together use at once.
const Flights = flights

// Waiting is how many requests wait for a connection of the shard that has the documents of a tenant.
func (s *Store) Waiting(tenant string) int {
	l := &s.keys.of(tenant).line
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// Compiled makes the arguments of a write's own script, and the document of the values that this returns.
func (s *Store) Compiled(w docstore.Write, values string) (docstore.Doc, error) {
	sc, _ := s.shapes.compile([]docstore.Write{w})
	return sc.returned(w, time.Unix(0, 0), unpacker{values})
}

// Pack is a text of values, as scripts return them.
func Pack(values ...docstore.Value) string {
	var b []byte
	for _, v := range values {
		b = appendValue(b, v)
	}
	return string(b)
}

// PackDocument is a document as it is stored. ends is 0 if it does not end.
func PackDocument(ends int64, doc docstore.Doc) string {
	b := appendBig([]byte{0xdf}, uint64(len(doc)), 4)
	for f, v := range doc {
		b = appendValue(appendText(b, "", f), v)
	}
	return string(appendInt(b, ends))
}

// UnpackDocument is the document that is stored as a text.
func UnpackDocument(stored string) (docstore.Doc, error) {
	u := unpacker{stored}
	doc, err := u.doc()
	if err == nil && u.rest != "" {
		err = errPacked
	}
	return doc, err
}

// Own is what a shard keeps of itself: its generation, the number of writes, and the floor.
func Own(stored string) (generation string, writes, floor int64) {
	u := unpacker{stored}
	generation = u.next().text
	writes, floor = u.next().n, u.next().n
	return generation, writes, floor
}

// Writers is what is stored of the latest writes of each store, see wrote.lua.
func Writers(stored string) string {
	u := unpacker{stored}
	for range 6 { // generation, writes, floor, indexed, indexes, and when each was filled
		u.skip(u.next())
	}
	return u.next().text
}

// Sent reports whether a request that waits is sent if its caller has the context.
func Sent(ctx context.Context) bool {
	l := line{waiting: []*request{{ctx: ctx, done: make(chan struct{})}}, flying: 1}
	return len(l.board()) == 1
}

// Dies ends what goes on beside the calls, as when the process ends.
func (s *Store) Dies() { s.end() }

// InsistEvery are options with which a store looks so often whether all shards are marked, and whether tokens were
// raised.
func InsistEvery(d time.Duration, o Options) *Options {
	o.insistEvery = d
	return &o
}

// RejectsRepeat reports whether a write may be sent again although it may have been applied.
func RejectsRepeat(w docstore.Write) bool { return rejectsRepeat(w) }

// Fills makes an index of a query in three steps: it is begun, documents are put there, it is said to be filled. Between
// these the test says what happens.
func (s *Store) Fills(ctx context.Context, q docstore.DueQuery, begun, filled func()) error {
	numbers, err := s.kept(ctx, q, nil)
	if err != nil {
		return err
	}
	begun()
	if err := s.fillAll(ctx, q); err != nil {
		return err
	}
	filled()
	_, err = s.kept(ctx, q, numbers)
	return err
}
