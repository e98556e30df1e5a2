//go:build !unix

package process

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// Watched is a command. There are no process groups here, and no watcher: what the command started goes on without it,
// and the command without this process.
type Watched struct {
	command *exec.Cmd
	ended   chan struct{}
	err     error
}

// Watch starts a command. The error is that of a command that did not begin.
func Watch(c *exec.Cmd, _ time.Duration, _ func() Times) (*Watched, error) {
	w := &Watched{command: c, ended: make(chan struct{})}
	return w, Start(c, func(err error) {
		w.err = err
		if exited, ok := errors.AsType[*exec.ExitError](err); ok {
			w.err = &EndError{exited.ExitCode(), 0, exited.Error()}
		}
		close(w.ended)
	})
}

// Ended is closed when the command has ended.
func (w *Watched) Ended() <-chan struct{} { return w.ended }

// Err is how the command has ended, an [*EndError], or nil if it succeeded; to be asked for when it has.
func (w *Watched) Err() error { return w.err }

// Interrupted reports nothing: the keys of a terminal reach this process itself.
func (w *Watched) Interrupted() bool { return false }

// Look does nothing: no one watches.
func (w *Watched) Look() {}

// Signal ends the command, because there is no gentler way. It fails if the command has ended.
func (w *Watched) Signal(os.Signal) { _ = w.command.Process.Kill() }
