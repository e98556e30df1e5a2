package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// server is a process that listens on a port of this machine.
type server struct {
	addr   string
	cmd    *exec.Cmd
	args   []string
	log    string // the path of what it says
	ended  chan struct{}
	behind *server // what it keeps its data in, if that is a process of its own
}

// servers are those that run, by their names in [peer].
type servers struct {
	dir    string
	binary string     // leasehold
	mu     sync.Mutex // for all
	all    map[string]*server
	why    map[string]error // of those that do not run
}

// errMissing is why a server does not run that is not installed.
var errMissing = errors.New("is not installed")

// startServers starts those that are wanted. The error is that of Leasehold's own; a server of others that is missing
// is in why.
func startServers(ctx context.Context, dir string, wanted map[string]bool) (*servers, error) {
	s := &servers{dir: dir, binary: filepath.Join(dir, "leasehold"), all: map[string]*server{}, why: map[string]error{}}
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", "../..", "-o", s.binary,
		"./cmd/leasehold").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	for _, one := range []string{"etcd", "redis", "dynamodb", "http-sqlite", "http-memory", "http-redis"} {
		if !wanted[one] {
			continue
		}
		if err := s.start(ctx, one, one); err != nil && !errors.Is(err, errMissing) {
			return s, fmt.Errorf("%s: %w", one, err)
		} else if err != nil {
			s.why[one] = err
		}
	}
	return s, nil
}

// command is how a kind of server is started, and the name of the one that it keeps its data in.
func (s *servers) command(kind string) (behind string, args []string) {
	serve := []string{s.binary, "serve", "--listen", "ADDR", "--store"}
	switch kind {
	case "etcd":
		return "", []string{
			"etcd", "--data-dir", "DIR", "--listen-client-urls", "http://ADDR", "--advertise-client-urls", "http://ADDR",
			"--listen-peer-urls", "http://127.0.0.1:0", "--log-level", "error",
		}
	case "redis":
		return "", []string{
			"redis-server", "--bind", "127.0.0.1", "--port", "PORT", "--dir", "DIR", "--save", "", "--appendonly", "yes",
			"--appendfsync", "always",
		}
	case "dynamodb":
		return "", []string{s.binary, "emulate", "dynamodb", "--listen", "ADDR"}
	case "http-sqlite":
		return "", append(serve, "sqlite", "--data", "DIR")
	case "http-memory":
		return "", append(serve, "memory")
	default:
		return "redis", append(serve, "redis", "--redis-addr", "BEHIND")
	}
}

// start starts a server of a kind, and gives it a name.
func (s *servers) start(ctx context.Context, name, kind string) error {
	behind, command := s.command(kind)
	back := s.all[behind]
	if behind != "" && back == nil {
		return s.why[behind]
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return fmt.Errorf("%s %w", command[0], errMissing)
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	dir := filepath.Join(s.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	one := &server{addr: net.JoinHostPort("127.0.0.1", port), behind: back, log: filepath.Join(s.dir, name+".log")}
	replace := []string{"DIR", dir, "ADDR", one.addr, "PORT", port}
	if back != nil {
		replace = append(replace, "BEHIND", back.addr)
	}
	for i, arg := range command {
		command[i] = strings.NewReplacer(replace...).Replace(arg)
	}
	one.args = command
	s.mu.Lock()
	s.all[name] = one
	s.mu.Unlock()
	return one.run(ctx)
}

// run starts the process, and returns when it answers.
func (s *server) run(ctx context.Context) error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, ended := exec.CommandContext(ctx, s.args[0], s.args[1:]...), make(chan struct{})
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // it is killed in the end
		close(ended)
	}()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var d net.Dialer
		if c, err := d.DialContext(ctx, "tcp", s.addr); err == nil {
			return c.Close()
		}
		select {
		case <-ended:
			text, _ := os.ReadFile(s.log)
			return fmt.Errorf("it ended:\n%s", text)
		default:
		}
		if time.Now().After(deadline) {
			return errors.New("it does not answer")
		}
	}
}

func (s *server) kill() {
	if s.cmd != nil { // it was started
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

func freePort(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func (s *servers) stop() {
	var done sync.WaitGroup
	for _, one := range s.all {
		done.Go(one.kill)
	}
	done.Wait()
}

// tick is the unit of the times in /proc/PID/stat, USER_HZ, which is the same on all of Linux.
const tick = 10 * time.Millisecond

// used is the CPU time of a server and of what is behind it. It is zero where there is no /proc.
func (s *server) used() time.Duration {
	if s == nil {
		return 0
	}
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	// The name, in parentheses, may hold blanks. Behind it: state and ten numbers, then those of user and system.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	sum := s.behind.used()
	if len(fields) < 13 {
		return sum
	}
	for _, f := range fields[11:13] {
		n, _ := strconv.Atoi(string(f))
		sum += time.Duration(n) * tick
	}
	return sum
}
