package redisstore_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// tunnel takes connections with TLS to a server, and returns its address and what trusts it.
func tunnel(t *testing.T, server *redistest.Server) (addr string, config *tls.Config) {
	t.Helper()
	lent := httptest.NewTLSServer(nil) // it has a certificate for 127.0.0.1
	defer lent.Close()
	config = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AddCert(lent.Certificate())
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: lent.TLS.Certificates,
		MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return // closed
			}
			var d net.Dialer
			far, err := d.DialContext(context.WithoutCancel(t.Context()), "tcp", server.Addr())
			if err != nil {
				_ = near.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1]) // until one side is closed
					_ = pair[0].Close()
				}()
			}
		}
	}()
	return l.Addr().String(), config
}

// TestTLS: every connection of a store has TLS and trusts what it is told to, also after one was broken off.
func TestTLS(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		addr, config := tunnel(t, server)
		s := open(t, server, &redisstore.Options{Addr: "rediss://" + addr + redistest.LongTimeouts, TLS: config})
		for want := docstore.Int(1); want <= 3; want++ {
			gone, leave := context.WithCancel(t.Context())
			late := server.Inject(redistest.Late, "EVALSHA")
			left := make(chan error, 1)
			go func() {
				_, err := s.Get(gone, key("k"))
				left <- err
			}()
			until(t, late.Happened)
			leave()
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that left: %v", err)
			}
			if err := late.Release(t.Context()); err != nil {
				t.Error(err)
			}
			r, err := s.Write(t.Context(), docstore.Write{Key: key("k"), Add: map[string]int64{"n": 1}})
			if err != nil || !r.Docs[0].Equal(docstore.Doc{"n": want}) {
				t.Errorf("%v, %v; want %d", r.Docs, err, want)
			}
		}
		if _, err := redisstore.Open(t.Context(), &redisstore.Options{Addr: "rediss://" + addr}); err == nil {
			t.Error("a server that no one vouches for is trusted")
		}
	})
}
