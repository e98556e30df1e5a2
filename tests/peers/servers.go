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
	ended  chan struct{}
	behind *server // what it keeps its data in, if that is a process of its own
}

// servers are those that run, by their names in [peer].
type servers struct {
	dir    string
	binary string // leasehold
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
	serve := []string{s.binary, "serve", "--listen", "ADDR", "--store"}
	for _, one := range []struct {
		name, behind string
		command      []string
	}{
		{"etcd", "", []string{
			"etcd", "--data-dir", "DIR", "--listen-client-urls", "http://ADDR", "--advertise-client-urls", "http://ADDR",
			"--listen-peer-urls", "http://127.0.0.1:0", "--log-level", "error",
		}},
		{"redis", "", []string{
			"redis-server", "--bind", "127.0.0.1", "--port", "PORT", "--dir", "DIR", "--save", "", "--appendonly", "yes",
			"--appendfsync", "always",
		}},
		{"dynamodb", "", []string{s.binary, "emulate", "dynamodb", "--listen", "ADDR"}},
		{"http-sqlite", "", append(serve[:5:5], "sqlite", "--data", "DIR")},
		{"http-memory", "", append(serve[:5:5], "memory")},
		{"http-redis", "redis", append(serve[:5:5], "redis", "--redis-addr", "BEHIND")},
	} {
		if !wanted[one.name] {
			continue
		}
		if err := s.start(ctx, one.name, one.behind, one.command); err != nil && !errors.Is(err, errMissing) {
			return s, fmt.Errorf("%s: %w", one.name, err)
		} else if err != nil {
			s.why[one.name] = err
		}
	}
	return s, nil
}

func (s *servers) start(ctx context.Context, name, behind string, command []string) error {
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
	one := &server{addr: net.JoinHostPort("127.0.0.1", port), ended: make(chan struct{}), behind: back}
	replace := []string{"DIR", dir, "ADDR", one.addr, "PORT", port}
	if back != nil {
		replace = append(replace, "BEHIND", back.addr)
	}
	for i, arg := range command {
		command[i] = strings.NewReplacer(replace...).Replace(arg)
	}
	one.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	one.cmd.Stdout, one.cmd.Stderr = log, log
	if err := one.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = one.cmd.Wait() // it is killed in the end
		close(one.ended)
	}()
	s.all[name] = one
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var d net.Dialer
		if c, err := d.DialContext(ctx, "tcp", one.addr); err == nil {
			return c.Close()
		}
		select {
		case <-one.ended:
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("it ended:\n%s", text)
		default:
		}
		if time.Now().After(deadline) {
			return errors.New("it does not answer")
		}
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
		done.Go(func() {
			_ = one.cmd.Process.Kill()
			<-one.ended
		})
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
