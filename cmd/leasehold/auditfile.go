package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// lookAtAuditFile is how often it is made sure that the file of audit events still has its name.
	lookAtAuditFile = time.Second

	// rotateAgain is when a rotation that failed is tried again.
	rotateAgain = time.Minute
)

// auditFile is a file of audit events that keeps itself small: when it is full it becomes FILE.1, that one FILE.2 and so
// on, and the oldest goes. Each event is in one file, whole. The name is moved from the last to the first, so that a
// program that ends in between has lost none, only left a number out. If something else renames or removes the file,
// events go on in a new one of the name a second later.
//
// One process writes to it: two would rotate each other's.
type auditFile struct {
	path  string
	size  int64 // bytes that it has at most, but for one event that is larger; 0: it is not rotated
	files int   // that are kept, with the one that is written to
	log   *slog.Logger

	mu     sync.Mutex
	file   *os.File // nil if it could not be opened again
	closed bool
	has    int64     // bytes
	torn   bool      // the last event is not whole
	looked time.Time // when the name was looked at
	rest   time.Time // until when it is not rotated
}

// openAuditFile opens a file, or makes it with access for its owner alone. The log gets what goes wrong later.
func openAuditFile(path string, size int64, files int, log *slog.Logger) (*auditFile, error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // the link stays one
	}
	f := &auditFile{path: path, size: size, files: max(1, files), log: log}
	return f, f.open()
}

// open goes on in the file that has the name now, and makes one if there is none.
func (f *auditFile) open() error {
	next, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := next.Stat()
	if err != nil {
		_ = next.Close()
		return err
	}
	if f.file != nil {
		_ = f.file.Close() // nothing is kept back: what was written is there
	}
	f.file, f.has, f.torn, f.looked = next, info.Size(), false, time.Now()
	return nil
}

// Write appends an event.
func (f *auditFile) Write(event []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, os.ErrClosed
	}
	full := func() bool {
		return f.size > 0 && f.has > 0 && f.has+int64(len(event)) > f.size && time.Now().After(f.rest)
	}
	if full() || f.file == nil || time.Since(f.looked) >= lookAtAuditFile {
		if err := f.follow(); err != nil {
			return 0, err
		}
	}
	if full() { // it may be another one now
		if err := f.rotate(); err != nil {
			f.rest = time.Now().Add(rotateAgain)
			f.log.Error("the file of audit events cannot be rotated: it grows beyond its size", "file", f.path, "err", err)
		}
		if f.file == nil {
			if err := f.open(); err != nil {
				return 0, err
			}
		}
	}
	if f.torn { // so that what follows can be read
		event = append([]byte{'\n'}, event...)
	}
	n, err := f.file.Write(event)
	f.has += int64(n)
	f.torn = err != nil && (n > 0 || f.torn)
	return n, err
}

// follow opens the file anew if it does not have its name any more. Where that fails it stays with the one that it has.
func (f *auditFile) follow() error {
	f.looked = time.Now()
	if f.file == nil {
		return f.open()
	}
	named, err := os.Stat(f.path)
	if err == nil {
		var own os.FileInfo
		if own, err = f.file.Stat(); err == nil && os.SameFile(named, own) {
			return nil
		}
	}
	if err := f.open(); err != nil {
		f.log.Error("the file of audit events was renamed and cannot be made anew: events go on in the one before", "err", err)
	}
	return nil
}

// rotate gives the file the name of the next older one, and goes on in a new one. If it fails, nothing is lost, and the
// file may be closed.
func (f *auditFile) rotate() error {
	err := f.file.Close() // a file that is open cannot be renamed everywhere
	if f.file = nil; err != nil {
		return err
	}
	older := func(n int) string { return fmt.Sprint(f.path, ".", n) }
	for n := f.files; exists(older(n)); n++ { // more of them were kept before
		if err := os.Remove(older(n)); err != nil {
			return err
		}
	}
	free := 1
	for free < f.files-1 && exists(older(free)) {
		free++
	}
	for ; free > 1; free-- {
		if err := os.Rename(older(free-1), older(free)); err != nil {
			return err
		}
	}
	if f.files == 1 {
		err = os.Remove(f.path)
	} else {
		err = os.Rename(f.path, older(1))
	}
	if err != nil {
		return err
	}
	return f.open()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (f *auditFile) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
