package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// link carries requests to a handler without a network, so that a bubble holds both ends, and loses some on the way.
type link struct {
	handler http.Handler
	lose    func(r *http.Request, n int) (request, response bool)
	n       int
}

func (w *link) RoundTrip(r *http.Request) (*http.Response, error) {
	w.n++
	request, response := false, false
	if w.lose != nil {
		request, response = w.lose(r, w.n)
	}
	if request {
		return nil, errNetwork
	}
	q := r.Clone(r.Context())
	q.RequestURI, q.Host = r.URL.RequestURI(), "127.0.0.1"
	if q.Body == nil {
		q.Body = http.NoBody
	}
	a := httptest.NewRecorder()
	w.handler.ServeHTTP(a, q)
	if response {
		return nil, errNetwork
	}
	return a.Result(), nil
}

// gateServer is a gate on a store in memory, with an ordered analysis "a1", and a client of it.
func gateServer(t *testing.T) (*client.Analyses, *link) {
	t.Helper()
	store := docstore.NewMemory(nil)
	w := &link{handler: contracttest.Handler(t, httpapi.New(store, httpapi.Development{}, nil))}
	if _, err := store.Write(t.Context(), docstore.Write{
		Key: docstore.Key{Kind: "analyses", ID: "a1"}, Set: map[string]docstore.Value{"status": docstore.String("PENDING"),
			"lockToken": docstore.Int(0)},
	}); err != nil {
		t.Fatal(err)
	}
	return analyses(t, w), w
}

func analyses(t *testing.T, rt http.RoundTripper) *client.Analyses {
	t.Helper()
	c, err := client.New("http://gate.example", &client.Options{HTTP: &http.Client{Transport: rt}})
	if err != nil {
		t.Fatal(err)
	}
	return c.Analyses()
}

// TestOverHTTP: a whole run through the client, the endpoint and the rule, in a bubble's time.
func TestOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		c, _ := gateServer(t)
		out, err := c.Run(t.Context(), "a1", func(ctx context.Context, l once.Lock) (string, error) {
			want(t, "lock", l, once.Lock{RunID: "a1", Owner: "w1", Token: 1,
				ExpiresAt: bubble.Add(time.Hour + 5*time.Minute)})
			skipped, err := c.Run(ctx, "a1", say("twice"), &once.Options{Owner: "w2"})
			want(t, "error", err, nil)
			want(t, "another", skipped, once.Outcome{Status: once.Locked, RetryAfter: 5 * time.Minute})
			return "s3://results/a1", work(ctx, 20*time.Minute)
		}, &once.Options{Owner: "w1"})
		want(t, "error", err, nil)
		want(t, "outcome", out, once.Outcome{Status: once.Ready, Token: 1, Result: "s3://results/a1"})
		a, err := c.Get(t.Context(), "a1")
		want(t, "error", err, nil)
		want(t, "analysis", a, contracts.Analysis{
			AnalysisID: "a1", Status: "READY", Finished: true, Result: "s3://results/a1", FinishedAt: "2000-01-01T01:20:00.000Z",
		})

		out, err = c.Run(t.Context(), "a1", say("again"), nil)
		want(t, "error", err, nil)
		want(t, "again", out, once.Outcome{Status: once.AlreadyFinished, Result: "s3://results/a1"})
		out, err = c.Run(t.Context(), "a2", say(""), nil)
		want(t, "error", err, nil)
		want(t, "unknown", out, once.Outcome{Status: once.Unknown})
		if _, err := c.Get(t.Context(), "a2"); !errors.Is(err, contracts.CodeNotFound) {
			t.Errorf("Get of none: %v", err)
		}
		for id, created := range map[string]bool{"a1": false, "a2": true} {
			got, err := c.Create(t.Context(), id)
			want(t, "error", err, nil)
			want(t, "created "+id, got, created)
		}
		out, err = c.Run(t.Context(), "a2", say("made"), nil)
		want(t, "error", err, nil)
		if out.Token < bubble.UnixMicro() { // the first token is the store's time
			t.Errorf("created, and run with token %d", out.Token)
		}
		want(t, "created, and run", out, once.Outcome{Status: once.Ready, Token: out.Token, Result: "made"})
	})
}

