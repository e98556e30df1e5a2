//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package projectlock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// openAlone fails: without the kernel's locks two processes could take over one orphan.
func openAlone(path string, _ bool) (*os.File, error) {
	return nil, fmt.Errorf("lock %s: %w: %s has no file locks; use the service", path, errors.ErrUnsupported, runtime.GOOS)
}

func removeAlone(_ *os.File, path string) error { return os.Remove(path) }

func busy(err error) error { return err }

// denied reports whether another attempt would fail in the same way.
func denied(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported)
}
