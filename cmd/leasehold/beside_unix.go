//go:build unix

package main

import (
	"errors"
	"os"
	"syscall"
)

// lockServers locks the file of servers: with errServed if another one has it, or with errBeside if it may.
func lockServers(f *os.File, beside bool) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	flock := func(how int) (err error) {
		controlled := raw.Control(func(fd uintptr) {
			for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
				err = syscall.Flock(int(fd), how)
			}
		})
		return errors.Join(controlled, err)
	}
	// Who has it alone for a moment sees that no one else does; then it shares it.
	err = flock(syscall.LOCK_EX | syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK) && !beside:
		return errServed
	case errors.Is(err, syscall.EWOULDBLOCK):
		return errors.Join(errBeside, flock(syscall.LOCK_SH))
	case err != nil:
		return err
	}
	return flock(syscall.LOCK_SH)
}
