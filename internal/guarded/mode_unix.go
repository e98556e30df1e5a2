//go:build unix

package guarded

import (
	"io/fs"
	"os"
	"syscall"
)

func othersWrite(info fs.FileInfo) bool { return info.Mode().Perm()&0o002 != 0 }

func othersRead(info fs.FileInfo) bool { return info.Mode().Perm()&0o004 != 0 }

// stranger returns the owner of a file if that is neither root nor this program's user.
func stranger(info fs.FileInfo) (owner uint32, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || s.Uid == 0 || int(s.Uid) == os.Geteuid() {
		return 0, false
	}
	return s.Uid, true
}
