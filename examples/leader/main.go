// Command leader shows processes of which one leads, and what happens when it is killed. Run it with
//
//	go run ./examples/leader
//
// It starts a server in memory and three processes that campaign. The leader of the moment is killed twice; each time
// another one is elected when the lease has ended, with a higher token.
package main

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
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/locks/election"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// asCandidate is the variable by which a process learns that it campaigns: its name and the server.
const asCandidate = "LEADER_CANDIDATE"

func main() {
	ctx := context.Background()
	var err error
	if c := os.Getenv(asCandidate); c != "" {
		name, server, _ := strings.Cut(c, " ")
		err = candidate(ctx, name, server)
	} else {
		err = show(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "leader:", err)
		os.Exit(1)
	}
}

// candidate is one process: it campaigns until its standard input ends, and prints when it leads.
func candidate(ctx context.Context, name, server string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	// short, so that it does not take long to see
	holder, err := client.NewLocks(server, "default",
		&client.LocksOptions{Locks: locks.Options{Owner: name, TTL: 2 * time.Second}})
	if err != nil {
		return err
	}
	err = election.New(holder, "scheduler", nil).Lead(ctx, func(ctx context.Context, l *election.Leader) error {
		fmt.Println(name, l.Token())
		<-ctx.Done() // here it would lead; what it writes carries the token
		return context.Cause(ctx)
	})
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, holder.Close(context.WithoutCancel(ctx)))
}

// elected is what a candidate printed.
type elected struct {
	name  string
	token int64
}

// show starts the server and the candidates, and kills the leader twice.
func show(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil),
		ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	defer server.Close() //nolint:errcheck // the example is over

	leaders := make(chan elected)
	candidates := map[string]*exec.Cmd{}
	defer func() {
		for _, c := range candidates {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}()
	for _, name := range []string{"alpha", "bravo", "charlie"} {
		if candidates[name], err = start(ctx, name, listener.Addr().String(), leaders); err != nil {
			return err
		}
	}
	last := int64(0)
	for kills := 0; ; kills++ {
		var leader elected
		select {
		case leader = <-leaders:
		case <-time.After(5 * time.Minute):
			return errors.New("no one was elected in five minutes")
		}
		if leader.token <= last {
			return fmt.Errorf("%s leads with the token %d after %d", leader.name, leader.token, last)
		}
		last = leader.token
		fmt.Println(leader.name, "leads with the token", leader.token)
		if kills == 2 {
			return nil
		}
		if err := candidates[leader.name].Process.Kill(); err != nil {
			return err
		}
		fmt.Println(leader.name, "is killed; the others wait for the end of its lease")
	}
}

// start starts a candidate.
func start(ctx context.Context, name, server string, leaders chan<- elected) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self) //nolint:gosec // this program
	c.Env, c.Stderr = append(os.Environ(), asCandidate+"="+name+" http://"+server), os.Stderr
	if _, err = c.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			name, number, _ := strings.Cut(lines.Text(), " ")
			if token, err := strconv.ParseInt(number, 10, 64); err == nil {
				leaders <- elected{name, token}
			}
		}
	}()
	return c, nil
}