// TestLostOnTheWire: whichever request or response is lost, the analysis runs once, and ends.
func TestLostOnTheWire(t *testing.T) {
	for _, command := range []string{"/lock", "/refresh", "/release", "/finish"} {
		for _, what := range []string{"request", "response"} {
			t.Run(what+" of "+command, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, w := gateServer(t)
					lost := 0
					w.lose = func(r *http.Request, _ int) (bool, bool) {
						if !strings.HasSuffix(r.URL.Path, command) || lost == 2 {
							return false, false
						}
						lost++
						return what == "request", what == "response"
					}
					runs := 0
					for _, status := range []once.Status{once.Retry, once.Ready} {
						out, err := c.Run(t.Context(), "a1", func(ctx context.Context, _ once.Lock) (string, error) {
							runs++
							if err := work(ctx, 90*time.Second); err != nil {
								return "", err
							}
							if runs == 1 {
								return "", errors.New("not at the first try")
							}
							return "done", nil
						}, nil)
						want(t, "error", err, nil)
						want(t, "status", out.Status, status)
					}
					want(t, "lost", lost, 2)
					want(t, "runs", runs, 2)
					a, _ := c.Get(t.Context(), "a1")
					a.FinishedAt = "" // the waits before retries are random
					want(t, "analysis", a, contracts.Analysis{AnalysisID: "a1", Status: "READY", Finished: true, Failures: 1,
						Result: "done"})
				})
			})
		}
	}
}

// TestFailedOverHTTP: what failed for good says why in the document.
func TestFailedOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := gateServer(t)
		out, err := c.Run(t.Context(), "a1", func(context.Context, once.Lock) (string, error) {
			return "", once.Permanent(errors.New("no such <file>"))
		}, nil)
		want(t, "error", err, nil)
		want(t, "status", out.Status, once.Failed)
		a, _ := c.Get(t.Context(), "a1")
		want(t, "analysis", a, contracts.Analysis{AnalysisID: "a1", Status: "FAILED", Finished: true, Failures: 1,
			FailureReason: "no such <file>", FinishedAt: "2000-01-01T00:00:00.000Z"})
	})
}

// TestRetryOverHTTP: a FAILED analysis is found in the list, and runs again; a lost request or response makes no
// difference.
func TestRetryOverHTTP(t *testing.T) {
	for _, lose := range []string{"", "request", "response"} {
		t.Run("lost "+lose, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, w := gateServer(t)
				_, err := c.Run(t.Context(), "a1", func(context.Context, once.Lock) (string, error) {
					return "", once.Permanent(errors.New("no model"))
				}, nil)
				want(t, "error", err, nil)
				for _, id := range []string{"a0", "b1"} {
					_, err := c.Create(t.Context(), id)
					want(t, "error", err, nil)
				}
				failed, err := c.List(t.Context(), client.AnalysisQuery{Status: "FAILED", PageSize: 1000})
				want(t, "error", err, nil)
				want(t, "failed", failed, contracts.AnalysisPage{Analyses: []contracts.Analysis{
					{AnalysisID: "a1", Status: "FAILED", Finished: true, Failures: 1, FailureReason: "no model",
						FinishedAt: "2000-01-01T00:00:00.000Z"},
				}, Counts: contracts.WorkCounts{Documents: 3, Failed: 1, Pending: 2}})
				first, err := c.List(t.Context(), client.AnalysisQuery{Prefix: "a", PageSize: 1})
				want(t, "error", err, nil)
				rest, err := c.List(t.Context(), client.AnalysisQuery{Prefix: "a", PageToken: first.NextPageToken})
				want(t, "error", err, nil)
				want(t, "pages", []string{first.Analyses[0].AnalysisID, rest.Analyses[0].AnalysisID, rest.NextPageToken},
					[]string{"a0", "a1", ""})

				w.lose = func(r *http.Request, _ int) (bool, bool) {
					first := strings.HasSuffix(r.URL.Path, "/retry") && lose != ""
					request, response := first && lose == "request", first && lose == "response"
					if first {
						lose = ""
					}
					return request, response
				}
				lost := lose == "response"
				got, err := c.Retry(t.Context(), "a1", contracts.AnalysisRetryRequest{OwnerID: "root",
					Reason: "the model is there"})
				want(t, "error", err, nil)
				want(t, "retried by", got.Retry.By, "root")
				got.Retry = nil // the time: the waits before retries are random
				want(t, "retried", got, contracts.AnalysisRetried{AnalysisID: "a1", Status: "PENDING", Replayed: lost})
				if _, err := c.Retry(t.Context(), "a1", contracts.AnalysisRetryRequest{OwnerID: "root", Reason: "x"}); !errors.Is(
					err, contracts.CodeNotFailed) {
					t.Errorf("what is not FAILED: %v", err)
				}
				out, err := c.Run(t.Context(), "a1", say("done"), nil)
				want(t, "error", err, nil)
				want(t, "status", out.Status, once.Ready)
			})
		})
	}
}

