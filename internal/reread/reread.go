// Package reread keeps what a program has read from files up to date: tokens, certificates and secrets are replaced
// while programs that use them run.
//
// Files are read again when they have changed: when one of them is another file, has another time or size, or was
// written and given the time that it had. What cannot be read, because a file is half written, empty or not there for a
// moment, changes nothing until it can. No one waits for a file system that does not answer for longer than
// [File.Every].
package reread

import (
	"os"
	"slices"
	"sync"
	"time"
)

// File is what some files say together. It may be used by several goroutines at once once it was opened. All fields but
// Paths, Read and Every may be left out.
type File[T any] struct {
	Paths []string
	Read  func() (T, error)
	Every time.Duration // how often it is looked at whether they have changed, at most

	Changed func(before, after T) // it was read again
	Failed  func(error)           // it could not be: once for each change of the files
	Silent  func()                // the file system does not answer: once for each look

	Stat func(path string) (os.FileInfo, error) // nil means os.Stat

	mu     sync.Mutex
	value  T
	looked time.Time     // when the last look began
	looks  chan struct{} // closed when it ends; nil: it has

	// Of the one look that is under way.
	seen  []os.FileInfo // of what was read, or could not be
	wrong bool          // it could not be
}

// Open reads the files for the first time.
func (f *File[T]) Open() (err error) {
	if f.Stat == nil {
		f.Stat = os.Stat
	}
	f.looked, f.seen = time.Now(), f.stat()
	f.value, err = f.Read()
	return err
}

// Latest is what the files say, as it was looked up less than Every ago.
func (f *File[T]) Latest() T { return f.latest(false) }

// Again is what the files say now, whether they seem to have changed or not.
func (f *File[T]) Again() T { return f.latest(true) }

func (f *File[T]) latest(anyway bool) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		begins := f.looks == nil && (anyway || time.Since(f.looked) >= f.Every)
		if begins {
			f.looked, f.looks = time.Now(), make(chan struct{})
			go f.look(f.looks, f.value, anyway)
		}
		looks, left := f.looks, f.Every-time.Since(f.looked)
		if looks == nil || !f.wait(looks, left, begins) || begins || !anyway {
			return f.value
		}
	}
}

// wait waits for a look, without the lock that its caller has. It reports whether the look has ended.
func (f *File[T]) wait(looks <-chan struct{}, left time.Duration, begins bool) bool {
	f.mu.Unlock()
	defer f.mu.Lock()
	late := time.NewTimer(left)
	defer late.Stop()
	select {
	case <-looks:
		return true
	case <-late.C:
		if begins && f.Silent != nil { // who waits for the same look says nothing
			f.Silent()
		}
		return false
	}
}

// look reads the files if they have changed, or anyway, and closes looks. before is what they said.
func (f *File[T]) look(looks chan struct{}, before T, anyway bool) {
	value := before
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.value, f.looks = value, nil
		close(looks)
	}()
	found := f.stat()
	same := slices.EqualFunc(found, f.seen, unchanged)
	if same && !f.wrong && !anyway {
		return
	}
	f.seen = found
	read, err := f.Read()
	told := f.wrong && same
	if f.wrong = err != nil; !f.wrong {
		value = read
		if f.Changed != nil && (!same || told) {
			f.Changed(before, read)
		}
	} else if f.Failed != nil && !told {
		f.Failed(err)
	}
}

// stat looks at the files; nil is one that cannot be looked at.
func (f *File[T]) stat() []os.FileInfo {
	all := make([]os.FileInfo, len(f.Paths))
	for i, path := range f.Paths {
		if info, err := f.Stat(path); err == nil {
			all[i] = info
		}
	}
	return all
}

// unchanged reports whether a file is the one that it was.
func unchanged(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() &&
		changedAt(a) == changedAt(b)
}
