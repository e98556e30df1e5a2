package demo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/process"
	"github.com/leasehold-dev/leasehold/internal/backoff"
)

// child is a worker process, as the demonstration sees it.
type child struct {
	pid int

	command *exec.Cmd
	input   io.WriteCloser
}

// startChild starts a worker: the program, as "demo --worker NAME --worker-server URL MORE…". told, if there is one, is
// called with each line that it writes, and then ended, once, when it has ended. The error is that of a worker that did
// not begin.
func startChild(
	program, name, server string, more []string, told func(line []byte), ended func(),
) (*child, error) {
	//nolint:gosec,noctx // this program itself; the demonstration ends its workers
	c := exec.Command(program, append([]string{"demo", "--worker", name, "--worker-server", server}, more...)...)
	// A pipe of our own: that of the command would be closed when it ends, with lines in it that were not read.
	output, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start a worker process: %w", err)
	}
	c.Stdout, c.Stderr = theirs, os.Stderr
	input, err := c.StdinPipe()
	read := make(chan struct{})
	if err == nil {
		err = process.Start(c, func(error) { // how it ended is what it said, or did not say
			<-read
			ended()
		})
	}
	_ = theirs.Close() // the worker has its own
	if err != nil {
		_ = output.Close()
		return nil, fmt.Errorf("start a worker process: %w", err)
	}
	go func() {
		defer close(read)
		defer output.Close() //nolint:errcheck // nothing is left to be read
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if told != nil {
				told(lines.Bytes())
			}
		}
	}()
	return &child{pid: c.Process.Pid, command: c, input: input}, nil
}

// tell writes a line to a worker. One that cannot be told is dead.
func (w *child) tell(line any) { _, _ = fmt.Fprintln(w.input, line) }

// endInput ends a worker's input, for which it waits.
func (w *child) endInput() { _ = w.input.Close() }

// kill sends SIGKILL. When the worker is dead, ended is called.
func (w *child) kill() {
	_ = w.command.Process.Kill() // it may have ended
	w.endInput()
}

// freeze stops a worker until thaw. It returns when the worker has stopped.
func (w *child) freeze() error { return process.Stop(w.command) }

// thaw lets a worker go on that is frozen.
func (w *child) thaw() error { return process.Continue(w.command) }

// input reads a worker's standard input: each line is given to told, if there is one. The channel is closed when the
// input has ended, or cannot be read.
func input(in io.Reader, told func(line string)) (ended <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			if told != nil {
				told(lines.Text())
			}
		}
	}()
	return done
}

// pause waits for d, or until the context ends: the work of a worker, and its wait for the next turn.
func pause(ctx context.Context, d time.Duration) { _ = backoff.Sleep(ctx, d) }
