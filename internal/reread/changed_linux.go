package reread

import (
	"os"
	"syscall"
)

// changedAt is when the file was changed last, in Unix ns, which no program can set: also if its time was set back to
// what it was.
func changedAt(f os.FileInfo) int64 {
	if s, ok := f.Sys().(*syscall.Stat_t); ok {
		return s.Ctim.Nano()
	}
	return 0
}
