package console

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestChatPage: two browsers are in a room of examples/chat, and both write in it. Its process is replaced, then
// another one is killed: neither sees an error, the replacement breaks no connection, the kill one of each, and all
// messages are there once.
func TestChatPage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "chat")
	if out, err := exec.Command("go", "build", "-C", filepath.Join("..", ".."), "-o", path,
		"./examples/chat").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	c := exec.Command(path, "--listen", "127.0.0.1:0", "--ttl", "10s")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	found := regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`).FindString(first)
	if err != nil || found == "" {
		t.Fatalf("%q, %v", first, err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, lines)
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	tabs := []*tab{visit(t, found+"/?name=ann", look{}), visit(t, found+"/?name=bob", look{})}
	sent := 0
	say := func(p *tab) {
		sent++
		p.runs(fmt.Sprintf(`document.getElementById('text').value = 'message %d'
			document.getElementById('say').requestSubmit()`, sent))
	}
	agree := func(what string, broken int) {
		t.Helper()
		for _, p := range tabs {
			p.until(fmt.Sprintf(`document.querySelectorAll('#messages li:not(.waits)').length === %d &&
				new Set([...document.querySelectorAll('#messages li')].map((l) => l.textContent)).size === %d &&
				Number(document.getElementById('broken').textContent) <= %d &&
				document.getElementById('error').textContent === ''`, sent, sent, broken),
				fmt.Sprintf("%d messages %s, and at most %d connections that broke", sent, what, broken))
		}
	}
	for _, p := range tabs {
		p.until(`document.getElementById('process').textContent.startsWith('process-')`, "the process of the room")
	}
	for _, step := range []struct {
		button string
		broken int
	}{{"Replace the process", 0}, {"Kill it", 1}} {
		for _, p := range tabs {
			p.runs(`window.was = document.getElementById('process').textContent`)
		}
		tabs[0].presses(step.button)
		for range 3 {
			say(tabs[0])
			say(tabs[1])
		}
		for _, p := range tabs {
			p.until(`document.getElementById('process').textContent !== window.was`, "another process after "+step.button)
		}
		agree("after "+step.button, step.broken)
	}
	for _, p := range tabs {
		p.until(`Number(document.getElementById('broken').textContent) === 1`, "the connection that the kill broke")
	}
}
