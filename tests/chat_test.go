package tests

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/websocket"
)

// guest is a page of examples/chat, without a browser: it connects again when its connection has ended, and then sends
// what the room has not confirmed.
type guest struct {
	t    *testing.T
	url  string
	name string

	mu      sync.Mutex
	conn    *websocket.Conn
	process string
	order   []string // messages, as the room has them
	seen    map[string]bool
	waiting []string
	broken  int // connections that ended without a word
	refused int // those that were not made
	over    bool
}

type chatMessage struct {
	ID   string `json:"id"`
	From string `json:"from"`
	Text string `json:"text"`
}

func (g *guest) run() {
	for {
		c, err := websocket.Dial(g.url, "", "http"+g.url[2:])
		g.mu.Lock()
		if g.over {
			g.mu.Unlock()
			if err == nil {
				_ = c.Close()
			}
			return
		}
		if err != nil {
			g.refused++
			g.t.Logf("%s is refused: %v", g.name, err)
			g.mu.Unlock()
			continue
		}
		g.conn = c
		g.mu.Unlock()
		for bye := false; ; {
			var news struct {
				What, Process string
				Messages      []chatMessage
			}
			if err := websocket.JSON.Receive(c, &news); err != nil {
				g.mu.Lock()
				g.conn = nil
				if !bye && !g.over {
					g.broken++
				}
				g.mu.Unlock()
				_ = c.Close()
				break
			}
			bye = bye || news.What == "bye"
			g.take(c, news.What, news.Process, news.Messages)
		}
	}
}

func (g *guest) take(c *websocket.Conn, what, process string, messages []chatMessage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range messages {
		if !g.seen[m.ID] {
			g.seen[m.ID] = true
			g.order = append(g.order, m.ID)
		}
	}
	if what == "hello" {
		g.process = process
		for _, id := range g.waiting {
			if !g.seen[id] {
				_ = websocket.JSON.Send(c, chatMessage{id, g.name, id})
			}
		}
	}
}

func (g *guest) say(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, id)
	if g.conn != nil {
		_ = websocket.JSON.Send(g.conn, chatMessage{id, g.name, id})
	}
}

func (g *guest) state() (process string, order []string, broken, refused int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.process, g.order, g.broken, g.refused
}

// TestChatExample: two guests are in a room, silent at first and writing then, while its process is replaced and
// another one is killed.
// The replacement breaks no connection; the kill breaks one of each guest, and none is refused. Each message is in the
// room once, and both have them in the same order.
func TestChatExample(t *testing.T) {
	t.Parallel()
	c := exec.CommandContext(t.Context(), build(t, "examples/chat"), "--listen", "127.0.0.1:0", "--ttl", "10s")
	c.Stderr = os.Stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	url := regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`).FindString(first)
	if err != nil || url == "" {
		t.Fatalf("%q, %v", first, err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, lines)
		if err := c.Wait(); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	var work sync.WaitGroup
	guests := []*guest{{name: "ann"}, {name: "bob"}}
	for _, g := range guests {
		g.t, g.url, g.seen = t, "ws"+url[4:]+"/rooms/lobby", map[string]bool{}
		work.Go(g.run)
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(failAfter); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if ok() {
				return
			}
		}
		t.Fatalf("%s: not in time", what)
	}
	sent := 0
	write := func() { // everyone writes, and all have it
		for _, g := range guests {
			sent++
			g.say(g.name + "-" + strconv.Itoa(sent))
		}
	}
	all := func() bool {
		_, a, _, _ := guests[0].state()
		_, b, _, _ := guests[1].state()
		return len(a) == sent && len(b) == sent
	}
	press := func(what string, quiet bool) string {
		t.Helper()
		was, _, _, _ := guests[0].state()
		if quiet {
			time.Sleep(1100 * time.Millisecond) // more than a process gives a guest to read a message
		}
		over := make(chan error, 1)
		go func() {
			r, err := http.Post(url+"/processes/"+was+"/"+what, "", nil)
			if err == nil {
				_ = r.Body.Close()
				if r.StatusCode != http.StatusOK {
					err = fmt.Errorf("status %d", r.StatusCode)
				}
			}
			over <- err
		}()
		for i := 0; i < 5 && !quiet; i++ {
			write()
			time.Sleep(20 * time.Millisecond)
		}
		if err := <-over; err != nil {
			t.Fatal(err)
		}
		write()
		until("all messages after "+what, func() bool {
			a, _, _, _ := guests[0].state()
			b, _, _, _ := guests[1].state()
			return a != was && b == a && all()
		})
		return was
	}
	write()
	until("both are in the room", all)
	for _, step := range []struct {
		what   string
		quiet  bool // no one writes before it, nor meanwhile
		broken int
	}{{"replace", true, 0}, {"replace", false, 0}, {"kill", false, 1}, {"replace", false, 1}} {
		was := press(step.what, step.quiet)
		for _, g := range guests {
			if _, _, broken, refused := g.state(); broken > step.broken || refused > 0 {
				t.Errorf("%s, after %s of %s: %d connections broke, %d were refused", g.name, step.what, was, broken, refused)
			}
		}
	}
	for _, g := range guests {
		g.mu.Lock()
		g.over = true
		if g.conn != nil {
			_ = g.conn.Close()
		}
		g.mu.Unlock()
	}
	work.Wait()
	a, b := guests[0].order, guests[1].order
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("%q and %q", a, b)
		}
	}
}
