package conformancetest

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/leasehold-dev/leasehold/contracts/conformance"
	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/proof/lambdatest"
)

// Through runs all scripts of an area through each service that hands requests to a Lambda function, with the
// function's adapter in front of the player: what a client sends and is told arrives whole, and names in paths and
// queries are those that it meant. open makes the client for one script.
func Through(t *testing.T, area conformance.Area, open func(*testing.T, Env) Program) {
	t.Helper()
	all, err := conformance.Scripts()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range lambdatest.Fronts {
		t.Run(f.String(), func(t *testing.T) {
			for _, s := range all {
				if s.Area != area || s.Client.Refused || f.Name == "http-api" && hasQuestionMark(s) {
					continue
				}
				for _, failure := range Play(t, s, open, func(e *Env) {
					player, _ := e.HTTP.Transport.(handler)
					e.HTTP.Transport = fronted{f, player}
				}).Failures {
					t.Errorf("%s: %s", s.Name, failure)
				}
			}
		})
	}
}

// hasQuestionMark reports whether a name in a path has a "?". An HTTP API cuts names there, which the API refuses and a
// player does not.
func hasQuestionMark(s *conformance.Script) bool {
	return slices.ContainsFunc(s.Steps, func(step conformance.Step) bool { return strings.Contains(step.Request, "%3F") })
}

// fronted sends requests to the player through a front end.
type fronted struct {
	front  lambdatest.Front
	player http.Handler
}

// RoundTrip implements [http.RoundTripper].
func (f fronted) RoundTrip(q *http.Request) (*http.Response, error) {
	broken := false
	function := aws.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // a value of panic
				panic(p)
			}
			broken = p != nil
		}()
		f.player.ServeHTTP(w, asSent(r))
	}), nil)
	w, err := f.front.Transport(function.Invoke).RoundTrip(q)
	if broken && err == nil {
		_ = w.Body.Close()
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	return w, err
}

// asSent is a request with the path that the client says it sent, as the API reads it.
func asSent(r *http.Request) *http.Request {
	sent := r.Header.Get("Leasehold-Path")
	plain, err := url.PathUnescape(sent)
	if sent == "" || err != nil || plain != r.URL.Path {
		return r
	}
	r = r.Clone(r.Context())
	r.URL.RawPath = sent
	return r
}
