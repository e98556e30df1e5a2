package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"

	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/demo"
	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/playground"
	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/stage"
)

type demoCmd struct {
	JSON      bool   `name:"json" xor:"how" help:"Print one JSON object a line, for machines."`
	Web       bool   `xor:"how" help:"Show it in a browser: freeze, kill and cut off three workers, and see what a fence is for."`
	Listen    string `placeholder:"HOST:PORT" help:"With --web: address of this machine to listen on. The default is a free port of 127.0.0.1."`
	NoBrowser bool   `help:"With --web: print the address only, and open no browser."`

	// A worker of the demonstration is a process of its own, so that it can be killed.
	Worker         string `hidden:""`
	WorkerServer   string `hidden:""`
	WorkerAnalysis string `hidden:""` // none: it is a worker of the demonstration in a browser
}

// Help is the longer help of the command.
func (demoCmd) Help() string {
	return `Starts a server on the embedded store, in a temporary folder, and shows over HTTP what it is for:

  1. two workers acquire one lock, and the stale token of a paused holder is rejected
  2. a queue delivers a task five times at once, and it runs once
  3. a worker process is killed during its work, and another takes over
  4. a room that five callers ask for is active once; its member dies, and another serves it

It needs nothing else and ends by itself after about ten seconds. Exit code 0: every check passed; 1: one failed.

With --web it opens a page in the browser and goes on until Ctrl-C: three worker processes share a lock, and pay into two accounts, without a fence and with one. Freeze a worker (SIGSTOP), kill it, lose an answer, set its clock, and watch both accounts. The page, and its buttons, are for this machine only.`
}

// Run runs the demonstration, or one of its workers.
func (c *demoCmd) Run(ctx context.Context, s *streams) error {
	switch {
	case c.WorkerAnalysis != "":
		return demo.Work(ctx, c.WorkerServer, c.WorkerAnalysis, c.Worker, os.Stdin, s.out)
	case c.Worker != "":
		return playground.Work(ctx, c.WorkerServer, c.Worker, os.Stdin)
	}
	for _, flag := range []struct {
		name  string
		given bool
	}{{"--listen", c.Listen != ""}, {"--no-browser", c.NoBrowser}} {
		if flag.given && !c.Web {
			return usage("%s is for the demonstration in a browser: use it with --web", flag.name)
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if c.Web {
		o := playground.Options{Executable: program, Listen: cmp.Or(c.Listen, stage.AnyPort)}
		if !c.NoBrowser {
			o.Open = openBrowser
		}
		if err := playground.Run(ctx, s.out, o); errors.Is(err, playground.ErrAddress) {
			return usage("--listen: %w", err)
		} else if err != nil {
			return err
		}
		return nil
	}
	if err := demo.Run(ctx, s.out, demo.Options{Executable: program, JSON: c.JSON}); err != nil {
		if errors.Is(err, context.Canceled) {
			return interruption("the demonstration was interrupted")
		}
		return err
	}
	return nil
}

// openBrowser shows a page to who sits in front of this machine, if there is a display and a terminal. It is a
// convenience: the address was printed.
func openBrowser(url string) {
	if out, err := os.Stdout.Stat(); err != nil || out.Mode()&os.ModeCharDevice == 0 {
		return // a script reads the output
	}
	command := []string{"xdg-open", url}
	switch {
	case runtime.GOOS == "darwin":
		command = []string{"open", url}
	case runtime.GOOS == "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", url}
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return
	}
	c := exec.Command(command[0], command[1:]...) //nolint:gosec,noctx // the system's own way; it may outlive this process
	if c.Start() == nil {
		go func() { _ = c.Wait() }()
	}
}
