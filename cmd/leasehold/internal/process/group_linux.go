package process

import (
	"os/exec"
	"syscall"
)

// inGroup has a command start in a process group of its own. The system kills the command when this process ends.
func inGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
