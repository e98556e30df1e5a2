package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"

	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/demo"
)

type demoCmd struct {
	Check     bool   `xor:"check" help:"Play the scenes here in the terminal, as is done where there is no browser."`
	JSON      bool   `name:"json" xor:"json" help:"As --check, and print one JSON object a line, for machines."`
	NoBrowser bool   `xor:"check,json" help:"Serve the page and print its address, and open no browser."`
	Listen    string `placeholder:"HOST:PORT" help:"Address of this machine to listen on. The default is a free port of 127.0.0.1."`

	// A worker of the demonstration is a process of its own, so that it can be killed.
	Worker         string `hidden:""`
	WorkerServer   string `hidden:""`
	WorkerAnalysis string `hidden:""` // none: it is a worker of the page
}

// Help is the longer help of the command.
func (demoCmd) Help() string {
	return `Opens a page in the browser, and goes on until Ctrl-C: three worker processes share a lock, and pay into two accounts, without a fence and with one. Freeze a worker (SIGSTOP), kill it, lose an answer, set its clock, and watch both accounts. A button plays four scenes, each of which checks what must hold:

  1. two workers acquire one lock, and the stale token of a paused holder is rejected
  2. a queue delivers a task five times at once, and it runs once
  3. a worker process is killed during its work, and another takes over
  4. a room that five callers ask for is active once; its member dies, and another serves it

Where there is no browser it plays the scenes in the terminal, on a server with the embedded store in a temporary folder, and ends by itself after about ten seconds. Exit code 0: every check passed; 1: one failed. This is so with --check, if the output is not a terminal, if CI is set, and without a display.

It needs nothing else. The page, and its buttons, are for this machine only.`
}

// Run shows the page or plays the scenes, or is one of their workers.
func (c *demoCmd) Run(ctx context.Context, s *streams) error {
	if c.Worker != "" {
		return demo.Work(ctx, c.WorkerServer, c.Worker, c.WorkerAnalysis, os.Stdin, s.out)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	o := demo.Options{Executable: program, Listen: cmp.Or(c.Listen, demo.AnyPort), JSON: c.JSON}
	show := demo.Run
	if !c.NoBrowser {
		command := browser(s.out, runtime.GOOS, os.Getenv)
		if c.Check || c.JSON || command == nil {
			show = demo.Check
		}
		o.Open = func(url string) { openPage(command, url) }
	}
	err = show(ctx, s.out, o)
	switch {
	case errors.Is(err, demo.ErrAddress):
		return usage("--listen: %w", err)
	case errors.Is(err, context.Canceled):
		return interruption("the demonstration was interrupted")
	}
	return err
}

// browser is the command that shows a page to who sits in front of this machine; nil if there is no one, or no browser.
func browser(out io.Writer, system string, env func(string) string) []string {
	if !isTerminal(out) || env("CI") != "" {
		return nil // a script reads the output
	}
	switch {
	case system == "darwin":
		return []string{"open"}
	case system == "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	case env("DISPLAY") == "" && env("WAYLAND_DISPLAY") == "":
		return nil
	}
	if _, err := exec.LookPath("xdg-open"); err != nil {
		return nil
	}
	return []string{"xdg-open"}
}

// openPage is a convenience: the address was printed.
func openPage(command []string, url string) {
	c := exec.Command(command[0], append(command[1:], url)...) //nolint:gosec,noctx // it may outlive this process
	if c.Start() == nil {
		go func() { _ = c.Wait() }()
	}
}
