package projectlock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// record is the content of the file: the lease that holds the lock, with the names and units of the browser's lease.
type record struct {
	ID           string  `json:"id"`
	Backend      Backend `json:"backend"`
	Scope        Scope   `json:"scope"`
	AcquiredAt   int64   `json:"acquiredAt"`   // ms since 1970
	TTLExpiresAt int64   `json:"ttlExpiresAt"` // ms since 1970
}

// recordBytes is how long every content is: JSON and spaces. So a renewal never changes the length, and one write
// replaces all.
const recordBytes = 256

func (r record) encode() []byte {
	b, err := json.Marshal(r)
	if err != nil || len(b) >= recordBytes {
		panic(fmt.Sprintf("a record of %d bytes: %v", len(b), err)) // a UUID, two short words and two numbers always fit
	}
	return append(fmt.Appendf(nil, "%-*s", recordBytes-1, b), '\n')
}

// decode reads a content. ok is false if it is damaged: not what a writer leaves behind that was not stopped in
// between.
func decode(content []byte) (r record, ok bool) {
	if len(content) > maxContent || json.Unmarshal(content, &r) != nil {
		return record{}, false
	}
	return r, r.TTLExpiresAt > 0
}

// errBroken marks a file that cannot be a lock.
var errBroken = errors.New("not a lock's file")

// fileLock is the lock in the file.
//
// A file that exists and has not expired is the lock. It is created with O_EXCL, and whatever changes or removes an
// existing one does so under the kernel's lock on that very file, after it has made sure that the file is still the one
// at the path, and has read it again. The kernel's lock ends with the process, so no change is left half-done by a lock
// that no process holds; and while it is held, no other process changes or removes the file. So what was found is still
// true when it is acted upon, however long the process was stopped in between.
type fileLock struct {
	path  string
	disk  disk
	clock term.Clock

	// left reports whether a lease of this process was released and could not be removed: its file is free for this
	// process.
	left func(id string) bool

	// taken ends that, because the lease's own acquire has taken the file over. It is called under the kernel's lock on
	// the file.
	taken func(id string)
}

func (*fileLock) name() Backend { return Fallback }

// holder is the error of a lock that is held, nil if it is free: there is no lease, or the one in the file has expired
// by the time that its writer named. A damaged file counts as one that was written when it was last changed.
func (l *fileLock) holder(content []byte, info fs.FileInfo, now time.Time) error {
	r, ok := decode(content)
	until, owner := time.UnixMilli(r.TTLExpiresAt), cmp.Or(r.ID, "without a name")
	if !ok {
		until, owner = info.ModTime().Add(TTL), "of a damaged file"
	}
	if now.UnixMilli() >= until.UnixMilli() || ok && l.left(r.ID) {
		return nil
	}
	err := contracts.Errorf(contracts.CodeLockHeld, "%s is held", l.path)
	err.Owner, err.ExpiresAt = "lease "+owner, until
	return err
}

// look opens the file for this caller alone and makes sure that it is the one at the path. The error is errBusy,
// fs.ErrNotExist or fs.ErrExist if another caller was quicker.
func (l *fileLock) look(create bool) (file, fs.FileInfo, error) {
	f, err := l.disk.open(l.path, create)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.stat()
	if err == nil {
		var now fs.FileInfo
		if now, err = l.disk.stat(l.path); err == nil && !os.SameFile(info, now) {
			err = errBusy // it was removed, and another one created
		}
	}
	if err != nil {
		_ = f.close()
		return nil, nil, err
	}
	return f, info, nil
}

