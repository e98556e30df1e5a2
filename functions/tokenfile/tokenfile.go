// Package tokenfile finds out who sent a request from a file of tokens, for servers without an identity provider: a few
// machines that share one. It is the [httpapi.Identity] of `leasehold serve --auth-tokens`.
//
// The file has the hashes of tokens, so that who reads it can send none of them, and for each whose it is: a subject,
// who owns the leases that are acquired with it, its tenant, its rights, and when it ends. [New] makes a token of 256
// random bits; it is shown once and stored nowhere. A fast hash is enough for such a token: no one can try them all.
//
// A server looks at the file again when it has changed, at most once in [LookEvery]: a token that was removed is
// refused a moment later. A file that cannot be read any more changes nothing until it can: what was valid stays so,
// and the log says it.
package tokenfile

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// Prefix is how tokens begin, so that what scans files for secrets recognises them.
const Prefix = "lh_"

// Bounds of a file.
const (
	MaxTokens    = 10_000
	MaxFileBytes = 8 << 20
	MaxNoteBytes = 1000
)

// Token is what the file says of a token.
type Token struct {
	ID      string    `json:"id"`     // to name it, as when it is revoked; no secret
	SHA256  string    `json:"sha256"` // of the token, in hexadecimal digits
	Subject string    `json:"subject"`
	Tenant  string    `json:"tenant"`
	Rights  []string  `json:"rights,omitempty"` // names of [httpapi.KnownRights]
	Created time.Time `json:"created_at,omitzero"`
	Expires time.Time `json:"expires_at,omitzero"` // zero: never
	Note    string    `json:"note,omitempty"`
}

// New makes a token for a subject of a tenant: the secret, which the caller sends, and what the file says of it.
func New(t Token, now time.Time) (secret string, _ Token, err error) {
	secret = Prefix + base64.RawURLEncoding.EncodeToString(random(32))
	t.ID = strings.ToLower(base32.StdEncoding.EncodeToString(random(5)))
	t.SHA256 = hash(secret)
	t.Created = now.UTC().Truncate(time.Second)
	if !t.Expires.IsZero() {
		t.Expires = t.Expires.UTC().Truncate(time.Second)
	}
	return secret, t, t.validate()
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // ends the process rather than fail
	return b
}

func hash(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}

// maxIDBytes bounds the ID of a token: those that are made here have 8.
const maxIDBytes = 64

// ids are those that can stand in a line of a log.
var ids = regexp.MustCompile(`^[0-9A-Za-z._-]+$`)

// validate reports what is wrong with a token. The error names the field.
func (t Token) validate() error {
	sum, err := hex.DecodeString(t.SHA256)
	switch {
	case t.ID == "":
		return errors.New("id is missing")
	case len(t.ID) > maxIDBytes || !ids.MatchString(t.ID):
		return fmt.Errorf("id must be 1 to %d letters, digits, \"-\", \"_\" and \".\": audit events have it", maxIDBytes)
	case err != nil || len(sum) != sha256.Size:
		return errors.New("sha256 must be the SHA-256 of the token, in 64 hexadecimal digits")
	}
	if err := field.Text("subject", t.Subject, httpapi.MaxSubjectBytes); err != nil {
		return err
	}
	if err := field.OptionalText("note", t.Note, MaxNoteBytes); err != nil {
		return err
	}
	if _, err := t.rights(); err != nil {
		return err
	}
	return lock.ID{Tenant: t.Tenant, Key: "k"}.Validate()
}

// rights are those that the token gives, by their names in [httpapi.KnownRights].
func (t Token) rights() (all httpapi.Rights, err error) {
	for _, name := range t.Rights {
		i := slices.IndexFunc(httpapi.KnownRights, func(k httpapi.KnownRight) bool { return k.Name == name })
		if i < 0 {
			var names []string
			for _, k := range httpapi.KnownRights {
				names = append(names, k.Name)
			}
			return 0, fmt.Errorf("rights: there is no right %q: there are %s", name, strings.Join(names, ", "))
		}
		all |= httpapi.KnownRights[i].Right
	}
	return all, nil
}

// content is the file.
type content[T any] struct {
	Tokens []T `json:"tokens"`
}

// Read reads a file. The error names the file, which token is wrong and what to do, and never shows a hash.
func Read(path string) ([]Token, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() { // a pipe would be waited for
		return nil, fmt.Errorf("%s is not a file: name the one that leasehold token new makes", path)
	}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; make it with: leasehold token new --file FILE --subject NAME --tenant NAME", err)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w; let the group of who reads it do so: chgrp GROUP FILE && chmod 0640 FILE", err)
	case err != nil:
		return nil, err
	case len(bytes.TrimSpace(text)) == 0:
		return nil, fmt.Errorf("%s is empty: remove it, and leasehold token new makes it anew", path)
	}
	tokens, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; mend it, put back a copy, or move it away and make new tokens", path, err)
	}
	return tokens, nil
}

// parse reads the text of a file.
func parse(text []byte) ([]Token, error) {
	if len(text) > MaxFileBytes {
		return nil, fmt.Errorf("the file has %d bytes, %d at most", len(text), MaxFileBytes)
	}
	var c content[json.RawMessage]
	if err := httpapi.Strictly(text, "file", &c); err != nil {
		return nil, err
	}
	if len(c.Tokens) > MaxTokens {
		return nil, fmt.Errorf("the file has %d tokens, %d at most", len(c.Tokens), MaxTokens)
	}
	tokens := make([]Token, len(c.Tokens))
	names, hashes := map[string]bool{}, map[string]bool{}
	for i, one := range c.Tokens {
		t := &tokens[i]
		err := httpapi.Strictly(one, "token", t)
		if err == nil {
			err = t.validate()
		}
		t.SHA256 = strings.ToLower(t.SHA256)
		switch {
		case err != nil:
		case names[t.ID]:
			err = errors.New("another token has this id")
		case hashes[t.SHA256]:
			err = errors.New("it is there twice")
		}
		if err != nil {
			return nil, fmt.Errorf("token %d (%.64q): %w", i+1, t.ID, err)
		}
		names[t.ID], hashes[t.SHA256] = true, true
	}
	return tokens, nil
}

// Change changes the file: whole or not at all, and one program at a time. A file that is not there has no tokens, and
// is made with access for its owner alone.
func Change(path string, change func([]Token) ([]Token, error)) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil { // the link stays one
		path = target
	}
	next := path + ".new"
	w, err := os.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there: another program changes the tokens. If none does, remove it", next)
	}
	if err != nil {
		return fmt.Errorf("%w; tokens are changed in a new file beside the old one: its folder must be there, and writable",
			err)
	}
	defer func() {
		if err != nil {
			_ = w.Close()
			_ = os.Remove(next)
		}
	}()
	tokens, err := Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if tokens, err = change(tokens); err != nil {
		return err
	}
	text, err := json.MarshalIndent(content[Token]{Tokens: append([]Token{}, tokens...)}, "", "  ")
	if err != nil {
		return err
	}
	if _, err := w.Write(append(text, '\n')); err != nil {
		return err
	}
	if err := errors.Join(likeBefore(w, path), w.Sync(), w.Close()); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// likeBefore gives the new file the mode and, where that is possible, the owner of the old one: the server that reads
// it is often another user than the one who changes it.
func likeBefore(w *os.File, path string) error {
	old, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(own(w, old), w.Chmod(old.Mode().Perm()))
}
