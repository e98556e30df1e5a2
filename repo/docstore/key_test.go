package docstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

func TestKeyString(t *testing.T) {
	for want, k := range map[string]docstore.Key{
		"locks/acme/deploy":           {Kind: "locks", Tenant: "acme", ID: "deploy"},
		"locks/acme/deploy%2Fprod":    {Kind: "locks", Tenant: "acme", ID: "deploy/prod"},
		"locks/acme%2Fdeploy/prod":    {Kind: "locks", Tenant: "acme/deploy", ID: "prod"},
		"machine-ids//page_7":         {Kind: "machine-ids", ID: "page_7"},
		"locks/acme/%2525":            {Kind: "locks", Tenant: "acme", ID: "%25"},
		"locks/acme/..":               {Kind: "locks", Tenant: "acme", ID: ".."},
		"locks/acme/%20+%3F%23":       {Kind: "locks", Tenant: "acme", ID: " +?#"},
		"locks/%E6%97%A5/e%CC%81":     {Kind: "locks", Tenant: "日", ID: "e\u0301"},
		"locks/a/%C3%A9":              {Kind: "locks", Tenant: "a", ID: "\u00e9"},
		"locks/a/" + repeat("%2F", 4): {Kind: "locks", Tenant: "a", ID: "////"},
	} {
		if got := k.String(); got != want {
			t.Errorf("%#v is %q, want %q", k, got, want)
		}
		if got, err := docstore.ParseKey(want); err != nil || got != k {
			t.Errorf("ParseKey(%q) is %#v, error %v, want %#v", want, got, err, k)
		}
	}
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }

func TestParseKeyRefuses(t *testing.T) {
	for s, want := range map[string]string{
		"":                             "kind/tenant/id",
		"locks":                        "kind/tenant/id",
		"locks/acme":                   "kind/tenant/id",
		"locks/acme/a/b":               "kind/tenant/id",
		"/acme/a":                      "kind",
		"Locks/acme/a":                 "kind",
		"locks/acme/":                  "id is empty",
		"locks/acme/%":                 "invalid URL escape",
		"locks/acme/%zz":               "invalid URL escape",
		"locks/acme/%ff":               "id is not valid UTF-8",
		"locks/%00/a":                  "tenant has a NUL byte",
		"locks/acme/%2f":               `in its one spelling "locks/acme/%2F"`,
		"locks/acme/%61":               `in its one spelling "locks/acme/a"`,
		"locks/acme/a b":               `in its one spelling "locks/acme/a%20b"`,
		"locks/acme/é":                 `in its one spelling "locks/acme/%C3%A9"`,
		"%6cocks/acme/a":               `in its one spelling "locks/acme/a"`,
		"l/a/" + repeat("x", 1025):     "id has 1025 bytes, 1024 at most",
		"l/" + repeat("x", 513) + "/a": "tenant has 513 bytes, 512 at most",
		repeat("k", 33) + "/a/a":       "32 bytes at most",
	} {
		k, err := docstore.ParseKey(s)
		if !errors.Is(err, docstore.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseKey(%q) is %v, error %v, want ErrInvalid with %q", s, k, err, want)
		}
	}
}

// FuzzKey makes two keys: different ones must have different strings, and each string must lead back.
func FuzzKey(f *testing.F) {
	f.Add("a", "b/c", "a/b", "c")
	f.Add("", "a%2Fb", "", "a/b")
	f.Add("\u00e9", ".", "e\u0301", "..")
	f.Fuzz(func(t *testing.T, tenant1, id1, tenant2, id2 string) {
		a := docstore.Key{Kind: "locks", Tenant: tenant1, ID: id1}
		b := docstore.Key{Kind: "locks", Tenant: tenant2, ID: id2}
		for _, k := range []docstore.Key{a, b} {
			if k.Validate() != nil {
				t.Skip("no key")
			}
			if got, err := docstore.ParseKey(k.String()); err != nil || got != k {
				t.Errorf("%q leads to %#v, error %v, want %#v", k, got, err, k)
			}
		}
		if (a == b) != (a.String() == b.String()) {
			t.Errorf("%#v and %#v are %q and %q", a, b, a, b)
		}
	})
}

// FuzzParseKey reads any text: what is accepted must be the one spelling of a valid key.
func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"locks/acme/a", "locks//%2F", "locks/a/%2f", "l/a/b/c", "l/%ff/x", "L/a/b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, err := docstore.ParseKey(s)
		if err != nil {
			if !errors.Is(err, docstore.ErrInvalid) || k != (docstore.Key{}) {
				t.Errorf("key %#v, error %v", k, err)
			}
			return
		}
		if k.Validate() != nil || k.String() != s {
			t.Errorf("%q is read as %#v, whose string is %q, Validate: %v", s, k, k, k.Validate())
		}
	})
}
