package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/backoff"
)

// waits are those before retries.
var waits = backoff.Policy{First: 200 * time.Millisecond, Max: 10 * time.Second}

// call sends one request until there is a definite response, the tries are used up or the context ends. valid reports whether
// a response has its required members, so that the JSON of another server is not taken for a lease.
func call[T any](ctx context.Context, c *Client, method, path string, body any, valid func(T) bool) (T, error) {
	var none T
	payload, err := encode(body)
	if err != nil {
		return none, err
	}
	for retry := 0; ; retry++ {
		content, again, err := c.exchange(ctx, method, path, payload, maxResponse)
		if err == nil {
			return decode(c, content, valid)
		}
		if !again || retry == c.tries-1 || waits.Sleep(ctx, retry) != nil {
			return none, err
		}
	}
}

// encode makes a request's body; nil for none.
func encode(body any) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	payload, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return payload, nil
}

// decode reads the body of a response.
func decode[T any](c *Client, content []byte, valid func(T) bool) (T, error) {
	var none, got T
	if err := json.Unmarshal(content, &got); err != nil {
		return none, fmt.Errorf("invalid response of %s: %w", c.name, err)
	}
	if !valid(got) {
		return none, fmt.Errorf("invalid response of %s: required members are missing", c.name)
	}
	return got, nil
}

// maxResponse bounds the bytes of a response: a page of 1000 locks with all their metadata, each byte escaped, stays below.
const maxResponse = 128 << 20

// exchange sends a request once and returns the body of a response that says OK, of which it reads the first bytes, most at most. again reports that the outcome is unknown,
// or that another try may succeed.
func (c *Client) exchange(ctx context.Context, method, path string, payload []byte, most int64) (content []byte, again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(payload))
	if err != nil {
		return nil, false, err
	}
	if payload != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != nil {
		token, err := c.token(ctx)
		if err != nil {
			return nil, false, fmt.Errorf("get a token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w, err := c.http.Do(r)
	if err != nil {
		return nil, ctx.Err() == nil, err
	}
	defer w.Body.Close() //nolint:errcheck // the body was read to its end, or is not wanted
	content, err = io.ReadAll(io.LimitReader(w.Body, most))
	if err != nil {
		return nil, ctx.Err() == nil, fmt.Errorf("read the response: %w", err)
	}
	mediaType, _, _ := mime.ParseMediaType(w.Header.Get("Content-Type"))
	switch {
	case w.StatusCode == http.StatusOK && mediaType == "application/json":
		return content, false, nil
	case method == http.MethodDelete && len(content) == 0 && (w.StatusCode == http.StatusOK || w.StatusCode == http.StatusNoContent):
		return nil, false, nil
	case mediaType == "application/problem+json":
		err := c.problem(w, content)
		e, ok := errors.AsType[*contracts.Error](err)
		return nil, ok && e.Retryable && w.StatusCode >= http.StatusInternalServerError, err
	default:
		// A proxy in between, or another server altogether.
		return nil, w.StatusCode >= http.StatusInternalServerError,
			fmt.Errorf("%s responded %s with content type %q, which is not Leasehold", c.name, w.Status, mediaType)
	}
}

// problem reads a problem document.
func (c *Client) problem(w *http.Response, content []byte) error {
	var p contracts.Problem
	if err := json.Unmarshal(content, &p); err != nil || p.Code == "" {
		return fmt.Errorf("invalid response of %s: status %d with a problem that cannot be read", c.name, w.StatusCode)
	}
	e := p.Err()
	e.Status = w.StatusCode
	if e.RequestID == "" {
		e.RequestID = w.Header.Get("X-Request-Id")
	}
	return e
}
