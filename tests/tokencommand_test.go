package tests

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// certified writes the certificate and the key of a server on 127.0.0.1, which is trusted by who trusts the
// certificate.
func certified(t *testing.T) (cert, key string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	der, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, b := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: s.Certificate().Raw}, key: {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestTokenCommand: a server with a file of tokens and a certificate is shared by machines that have a token each: with
// nothing else, a lock is held across them, each sees its tenant alone, and a token that is revoked is refused.
func TestTokenCommand(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("certificates that are trusted are named in SSL_CERT_FILE on Linux")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "tokens")
	made := func(args ...string) (env []string, id string) {
		t.Helper()
		code, secret, said := run(t, []string{"LEASEHOLD_AUTH_TOKENS=" + file}, append([]string{"token", "new"}, args...)...)
		m := regexp.MustCompile(`^leasehold: bearer token ([a-z2-7]{8}) of `).FindStringSubmatch(said)
		if code != 0 || !regexp.MustCompile(`^lh_[\w-]{43}\n$`).MatchString(secret) || m == nil {
			t.Fatalf("%v: %d %q %q", args, code, secret, said)
		}
		path := filepath.Join(dir, m[1])
		if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"LEASEHOLD_AUTH_TOKEN_FILE=" + path}, m[1]
	}
	alpha, _ := made("--subject", "alpha", "--tenant", "acme")
	bravo, bravoID := made("--subject", "bravo", "--tenant", "acme", "--expires", "1h", "--note", "the second machine")
	root, _ := made("--subject", "root", "--tenant", "acme", "--right", "admin")
	other, _ := made("--subject", "alpha", "--tenant", "other")
	ops, _ := made("--subject", "ops", "--tenant", "acme", "--right", "operate")

	cert, key := certified(t)
	audit := filepath.Join(dir, "audit.jsonl")
	p := start(t, "--data", filepath.Join(dir, "data"), "--auth-tokens", file, "--tls-cert", cert, "--tls-key", key,
		"--audit-log", audit)
	if !strings.HasPrefix(p.url, "https://127.0.0.1:") {
		t.Fatal(p.url)
	}
	as := func(who []string, args ...string) (int, string, string) {
		t.Helper()
		return run(t, append([]string{"LEASEHOLD_SERVER=" + p.url, "LEASEHOLD_TENANT=acme", "SSL_CERT_FILE=" + cert},
			who...), args...)
	}
	for _, c := range []struct {
		who            []string
		args           string
		code           int
		stdout, stderr string // what they have
	}{
		{alpha, "lock run k -- echo done", 0, "done", ""},
		{alpha, "lock acquire k --ttl 1h --owner job --quiet", 0, "", ""},
		{bravo, "lock run k -- echo x", 120, "", "LOCK_HELD: lock is held (by alpha#job, "},
		{bravo, "lock force-release k --reason r", 1, "", "PERMISSION_DENIED"},
		{root, "lock force-release k --reason r", 0, "alpha", ""},
		{bravo, "lock run k -- echo mine", 0, "mine", ""},
		{other, "lock list", 1, "", "PERMISSION_DENIED"},
		{append(root, "LEASEHOLD_TENANT="), "analysis list", 1, "", "needs the scope leasehold:operate or leasehold:worker"},
		{append(ops, "LEASEHOLD_TENANT="), "analysis list", 0, "", ""},
		{ops, "lock force-release k --reason r", 1, "", "needs the scope leasehold:admin"},
		{ops, "--tenant other placement members c", 0, "", "no members"},
		{root, "--tenant other placement members c", 1, "", "PERMISSION_DENIED"},
		{ops, "--tenant other lock list", 1, "", "PERMISSION_DENIED"},
		{other, "--tenant other lock run k -- echo own", 0, "own", ""},
		{nil, "lock list", 1, "", "UNAUTHENTICATED: this server asks for a token: set LEASEHOLD_AUTH_TOKEN"},
		{[]string{"LEASEHOLD_AUTH_TOKEN=lh_x"}, "lock list", 1, "", "UNAUTHENTICATED: the token is not known, or was revoked"},
	} {
		code, stdout, stderr := as(c.who, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s\ngot  %d %q %q\nwant %d %q %q", c.args, code, stdout, stderr, c.code, c.stdout, c.stderr)
		}
	}

	in := []string{"LEASEHOLD_AUTH_TOKENS=" + file}
	if code, out, _ := run(t, in, "token", "list"); code != 0 || strings.Count(out, "\n") != 6 ||
		!strings.Contains(out, bravoID+"  bravo    acme    -        20") || !strings.Contains(out, "the second machine") {
		t.Errorf("the list: %d\n%s", code, out)
	}
	if code, out, _ := run(t, in, "token", "revoke", bravoID); code != 0 || !strings.Contains(out, "is revoked") {
		t.Errorf("revoke: %d %q", code, out)
	}
	if code, _, stderr := run(t, in, "token", "revoke", bravoID); code != 5 ||
		!strings.Contains(stderr, "there is no token") {
		t.Errorf("revoke again: %d %q", code, stderr)
	}
	for deadline := time.Now().Add(failAfter); ; time.Sleep(50 * time.Millisecond) {
		code, _, stderr := as(bravo, "lock", "list")
		if code == 1 && strings.Contains(stderr, "was revoked") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a token that was revoked: %d %q", code, stderr)
		}
	}
	events, err := os.ReadFile(audit)
	if err != nil || !strings.Contains(string(events), `"owner":"alpha#job"`) || strings.Contains(string(events), "lh_") ||
		strings.Contains(p.stderr.String(), "lh_") {
		t.Errorf("the audit log, %v:\n%s\nthe log:\n%s", err, events, p.stderr.Bytes())
	}

	empty := filepath.Join(t.TempDir(), "x.token")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mine := "token new --file " + file + " --subject s"
	for args, says := range map[string]string{
		mine + " --tenant a --right root":               "--right must be one of",
		mine:                                            "missing flags: --tenant",
		"token list --file /no/such/file":               "no such file",
		"serve --auth-tokens /no/such/file":             "make it with: leasehold token new",
		"lock list --auth-token-file " + empty:          "it is empty",
		"serve --tls-cert " + cert:                      "--tls-cert needs --tls-key",
		"serve --tls-cert " + key + " --tls-key " + key: "--tls-cert, --tls-key: ",
		"serve --listen 0.0.0.0:0":                      "--auth-tokens",
	} {
		if code, _, stderr := run(t, nil, strings.Fields(args)...); code == 0 || !strings.Contains(stderr, says) {
			t.Errorf("%s: %d %q, want %q", args, code, stderr, says)
		}
	}
}
