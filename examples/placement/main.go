// Command placement shows where a thousand rooms live in a cluster of three processes: what moves when one of them is
// killed, what when another one joins, and that no room is active twice. Run it with
//
//	go run ./examples/placement
//	go run ./examples/placement 200   # rooms
//
// It starts a server in memory, and its members as processes of their own.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

const (
	ttl  = 3 * time.Second // short, so that it does not take long to see who died
	kind = "room"
)

// asMember is the variable by which a process learns that it is a member: name and server.
const asMember = "PLACEMENT_MEMBER"

func main() {
	if m := os.Getenv(asMember); m != "" {
		name, server, _ := strings.Cut(m, " ")
		exit(member(name, server))
	}
	rooms := 1000
	if len(os.Args) > 1 {
		var err error
		if rooms, err = strconv.Atoi(os.Args[1]); err != nil || rooms < 1 {
			exit(fmt.Errorf("%q is no number of rooms", os.Args[1]))
		}
	}
	exit(show(os.Stdout, rooms))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "placement:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// printer is the host of a member: it prints what it serves.
type printer struct{ mu sync.Mutex }

func (p *printer) say(word string, a cluster.Activation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Println(word, a.ID, a.Token)
}

// Activate implements [cluster.Host].
func (p *printer) Activate(_ context.Context, a cluster.Activation) error {
	p.say("serves", a)
	return nil
}

// Deactivate implements [cluster.Host].
func (p *printer) Deactivate(_ context.Context, a cluster.Activation, _ error) { p.say("ended", a) }

// member is one process: it serves until its standard input ends.
func member(name, server string) error {
	c, err := client.New(server, nil)
	if err != nil {
		return err
	}
	m, err := cluster.NewMember(c.Placements("default", "example"), name, &printer{},
		&cluster.Options{Kinds: []string{kind}, TTL: ttl})
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := m.Start(ctx); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the pipe is closed
	return m.Stop(ctx)
}

// stage is what the example has on it.
type stage struct {
	out    io.Writer
	server string
	chat   *client.Placements

	mu     sync.Mutex
	homes  map[string]string // of each room, the process that serves it
	tokens map[string]string
	twice  int
	moved  int // rooms that began on another process than before
	last   map[string]string
}

// process is a member that runs.
type process struct {
	name string
	cmd  *exec.Cmd
	in   io.Closer
	read chan struct{} // closed when all that it printed was read
}

func (s *stage) start(ctx context.Context, name string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self) //nolint:gosec // this program
	cmd.Env, cmd.Stderr = append(os.Environ(), asMember+"="+name+" "+s.server), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &process{name, cmd, in, make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.learn(name, strings.Fields(lines.Text()))
		}
	}()
	return p, nil
}

// learn takes down what a member printed.
func (s *stage) learn(name string, words []string) {
	if len(words) != 3 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	room, token := words[1], words[2]
	if words[0] == "ended" {
		if s.homes[room] == name {
			delete(s.homes, room)
		}
		return
	}
	if s.homes[room] != "" || token <= s.tokens[room] { // tokens have equally many digits
		s.twice++
	}
	if was := s.last[room]; was != "" && was != name {
		s.moved++
	}
	s.homes[room], s.last[room], s.tokens[room] = name, name, token
}

// kill ends a process without a word.
func (s *stage) kill(p *process) error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	<-p.read
	_ = p.cmd.Wait() // it says that the process was killed
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.homes, func(_, home string) bool { return home == p.name })
	return nil
}

// claim asks for every room until all are served.
func (s *stage) claim(ctx context.Context, n int) error {
	for {
		var missing []string
		s.mu.Lock()
		for i := range n {
			if id := fmt.Sprint("room-", i); s.homes[id] == "" {
				missing = append(missing, id)
			}
		}
		s.mu.Unlock()
		if len(missing) == 0 {
			return nil
		}
		for _, id := range missing {
			_, err := s.chat.Claim(ctx, kind, id, contracts.ActivationClaimRequest{})
			if contracts.Final(err) && !errors.Is(err, contracts.CodeActivationExists) {
				return err
			}
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d rooms are not served: %w", len(missing), ctx.Err())
		}
	}
}

// print says how many rooms each process has, and what moved since the last time.
func (s *stage) print(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := map[string]int{}
	for _, home := range s.homes {
		count[home]++
	}
	fmt.Fprintf(s.out, "%s\n ", what)
	for _, name := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(s.out, "  %s: %d rooms", name, count[name])
	}
	fmt.Fprintf(s.out, "\n   moved: %d; active twice: %d\n", s.moved, s.twice)
	s.moved = 0
}

// show runs the example with so many rooms.
func show(out io.Writer, rooms int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil),
		ReadHeaderTimeout: time.Minute}
	defer server.Close()      //nolint:errcheck // the example is over
	go server.Serve(listener) //nolint:errcheck // it ends with Close
	url := "http://" + listener.Addr().String()
	c, err := client.New(url, nil)
	if err != nil {
		return err
	}
	s := &stage{
		out: out, server: url, chat: c.Placements("default", "example"), homes: map[string]string{},
		tokens: map[string]string{}, last: map[string]string{},
	}
	running := map[string]*process{}
	join := func(name string) error {
		if running[name], err = s.start(ctx, name); err != nil {
			return err
		}
		for { // until the cluster has it
			list, err := s.chat.Members(ctx)
			if err != nil || slices.ContainsFunc(list.Members,
				func(m contracts.ClusterMember) bool { return m.Member == name }) {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	for _, name := range []string{"ann", "bob", "cleo"} {
		if err := join(name); err != nil {
			return err
		}
	}
	if err := s.claim(ctx, rooms); err != nil {
		return err
	}
	s.print(fmt.Sprintf("%d rooms on three processes:", rooms))
	if err := s.kill(running["bob"]); err != nil {
		return err
	}
	delete(running, "bob")
	killed := time.Now()
	if err := s.claim(ctx, rooms); err != nil {
		return err
	}
	s.print(fmt.Sprintf("bob was killed; %.1f s later all rooms are served, and those that were not his have not moved:",
		time.Since(killed).Seconds()))
	if err := join("dave"); err != nil {
		return err
	}
	if err := s.claim(ctx, rooms+rooms/2); err != nil {
		return err
	}
	s.print(fmt.Sprintf("dave joined; no room moved to him, and %d new ones are on all:", rooms/2))
	for _, p := range running {
		if err := s.kill(p); err != nil {
			return err
		}
	}
	if s.twice > 0 {
		return fmt.Errorf("%d rooms were active twice", s.twice) //nolint:err113 // the example ends with it
	}
	return nil
}
