// Package start is what the examples have in common: a server in memory, and processes of the example's own program,
// which learn from a variable what they are.
package start

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// variable is the one by which a process learns what it is: one argument a line.
const variable = "LEASEHOLD_EXAMPLE"

// Main runs process, in a process that was started by [Start] or [All], with the arguments for it, or show, in the one
// that a person has started. Ctrl-C ends their context. The program ends with 1 if that fails.
func Main(show func(context.Context) error, process func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if args, ok := os.LookupEnv(variable); ok {
		err = process(ctx, strings.Split(args, "\n"))
	} else {
		err = show(ctx)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"), err)
		os.Exit(1) //nolint:gocritic // nothing is left to be stopped
	}
}

// API is Leasehold's server on a store in memory.
func API() http.Handler { return httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil) }

// Server serves on an address until it is closed.
func Server(ctx context.Context, address string, h http.Handler) (url string, s *http.Server, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return "", nil, err
	}
	return "http://" + l.Addr().String(), Serve(l, h), nil
}

// Serve serves on a listener, until the server is closed.
func Serve(l net.Listener, h http.Handler) *http.Server {
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }()
	return s
}

// AnyPort is an address of this machine with a port that is free.
const AnyPort = "127.0.0.1:0"

// Command is a process of this program with arguments, which prints where this one does. It ends with the context.
func Command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self) //nolint:gosec // this program
	c.Env = append(os.Environ(), variable+"="+strings.Join(args, "\n"))
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c, nil
}

// Process is a process that was started.
type Process struct {
	*exec.Cmd

	In  io.Closer      // its standard input, which ends when this process does
	Out *bufio.Scanner // what it prints
}

// Start starts a process of this program with arguments, which this one reads.
func Start(ctx context.Context, args ...string) (*Process, error) {
	c, err := Command(ctx, args...)
	if err != nil {
		return nil, err
	}
	c.Stdout = nil
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &Process{c, in, bufio.NewScanner(out)}, c.Start()
}

// First is the first line that it prints. The error is that of one which ended before.
func (p *Process) First() (string, error) {
	if p.Out.Scan() {
		return p.Out.Text(), nil
	}
	return "", fmt.Errorf("it ended before it had started: %w", errors.Join(p.Out.Err(), p.Wait()))
}

// All runs a process for each name, with the name and more arguments, until all have ended. One that fails ends the
// others.
func All(ctx context.Context, names []string, more ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(names))
	var wait sync.WaitGroup
	for i, name := range names {
		c, err := Command(ctx, append([]string{name}, more...)...)
		if err != nil {
			return err
		}
		wait.Go(func() {
			if errs[i] = c.Run(); errs[i] != nil {
				cancel()
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}
