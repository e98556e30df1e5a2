package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/internal/reread"
)

// certificate is that of the server, read again when its files have changed, as what renews certificates does. nil is a
// server without TLS.
type certificate struct{ reread.File[*tls.Certificate] }

// lookForCertificate is how often the files are looked at, at most.
const lookForCertificate = time.Second

// openCertificate reads the certificate of the settings. One that cannot be read later, such as one whose key is written
// after it, leaves that of before.
func openCertificate(c *settings.Config, log *slog.Logger) (*certificate, error) {
	if c.TLSCert == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	t := &certificate{reread.File[*tls.Certificate]{
		Paths: []string{c.TLSCert, c.TLSKey}, Every: lookForCertificate,
		Read: func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
			if err != nil {
				return nil, fmt.Errorf("%s and %s: %w", c.TLSCert, c.TLSKey, err)
			}
			return &pair, nil
		},
		Changed: func(_, now *tls.Certificate) {
			log.Info("the certificate was read again", "until", now.Leaf.NotAfter.UTC().Format(time.RFC3339))
		},
		Failed: func(err error) {
			log.Error("the certificate cannot be read: that of before is used", "err", err)
		},
		Silent: func() {
			log.Error("the file system does not answer for the certificate: that of before is used until it does")
		},
	}}
	if err := t.Open(); err != nil {
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
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.Latest(), nil }}
	return server.ServeTLS(l, "", "")
}
