package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/internal/buildinfo"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// examine runs the command and returns its findings by "check status".
func examine(t *testing.T, args ...string) (code int, found map[string]finding, said string) {
	t.Helper()
	var out, errs strings.Builder
	code = run(t.Context(), append([]string{"doctor", "--json"}, args...), &out, &errs)
	found = map[string]finding{}
	for line := range strings.Lines(out.String()) {
		var f finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		found[f.Check+" "+f.Status] = f
	}
	return code, found, errs.String()
}

// TestDoctorOfSettings: what serve would start with is checked, each thing by itself, and what fails has a way out.
func TestDoctorOfSettings(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var issuer *httptest.Server
	issuer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var response any = map[string]string{"issuer": issuer.URL, "jwks_uri": issuer.URL + "/keys"}
		if r.URL.Path == "/keys" {
			public := jose.JSONWebKey{Key: key.Public(), KeyID: "a", Algorithm: "ES256", Use: "sig"}
			response = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}}
		}
		_ = json.NewEncoder(w).Encode(response)
	}))
	defer issuer.Close()
	tables := dynamodbtest.New(nil)
	refuse := "" // an action that is not allowed
	dynamodb := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse != "" && strings.HasSuffix(r.Header.Get("X-Amz-Target"), "."+refuse) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"__type":"com.amazon.coral.service#AccessDeniedException","message":"not allowed"}`))
			return
		}
		tables.ServeHTTP(w, r)
	}))
	defer dynamodb.Close()
	data, empty := t.TempDir(), t.TempDir()
	store, err := sqlitestore.Open(t.Context(), filepath.Join(data, "leasehold.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(damaged, []byte("zzz"), 0o600); err != nil {
		t.Fatal(err)
	}
	begun := t.TempDir()
	if err := os.WriteFile(filepath.Join(begun, "leasehold.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	table := []string{"--store", "dynamodb", "--region", "eu-west-1", "--endpoint", dynamodb.URL, "--table", "locks"}
	withIssuer := func(url string) []string {
		return []string{"--data", data, "--auth-issuer", url, "--auth-audience", "leasehold"}
	}
	for _, c := range []struct {
		name   string
		args   []string
		refuse string
		code   int
		found  string // a finding
		fix    string // a part of what it says to do
	}{
		{"sqlite", []string{"--data", data}, "", exitOK, "write ok", ""},
		{"its log", []string{"--data", data}, "", exitOK, "log ok", ""},
		{"its clock", []string{"--data", data}, "", exitOK, "clock ok", ""},
		{"its index", []string{"--data", data}, "", exitOK, "index ok", ""},
		{"its removal", []string{"--data", data}, "", exitOK, "removal ok", ""},
		{"an issuer", withIssuer(issuer.URL), "", exitOK, "callers ok", ""},
		{"an issuer that is away", withIssuer("http://127.0.0.1:1"), "", exitFailed, "callers fail", "--auth-issuer"},
		{"tokens that are damaged", []string{"--data", data, "--auth-tokens", damaged}, "", exitFailed,
			"callers fail", ""},
		{"no file of tokens", []string{"--data", data, "--auth-tokens", filepath.Join(data, "none")}, "", exitFailed,
			"callers fail", ""},
		{"tokens in the clear", []string{"--data", data, "--listen", "0.0.0.0:8443", "--auth-issuer", issuer.URL,
			"--auth-audience", "leasehold"}, "", exitOK, "certificate warn", "--tls-cert"},
		{"no database", []string{"--data", filepath.Join(empty, "new")}, "", exitOK, "store warn", "--data"},
		{"no database, nor its folder's", []string{"--data", filepath.Join(empty, "a", "b", "c")}, "", exitOK, "store warn",
			"--data"},
		{"an empty file", []string{"--data", begun}, "", exitOK, "store warn", "--data"},
		{"a folder that no one can write", []string{"--data", "/proc/leasehold"}, "", exitFailed, "store fail", "--data"},
		{"audit events", []string{"--store", "memory", "--audit-log", filepath.Join(empty, "audit")}, "", exitOK, "audit ok",
			""},
		{"audit events beside the store", []string{"--data", data, "--audit-log", filepath.Join(empty, "audit")}, "", exitOK,
			"audit warn", "--audit-size"},
		{"no folder for audit events", []string{"--data", data, "--audit-log", filepath.Join(empty, "none", "audit")}, "",
			exitFailed, "audit fail", "--audit-log"},
		{"no folder", []string{"--data", "/dev/null/x"}, "", exitFailed, "store fail", ""},
		{"no table, and none is made", append(table, "--create-table"), "", exitFailed, "store fail", ""},
		{"a table", table, "", exitOK, "clock ok", ""},
		{"what it removes", table, "", exitOK, "removal ok", ""},
		{"what it removes is not shown", table, "DescribeTimeToLive", exitOK, "removal skip", "dynamodb:DescribeTimeToLive"},
		{"no right to write", table, "UpdateItem", exitFailed, "write fail", "permissions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refuse = c.refuse
			code, found, said := examine(t, c.args...)
			f, ok := found[c.found]
			if code != c.code || !ok || !strings.Contains(f.Fix, c.fix) || c.fix == "" && f.Fix != "" {
				t.Errorf("exit code %d, %+v, %q", code, found, said)
			}
			refuse = ""
		})
		if c.name == "no table, and none is made" {
			store, err := awsdynamodb.Open(t.Context(), "locks", &awsdynamodb.Options{Region: "eu-west-1",
				Endpoint: dynamodb.URL, CreateTable: true})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
		}
	}
	if f, err := os.Stat(filepath.Join(begun, "leasehold.db")); err != nil || f.Size() > 0 {
		t.Errorf("the command writes an empty file: %v", err)
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
		t.Errorf("the command leaves %v behind: %v", left, err)
	}
}

// TestDoctorOfCertificate: the end of a certificate is said three weeks before.
func TestDoctorOfCertificate(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	template := *server.Certificate()
	private := server.TLS.Certificates[0].PrivateKey
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}), 0o600); err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	for status, left := range map[string]time.Duration{"ok": 60 * day, "warn": 10 * day, "fail": -day} {
		template.NotAfter = time.Now().Add(left)
		der, err := x509.CreateCertificate(rand.Reader, &template, &template, server.Certificate().PublicKey, private)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		_, found, said := examine(t, "--data", dir, "--tls-cert", cert, "--tls-key", key)
		if _, ok := found["certificate "+status]; !ok {
			t.Errorf("%s: %+v %q", status, found, said)
		}
	}
}

// TestDoctorOfServer: the way to a server, its clock, and who one is to it.
func TestDoctorOfServer(t *testing.T) {
	ahead := time.Duration(0)
	api := httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, &httpapi.Options{Build: buildinfo.This(version),
		Now: func() time.Time { return time.Now().Add(ahead) }})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Authorization") {
		case "Bearer none":
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"type":"about:blank","title":"x","status":401,"code":"UNAUTHENTICATED","retryable":false}`))
		default:
			api.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html>It works!</html>"))
	}))
	defer other.Close()
	for _, c := range []struct {
		name, url, token string
		ahead            time.Duration
		code             int
		found            string
		says             string // a part of the detail or of what to do
	}{
		{"right", server.URL + "/", "", 0, exitOK, "ready ok", ""},
		{"its version", server.URL, "", 0, exitOK, "version ok", "as this program"},
		{"its clock", server.URL, "", 0, exitOK, "clock ok", ""},
		{"a clock ahead", server.URL, "", time.Hour, exitOK, "clock warn", "behind the server's"},
		{"a clock behind", server.URL, "", -time.Hour, exitOK, "clock warn", "ahead of the server's"},
		{"a wrong token", server.URL, "none", 0, exitFailed, "caller fail", "--auth-token-file"},
		{"another program", other.URL, "", 0, exitFailed, "caller fail", "which is not Leasehold"},
		{"not there", "http://127.0.0.1:1", "", 0, exitFailed, "server fail", "cannot reach"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ahead = c.ahead
			t.Setenv("LEASEHOLD_AUTH_TOKEN", c.token)
			code, found, said := examine(t, "--server", c.url)
			f, ok := found[c.found]
			if code != c.code || !ok || !strings.Contains(f.Detail+f.Fix, c.says) {
				t.Errorf("exit code %d, %+v, %q", code, found, said)
			}
		})
	}
	t.Setenv("LEASEHOLD_AUTH_TOKEN", "")
	acme := httptest.NewServer(httpapi.New(docstore.NewMemory(nil), ofAcme{}, nil))
	defer acme.Close()
	for tenant, want := range map[string]string{"": "tenant fail", "acme": "tenant ok", "other": "tenant fail"} {
		t.Setenv("LEASEHOLD_TENANT", tenant)
		code, found, said := examine(t, "--server", acme.URL)
		if f, ok := found[want]; (code == exitOK) != (tenant == "acme") || !ok ||
			want == "tenant fail" && !strings.Contains(f.Fix, "--tenant acme") {
			t.Errorf("tenant %q: %d %+v %q", tenant, code, found, said)
		}
		_, found, _ = examine(t, "--server", acme.URL, "--tenant", "acme")
		if _, ok := found["tenant ok"]; !ok {
			t.Errorf("--tenant beside %q: %+v", tenant, found)
		}
		_, found, _ = examine(t, "--server", server.URL) // in development mode all are allowed
		if _, ok := found["tenant fail"]; ok {
			t.Errorf("tenant %q: %+v", tenant, found)
		}
	}
	t.Setenv("LEASEHOLD_TENANT", "")
	if code, _, said := examine(t, "--server", server.URL, "--store", "memory"); code != exitUsage ||
		!strings.Contains(said, "--server and --store cannot both be given") {
		t.Errorf("%d %q", code, said)
	}
	var out strings.Builder // for people
	t.Setenv("LEASEHOLD_SERVER", server.URL)
	if code := run(t.Context(), []string{"doctor"}, &out, &out); code != exitOK ||
		!strings.HasPrefix(out.String(), "ok    server       "+server.URL+" responds\n") {
		t.Errorf("%d %s", code, &out)
	}
}