// TestStrangeLists are errors.
func TestStrangeLists(t *testing.T) {
	for say, problem := range map[string]string{
		`{"status":"ok"}`:   "required members are missing",
		`{"analyses":[{}]}`: "required members are missing",
		`{"analyses":[{"analysis_id":"b1","status":"FAILED"}]}`: `lists the analysis "b1" with the status "FAILED", which was not asked for`,
		`{"analyses":[{"analysis_id":"a1","status":"READY"}]}`:  `lists the analysis "a1" with the status "READY", which was not asked for`,
	} {
		c := analyses(t, answering(200, "application/json", say))
		if _, err := c.List(t.Context(), client.AnalysisQuery{Prefix: "a", Status: "FAILED"}); err == nil ||
			!strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v, want %q", say, err, problem)
		}
	}
	c := analyses(t, answering(200, "application/json", `{"analysis_id":"a2","replayed":false}`))
	if _, err := c.Retry(t.Context(), "a1", contracts.AnalysisRetryRequest{Reason: "x"}); err == nil ||
		!strings.Contains(err.Error(), `the analysis "a2", not "a1"`) {
		t.Errorf("another analysis: %v", err)
	}
}

// answering is a server that says the same to everything.
func answering(status int, contentType, body string) http.RoundTripper {
	return roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {contentType}},
			Body: io.NopCloser(strings.NewReader(body)),
		}, nil
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCodesOfAHolder: what a code means to the holder of a lock.
func TestCodesOfAHolder(t *testing.T) {
	lost := []contracts.Code{
		contracts.CodeLeaseLost, contracts.CodeLeaseExpired, contracts.CodeLeaseReleased, contracts.CodeAlreadyFinished,
		contracts.CodeNotOwner,
	}
	for _, code := range append(lost,
		contracts.CodeInvalidArgument, contracts.CodeUnauthenticated, contracts.CodePermissionDenied, contracts.CodeNotFound,
		contracts.CodeMethodNotAllowed, contracts.CodePayloadTooLarge, contracts.CodeDocumentDamaged,
		contracts.CodeUnavailable,
		contracts.CodeClockSkew, contracts.CodeDeadlineExceeded, contracts.CodeInternal,
	) {
		t.Run(string(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				info, _ := code.Info()
				body, _ := json.Marshal(contracts.Problem{Code: code, Title: info.Title, Status: info.Status,
					Retryable: info.Retryable})
				c := analyses(t, answering(info.Status, "application/problem+json", string(body)))
				_, err := c.Refresh(t.Context(), once.Lock{RunID: "a1", Owner: "w", Token: 1}, time.Minute)
				if e, ok := errors.AsType[*contracts.Error](err); !ok || e.Code != code || !errors.Is(err, code) {
					t.Errorf("%v does not carry the code", err)
				}
				if want := slices.Contains(lost, code); once.IsLost(err) != want {
					t.Errorf("%v: the lock is lost: %v, want %v", err, !want, want)
				}
			})
		})
	}
	missing := `{"code":"NOT_FOUND","status":404,"title":"not found","field":"analysis_id"}`
	c := analyses(t, answering(404, "application/problem+json", missing))
	if _, err := c.Refresh(t.Context(), once.Lock{Token: 1}, time.Minute); !once.IsLost(err) {
		t.Errorf("a missing analysis: %v", err)
	}
}

