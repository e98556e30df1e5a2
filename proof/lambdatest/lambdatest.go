// Package lambdatest is Lambda's side of the runtime API
// (https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html), for tests of programs that were built for the
// runtime provided.al2023.
package lambdatest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Instance is a running instance of a function.
type Instance struct {
	events    chan event
	responses chan Response
	log       bytes.Buffer
	ended     chan struct{}
	code      int
	kill      func()
}

type event struct {
	payload  []byte
	deadline time.Time
}

// Response is what an invocation returned.
type Response struct {
	Failed bool // with an error; Body describes it
	Body   []byte
}

// failAfter is how long an instance has for an event, on a busy machine as well.
const failAfter = 5 * time.Minute

// Start starts an instance of the program, with its handler name and variables (NAME=value) beside those that Lambda
// sets. Variables of AWS and of Leasehold that this process has are not passed on. The instance is ended with the test.
func Start(t testing.TB, bootstrap, handler string, env ...string) *Instance {
	t.Helper()
	i := &Instance{events: make(chan event), responses: make(chan Response, 1), ended: make(chan struct{})}
	api := httptest.NewServer(i.api(t))
	t.Cleanup(api.Close)
	c := exec.CommandContext(t.Context(), bootstrap)
	c.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "AWS_") || strings.HasPrefix(kv, "LEASEHOLD_")
	})
	c.Env = append(c.Env, "AWS_LAMBDA_LOG_FORMAT=JSON", "AWS_REGION=eu-north-1", "AWS_ACCESS_KEY_ID=AKIAFAKE",
		"AWS_SECRET_ACCESS_KEY=fake-secret-key")
	c.Env = append(append(c.Env, env...), "_HANDLER="+handler, "AWS_LAMBDA_RUNTIME_API="+
		strings.TrimPrefix(api.URL, "http://"))
	c.Stdout, c.Stderr = &i.log, &i.log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(i.ended)
		_ = c.Wait()
		i.code = c.ProcessState.ExitCode()
	}()
	i.kill = func() {
		_ = c.Process.Kill()
		<-i.ended
	}
	t.Cleanup(i.kill)
	return i
}

// api is what the instance asks for events, and tells their results.
func (i *Instance) api(t testing.TB) http.Handler {
	const prefix = "/2018-06-01/runtime/invocation/"
	invocation := 0 // only next touches it, and an instance asks for one invocation at a time
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+prefix+"next", func(w http.ResponseWriter, r *http.Request) {
		select {
		case e := <-i.events:
			invocation++
			w.Header().Set("Lambda-Runtime-Aws-Request-Id", strconv.Itoa(invocation))
			w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(e.deadline.UnixMilli(), 10))
			w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-north-1:123456789012:function:leasehold")
			_, _ = w.Write(e.payload)
		case <-r.Context().Done():
		}
	})
	respond := func(failed bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			i.responses <- Response{failed, body}
			w.WriteHeader(http.StatusAccepted)
		}
	}
	mux.HandleFunc("POST "+prefix+"{id}/response", respond(false))
	mux.HandleFunc("POST "+prefix+"{id}/error", respond(true))
	return mux
}

// do hands an event to the instance, which has so much time for it, and waits for what it returns; false if the
// instance ends before.
func (i *Instance) do(payload []byte, timeout time.Duration) (Response, bool) {
	select {
	case i.events <- event{payload, time.Now().Add(timeout)}:
	case <-i.ended:
		return Response{}, false
	}
	select {
	case r := <-i.responses:
		return r, true
	case <-i.ended:
		return Response{}, false
	}
}

// Invoke hands an event to the instance, which has so much time for it, and returns what it returns. An instance that
// ends, or takes minutes, fails the test.
func (i *Instance) Invoke(t testing.TB, payload []byte, timeout time.Duration) Response {
	t.Helper()
	done := make(chan Response, 1)
	go func() {
		if r, ok := i.do(payload, timeout); ok {
			done <- r
		}
	}()
	select {
	case r := <-done:
		return r
	case <-i.ended:
		t.Fatalf("the instance ended\n%s", i.log.Bytes())
	case <-time.After(failAfter):
		t.Fatal("the instance does not respond")
	}
	return Response{}
}

// Kill ends the instance at once, and waits until it has ended.
func (i *Instance) Kill() { i.kill() }

// Ended is closed when the instance has ended.
func (i *Instance) Ended() <-chan struct{} { return i.ended }

// Log is what the instance wrote. It must have ended.
func (i *Instance) Log() string { return i.log.String() }

// ExitCode is that of the program. The instance must have ended.
func (i *Instance) ExitCode() int { return i.code }