// acquire makes one attempt. The error is LOCK_HELD, or errBusy, if another caller is quicker.
func (l *fileLock) acquire(_ context.Context, t *try, a *attempt) (grant, error) {
	info, err := l.disk.stat(l.path)
	create := errors.Is(err, fs.ErrNotExist)
	if err != nil && !create {
		return grant{}, err
	}
	if !create {
		if !info.Mode().IsRegular() {
			return grant{}, fmt.Errorf("%s is %w: remove it", l.path, errBroken)
		}
		content, err := l.disk.read(l.path)
		if errors.Is(err, fs.ErrNotExist) {
			err = errBusy // it was removed just now
		}
		if err == nil {
			err = l.holder(content, info, l.clock().Wall())
		}
		if err != nil {
			return grant{}, err
		}
	}
	f, info, err := l.look(create)
	if err != nil {
		if create && errors.Is(err, fs.ErrExist) || !create && errors.Is(err, fs.ErrNotExist) {
			err = errBusy
		}
		return grant{}, err
	}
	defer func() { _ = f.close() }() // what it has written is judged by the write
	content, err := f.read()
	if err != nil {
		return grant{}, err
	}
	now := l.clock()
	if !create || len(content) > 0 { // an empty one was created just now, by this caller
		if err := l.holder(content, info, now.Wall()); err != nil {
			return grant{}, err
		}
	}
	g := newGrant(now, TTL)
	err = f.write(record{a.id, Fallback, a.scope, g.acquiredAt().UnixMilli(), g.expiresAt.UnixMilli()}.encode())
	if err == nil && t.commit() {
		l.taken(a.id) // an earlier try of the same acquire may have left it behind
		return g, nil
	}
	undo := f.remove(l.path)
	switch {
	case undo != nil && err == nil:
		a.remains(undo)
	case undo != nil && create:
		a.warn(fmt.Sprintf("%s stays behind without a lease, and keeps the lock for %v: %v", l.path, TTL, undo))
	}
	return grant{}, cmp.Or(err, errAbandoned)
}

// mine opens the file if it holds the lease. The error is ErrLost if it does not.
func (l *fileLock) mine(ctx context.Context, id string) (file, error) {
	for {
		f, _, err := l.look(false)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if _, err := l.disk.stat(filepath.Dir(l.path)); err != nil {
				return nil, err // the folder is away, as on a network; not the file alone
			}
			return nil, fmt.Errorf("%w: %s is gone", ErrLost, l.path)
		case errors.Is(err, errBusy):
			if err := backoff.Sleep(ctx, time.Millisecond); err != nil { // for as long as another caller looks at it
				return nil, cmp.Or(context.Cause(ctx), err)
			}
			continue
		case err != nil:
			return nil, err
		}
		content, err := f.read()
		if err == nil {
			if r, ok := decode(content); !ok || r.ID != id {
				err = fmt.Errorf("%w: %s has another lease", ErrLost, l.path)
			}
		}
		if err != nil {
			_ = f.close()
			return nil, err
		}
		return f, nil
	}
}

// renew makes one attempt. The error is ErrLost if the file is not the lease's any more.
func (l *fileLock) renew(ctx context.Context, h *held, _ renewal) (grant, error) {
	f, err := l.mine(ctx, h.id)
	if err != nil {
		return grant{}, err
	}
	defer func() { _ = f.close() }() // as in acquire
	if err := cmp.Or(context.Cause(ctx), h.term.Check()); err != nil {
		return grant{}, err // what was waited for came too late
	}
	g := newGrant(l.clock(), TTL)
	return g, f.write(record{h.id, Fallback, h.scope, h.acquiredAt.UnixMilli(), g.expiresAt.UnixMilli()}.encode())
}

// release makes one attempt to remove the file. The error is ErrLost if it is not the lease's any more, and is then
// left alone.
func (l *fileLock) release(ctx context.Context, over *leftover) error {
	f, err := l.mine(ctx, over.id)
	if err != nil {
		return err
	}
	defer func() { _ = f.close() }() // it was only read
	if over.held == nil && !l.left(over.id) {
		return fmt.Errorf("%w: a later try of the same acquire has %s", ErrLost, l.path)
	}
	return f.remove(l.path)
}

// abandon has nothing to do: an attempt that was abandoned removes its own file.
func (*fileLock) abandon(*attempt) {}

// judge says what an error of an attempt means.
func (l *fileLock) judge(err error) (r Reason, permanent bool) {
	switch {
	case errors.Is(err, contracts.CodeLockHeld), errors.Is(err, errBusy):
		return Contended, false
	case errors.Is(err, errBroken), denied(err):
		return Unavailable, true
	case errors.Is(err, CodeLockTimeout), errors.Is(err, fs.ErrNotExist):
		return Unavailable, false
	default:
		return TransientError, false
	}
}
