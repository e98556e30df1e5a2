package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/settings"
)

// TestCertificateIsRenewed: a certificate that is replaced is used by new connections soon, and one that cannot be read
// leaves that of before.
func TestCertificateIsRenewed(t *testing.T) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	der, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, key := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	write := func(path, kind string, der []byte, age time.Duration) {
		t.Helper()
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(age)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write(cert, "CERTIFICATE", s.Certificate().Raw, 0)
	write(key, "PRIVATE KEY", der, 0)
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c, err := openCertificate(&settings.Config{TLSCert: cert, TLSKey: key}, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil || c.scheme() != "https" {
			t.Fatal(err)
		}
		first := c.Latest()
		use := func(same bool, when string) {
			t.Helper()
			if got := c.Latest(); (got == first) != same {
				t.Errorf("%s: the first: %t", when, got == first)
			}
		}
		use(true, "at once")
		write(cert, "CERTIFICATE", []byte("damaged"), time.Second)
		time.Sleep(lookForCertificate)
		use(true, "damaged")
		if !strings.Contains(log.String(), "that of before is used") {
			t.Errorf("the log: %s", &log)
		}
		write(cert, "CERTIFICATE", s.Certificate().Raw, 2*time.Second)
		time.Sleep(lookForCertificate - time.Nanosecond)
		use(true, "before it looks again")
		time.Sleep(time.Nanosecond)
		use(false, "renewed")
		first = c.Latest()
		time.Sleep(lookForCertificate)
		use(true, "not changed since")
		write(cert, "CERTIFICATE", s.Certificate().Raw, 3*time.Second)
		hangs := make(chan struct{})
		c.Stat = func(path string) (os.FileInfo, error) {
			<-hangs
			return os.Stat(path)
		}
		time.Sleep(lookForCertificate)
		use(true, "while its file system hangs")
		close(hangs)
		synctest.Wait()
		use(false, "once it answers")
	})
	if none, err := openCertificate(&settings.Config{}, nil); none != nil || err != nil || none.scheme() != "http" {
		t.Errorf("without a certificate: %v, %v", none, err)
	}
}
