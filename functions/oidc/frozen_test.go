package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// frozen is an issuer with one key, and the clocks of a process that asks it. An instance of a function that is frozen
// may find that its monotonic clock stood still.
type frozen struct {
	monotonic, wall time.Time
	key             *ecdsa.PrivateKey
	reads           int
	reading         func() // while the keys are read
}

func (f *frozen) cache(t *testing.T) *keyCache {
	t.Helper()
	f.monotonic, f.wall = time.Now(), time.Now()
	return &keyCache{
		lifetime: t.Context(), clock: func() term.Moment { return term.On(f.monotonic, f.wall) },
		read: func(context.Context) (published, error) {
			f.reads++
			keys := []jose.JSONWebKey{{Key: f.key.Public(), Algorithm: string(jose.ES256)}}
			if f.reading != nil {
				f.reading()
			}
			return published{keys: keys, life: 5 * time.Minute}, nil
		},
	}
}

// signed is a token by the issuer's present key.
func (f *frozen) signed(t *testing.T) *jose.JSONWebSignature {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: f.key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := s.Sign([]byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jose.ParseSignedJSON(token.FullSerialize(), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func (f *frozen) rotate(t *testing.T) {
	t.Helper()
	var err error
	if f.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
}

// freeze stops the process for ten minutes, in which one of its clocks stands still.
func (f *frozen) freeze(both bool) {
	f.wall = f.wall.Add(10 * time.Minute)
	if both {
		f.monotonic = f.monotonic.Add(10 * time.Minute)
	}
}

// TestFrozenBetweenRequests: keys that the issuer removed while the process was stopped for ten minutes are not
// believed after it, whether its monotonic clock stood still or not; nor when the wall clock was set back.
func TestFrozenBetweenRequests(t *testing.T) {
	for name, freeze := range map[string]func(*frozen){
		"the monotonic clock stood still": func(f *frozen) { f.freeze(false) },
		"both clocks went on":             func(f *frozen) { f.freeze(true) },
		"the wall clock was set back": func(f *frozen) {
			f.freeze(true)
			f.wall = f.wall.Add(-time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &frozen{}
				f.rotate(t)
				c, old := f.cache(t), f.signed(t)
				if _, err := c.verify(t.Context(), old); err != nil {
					t.Fatal(err)
				}
				f.rotate(t)
				freeze(f)
				if _, err := c.verify(t.Context(), old); !errors.Is(err, httpapi.ErrUnauthenticated) {
					t.Errorf("a key that was removed: %v", err)
				}
				if _, err := c.verify(t.Context(), f.signed(t)); err != nil || f.reads != 2 {
					t.Errorf("the new key: %v, after %d reads", err, f.reads)
				}
			})
		})
	}
}

// TestFrozenWhileKeysAreRead: keys that were read before the process was stopped, and arrive after it, are read again.
func TestFrozenWhileKeysAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &frozen{}
		f.rotate(t)
		c, old := f.cache(t), f.signed(t)
		f.reading = func() {
			f.reading = nil
			f.rotate(t)
			f.freeze(false)
		}
		if _, err := c.verify(t.Context(), old); !errors.Is(err, httpapi.ErrUnauthenticated) {
			t.Errorf("a key that was removed: %v", err)
		}
		if f.reads != 2 {
			t.Errorf("%d reads, want 2", f.reads)
		}
	})
}

// TestFrozenTooLongForAnyKeys: where each reading takes longer than what was read lasts, the caller is told, and the
// issuer is not asked for ever.
func TestFrozenTooLongForAnyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &frozen{}
		f.rotate(t)
		c := f.cache(t)
		f.reading = func() { f.freeze(false) }
		if _, err := c.verify(t.Context(), f.signed(t)); !errors.Is(err, errStale) || f.reads != 2 {
			t.Errorf("%v, after %d reads", err, f.reads)
		}
	})
}
