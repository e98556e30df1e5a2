package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/internal/bearer"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// targetOf is a target made of a handler.
func targetOf(t *testing.T, h http.HandlerFunc, o *tasks.TargetOptions) *tasks.Target {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	target, err := tasks.NewTarget(s.URL+"/run?key=secret", o)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// TestFileToken: what is in the file at the time of the request is the token.
func TestFileToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	token := tasks.FileToken(path)
	if got, err := token(t.Context()); got != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %q, %v", got, err)
	}
	for _, content := range []string{"first\n", " second "} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := token(t.Context()); err != nil || got != strings.TrimSpace(content) {
			t.Errorf("%q: %q, %v", content, got, err)
		}
	}
}

// TestRejectedToken: a target that responds 401 is sent the same request with another token, if there is one by then,
// and that run is no failure. A token that stays rejected is one, after as many requests as there were tokens.
func TestRejectedToken(t *testing.T) {
	for name, c := range map[string]struct {
		tokens []string // in the order in which they are asked for; the last one again and again
		want   []string // that are sent
		done   bool
	}{
		"replaced meanwhile": {[]string{"old", "new"}, []string{"old", "new"}, true},
		"replaced twice":     {[]string{"old", "older", "new"}, []string{"old", "older", "new"}, true},
		"no other":           {[]string{"old"}, []string{"old"}, false},
		"four others":        {[]string{"a", "b", "c", "new"}, []string{"a", "b", "c"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var sent, bodies []string
			asked := 0
			target := targetOf(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				sent = append(sent, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
				if bodies = append(bodies, string(body)); sent[len(sent)-1] != "new" {
					w.WriteHeader(http.StatusUnauthorized)
				}
			}, &tasks.TargetOptions{Token: func(ctx context.Context) (string, error) {
				if bearer.Rejected(ctx) != (asked > 0) {
					t.Errorf("call %d: rejected: %v", asked, bearer.Rejected(ctx))
				}
				asked++
				return c.tokens[min(asked, len(c.tokens))-1], nil
			}})
			_, err := target.Run(t.Context(), once.Lock{RunID: "a1", Token: 1})
			if (err == nil) != c.done || !slices.Equal(sent, c.want) || len(slices.Compact(bodies)) != 1 {
				t.Errorf("sent with %q, want %q: %v; %q", sent, c.want, err, bodies)
			}
		})
	}
}

