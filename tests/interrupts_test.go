//go:build unix

package tests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// silent is a server that has every request wait, but for those that give up: these wait until the test answers them.
type silent struct {
	*httptest.Server

	asked   chan string   // request_id of those that do not give up
	givenUp chan string   // of those that do
	answer  chan struct{} // closed: with 204
	end     chan struct{} // of the test
}

func newSilent(t *testing.T) *silent {
	t.Helper()
	s := &silent{asked: make(chan string, 100), givenUp: make(chan string, 100), answer: make(chan struct{}),
		end: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			RequestID string `json:"request_id"`
			GiveUp    bool   `json:"give_up"`
		}
		content, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(content, &body)
		if !body.GiveUp {
			s.asked <- body.RequestID
			<-s.end
			return
		}
		s.givenUp <- body.RequestID
		select {
		case <-s.answer:
			w.WriteHeader(http.StatusNoContent)
		case <-s.end:
		}
	}))
	t.Cleanup(func() {
		close(s.end)
		s.Close()
	})
	return s
}

// of is what a channel has next.
func of[T any](t *testing.T, c <-chan T, what string) (got T) {
	t.Helper()
	select {
	case got = <-c:
	case <-time.After(failAfter):
		t.Fatal(what)
	}
	return got
}

// toldOf is what a command writes, and signals when a text is in it.
type toldOf struct {
	text string
	said chan struct{}

	mu      sync.Mutex
	written bytes.Buffer
}

func (w *toldOf) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.written.Write(p)
	if strings.Contains(w.written.String(), w.text) {
		select {
		case w.said <- struct{}{}:
		default:
		}
	}
	return n, err
}

func (w *toldOf) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written.String()
}

// TestInterruptedAgain: a command whose request has no response gives it up when it is interrupted, also if it is
// interrupted again meanwhile: it ends when that is carried out. If that has no response either, it ends a second after
// the second signal, and at once with the third. SIGTERM is like SIGINT.
func TestInterruptedAgain(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"lock acquire": {"lock", "acquire", "k", "--wait", "10m"}, "lock run": {"lock", "run", "k", "--", "true"},
		"lock run of several": {"lock", "run", "k", "--also", "l", "--", "true"},
		"once":                {"once", "a", "--", "true"},
	} {
		for _, kind := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			for more, after := range []string{"one", "two", "two, no response", "three, no response"} {
				t.Run(name+" "+kind.String()+" "+after, func(t *testing.T) {
					t.Parallel()
					server := newSilent(t)
					job := exec.CommandContext(t.Context(), binary(t), append([]string{"--server", server.URL}, args...)...)
					stderr := toldOf{text: "interrupted twice", said: make(chan struct{}, 1)}
					job.Env, job.Stderr = environment(), &stderr
					if err := job.Start(); err != nil {
						t.Fatal(err)
					}
					interrupt := func() {
						if err := job.Process.Signal(kind); err != nil {
							t.Error(err)
						}
					}
					id := of(t, server.asked, "no request came")
					interrupt()
					if given := of(t, server.givenUp, "it does not give up"); given != id || id == "" {
						t.Errorf("%q is given up, not %q", given, id)
					}
					if more > 0 {
						interrupt()
					}
					if more == 3 {
						of(t, stderr.said, "it does not say that it was interrupted twice") // the system may make one of two signals
						interrupt()
					}
					if more < 2 {
						close(server.answer)
					}
					_ = job.Wait()
					if code := job.ProcessState.ExitCode(); code != 130 {
						t.Errorf("exit code %d: %s", code, &stderr)
					}
					if twice := strings.Contains(stderr.String(), "interrupted twice"); twice && more < 2 || !twice && more == 2 {
						t.Errorf("it says: %s", &stderr)
					}
					if more < 3 && strings.Count(stderr.String(), "\n") != 1 {
						t.Errorf("it says: %s", &stderr)
					}
				})
			}
		}
	}
}

// TestOnceInterruptedBeforeItBegan: a quiet command names an address at which no server responds, goes on asking, and
// says when it is stopped that nothing had begun.
func TestOnceInterruptedBeforeItBegan(t *testing.T) {
	t.Parallel()
	job := exec.CommandContext(t.Context(), binary(t), "--server", "http://127.0.0.1:1", "once", "-q", "a",
		"--", "true")
	job.Env = environment()
	stderr, err := job.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if said = append(said, lines.Text()); len(said) == 2 {
			if err := job.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = job.Wait()
	if code := job.ProcessState.ExitCode(); code != 130 || len(said) != 3 ||
		!strings.HasPrefix(said[0], "leasehold: cannot reach http://127.0.0.1:1: ") ||
		said[2] != "leasehold: interrupted before the run of a began" {
		t.Errorf("exit code %d: %q", code, said)
	}
}

// TestOnceInterruptedAgain: a command that does not end when it is asked to is killed with the second signal, and its
// run is free for the next at once.
func TestOnceInterruptedAgain(t *testing.T) {
	t.Parallel()
	p := start(t, "--store", "memory")
	job := exec.CommandContext(t.Context(), binary(t), "--server", p.url, "once", "a", "--grace", "10m", "--",
		"sh", "-c", `trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done`)
	job.Env = environment()
	stdout, err := job.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for _, want := range []string{"ready", "asked"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("it says %q, not %q", lines.Text(), want)
		}
		if err := job.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	for lines.Scan() { // until it has ended
	}
	_ = job.Wait()
	if code := job.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	got := sendJSON(t, p.url+"/v1/tenants/default/runs/a/begin", `{"request_id":"n","owner_id":"next","ttl_seconds":300}`)
	if got["acquired"] != true {
		t.Errorf("the next: %v", got)
	}
}
