// Command leader shows processes of which one leads, and what happens when it is killed. Run it with
//
//	go run ./examples/leader
//
// It starts a server in memory and three processes that campaign. The leader of the moment is killed twice; each time
// another one is elected when the lease has ended, with a higher token.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/examples/internal/start"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/locks/election"
)

func main() {
	start.Main(show, func(ctx context.Context, args []string) error { return candidate(ctx, args[0], args[1]) })
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
	c, err := client.New(server, nil)
	if err != nil {
		return err
	}
	holder, err := c.Locks("default", &locks.Options{Owner: name, TTL: 2 * time.Second})
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
	url, server, err := start.Server(ctx, start.AnyPort, start.API())
	if err != nil {
		return err
	}
	defer server.Close() //nolint:errcheck // the example is over

	leaders := make(chan elected)
	candidates := map[string]*start.Process{}
	defer func() {
		for _, c := range candidates {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}()
	for _, name := range []string{"alpha", "bravo", "charlie"} {
		c, err := start.Start(ctx, name, url)
		if err != nil {
			return err
		}
		candidates[name] = c
		go listen(c, leaders)
	}
	last := int64(0)
	for kills := 0; ; kills++ {
		var leader elected
		select {
		case leader = <-leaders:
		case <-ctx.Done():
			return ctx.Err()
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

// listen tells who leads, as a candidate prints it.
func listen(c *start.Process, leaders chan<- elected) {
	for c.Out.Scan() {
		name, number, _ := strings.Cut(c.Out.Text(), " ")
		if token, err := strconv.ParseInt(number, 10, 64); err == nil {
			leaders <- elected{name, token}
		}
	}
}