// TestStrangeResponses are errors, never grants.
func TestStrangeResponses(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		media, say string
		want       string
	}{
		"another server": {200, "application/json", `{"status":"ok"}`, "required members are missing"},
		"a grant of no token": {200, "application/json", `{"analysis_id":"a1","acquired":true,"remaining_ms":1000}`,
			"required members are missing"},
		"a grant of no time": {200, "application/json", `{"analysis_id":"a1","acquired":true,"fencing_token":1}`,
			"required members are missing"},
		"no end": {200, "application/json",
			`{"analysis_id":"a1","owner_id":"w","acquired":true,"fencing_token":1,"remaining_ms":1000,"expires_at":"soon"}`,
			`expires_at "soon" is no time`},
		"another analysis": {200, "application/json",
			`{"analysis_id":"a2","owner_id":"w","acquired":true,"fencing_token":1,"remaining_ms":1000,"expires_at":"2026-01-01T00:00:01.000Z"}`, `the analysis "a2", not "a1"`},
		"another owner": {200, "application/json",
			`{"analysis_id":"a1","owner_id":"v","acquired":true,"fencing_token":1,"remaining_ms":1000,"expires_at":"2026-01-01T00:00:01.000Z"}`, `belongs to "v", not to "w"`},
		"another's skip": {200, "application/json", `{"analysis_id":"a2","acquired":false,"reason":"locked"}`,
			`the analysis "a2", not "a1"`},
		"another reason": {200, "application/json", `{"analysis_id":"a1","acquired":false,"reason":"lunch"}`,
			"required members are missing"},
		"not JSON": {200, "application/json", `<html>`, "invalid response"},
		"a page":   {200, "text/html", `<html>`, "which is not Leasehold"},
		"too late": {409, "application/problem+json",
			`{"code":"LEASE_EXPIRED","status":409,"title":"lease expired"}`, "LEASE_EXPIRED"},
	} {
		t.Run(name, func(t *testing.T) {
			gate := analyses(t, answering(c.status, c.media, c.say))
			g, err := gate.Acquire(t.Context(), once.Acquire{RunID: "a1", Owner: "w", RequestID: "r", TTL: time.Minute})
			if err == nil || !strings.Contains(err.Error(), c.want) || g.Acquired {
				t.Errorf("%+v, %v; want %q", g, err, c.want)
			}
			if errors.Is(err, once.ErrLost) {
				t.Errorf("%v: nothing was held", err)
			}
		})
	}
}

// TestRemainingIsTheServers: the time of a run is what the server says is left, not the ttl that was asked for: a grant
// that was repeated is older than its response.
func TestRemainingIsTheServers(t *testing.T) {
	gate := analyses(t, answering(200, "application/json",
		`{"analysis_id":"a1","owner_id":"sub#w","acquired":true,"fencing_token":1,`+
			`"remaining_ms":41000,"expires_at":"2026-01-01T00:00:41.000Z","runs":1,"failures":0,"replayed":true}`))
	g, err := gate.Acquire(t.Context(), once.Acquire{RunID: "a1", Owner: "w", RequestID: "r", TTL: time.Minute})
	if err != nil || g.Remaining != 41*time.Second || g.Lock.Owner != "sub#w" {
		t.Errorf("%+v, %v; want 41s", g, err)
	}
}

func TestArgumentsOfAnalyses(t *testing.T) {
	for _, base := range []string{"", "127.0.0.1:8080", "ftp://x", "http://x?y", "http://"} {
		if _, err := client.New(base, nil); err == nil {
			t.Errorf("%q is taken for a server", base)
		}
	}
	c := analyses(t, answering(200, "text/html", ""))
	for _, ttl := range []time.Duration{0, -time.Second, 1500 * time.Millisecond, 999 * time.Millisecond} {
		_, acquire := c.Acquire(t.Context(), once.Acquire{RunID: "a1", TTL: ttl})
		_, refresh := c.Refresh(t.Context(), once.Lock{RunID: "a1", Token: 1}, ttl)
		if !errors.Is(acquire, contracts.CodeInvalidArgument) || !errors.Is(refresh, contracts.CodeInvalidArgument) {
			t.Errorf("a ttl of %v: %v, %v", ttl, acquire, refresh)
		}
	}
}

// TestToken is sent with every request, and one that cannot be had is no answer of the gate.
func TestTokenOfAnalyses(t *testing.T) {
	var got string
	seen := roundTrip(func(r *http.Request) (*http.Response, error) {
		got = r.Header.Get("Authorization")
		return nil, errNetwork
	})
	token, failure := "t1", error(nil)
	c, err := client.New("https://gate.example/", &client.Options{
		HTTP: &http.Client{Transport: seen}, Tries: 1,
		Token: func(context.Context) (string, error) { return token, failure },
	})
	want(t, "error", err, nil)
	if _, err := c.Analyses().Get(t.Context(), "a1"); !errors.Is(err, errNetwork) {
		t.Error(err)
	}
	want(t, "sent", got, "Bearer t1")
	failure = errors.New("the issuer is down")
	if _, err := c.Analyses().Get(t.Context(), "a1"); !errors.Is(err, failure) {
		t.Error(err)
	}
}

var bubble = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

var errNetwork = errors.New("connection reset")

func say(text string) once.Work {
	return func(ctx context.Context, _ once.Lock) (string, error) { return text, work(ctx, 90*time.Second) }
}

// work takes a while, and stops with the cause when its context ends.
func work(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
