package docstoretest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// signalWithin is how long a signal may take. It is far more than any store needs: a check does not depend on the
// machine's speed.
const signalWithin = 20 * time.Second

// checkWatch is for stores that are a [docstore.Watcher]. An adapter that begins to watch only after it has read the
// document loses a change in between; one that has room for a signal in a channel without a buffer loses those that
// come while its reader works.
func checkWatch(ctx context.Context, s docstore.Store) error {
	w, ok := s.(docstore.Watcher)
	if !ok {
		return nil
	}
	var f findings
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if _, err := w.Watch(ctx, docstore.Key{}); !errors.Is(err, docstore.ErrInvalid) {
		f.addf("watch of no key: error %v, want ErrInvalid", err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if _, err := w.Watch(ended, key("a")); !errors.Is(err, context.Canceled) {
		f.addf("watch in a context that has ended: error %v", err)
	}
	a, err := w.Watch(ctx, key("a"))
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	twin, err := w.Watch(ctx, key("a"))
	if err != nil {
		return fmt.Errorf("watch again: %w", err)
	}
	if !signalled(a.Changed) || !signalled(twin.Changed) {
		f.addf("no signal that a watch has begun")
	}
	for n := range 3 {
		if err := put(ctx, s, key("a"), docstore.Doc{"n": docstore.Int(int64(n))}); err != nil {
			return err
		}
		for name, c := range map[string]<-chan struct{}{"the first watch": a.Changed, "the second watch": twin.Changed} {
			if !signalled(c) {
				f.addf("%s: no signal of change %d", name, n)
			}
		}
	}
	// A change while no one receives is not lost.
	quiet(a.Changed)
	if err := put(ctx, s, key("a"), docstore.Doc{"n": docstore.Int(10)}); err != nil {
		return err
	}
	if r, err := s.Write(ctx, docstore.Write{Key: key("a"), If: docstore.Eq{Field: "n", Value: docstore.Int(10)},
		Delete: true}); err != nil || !r.Applied {
		return fmt.Errorf("delete: %+v, error %w", r, err)
	}
	if !signalled(a.Changed) {
		f.addf("no signal of a change that came before it was waited for, nor of a delete")
	}
	// One step with several documents.
	b, err := w.Watch(ctx, key("b"))
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	quiet(a.Changed)
	quiet(b.Changed)
	if _, err := s.Write(ctx, docstore.Write{Key: key("c"), Set: docstore.Doc{"n": docstore.Int(1)}},
		docstore.Write{Key: key("b"), Set: docstore.Doc{"n": docstore.Int(1)}}); err != nil {
		return fmt.Errorf("write two: %w", err)
	}
	if !signalled(b.Changed) {
		f.addf("no signal of a document that was the second of a step")
	}
	if err := s.Close(); err != nil {
		f.addf("Close while documents are watched: %w", err)
	}
	if _, err := w.Watch(ctx, key("a")); !errors.Is(err, docstore.ErrClosed) {
		f.addf("watch of a closed store: error %v, want ErrClosed", err)
	}
	return f.err()
}

// Watched holds two stores on the same data, such as two processes have, to what [docstore.Watch] says: a change that
// there makes is signalled by here, unless that says that it does not know all changes. With knows it must know them,
// at the latest some seconds after a watch has begun.
func Watched(ctx context.Context, here, there docstore.Store, knows bool) error {
	w, ok := here.(docstore.Watcher)
	if !ok {
		return errors.New("the store does not signal changes")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	a, err := w.Watch(ctx, key("a"))
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	b, err := w.Watch(ctx, key("b"))
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if !signalled(a.Changed) || !signalled(b.Changed) {
		return errors.New("no signal that a watch has begun")
	}
	var f findings
	complete := func() bool { return a.Complete != nil && a.Complete() }
	for over := time.Now().Add(signalWithin); knows && !complete(); time.Sleep(time.Millisecond) {
		if time.Now().After(over) {
			return errors.New("it does not know all changes")
		}
	}
	for n := range 5 {
		if !complete() {
			quiet(a.Changed)
		}
		if err := put(ctx, there, key("a"), docstore.Doc{"n": docstore.Int(int64(n))}); err != nil {
			return err
		}
		if complete() && !signalled(a.Changed) {
			f.addf("no signal of change %d, which another store made", n)
		}
	}
	quiet(b.Changed)
	r, err := there.Write(ctx, docstore.Write{Key: key("b"), Set: docstore.Doc{"n": docstore.Int(1)}},
		docstore.Write{Key: key("a"), If: docstore.Has{Field: "n"}, Delete: true})
	if err != nil || !r.Applied {
		return fmt.Errorf("write two: %+v, error %w", r, err)
	}
	if complete() && (!signalled(a.Changed) || !signalled(b.Changed)) {
		f.addf("no signal of a document that another store created, or deleted")
	}
	return f.err()
}

// signalled waits for a signal.
func signalled(c <-chan struct{}) bool {
	over := time.NewTimer(signalWithin)
	defer over.Stop()
	select {
	case _, open := <-c:
		return open
	case <-over.C:
		return false
	}
}

// quiet takes the signals that are there, until none comes for a moment.
func quiet(c <-chan struct{}) {
	for {
		select {
		case <-c:
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}
