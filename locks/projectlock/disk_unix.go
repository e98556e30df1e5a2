//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package projectlock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// openAlone opens the file and takes the kernel's lock on it, which ends with the process. Other programs may still
// read and remove the file; those that follow this protocol do not while the lock is held.
func openAlone(path string, create bool) (*os.File, error) {
	flag := os.O_RDWR | syscall.O_NOFOLLOW
	if create {
		flag |= os.O_CREATE | os.O_EXCL
	}
	//nolint:gosec // who may take over an orphan is for the umask to say, as with every file of the project
	f, err := os.OpenFile(path, flag, 0o666)
	if err != nil {
		return nil, err
	}
	err = flock(f)
	for n := 0; create && errors.Is(err, errBusy) && n < 1000; n++ {
		time.Sleep(time.Millisecond) // a holder that lost its lease looks whether the new file is its own
		err = flock(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err // an empty file stays behind if that other process was stopped; it counts as held for the ttl
	}
	return f, nil
}

// flock does not wait.
func flock(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	err = raw.Control(func(fd uintptr) {
		for {
			locked = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB)
			if !errors.Is(locked, syscall.EINTR) {
				return
			}
		}
	})
	switch {
	case err != nil:
		return err
	case errors.Is(locked, syscall.EWOULDBLOCK):
		return errBusy
	case errors.Is(locked, errors.ErrUnsupported), errors.Is(locked, syscall.ENOLCK), errors.Is(locked, syscall.EINVAL):
		return fmt.Errorf("lock %s: %w: the filesystem has no file locks (%w); use the service", f.Name(),
			errors.ErrUnsupported, locked)
	case locked != nil:
		return fmt.Errorf("lock %s: %w", f.Name(), locked)
	}
	return nil
}

// removeAlone removes the file while it is locked: no other process can have put another one in its place.
func removeAlone(_ *os.File, path string) error { return os.Remove(path) }

// busy is an error of opening or reading in which a file that another process has open shows. None does here.
func busy(err error) error { return err }

// denied reports whether the process lacks a right, so that another attempt would fail in the same way.
func denied(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, errors.ErrUnsupported)
}
