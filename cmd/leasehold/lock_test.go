package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestAcquireSaysHowToRelease: the last line of an acquire, as it is printed, releases the lock. What has no lease has
// no such line, and scripts get none.
func TestAcquireSaysHowToRelease(t *testing.T) {
	server := httptest.NewServer(httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil))
	defer server.Close()
	t.Setenv("LEASEHOLD_SERVER", server.URL)
	for args, more := range map[string]string{
		"a":                             "",
		"b --tenant acme --owner ci-42": " --tenant acme --owner ci-42",
		"c --permits 2":                 "",
		"d --owner 'it s' --server " + server.URL: " --owner 'it s'", // the server is the variable's
	} {
		var out, errs strings.Builder
		if code := run(t.Context(), append([]string{"lock", "acquire"}, words(args)...), &out, &errs); code != exitOK {
			t.Fatalf("%s: %d %s", args, code, &errs)
		}
		lines := strings.Split(out.String(), "\n")
		command, ok := strings.CutPrefix(lines[1], "release it with: leasehold ")
		if !ok || len(lines) != 3 || !strings.HasSuffix(command, more) || strings.Contains(command, "--server") {
			t.Fatalf("%s: %q", args, lines)
		}
		if code := run(t.Context(), words(command), &out, &errs); code != exitOK {
			t.Errorf("%s: %d %s", command, code, &errs)
		}
	}
	for _, args := range []string{"e --rate 1/s", "f --quiet", "g --json"} {
		var out, errs strings.Builder
		if code := run(t.Context(), append([]string{"lock", "acquire"}, words(args)...), &out, &errs); code != exitOK ||
			strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%s: %d %s%s", args, code, &out, &errs)
		}
	}
	t.Setenv("LEASEHOLD_SERVER", "")
	var out, errs strings.Builder
	if code := run(t.Context(), []string{"--server", server.URL, "lock", "acquire", "h"}, &out, &errs); code != exitOK ||
		!strings.HasSuffix(out.String(), " --server "+server.URL+"\n") {
		t.Errorf("%d %s%s", code, &out, &errs)
	}
}

// TestShellWord: a shell reads a word as it was.
func TestShellWord(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"deploy/prod-1.2_x@h:9": "deploy/prod-1.2_x@h:9", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'",
		"~": "'~'", "é": "'é'",
	} {
		if got := shellWord(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

// ofAcme is everyone, with a token for the tenant acme.
type ofAcme struct{}

func (ofAcme) Identify(*http.Request) (httpapi.Caller, error) {
	return httpapi.Caller{Subject: "ann", Tenant: "acme"}, nil
}

func (ofAcme) Challenge() string { return "" }
func (ofAcme) Unverified() bool  { return false }

// TestAnotherTenant: a command about another tenant than the token's says which one the token is for, and how to name
// it; other errors do not.
func TestAnotherTenant(t *testing.T) {
	server := httptest.NewServer(httpapi.New(docstore.NewMemory(nil), ofAcme{}, nil))
	defer server.Close()
	t.Setenv("LEASEHOLD_SERVER", server.URL)
	for _, c := range []struct {
		args string
		hint bool
	}{
		{"lock get k", true},
		{"lock run k -- true", true},
		{"run get r", true},
		{"fence check r --token 1 --subject lock/r", true},
		{"lock get k --tenant acme", false},
		{"lock force-release k --reason x --tenant acme", false}, // it needs another scope
	} {
		var out, errs strings.Builder
		code := run(t.Context(), words(c.args), &out, &errs)
		if code == exitOK || c.hint != strings.Contains(errs.String(), "--tenant acme, or set LEASEHOLD_TENANT=acme") {
			t.Errorf("%s: %d %s", c.args, code, &errs)
		}
	}
}