// TestTargetRequest: what a target is sent.
func TestTargetRequest(t *testing.T) {
	var (
		body   map[string]any
		header http.Header
		path   string
	)
	target := targetOf(t, func(_ http.ResponseWriter, r *http.Request) {
		header, path = r.Header, r.URL.String()
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Method != http.MethodPost {
			t.Errorf("%s, %v", r.Method, err)
		}
	}, &tasks.TargetOptions{Token: tasks.StaticToken("s3cret")})
	b := newBench(t, target.Run)
	b.put("a1", docstore.Doc{"lockToken": docstore.Int(6)})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	end, _ := ctx.Deadline()
	if a := b.Deliver(ctx, tasks.Message{ID: "analyses/t1", Try: "2.1", Body: []byte(a1)}); a.Outcome != once.Ready {
		t.Fatalf("%+v", a)
	}
	for name, want := range map[string]any{
		"analysis_id": "a1", "fencing_token": 7.0, "owner_id": "analyses/t1#2.1", "deadline": end.UTC().Format(time.RFC3339),
	} {
		if body[name] != want {
			t.Errorf("%s is %v, want %v", name, body[name], want)
		}
	}
	for name, want := range map[string]string{
		"X-Leasehold-Fence": "7", "X-Leasehold-Attempt": "2.1", "X-Leasehold-Message": "analyses/t1",
		"Authorization": "Bearer s3cret", "Content-Type": "application/json", "User-Agent": "leasehold",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if len(body) != 4 || path != "/run?key=secret" {
		t.Errorf("%s %v", path, body)
	}
}

// TestTargetResponses: what a run comes to.
func TestTargetResponses(t *testing.T) {
	const (
		typeJSON = "application/json; charset=utf-8"
		text     = "text/plain"
	)
	long := strings.Repeat("é", analysis.MaxResultBytes/2) // two bytes each
	for name, c := range map[string]struct {
		status     int
		kind, body string
		result     string
		err        string
		forGood    bool
	}{
		"result":          {200, typeJSON, `{"result":"gs://r/1","x":1}`, "gs://r/1", "", false},
		"as problem+json": {200, "application/vnd.x+json", `{"result":"r"}`, "r", "", false},
		"at the bound":    {200, typeJSON, `{"result":"` + long + `"}`, long, "", false},
		"escaped": {200, typeJSON, `{"result":"` + strings.Repeat(`\u0041`, analysis.MaxResultBytes) + `"}`,
			strings.Repeat("A", analysis.MaxResultBytes), "", false},
		"201":               {201, typeJSON, `{"result":"r"}`, "r", "", false},
		"204":               {204, "", "", "", "", false},
		"empty":             {200, typeJSON, "", "", "", false},
		"no JSON":           {200, text, "done", "", "", false},
		"long, and no JSON": {200, text, strings.Repeat("x", 1<<20), "", "", false},
		"without a result":  {200, typeJSON, `{"ok":true}`, "", "", false},
		"null":              {200, typeJSON, `{"result":null}`, "", "", false},
		"a number":          {200, typeJSON, `{"result":1}`, "", "member result must be text", true},
		"too long":          {200, typeJSON, `{"result":"` + long + `x"}`, "", "262145 bytes, 262144 at most", true},
		"far too long": {200, typeJSON, `{"result":"` + strings.Repeat("x", 10*analysis.MaxResultBytes) + `"}`, "",
			"keep the result elsewhere", true},
		"broken JSON":          {200, typeJSON, `{"result":`, "", "200 OK with a body that cannot be used", true},
		"a list":               {200, typeJSON, `["r"]`, "", "must be a JSON object", true},
		"failed for good":      {422, typeJSON, `{"failure_reason":"no such video"}`, "", "no such video", true},
		"without a reason":     {422, typeJSON, `{}`, "", "the target responded 422 Unprocessable Entity", true},
		"with a broken reason": {422, typeJSON, `{`, "", "the target responded 422 Unprocessable Entity", true},
		"reason as text":       {422, text, "no such video", "", "the target responded 422 Unprocessable Entity", true},
		"500": {500, typeJSON, `{"result":"r","failure_reason":"f"}`, "",
			"the target responded 500 Internal Server Error", false},
		"404": {404, "", "", "", "the target responded 404 Not Found", false},
		"503": {503, "", "", "", "the target responded 503 Service Unavailable", false},
		"299": {299, "", "", "", "", false},
		"599": {599, "", "", "", "the target responded 599", false},
	} {
		t.Run(name, func(t *testing.T) {
			target := targetOf(t, func(w http.ResponseWriter, _ *http.Request) {
				if c.kind != "" {
					w.Header().Set("Content-Type", c.kind)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}, nil)
			got, err := target.Run(t.Context(), once.Lock{RunID: "a1", Token: 1})
			if got != c.result || c.err == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("%.100q, %v; want %.100q, %q", got, err, c.result, c.err)
			}
			b := newBench(t, func(context.Context, once.Lock) (string, error) { return got, err })
			b.put("a1", docstore.Doc{"x": docstore.Int(1)})
			want := once.Ready
			switch {
			case c.status == http.StatusServiceUnavailable:
				want = tasks.TargetAway
			case c.forGood:
				want = once.Failed
			case c.err != "":
				want = once.Retry
			}
			if a := b.deliver(); a.Outcome != want {
				t.Errorf("%+v, want %s", a, want)
			}
			if d := b.doc(); want == once.Ready && c.result != "" && d["result"] != docstore.String(c.result) {
				t.Errorf("the document is %.200v", d)
			}
		})
	}
}

// TestTargetTroubles: what is no response is a failed attempt, without the URL's secrets.
func TestTargetTroubles(t *testing.T) {
	elsewhere := httptest.NewServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		o    *tasks.TargetOptions
		says string
	}{
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, nil, "307 Temporary Redirect"},
		"redirect, with a client of one's own": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		}, &tasks.TargetOptions{Client: &http.Client{}}, "302 Found"},
		"connection cut": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil,
			"the target did not respond: EOF"},
		"response cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"result":"`)
		}, nil, "200 OK ended before it was whole"},
		"no token": {func(http.ResponseWriter, *http.Request) { t.Error("was called") }, &tasks.TargetOptions{
			Token: func(context.Context) (string, error) { return "", errors.New("no metadata server") },
		}, "get a token for the target: no metadata server"},
	} {
		t.Run(name, func(t *testing.T) {
			target := targetOf(t, c.h, c.o)
			_, err := target.Run(t.Context(), once.Lock{RunID: "a1", Token: 1})
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// overdue is a context whose deadline has passed once the channel is closed.
type overdue struct {
	context.Context //nolint:containedctx // it is one

	passed <-chan struct{}
}

// Done implements [context.Context].
func (o overdue) Done() <-chan struct{} { return o.passed }

// Err implements [context.Context].
func (o overdue) Err() error {
	select {
	case <-o.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestTargetHangs: the connection is cut at the delivery's time limit, and the lock is released.
func TestTargetHangs(t *testing.T) {
	begun, cut := make(chan struct{}), make(chan struct{})
	target := targetOf(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server sees the end of a connection once it has read the body
		close(begun)
		<-r.Context().Done()
		close(cut)
	}, nil)
	b := newBench(t, target.Run)
	b.put("a1", docstore.Doc{"x": docstore.Int(1)})
	if a := b.Deliver(overdue{t.Context(), begun}, tasks.Message{Body: []byte(a1)}); a.Outcome != once.Stopped {
		t.Errorf("%+v", a)
	}
	<-cut
	b.wantFree()
}

func TestNewTargetRefuses(t *testing.T) {
	for url, says := range map[string]string{
		"":                                    "is not a URL",
		"worker":                              "is not a URL",
		"ftp://worker.example.com":            "is not a URL",
		"http://worker.example.com/run":       "must begin with https://",
		"http://worker.example.com/?k=secret": `target "http://worker.example.com" must begin with https://`,
		"http://10.0.0.1/run":                 "must begin with https://",
		"https://u:p@worker.example":          "user or a password",
		"https://worker.example/run":          "",
		"http://localhost:9000/run":           "",
		"http://[::1]:9000":                   "",
	} {
		_, err := tasks.NewTarget(url, nil)
		if says == "" != (err == nil) || err != nil && (!strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "u:p")) {
			t.Errorf("%s: %v, want %q", url, err, says)
		}
	}
}

// TestMissingToken: a token that cannot be had is a fault of the deployment. The run is retried, and never counted as a
// failure of the analysis.
func TestMissingToken(t *testing.T) {
	target, err := tasks.NewTarget("http://127.0.0.1:1/run",
		&tasks.TargetOptions{Token: tasks.FileToken(t.TempDir() + "/missing")})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, target.Run)
	b.put("a1", docstore.Doc{"x": docstore.Int(1)})
	b.MaxFailures = 1
	for i, says := range []string{"get a token for the target", "the target is away", "the target is away"} {
		if a := b.Deliver(t.Context(), tasks.Message{ID: "m1", Body: []byte(a1)}); a.Outcome != tasks.TargetAway ||
			a.Done || a.Dead || !strings.Contains(a.Err.Error(), says) {
			t.Errorf("%d: got %+v", i, a)
		}
		if d := b.doc(); d["status"] != nil || d["lockFailures"] != nil || d["failureReason"] != nil {
			t.Errorf("counted: %v", d)
		}
		b.wantFree()
	}
}
