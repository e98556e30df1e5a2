package tokenfile

import (
	"crypto/subtle"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/internal/reread"
)

// LookEvery is how often a server looks whether the file has changed, at most: so often that a token that was removed
// ends within a second what waits in its name.
const LookEvery = 250 * time.Millisecond

// Identity is the [httpapi.Identity] of a file of tokens. It may be used by several goroutines at once.
type Identity struct {
	other  httpapi.Identity
	tokens reread.File[map[string]Token] // by hash
}

var _ httpapi.Identity = (*Identity)(nil)

// Open reads a file. Tokens that do not begin with [Prefix] are those of another identity, if it is not nil. The log
// gets what is wrong with the file later.
func Open(path string, other httpapi.Identity, log *slog.Logger) (*Identity, error) {
	i := &Identity{other: other}
	i.tokens = reread.File[map[string]Token]{
		Paths: []string{path}, Every: LookEvery,
		Read: func() (map[string]Token, error) {
			tokens, err := Read(path)
			return byHash(tokens), err
		},
		Changed: func(before, after map[string]Token) {
			log.Info("the file of tokens was read again", "tokens", len(after), "new", without(after, before),
				"revoked", without(before, after))
		},
		Failed: func(err error) {
			log.Error("the file of tokens cannot be read: those of before stay valid", "err", err)
		},
		Silent: func() {
			log.Error("the file system does not answer for the file of tokens: those of before stay valid until it does")
		},
	}
	if err := i.tokens.Open(); err != nil {
		return nil, err
	}
	return i, nil
}

func byHash(tokens []Token) map[string]Token {
	m := make(map[string]Token, len(tokens))
	for _, t := range tokens {
		m[t.SHA256] = t
	}
	return m
}

// Challenge implements [httpapi.Identity]: bearer tokens are accepted (RFC 6750, section 3).
func (*Identity) Challenge() string { return `Bearer realm="leasehold"` }

// Unverified implements [httpapi.Identity].
func (*Identity) Unverified() bool { return false }

// Identify implements [httpapi.Identity].
func (i *Identity) Identify(r *http.Request) (httpapi.Caller, error) {
	secret, err := httpapi.Bearer(r.Header)
	if err != nil {
		return httpapi.Caller{}, err
	}
	if !strings.HasPrefix(secret, Prefix) {
		if i.other != nil {
			return i.other.Identify(r)
		}
		return httpapi.Caller{}, httpapi.Unauthenticated(
			"the token is none of this server's, which begin with %s: make one with leasehold token new", Prefix)
	}
	// The table is asked for a hash: how long that takes says nothing about a token.
	sum := hash(secret)
	t, ok := i.tokens.Latest()[sum]
	now := time.Now()
	switch {
	case !ok || subtle.ConstantTimeCompare([]byte(t.SHA256), []byte(sum)) != 1:
		return httpapi.Caller{}, httpapi.Unauthenticated("the token is not known, or was revoked")
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return httpapi.Caller{TokenID: t.ID}, httpapi.Unauthenticated("the token %s expired at %s", t.ID,
			t.Expires.UTC().Format(time.RFC3339))
	}
	rights, _ := t.rights() // known ones: the file was read
	return httpapi.Caller{Subject: t.Subject, TokenID: t.ID, Tenant: t.Tenant, Rights: rights}, nil
}

// without are the IDs of the tokens that others do not have, sorted: the first ones of many, for which a line of a log
// has room.
func without(tokens, others map[string]Token) []string {
	ids := []string{}
	for sum, t := range tokens {
		if _, ok := others[sum]; !ok {
			ids = append(ids, t.ID)
		}
	}
	slices.Sort(ids)
	return ids[:min(len(ids), 100)]
}
