package client_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/locks"
)

// TestWhatThereWasInsteadOfAResponse: the same fault is the same kind of error, whatever is asked for.
func TestWhatThereWasInsteadOfAResponse(t *testing.T) {
	all := maps.Clone(calls)
	all["ID"] = func(ctx context.Context, c *client.Client, _ *locks.Client) error {
		g, err := kazahana.New(c.MachineIDs(), &kazahana.Options{DisableFallback: true})
		if err != nil {
			return err
		}
		defer g.Close(ctx)
		_, err = g.NextID(ctx)
		return err
	}
	kinds := []error{contracts.ErrNoResponse, contracts.ErrInvalidResponse, contracts.CodeRequestIDReused}
	body := func(status int, contentType string, r io.Reader) (*http.Response, error) {
		return &http.Response{StatusCode: status, Status: http.StatusText(status),
			Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(r)}, nil
	}
	for name, fault := range map[string]struct {
		reply func(r *http.Request) (*http.Response, error)
		kind  error
	}{
		"hangs": {func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, contracts.ErrNoResponse},
		"refused": {func(*http.Request) (*http.Response, error) { return refusedPort() }, contracts.ErrNoResponse},
		"breaks off": {func(*http.Request) (*http.Response, error) {
			return body(http.StatusOK, "application/json", iotest.ErrReader(io.ErrUnexpectedEOF))
		}, contracts.ErrNoResponse},
		"page of a proxy": {func(*http.Request) (*http.Response, error) { return page(502, "text/html", "away")() }, contracts.ErrInvalidResponse},
		"page":            {func(*http.Request) (*http.Response, error) { return page(200, "text/html", "hi")() }, contracts.ErrInvalidResponse},
		"redirect":        {func(*http.Request) (*http.Response, error) { return page(302, "text/html", "")() }, contracts.ErrInvalidResponse},
		"no JSON":         {func(*http.Request) (*http.Response, error) { return page(200, "application/json", "{")() }, contracts.ErrInvalidResponse},
		"something else":  {func(*http.Request) (*http.Response, error) { return page(200, "application/json", "{}")() }, contracts.ErrInvalidResponse},
		"no problem":      {func(*http.Request) (*http.Response, error) { return page(500, "application/problem+json", "{}")() }, contracts.ErrInvalidResponse},
		"request_id reused": {func(*http.Request) (*http.Response, error) {
			return page(409, "application/problem+json", `{"code": "REQUEST_ID_REUSED", "status": 409}`)()
		}, contracts.CodeRequestIDReused},
	} {
		for asked, call := range all {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))) // IDs have a time
				c, err := client.New("http://127.0.0.1:1", &client.Options{HTTP: &http.Client{Transport: roundTrip(fault.reply)}})
				if err != nil {
					t.Fatal(err)
				}
				holder, err := c.Locks("default", &locks.Options{RetryFor: 5 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err = call(ctx, c, holder)
				for _, kind := range kinds {
					if errors.Is(err, kind) != errors.Is(fault.kind, kind) {
						t.Errorf("%s, %s: %v is %v: %t", asked, name, err, kind, errors.Is(err, kind))
					}
				}
				_ = holder.Close(t.Context())
				time.Sleep(time.Hour) // until nothing is under way in the background
			})
		}
	}
}
