package tokenfile

import (
	"crypto/subtle"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// LookEvery is how often a server looks whether the file has changed, at most: so often that a token that was removed
// ends within a second what waits in its name.
const LookEvery = 250 * time.Millisecond

// Identity is the [httpapi.Identity] of a file of tokens. It may be used by several goroutines at once.
type Identity struct {
	path  string
	other httpapi.Identity
	log   *slog.Logger

	stat func(path string) (os.FileInfo, error)

	mu     sync.Mutex
	tokens map[string]Token // by hash
	looked time.Time        // when the last look began
	looks  chan struct{}    // closed when it ends; nil: it has

	seen os.FileInfo // of what was read, or could not be; the one look that is under way has it
}

var _ httpapi.Identity = (*Identity)(nil)

// Open reads a file. Tokens that do not begin with [Prefix] are those of another identity, if it is not nil. The log
// gets what is wrong with the file later.
func Open(path string, other httpapi.Identity, log *slog.Logger) (*Identity, error) {
	i := &Identity{path: path, other: other, log: log, stat: os.Stat, looked: time.Now()}
	i.seen, _ = os.Stat(path)
	tokens, err := Read(path)
	if err != nil {
		return nil, err
	}
	i.tokens = byHash(tokens)
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
	t, ok := i.latest()[sum]
	now := time.Now()
	switch {
	case !ok || subtle.ConstantTimeCompare([]byte(t.SHA256), []byte(sum)) != 1:
		return httpapi.Caller{}, httpapi.Unauthenticated("the token is not known, or was revoked")
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return httpapi.Caller{TokenID: t.ID}, httpapi.Unauthenticated("the token %s expired at %s", t.ID,
			t.Expires.UTC().Format(time.RFC3339))
	}
	has := func(right string) bool { return slices.Contains(t.Rights, right) }
	return httpapi.Caller{Subject: t.Subject, TokenID: t.ID, Tenant: t.Tenant, Admin: has(Admin), Worker: has(Worker),
		MachineIDs: has(MachineIDs)}, nil
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

// latest are the tokens of the file as it is now. A file system that does not answer delays those who ask by
// [LookEvery] at most: then the tokens of before are valid, until it answers.
func (i *Identity) latest() map[string]Token {
	i.mu.Lock()
	defer i.mu.Unlock()
	begins := i.looks == nil && time.Since(i.looked) >= LookEvery
	if begins {
		i.looked, i.looks = time.Now(), make(chan struct{})
		go i.look(i.looks, i.tokens)
	}
	looks, left := i.looks, LookEvery-time.Since(i.looked)
	if looks == nil {
		return i.tokens
	}
	i.mu.Unlock()
	late := time.NewTimer(left)
	defer late.Stop()
	select {
	case <-looks:
	case <-late.C:
		if begins { // who waits for the same look says nothing
			i.log.Error("the file system does not answer for the file of tokens: those of before stay valid until it does")
		}
	}
	i.mu.Lock()
	return i.tokens
}

// look reads the file if it has changed, and closes looks. before are the tokens that are valid.
func (i *Identity) look(looks chan struct{}, before map[string]Token) {
	tokens := before
	defer func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.tokens, i.looks = tokens, nil
		close(looks)
	}()
	found, err := i.stat(i.path)
	if err == nil && i.seen != nil && os.SameFile(found, i.seen) && found.ModTime().Equal(i.seen.ModTime()) &&
		found.Size() == i.seen.Size() {
		return
	}
	gone := err != nil && i.seen == nil // and said before
	i.seen = found
	var read []Token
	if err == nil {
		read, err = Read(i.path)
	}
	switch {
	case err == nil:
		tokens = byHash(read)
		i.log.Info("the file of tokens was read again", "tokens", len(tokens), "new", without(tokens, before),
			"revoked", without(before, tokens))
	case !gone:
		i.log.Error("the file of tokens cannot be read: those of before stay valid", "err", err)
	}
}
