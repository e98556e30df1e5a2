// Package rest is what the clients of the HTTP API have in common: one exchange of the contract, sent again while no
// definite answer arrives.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// Client speaks to one server. It may be used by several goroutines at once.
type Client struct {
	base  string
	http  *http.Client
	token func(context.Context) (string, error)
	tries int
}

// Options are the settings of [New]. The zero value works. The clients' own options have the same fields and explain them.
type Options struct {
	HTTP  *http.Client
	Token func(context.Context) (string, error)
	Tries int
}

// New returns a client of the server at base, such as "http://127.0.0.1:8080".
func New(base string, o Options) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(base, "?#") {
		return nil, fmt.Errorf("server %q: must be a URL like http://127.0.0.1:8080", base)
	}
	c := &Client{base: strings.TrimRight(base, "/"), http: &http.Client{Timeout: 15 * time.Second}, tries: 4, token: o.Token}
	if o.HTTP != nil {
		c.http = o.HTTP
	}
	if o.Tries > 0 {
		c.tries = o.Tries
	}
	return c, nil
}

// ProblemError is a refusal or failure as the server reported it.
type ProblemError struct{ contracts.Problem }

// Error is the code and the server's sentence.
func (e *ProblemError) Error() string { return Sentence(e.Problem) }

// Sentence is a problem's code and what the server says about it.
func Sentence(p contracts.Problem) string {
	s := string(p.Code) + ": " + p.Title
	if p.Detail != "" {
		s += ": " + p.Detail
	}
	return s
}

// The random wait before the second try is shorter than firstWait; the bound doubles from try to try up to lastWait.
const (
	firstWait = 200 * time.Millisecond
	lastWait  = 10 * time.Second
)

// Call sends one request until there is a definite answer, the tries are used up or the context ends. whole reports whether
// an answer has the members that make it one: the JSON of some other server, which answers 200 to everything, must not be
// taken for a lease. The error is a [*ProblemError] if the server reported it.
func Call[T any](ctx context.Context, c *Client, method, path string, body any, whole func(T) bool) (T, error) {
	var payload []byte
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			var none T
			return none, fmt.Errorf("encode the request: %w", err)
		}
	}
	for try, wait := 1, firstWait; ; try, wait = try+1, min(2*wait, lastWait) {
		answer, again, err := once(ctx, c, method, path, payload, whole)
		if err == nil || !again || try == c.tries {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(rand.N(wait)):
		}
	}
}

// once sends the request a single time. again says that sending it once more is the way to find out how it ended.
func once[T any](ctx context.Context, c *Client, method, path string, payload []byte, whole func(T) bool) (answer T, again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(payload))
	if err != nil {
		return answer, false, err
	}
	if payload != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != nil {
		token, err := c.token(ctx)
		if err != nil {
			return answer, false, fmt.Errorf("get a token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w, err := c.http.Do(r)
	if err != nil {
		return answer, ctx.Err() == nil, err
	}
	defer w.Body.Close()   //nolint:errcheck // the body was read to its end, or is not wanted
	const most = 128 << 20 // a page of 1000 locks with all their metadata, each byte escaped, stays below
	content, err := io.ReadAll(io.LimitReader(w.Body, most))
	if err != nil {
		return answer, ctx.Err() == nil, fmt.Errorf("the answer broke off: %w", err)
	}
	mediaType, _, _ := mime.ParseMediaType(w.Header.Get("Content-Type"))
	switch {
	case w.StatusCode == http.StatusOK && mediaType == "application/json":
		var got T
		if err := json.Unmarshal(content, &got); err != nil {
			return answer, false, fmt.Errorf("the answer is not what the contract says: %w", err)
		}
		if !whole(got) {
			return answer, false, errors.New("the answer is not what the contract says: it lacks required members")
		}
		return got, false, nil
	case mediaType == "application/problem+json":
		e := &ProblemError{}
		if err := json.Unmarshal(content, &e.Problem); err != nil || e.Code == "" {
			return answer, false, fmt.Errorf("status %d with a problem that cannot be read", w.StatusCode)
		}
		return answer, e.Retryable && w.StatusCode >= http.StatusInternalServerError, e
	default:
		// Something between here and the server answered: a proxy, or another server altogether.
		return answer, w.StatusCode >= http.StatusInternalServerError, fmt.Errorf("%s answered %s with %q, which is not Leasehold",
			c.base, w.Status, mediaType)
	}
}
