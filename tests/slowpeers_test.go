package tests

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// TestSlowPeers: `leasehold serve` with 300 connections of one tenant on each of which one byte of a body arrives, alone
// and behind a proxy that passes on bodies as they come, and with 400 requests of HTTP/2 likewise: no request of another
// tenant, and none of another subject of the same one, is refused.
func TestSlowPeers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "tokens")
	token := func(subject, tenant string) string {
		t.Helper()
		code, secret, said := run(t, []string{"LEASEHOLD_AUTH_TOKENS=" + file}, "token", "new", "--subject", subject,
			"--tenant", tenant)
		if code != 0 {
			t.Fatalf("%d %q", code, said)
		}
		return strings.TrimSpace(secret)
	}
	noisy, sibling, quiet := token("ann", "noisy"), token("bob", "noisy"), token("bob", "quiet")
	cert, key := certified(t)
	plain := start(t, "--data", filepath.Join(dir, "plain"), "--auth-tokens", file)
	secure := start(t, "--data", filepath.Join(dir, "secure"), "--auth-tokens", file, "--tls-cert", cert, "--tls-key", key)
	backend, err := url.Parse(plain.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(httputil.NewSingleHostReverseProxy(backend))
	defer proxy.Close()
	for name, server := range map[string]string{"serve": plain.url, "a proxy": proxy.URL, "HTTP/2": secure.url} {
		t.Run(name, func(t *testing.T) {
			transport := func() *http.Transport {
				own := &tls.Config{InsecureSkipVerify: true} // #nosec G402 -- the certificate is the test's
				return &http.Transport{TLSClientConfig: own, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8}
			}
			if name == "HTTP/2" {
				for range 2 {
					stall(t, transport(), server, noisy, 200)
				}
			} else {
				for range 300 {
					c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(server, "http://"))
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = c.Close() }()
					if _, err := fmt.Fprintf(c, "POST /v1/tenants/noisy/locks/k/acquire HTTP/1.1\r\nHost: server\r\n"+
						"Authorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{", noisy); err != nil {
						t.Fatal(err)
					}
				}
			}
			others := transport()
			defer others.CloseIdleConnections()
			for i := range 20 {
				for tenant, secret := range map[string]string{"noisy": sibling, "quiet": quiet} {
					// A request of its own for each way to the server: with that of another way it would be a late copy.
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
						fmt.Sprint(server, "/v1/tenants/", tenant, "/locks/", url.PathEscape(name), "-", i, "/acquire"),
						strings.NewReader(`{"request_id":"r1","ttl_seconds":60}`))
					if err != nil {
						t.Fatal(err)
					}
					r.Header.Set("Authorization", "Bearer "+secret)
					response, err := others.RoundTrip(r)
					if err != nil {
						t.Fatal(err)
					}
					said, _ := io.ReadAll(response.Body)
					if _ = response.Body.Close(); response.StatusCode != http.StatusOK {
						t.Errorf("acquire %d of %s: %d %s", i, tenant, response.StatusCode, said)
					}
				}
			}
			if code, out, said := run(t, []string{"LEASEHOLD_SERVER=" + server, "LEASEHOLD_AUTH_TOKEN=" + noisy,
				"SSL_CERT_FILE=" + cert}, "--tenant", "noisy", "lock", "get", "k"); code != 5 {
				t.Errorf("something was done: %d %s %s", code, out, said)
			}
		})
	}
}

// stall sends requests on one connection of HTTP/2 with a body of which one byte arrives, and returns when each has been
// sent.
func stall(t *testing.T, transport *http.Transport, server, secret string, n int) {
	t.Helper()
	first, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(first) // so that the connection is there, and of HTTP/2
	if err != nil || response.ProtoMajor != 2 {
		t.Fatal(response, err)
	}
	_ = response.Body.Close()
	for range n {
		body := &unfinished{asked: make(chan struct{}), first: bytes.NewReader([]byte("{")), ended: t.Context().Done()}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+"/v1/tenants/noisy/locks/k/acquire", body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = 100
		r.Header.Set("Authorization", "Bearer "+secret)
		go func() {
			if response, err := transport.RoundTrip(r); err == nil {
				_ = response.Body.Close()
			}
		}()
		<-body.asked
	}
}

// unfinished is a body of one byte, and nothing after it.
type unfinished struct {
	asked chan struct{} // is closed when the byte has been sent
	first *bytes.Reader
	ended <-chan struct{}
}

func (u *unfinished) Read(b []byte) (int, error) {
	if u.first.Len() > 0 {
		return u.first.Read(b)
	}
	close(u.asked)
	<-u.ended
	return 0, io.ErrUnexpectedEOF
}
