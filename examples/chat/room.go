package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/websocket"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/examples/internal/start"
)

// message is what someone writes in a room.
type message struct {
	ID   string `json:"id"` // chosen by the page, so that one that is sent twice is there once
	From string `json:"from"`
	Text string `json:"text"`
}

// news is what a room tells a page.
type news struct {
	What     string    `json:"what"` // hello, message, or bye: connect again
	Process  string    `json:"process,omitempty"`
	Token    int64     `json:"token,omitempty"`
	Messages []message `json:"messages,omitempty"`
}

const (
	kept    = 50  // messages of a room
	longest = 280 // characters of one
)

// rooms are those that a process has.
type rooms struct {
	name   string
	member *cluster.Member

	mu  sync.Mutex
	all map[string]*room
}

// room is one of them.
type room struct {
	ctx context.Context //nolint:containedctx // of the activation

	mu       sync.Mutex
	messages []message
	here     map[*websocket.Conn]bool
}

// Activate implements [cluster.Host]: it begins with the messages that the room has.
func (r *rooms) Activate(ctx context.Context, a cluster.Activation) error {
	n := &room{ctx: ctx, here: map[*websocket.Conn]bool{}}
	if len(a.State) > 0 {
		if err := json.Unmarshal(a.State, &n.messages); err != nil {
			return fmt.Errorf("the messages of the room: %w", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[a.ID] = n
	return nil
}

// Deactivate implements [cluster.Host]. Each message was stored when it was written.
func (r *rooms) Deactivate(_ context.Context, a cluster.Activation, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, a.ID)
}

// write stores a message, then tells it to all who are in the room.
func (r *rooms) write(id cluster.Identity, n *room, m message) error {
	if text := []rune(m.Text); len(text) > longest {
		m.Text = string(text[:longest])
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.ContainsFunc(n.messages, func(o message) bool { return o.ID == m.ID }) {
		messages := append(slices.Clone(n.messages), m)
		messages = messages[max(0, len(messages)-kept):]
		state, err := json.Marshal(messages)
		if err != nil {
			return err
		}
		if err := r.member.WriteState(n.ctx, id, state); err != nil { // also when the room is another process's by now
			return err
		}
		n.messages = messages
	}
	for c := range n.here {
		if tell(c, news{What: "message", Messages: []message{m}}) != nil {
			_ = c.Close()
		}
	}
	return nil
}

// tell sends news to one who is in the room, and waits for one who does not read for a second. The deadline is of each
// message: one that has passed ends all that come after it.
func tell(c *websocket.Conn, n news) error {
	if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	return websocket.JSON.Send(c, n)
}

// visit is one connection.
func (r *rooms) visit(c *websocket.Conn) {
	c.MaxPayloadBytes = 4096
	call, _ := cluster.CallOf(c.Request().Context())
	r.mu.Lock()
	n := r.all[call.ID]
	r.mu.Unlock()
	if n == nil {
		return // it was lost in this moment: the page connects again
	}
	n.mu.Lock()
	err := tell(c, news{What: "hello", Process: r.name, Token: call.Token, Messages: n.messages})
	n.here[c] = true
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.here, c)
	}()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for err == nil {
			var m message
			if err = websocket.JSON.Receive(c, &m); err == nil && m.ID != "" && m.Text != "" {
				err = r.write(call.Identity, n, m)
			}
		}
	}()
	select {
	case <-gone:
		return
	case <-call.Ending: // the room moves: what was being written is written first
		n.mu.Lock()
		_ = tell(c, news{What: "bye"})
		n.mu.Unlock()
	case <-c.Request().Context().Done():
	}
	_ = c.Close()
	<-gone
}

// host is a process that hosts rooms until its standard input ends.
func host(name, server, secret, lease string, replaces []string) error {
	ctx := context.Background()
	ttl, err := time.ParseDuration(lease)
	if err != nil {
		return err
	}
	c, err := client.New(server, nil)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	o := &cluster.Options{Kinds: []string{"room"}, Address: listener.Addr().String(), TTL: ttl,
		IdleAfter: time.Minute, ServeOnly: true, Observe: failures(name)}
	if len(replaces) == 2 {
		number, err := strconv.ParseInt(replaces[1], 10, 64)
		if err != nil {
			return err
		}
		o.Replaces = contracts.Incarnation{Member: replaces[0], Incarnation: number}
	}
	r := &rooms{name: name, all: map[string]*room{}}
	placements := c.Placements("default", "chat")
	if r.member, err = cluster.NewMember(placements, name, r, o); err != nil {
		return err
	}
	l := cluster.NewLocator(placements, &cluster.LocatorOptions{Observe: failures(name)})
	h, err := cluster.NewHandler(r.member, l, websocket.Server{Handler: r.visit, Handshake: sameOrigin},
		cluster.HandlerOptions{Identity: identity, Secret: []byte(secret)})
	if err != nil {
		return err
	}
	s := start.Serve(listener, h)
	if err := errors.Join(r.member.Start(ctx), l.Start(ctx)); err != nil {
		return err
	}
	fmt.Println(r.member.Incarnation())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the pipe is closed
	err = r.member.Stop(ctx)             // hands the rooms over
	l.Stop()
	return errors.Join(err, s.Shutdown(ctx))
}

// failures logs what a guest may see: also a request that was refused.
func failures(who string) func(cluster.Event) {
	return func(e cluster.Event) {
		if e.What == cluster.RequestFailed || e.What == cluster.ActivationFailed {
			log.Printf("%s: %s: %v", who, e.What, e.Err)
		}
	}
}

// sameOrigin refuses pages of others: a browser lets every page open a WebSocket.
func sameOrigin(c *websocket.Config, r *http.Request) (err error) {
	if c.Origin, err = websocket.Origin(c, r); err == nil && (c.Origin == nil || c.Origin.Host != r.Host) {
		err = errors.New("another page")
	}
	return err
}
