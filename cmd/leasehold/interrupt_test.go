package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// TestInterrupted: Ctrl-C ends each command that waits for a server with the shell's exit code, and with one line that
// says so.
func TestInterrupted(t *testing.T) {
	asked := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // only then the end of the connection is noticed
		select {
		case asked <- struct{}{}:
			<-r.Context().Done()
		default: // the command gives up its request, or looks what that may have acquired: nothing
			if bytes.Contains(body, []byte(`"give_up":true`)) {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			nothing := contracts.Errorf(contracts.CodeLockHeld, "")
			w.Header().Set("Content-Type", "application/problem+json")
			info, _ := nothing.Code.Info()
			w.WriteHeader(info.Status)
			_ = json.NewEncoder(w).Encode(nothing.Problem())
		}
	}))
	defer server.Close()
	for _, args := range []string{
		"lock acquire k", "lock acquire k --wait 1h", "lock renew k --token 1", "lock release k --token 1",
		"lock force-release k --reason r", "lock get k",
		"lock get k --watch", "lock list", "lock list --watch", "lock run k -- true", "lock run k --wait 1h -- true",
		"fence check r --token 1 --subject lock/r",
		"fence reset r --token 1 --reason r", "analysis list", "analysis get a", "analysis retry a --reason r",
		"placement members c",
		"placement where c k i", "placement drain c m", "placement events c", "placement events c --follow", "id next",
		"id force-release --all --reason r", "run list", "run get a", "run retry a --reason r", "run again a --reason r",
		"run remove a --reason r", "once a -- true",
	} {
		t.Run(args, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			var out, errs strings.Builder
			ended := make(chan int, 1)
			words := strings.Fields("--server " + server.URL + " " + args)
			go func() { ended <- run(ctx, words, &out, &errs) }()
			for len(asked) == 0 {
				if len(ended) > 0 {
					t.Fatalf("it ended with %d before it asked: %s", <-ended, &errs)
				}
				time.Sleep(time.Millisecond) // the channel stays full, so that later requests are answered
			}
			interrupt()
			if code := <-ended; code != exitInterrupted {
				t.Errorf("exit code %d", code)
			}
			if out.Len() > 0 || !strings.HasPrefix(errs.String(), "leasehold: interrupted") ||
				strings.Count(errs.String(), "\n") != 1 {
				t.Errorf("%q %q", &out, &errs)
			}
		})
		if !t.Failed() {
			<-asked
		}
	}
}
