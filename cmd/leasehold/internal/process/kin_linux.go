package process

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bootClock counts while the machine sleeps.
const bootClock = unix.CLOCK_BOOTTIME

// attributes has a command start in a process group of its own. The system kills it when its watcher ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adopt makes what descends from this process its own child when it loses its parent.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } // since Linux 3.4

// relative is a process.
type relative struct {
	pid, parent int
	dead        bool // and not waited for yet
}

// processes are all those of this machine, or of this container.
func processes() (all []relative) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		// The name may have spaces and brackets: what follows its last one has none.
		text := string(stat)
		words := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if len(words) < 2 {
			continue
		}
		parent, err := strconv.Atoi(words[1])
		if err == nil {
			all = append(all, relative{pid, parent, words[0] == "Z" || words[0] == "X"})
		}
	}
	return all
}

// descendants are those of a process that live.
func descendants(of int) (pids []int) {
	all := processes()
	family := map[int]bool{of: true}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if family[p.parent] && !family[p.pid] {
				family[p.pid], grown = true, true
				if !p.dead {
					pids = append(pids, p.pid)
				}
			}
		}
	}
	return pids
}

// kill kills a group, and all that descends from this process. It reports whether there was someone to kill.
func kill(group int) (found bool) {
	_ = syscall.Kill(-group, syscall.SIGKILL) // at once; all of it descends from this process, too
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err == unix.ECHILD {
		return false // who has no child has no descendant: orphans are its children
	}
	for _, pid := range descendants(os.Getpid()) {
		found = syscall.Kill(pid, syscall.SIGKILL) == nil || found
	}
	return found
}

// endAll kills a group, and all that descends from this process, and returns when they have ended.
func endAll(group int) {
	for again := killAgain; kill(group); again = min(2*again, killSlow) {
		bury(0)
		time.Sleep(again)
	}
	bury(0)
}

// bury waits for the dead children of this process, but for one.
func bury(but int) {
	self := os.Getpid()
	for _, p := range processes() {
		if p.parent == self && p.dead && p.pid != but {
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
		}
	}
}

// reapOrphans waits for what becomes this process's child because it has lost its parent, as that of a container's
// first process does, until stop is called. It leaves the watcher to others.
func reapOrphans(watcher int) (stop func()) {
	died := make(chan os.Signal, 1)
	over := make(chan struct{})
	signal.Notify(died, syscall.SIGCHLD)
	go func() {
		for {
			select {
			case <-died:
				bury(watcher)
			case <-over:
				return
			}
		}
	}()
	return func() {
		signal.Stop(died)
		close(over)
	}
}
