package sqlitestore

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// writeLock is the byte of the -shm file that SQLite locks to write to the log.
const writeLock = 120

// holder says which process has the lock of the file, and what it does, as far as Linux tells: of processes of other
// containers it tells nothing. The files are not opened: closing them would give up the locks that this process has.
func (s *Store) holder() string {
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return unknownHolder
	}
	defer func() { _ = locks.Close() }() // it was read only
	files := map[string]bool{}           // by number, whether only its writeLock matters
	for _, suffix := range []string{"", "-shm"} {
		if info, err := os.Stat(s.path + suffix); err == nil {
			if id, ok := info.Sys().(*syscall.Stat_t); ok {
				files[fileNumber(id)] = suffix != ""
			}
		}
	}
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		if pid, ok := holderIn(lines.Text(), files); ok && pid != os.Getpid() {
			return processText(pid)
		}
	}
	return unknownHolder
}

// fileNumber is a file as /proc/locks names it.
func fileNumber(f *syscall.Stat_t) string {
	dev := uint64(f.Dev) //nolint:unconvert // not everywhere of this type
	major := dev>>8&0xfff | dev>>32&^0xfff
	minor := dev&0xff | dev>>12&^0xff
	return fmt.Sprintf("%02x:%02x:%d", major, minor&0xffffffff, f.Ino)
}

// holderIn reads a line of /proc/locks, such as "7: POSIX  ADVISORY  WRITE 4242 fd:01:131 120 120", and reports which
// process has a lock of one of the files by it.
func holderIn(line string, files map[string]bool) (pid int, ok bool) {
	f := strings.Fields(line)
	if len(f) != 8 || f[3] != "WRITE" { // one that waits has "->" behind the number
		return 0, false
	}
	shared, ours := files[f[5]]
	if !ours {
		return 0, false
	}
	if shared {
		first, err := strconv.ParseInt(f[6], 10, 64)
		last, err2 := strconv.ParseInt(f[7], 10, 64)
		if err != nil || err2 != nil || first > writeLock || last < writeLock {
			return 0, false
		}
	}
	pid, err := strconv.Atoi(f[4])
	return pid, err == nil && pid > 0
}

// processText says what a process that has the lock is and does, and what to do.
func processText(pid int) string {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	name, state := "", ""
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "Name:"); ok {
			name = fmt.Sprintf(" (%.32s)", strings.TrimSpace(text))
		}
		if text, ok := strings.CutPrefix(line, "State:"); ok {
			state = strings.TrimSpace(text)
		}
	}
	who := fmt.Sprintf("process %d%s has the lock", pid, name)
	switch {
	case state != "" && slices.Contains([]byte("Tt"), state[0]):
		return who + fmt.Sprintf(" and is stopped: let it go on (kill -CONT %d), or end it", pid)
	case strings.HasPrefix(state, "D"):
		return who + " and waits for a disk"
	default:
		return who + ": if it keeps it, end it"
	}
}
