package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/functions/settings"
)

// certificate is that of the server, read again when its file has changed, as what renews certificates does. nil is a
// server without TLS.
type certificate struct {
	cert, key string
	log       *slog.Logger

	pair atomic.Pointer[tls.Certificate]

	mu      sync.Mutex // who has it looks at the files
	changed time.Time  // of the certificate's file
	looked  time.Time
}

// lookForCertificate is how often the file is looked at, at most.
const lookForCertificate = 10 * time.Second

// openCertificate reads the certificate of the settings.
func openCertificate(c *settings.Config, log *slog.Logger) (*certificate, error) {
	if c.TLSCert == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	t := &certificate{cert: c.TLSCert, key: c.TLSKey, log: log}
	if err := t.read(); err != nil {
		return nil, usage("%s, %s: %w", c.Name("LEASEHOLD_TLS_CERT"), c.Name("LEASEHOLD_TLS_KEY"), err)
	}
	return t, nil
}

func (t *certificate) scheme() string {
	if t == nil {
		return "http"
	}
	return "https"
}

// serve serves with TLS, if there is a certificate.
func (t *certificate) serve(server *http.Server, l net.Listener) error {
	if t == nil {
		return server.Serve(l)
	}
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: t.latest}
	return server.ServeTLS(l, "", "")
}

// read reads the files. Its caller has the lock, or is the only one.
func (t *certificate) read() error {
	found, err := os.Stat(t.cert)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(t.cert, t.key)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", t.cert, t.key, err)
	}
	t.pair.Store(&pair)
	t.changed, t.looked = found.ModTime(), time.Now()
	return nil
}

// latest is the certificate of the file as it is now. One that cannot be read leaves that of before. One connection
// looks, and no other waits for it: a file system may hang.
func (t *certificate) latest(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if t.mu.TryLock() {
		defer t.mu.Unlock()
		t.look()
	}
	return t.pair.Load(), nil
}

// look reads the files if they have changed. Its caller has the lock.
func (t *certificate) look() {
	if time.Since(t.looked) < lookForCertificate {
		return
	}
	t.looked = time.Now()
	if found, err := os.Stat(t.cert); err == nil && found.ModTime().Equal(t.changed) {
		return
	}
	if err := t.read(); err != nil { // a key that is written after its certificate: the next look reads both
		t.log.Error("the certificate cannot be read: that of before is used", "err", err)
		return
	}
	t.log.Info("the certificate was read again", "until", t.pair.Load().Leaf.NotAfter.UTC().Format(time.RFC3339))
}
