// Package client is the Go client of a Leasehold server over HTTP: locks, the run-once guard of analyses, and machine IDs. It
// needs the standard library and the libraries of this module only.
//
//	c, err := client.New("http://127.0.0.1:8080", nil)
//	lease, err := c.Locks().Acquire(ctx, "acme", "deploy-prod", contracts.AcquireRequest{OwnerID: "ci-42", TTLSeconds: 30})
//	if errors.Is(err, contracts.CodeLockHeld) {
//		// another owner deploys
//	}
//
// # Errors
//
// What the server rejects is a [*contracts.Error]: errors.Is matches its code, errors.As gives the rest. Any other error means
// that no usable response arrived.
//
// # Retries
//
// A request whose response was lost, or that the server could not complete (UNAVAILABLE, DEADLINE_EXCEEDED), is sent again with
// the same request_id until the context ends or the tries are used up. Retries are idempotent: a command takes effect once.
// [MachineIDs] sends each request once, because the generator of IDs retries by itself.
package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client is a connection to one server. It may be used by several goroutines at once.
type Client struct {
	base  string
	name  string // the base in errors, without its password
	http  *http.Client
	token func(context.Context) (string, error)
	tries int
}

// Options are the settings of [New]. The zero value works.
type Options struct {
	// HTTP sends the requests; nil means a client that ends a try after 15 s.
	HTTP *http.Client

	// Token returns the bearer token of a request; nil sends none, which a server in development mode accepts.
	Token func(context.Context) (string, error)

	// Tries is how often a request is sent at most while no response arrives; 0 means 4. Before a retry the client waits a
	// random time of up to 200 ms, 400 ms, 800 ms and so on, 10 s at most.
	Tries int
}

// New returns a client of the server at a base URL such as "http://127.0.0.1:8080". Options may be nil.
func New(baseURL string, o *Options) (*Client, error) {
	const like = "must be a URL like http://127.0.0.1:8080"
	u, err := url.Parse(baseURL)
	switch {
	case err != nil && strings.Contains(baseURL, "@"):
		return nil, errors.New("server: " + like) // the URL may hold a password
	case err != nil:
		return nil, fmt.Errorf("server %q: %s", baseURL, like)
	}
	c := &Client{
		base: strings.TrimRight(baseURL, "/"), name: strings.TrimRight(u.Redacted(), "/"), http: &http.Client{Timeout: 15 * time.Second}, tries: 4,
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(baseURL, "?#") {
		if u.User == nil {
			return nil, fmt.Errorf("server %q: %s", baseURL, like)
		}
		return nil, fmt.Errorf("server %q: %s", u.Redacted(), like)
	}
	if o != nil {
		c.token = o.Token
		if o.HTTP != nil {
			c.http = o.HTTP
		}
		if o.Tries > 0 {
			c.tries = o.Tries
		}
	}
	return c, nil
}

// Locks returns the client of the server's locks.
func (c *Client) Locks() *Locks { return &Locks{c} }

// Analyses returns the client of the server's analyses. It is a [once.Gate].
func (c *Client) Analyses() *Analyses { return &Analyses{c} }

// MachineIDs returns the client of the server's machine IDs. It is a [kazahana.LeaseProvider].
func (c *Client) MachineIDs() *MachineIDs { return &MachineIDs{c} }

// NewRequestID returns a request_id for a new command: 128 random bits.
func NewRequestID() string { return rand.Text() }
