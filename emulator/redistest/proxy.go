package redistest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Fate is what becomes of a command on its way to the server and back.
type Fate string

// The fates of a command. Each ends with a lost connection.
const (
	LostRequest  Fate = "lost request" // the server never sees it
	LostResponse Fate = "lost answer"  // it is executed, and the response is lost
	ReturnsError Fate = "error"        // it is executed, and a proxy returns an error
	Late         Fate = "late"         // it is executed when [Injection.Release] says so
)

// Injection is a fate that waits for its command.
type Injection struct {
	fate    Fate
	command string
	text    string // that is in it; empty for any
	release chan struct{}
	happened,
	carriedOut chan struct{}
}

// Happened reports whether the command came.
func (i *Injection) Happened() bool {
	select {
	case <-i.happened:
		return true
	default:
		return false
	}
}

// Release lets a late command reach the server, and waits until it has been executed.
func (i *Injection) Release(ctx context.Context) error {
	close(i.release)
	select {
	case <-i.carriedOut:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the late command was not executed: %w", ctx.Err())
	}
}

// proxy stands between clients and a server.
type proxy struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	closed   chan struct{}

	mu       sync.Mutex
	commands map[string]int
	planned  []*Injection
	conns    map[net.Conn]bool // nil once the proxy is closed
	running  sync.WaitGroup
}

func newProxy(t testing.TB, dial func() (net.Conn, error)) *proxy {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, dial: dial, closed: make(chan struct{}), commands: map[string]int{},
		conns: map[net.Conn]bool{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := p.dial()
		if err != nil || !p.keep(client, server) {
			_ = client.Close() // the client finds out by itself
			continue
		}
		c := &conn{proxy: p, client: client, server: server, replied: make(chan struct{}, 1)}
		p.running.Go(c.requests)
		p.running.Go(c.replies)
	}
}

// keep notes connections, to be closed with the proxy; false if that has happened.
func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.conns == nil {
			_ = c.Close()
			continue
		}
		p.conns[c] = true
	}
	return p.conns != nil
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close() // its readers end
	}
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	close(p.closed)
	p.running.Wait()
}

// Addr is the address to connect to.
func (p *proxy) Addr() string { return p.listener.Addr().String() }

// aside are commands with which a connection begins, or a client looks at the server. They come again whenever a
// connection is made anew, so that no test can say how many there are.
var aside = []string{"AUTH", "CLIENT", "HELLO", "INFO", "PING", "READONLY", "SELECT", First}

// First is the name of the script with which Leasehold begins a connection, as commands are counted and injected: it is
// an EVAL whose text says so.
const (
	First     = "first EVAL"
	firstText = "The first script of each connection"
)

// Commands are the commands that arrived since the counts were reset, by name, but those of [aside].
func (p *proxy) Commands() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.commands)
}

// ResetCommands begins to count anew.
func (p *proxy) ResetCommands() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.commands)
}

// Inject lets the next command of this name, such as EVALSHA, meet the fate.
func (p *proxy) Inject(fate Fate, command string) *Injection { return p.InjectInto(fate, command, "") }

// InjectInto lets the next command of this name that has a text in it meet the fate.
func (p *proxy) InjectInto(fate Fate, command, text string) *Injection {
	i := &Injection{
		fate: fate, command: command, text: text, release: make(chan struct{}), happened: make(chan struct{}),
		carriedOut: make(chan struct{}),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.planned = append(p.planned, i)
	return i
}

// meets counts a command, and says what becomes of it; nil for nothing special.
func (p *proxy) meets(command string, raw []byte) *Injection {
	p.mu.Lock()
	defer p.mu.Unlock()
	if command == "EVAL" && bytes.Contains(raw, []byte(firstText)) {
		command = First
	}
	if !slices.Contains(aside, command) {
		p.commands[command]++
	}
	for n, i := range p.planned {
		if i.command == command && bytes.Contains(raw, []byte(i.text)) {
			p.planned = slices.Delete(p.planned, n, n+1)
			close(i.happened)
			return i
		}
	}
	return nil
}

// conn is a client's connection and the server's.
type conn struct {
	proxy          *proxy
	client, server net.Conn
	swallow        atomic.Bool
	replied        chan struct{} // a response was swallowed
}

// requests carries commands to the server.
func (c *conn) requests() {
	defer c.proxy.drop(c.client, c.server)
	r := bufio.NewReader(c.client)
	for {
		raw, name, err := readCommand(r)
		if err != nil {
			return // the client has closed, or speaks something else
		}
		i := c.proxy.meets(name, raw)
		if i != nil {
			c.suffer(i, raw)
			return
		}
		if _, err := c.server.Write(raw); err != nil {
			return
		}
	}
}

// suffer carries out an injection.
func (c *conn) suffer(i *Injection, raw []byte) {
	if i.fate == LostRequest {
		return
	}
	if i.fate == Late {
		select {
		case <-i.release:
		case <-c.proxy.closed:
			return
		}
	}
	c.swallow.Store(true)
	if _, err := c.server.Write(raw); err != nil {
		return
	}
	<-c.replied
	close(i.carriedOut)
	if i.fate == ReturnsError {
		_, _ = c.client.Write([]byte("-ERR upstream failure\r\n"))
	}
}

// replies forwards replies to the client, until one is to be dropped.
func (c *conn) replies() {
	defer c.proxy.drop(c.client, c.server)
	buf := make([]byte, 32<<10)
	for {
		n, err := c.server.Read(buf)
		if c.swallow.Load() {
			c.replied <- struct{}{} // a response, or the end of the server, which is as good
			return
		}
		if n > 0 {
			if _, err := c.client.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// readCommand reads a command, an array of strings, and returns it as it came, with its name in upper case.
func readCommand(r *bufio.Reader) (raw []byte, name string, err error) {
	line := func(kind byte) (int, error) {
		text, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		raw = append(raw, text...)
		if text[0] != kind {
			return 0, errors.New("not a command")
		}
		return strconv.Atoi(strings.TrimSpace(text[1:]))
	}
	parts, err := line('*')
	if err != nil {
		return nil, "", err
	}
	for i := range parts {
		n, err := line('$')
		if err != nil {
			return nil, "", err
		}
		at := len(raw)
		raw = append(raw, make([]byte, n+2)...)
		if _, err := io.ReadFull(r, raw[at:]); err != nil {
			return nil, "", err
		}
		if i == 0 {
			name = strings.ToUpper(string(raw[at : at+n]))
		}
	}
	return raw, name, nil
}
