package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/process"
)

// TestMain is also the program whose workers the tests start: one says who it is, and repeats its input until that
// ends.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "demo" {
		os.Exit(m.Run())
	}
	fmt.Println(strings.Join(os.Args[1:], " "))
	<-input(os.Stdin, func(line string) { fmt.Println("told", line) })
	fmt.Println("over")
}

// worker starts a worker, whose lines come through the channel, which is closed when it has ended.
func worker(t *testing.T) (w *child, lines chan string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	lines = make(chan string, 16)
	w, err = startChild(program, "A", "http://127.0.0.1:1", []string{"--more", "x"},
		func(line []byte) { lines <- string(line) }, func() { close(lines) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.kill)
	if got := <-lines; got != "demo --worker A --worker-server http://127.0.0.1:1 --more x" {
		t.Errorf("it was started as %q", got)
	}
	return w, lines
}

// TestWorker: a worker is told lines, says all that it has to say when its input ends, and then has ended.
func TestWorker(t *testing.T) {
	w, lines := worker(t)
	w.tell(-300)
	w.endInput()
	var said []string
	for line := range lines {
		said = append(said, line)
	}
	if !slices.Equal(said, []string{"told -300", "over"}) {
		t.Errorf("it said %q", said)
	}
	w.tell("nothing") // it is dead, which is no one's mistake
	w.kill()
}

// TestKilled: a worker that is killed says nothing more, and one that is frozen neither.
func TestKilled(t *testing.T) {
	w, lines := worker(t)
	if process.CanStop {
		if err := w.freeze(); err != nil {
			t.Fatal(err)
		}
		w.tell("frozen")
		if err := w.thaw(); err != nil {
			t.Fatal(err)
		}
		if got := <-lines; got != "told frozen" {
			t.Errorf("it said %q", got)
		}
		if err := w.freeze(); err != nil {
			t.Fatal(err)
		}
	}
	w.kill()
	if line, more := <-lines; more {
		t.Errorf("it said %q", line)
	}
}

// TestNoWorker: a program that is not there is an error, and nothing is called.
func TestNoWorker(t *testing.T) {
	never := func() { t.Error("it has ended") }
	if _, err := startChild("/none", "A", "", nil, nil, never); err == nil ||
		!strings.HasPrefix(err.Error(), "start a worker process: ") {
		t.Errorf("error %v", err)
	}
}

// TestServer: a server responds from serve on; a response that is no JSON is an error where one is wanted; after close
// there is no response.
func TestServer(t *testing.T) {
	s, err := listen(t.Context(), AnyPort)
	if err != nil {
		t.Fatal(err)
	}
	ended := s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusConflict)
		if r.URL.Path == "/text" {
			body = []byte("text")
		}
		fmt.Fprintf(w, "%s", body)
	}))
	var got map[string]string
	post := func(path string, into any) (int, error) {
		header := http.Header{"X-Test": {"1"}}
		return post(context.WithoutCancel(t.Context()), &http.Client{}, s.url+path, header, map[string]string{"a": "b"},
			into)
	}
	if status, err := post("/", &got); err != nil || status != http.StatusConflict || got["a"] != "b" {
		t.Errorf("%d, %v, %v", status, got, err)
	}
	if status, err := post("/text", nil); err != nil || status != http.StatusConflict {
		t.Errorf("%d, %v", status, err)
	}
	if _, err := post("/text", &got); err == nil || !strings.Contains(err.Error(), "409 Conflict without JSON") {
		t.Errorf("no JSON: %v", err)
	}
	s.close()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("it ended with %v", err)
	}
	if _, err := post("/", nil); err == nil {
		t.Error("it responds after close")
	}
}
