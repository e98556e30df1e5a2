package oidc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/internal/term"
)

const (
	// fetchEvery is the least time from the beginning of a fetch to the beginning of the next.
	fetchEvery = 10 * time.Second

	// fetchTimeout bounds a fetch, whatever client the user has brought.
	fetchTimeout = 10 * time.Second
)

// keyCache holds the issuer's keys and reads them again when it is time.
//
// It replaces go-oidc's RemoteKeySet, which does less than a public server needs:
//   - It keeps its keys until the process ends or another key name is unknown, so that it accepts keys that the issuer
//     has removed.
//   - Every token that fails, be it with a made-up key name or with a wrong signature, makes it query the issuer,
//     so that a flood of bad tokens reaches the issuer.
//   - It does not tell an unknown key from a wrong signature.
//
// As there, requests that wait share one fetch, and a fetch does not end with the request that began it.
type keyCache struct {
	lifetime context.Context //nolint:containedctx // fetches end with it, and belong to no single request
	read     func(context.Context) (published, error)
	log      *slog.Logger
	clock    term.Clock // both: on an instance that is frozen the monotonic one may stand still

	mu   sync.Mutex
	set  *keySet // the last that was read; nil before
	last *fetch  // the last that was begun; nil before
	told string  // which keys were passed over when that was logged last
}

// keySet is the result of one fetch. It does not change.
type keySet struct {
	keys      []jose.JSONWebKey
	refreshAt term.Moment // from then on it is read again in the background
	expiresAt term.Moment // from then on it is not used
}

// fetch is one reading of the keys. While it runs, set and err are nil; afterwards one of them is not, and done is
// closed.
type fetch struct {
	begun term.Moment
	done  chan struct{}
	set   *keySet
	err   error
}

// Errors of [keySet.verify] that a newer set may not have: an issuer may publish another key under a name that it has
// used before.
var (
	errUnknownKey     = errors.New("unknown key")
	errWrongSignature = errors.New("wrong signature")
)

// verify returns the payload of a token that one of the issuer's keys has signed.
func (c *keyCache) verify(ctx context.Context, signed *jose.JSONWebSignature) ([]byte, error) {
	set, err := c.current(ctx)
	if err != nil {
		return nil, err
	}
	payload, err := set.verify(signed)
	if err != nil {
		newest, failed := c.newest(ctx)
		switch {
		case failed != nil && errors.Is(err, errUnknownKey):
			return nil, failed
		case failed == nil && newest != set:
			payload, err = newest.verify(signed)
		}
	}
	kid := signed.Signatures[0].Header.KeyID
	switch {
	case err == nil:
		return payload, nil
	case errors.Is(err, errWrongSignature):
		return nil, httpapi.Unauthenticated("the token's signature is wrong")
	case kid == "":
		return nil, httpapi.Unauthenticated(
			"the token does not name its key, and no key of this server's issuer has signed it")
	default:
		return nil, httpapi.Unauthenticated(
			"the token is signed with the key %s, which this server's issuer does not publish: "+
				"get a new token, from that issuer", quote(kid))
	}
}

// current returns the keys in use. It waits only if there are none.
func (c *keyCache) current(ctx context.Context) (*keySet, error) {
	c.mu.Lock()
	now := c.clock()
	if c.set == nil || now.Until(c.set.expiresAt) <= 0 {
		c.mu.Unlock()
		return c.newest(ctx)
	}
	defer c.mu.Unlock()
	if now.Until(c.set.refreshAt) <= 0 {
		// Early enough to survive an issuer that is down for a while.
		c.fetch(now)
	}
	return c.set, nil
}

// errStale says that keys were read before the process was stopped for longer than they last, and so again.
var errStale = errors.New("oidc: the issuer's keys had expired when they arrived")

// newest returns the result of the last fetch, after a new one if that is allowed. Keys that have expired on their way
// are read once more: the process was stopped in between.
func (c *keyCache) newest(ctx context.Context) (*keySet, error) {
	for range 2 {
		c.mu.Lock()
		f := c.fetch(c.clock())
		c.mu.Unlock()
		select {
		case <-f.done:
			if f.err != nil || c.clock().Until(f.set.expiresAt) > 0 {
				return f.set, f.err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("oidc: waiting for the issuer's keys: %w", ctx.Err())
		}
	}
	return nil, errStale
}

// fetch returns the last fetch if it is still running or began just now, and begins another one otherwise. The caller
// holds mu.
func (c *keyCache) fetch(now term.Moment) *fetch {
	if f := c.last; f != nil {
		running := f.set == nil && f.err == nil
		if running || now.Until(f.begun.Add(fetchEvery)) > 0 {
			return f
		}
	}
	f := &fetch{begun: now, done: make(chan struct{})}
	c.last = f
	go c.run(f)
	return f
}

func (c *keyCache) run(f *fetch) {
	ctx, cancel := context.WithTimeout(c.lifetime, fetchTimeout)
	defer cancel()
	found, err := c.read(ctx)

	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(f.done)
	if err != nil {
		f.err = fmt.Errorf("oidc: the issuer's keys could not be read: %w", err)
		return
	}
	f.set = &keySet{keys: found.keys, refreshAt: f.begun.Add(found.life / 2), expiresAt: f.begun.Add(found.life)}
	c.set = f.set
	c.tell(found.passedOver)
}

// tell logs which keys are passed over, when these are others than before. mu is held.
func (c *keyCache) tell(passedOver []string) {
	told := strings.Join(passedOver, "; ")
	if told != "" && told != c.told {
		c.log.Warn("keys of the issuer are not used: tokens that they sign are refused", "keys", passedOver)
	}
	c.told = told
}

// verify returns the payload of a token that one of the keys has signed. A token with a key name is checked with the
// keys of that name only; one without, with all.
func (s *keySet) verify(signed *jose.JSONWebSignature) ([]byte, error) {
	header := signed.Signatures[0].Header
	known := false
	for _, key := range s.keys {
		if header.KeyID != "" {
			if key.KeyID != header.KeyID {
				continue
			}
			known = true
		}
		if key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue // a key is only for the algorithm that it names (RFC 8725, section 3.1)
		}
		if payload, err := signed.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	if known {
		return nil, errWrongSignature
	}
	return nil, errUnknownKey
}
