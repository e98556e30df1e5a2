//go:build unix

package tokenfile

import (
	"os"
	"syscall"
)

// own gives a file the owner of another one, if that is not the owner already.
func own(w *os.File, old os.FileInfo) error {
	s, ok := old.Sys().(*syscall.Stat_t)
	if !ok || int(s.Uid) == os.Geteuid() && int(s.Gid) == os.Getegid() {
		return nil
	}
	return w.Chown(int(s.Uid), int(s.Gid))
}
