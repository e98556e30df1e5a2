//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	slsa "github.com/in-toto/in-toto-golang/in_toto/slsa_provenance/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// small is a release of a few bytes in a folder, not signed, whose statement is made as that of a real one.
func small(t *testing.T) string {
	t.Helper()
	b := &builder{
		order: &order{version: "v1.2.3", platforms: platforms[:2]}, label: "v1.2.3", goVersion: "go1.26.8",
		source: &source{commit: strings.Repeat("ab", 20), time: time.Unix(1700000000, 0)},
	}
	files := []file{
		{name: "leasehold-v1.2.3-linux-amd64.tar.gz", content: []byte("a program")},
		{name: "leasehold-v1.2.3-sbom.cdx.json", content: []byte("{}\n")},
		{name: "THIRD_PARTY_NOTICES.txt", content: []byte("notices\n")},
	}
	statement, err := b.provenance(files)
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, statement)
	dir := t.TempDir()
	for _, f := range append(files, checksums(files)) {
		write(t, filepath.Join(dir, f.name), f.content)
	}
	return dir
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// documented are the commands of a block of docs/guides/releases.md, the one after the words.
func documented(t *testing.T, after string) string {
	t.Helper()
	_, text, ok := strings.Cut(string(read(t, "../docs/guides/releases.md")), after)
	m := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(text)
	if !ok || m == nil {
		t.Fatalf("docs/guides/releases.md has no commands after %q", after)
	}
	return m[1]
}

// shell runs commands in a folder; a command that fails ends them.
func shell(t *testing.T, dir, commands string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh", "-euc", commands)
	c.Dir = dir
	out, err := c.CombinedOutput()
	return string(out), err
}

// newKey makes a key as docs/guides/releases.md says. It returns the files of the private and of the public key.
func newKey(t *testing.T) (private, public string) {
	t.Helper()
	dir := t.TempDir()
	if out, err := shell(t, dir, documented(t, "**A key of your own.**")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "leasehold.key"), filepath.Join(dir, "leasehold.pub")
}

// copied is a copy of a folder.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestSignature: the two commands of docs/guides/releases.md accept a signed release, and with a single byte changed of
// any file, of the list, of the signature or of the key they do not. No one but who has the key can sign.
func TestSignature(t *testing.T) {
	dir := small(t)
	private, public := newKey(t)
	if err := run(t.Context(), []string{"-sign", dir, "-key", private}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "leasehold.pub"), read(t, public))
	commands := documented(t, "**It is signed with a key of yours**")
	if n := len(strings.Split(strings.TrimSpace(commands), "\n")); n != 2 {
		t.Errorf("%d commands, want 2:\n%s", n, commands)
	}
	if out, err := shell(t, dir, commands); err != nil || !strings.Contains(out, "Verified OK") {
		t.Fatalf("%v\n%s", err, out)
	}

	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), envelopeSuffix) {
			continue // it has a signature of its own: see TestProvenance
		}
		content := read(t, filepath.Join(dir, e.Name()))
		changes := map[string][]byte{"longer": append(slices.Clone(content), '\n'), "shorter": content[:len(content)-2]}
		for _, i := range []int{0, len(content) / 2, len(content) - 2} {
			changed := slices.Clone(content)
			changed[i] ^= 1
			changes["byte "+string(rune('0'+i%10))] = changed
		}
		switch e.Name() {
		case signatureFile:
			delete(changes, "longer") // OpenSSL reads no more than the longest signature, which this one may be
		case "leasehold.pub":
			_, other := newKey(t)
			changes = map[string][]byte{"another key": read(t, other)}
		}
		for what, changed := range changes {
			tampered := copied(t, dir)
			write(t, filepath.Join(tampered, e.Name()), changed)
			tried++
			if out, err := shell(t, tampered, commands); err == nil {
				t.Errorf("%s, %s: not noticed\n%s", e.Name(), what, out)
			}
		}
	}
	if tried < 5*4 {
		t.Errorf("%d changes were tried", tried)
	}

	// A person who can change the files can make another list of them, but not sign it.
	forged := copied(t, dir)
	forge := "echo other > THIRD_PARTY_NOTICES.txt; sha256sum leasehold-* T* > SHA256SUMS"
	if out, err := shell(t, forged, forge); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := shell(t, forged, commands); err == nil {
		t.Errorf("another list with the signature of the first: not noticed\n%s", out)
	}
	other, _ := newKey(t)
	if out, err := shell(t, forged, "openssl dgst -sha256 -sign "+other+" -out SHA256SUMS.sig SHA256SUMS"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := shell(t, forged, commands); err == nil {
		t.Errorf("a signature by another key: not noticed\n%s", out)
	}
}

// keyVerifier verifies with the public key of a file, for a library that knows DSSE.
type keyVerifier struct{ key *ecdsa.PublicKey }

func (v keyVerifier) KeyID() (string, error)   { return (&signer{public: v.key}).id() }
func (v keyVerifier) Public() crypto.PublicKey { return v.key }

func (v keyVerifier) Verify(_ context.Context, data, signature []byte) error {
	if digest := sha256.Sum256(data); !ecdsa.VerifyASN1(v.key, digest[:], signature) {
		return errors.New("another signature")
	}
	return nil
}

// TestProvenance: the envelope has the signed statement, as libraries for both read it, and no other; the statement
// names every file with its checksum, the commit, the version of Go and the parameters.
func TestProvenance(t *testing.T) {
	dir := small(t)
	private, public := newKey(t)
	if err := run(t.Context(), []string{"-sign", dir, "-key", private}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(read(t, public))
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := dsse.NewEnvelopeVerifier(keyVerifier{key.(*ecdsa.PublicKey)})
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, filepath.Join(dir, "leasehold-v1.2.3"+envelopeSuffix))
	var envelope dsse.Envelope
	if err := json.Unmarshal(text, &envelope); err != nil {
		t.Fatal(err)
	}
	if _, err := verifier.Verify(t.Context(), &envelope); err != nil {
		t.Error(err)
	}
	payload, err := envelope.DecodeB64Payload()
	if plain := read(t, filepath.Join(dir, "leasehold-v1.2.3"+statementSuffix)); err != nil ||
		!bytes.Equal(payload, plain) || envelope.PayloadType != "application/vnd.in-toto+json" {
		t.Errorf("%v, the statement of the envelope is another one, of type %s", err, envelope.PayloadType)
	}
	for what, change := range map[string]func(*dsse.Envelope){
		"statement": func(e *dsse.Envelope) { e.Payload = "e30K" },
		"type":      func(e *dsse.Envelope) { e.PayloadType = "application/json" },
		"signature": func(e *dsse.Envelope) { e.Signatures = []dsse.Signature{{Sig: "MAYCAQECAQE="}} },
		"nothing":   func(e *dsse.Envelope) { e.Signatures = nil },
	} {
		changed := envelope
		change(&changed)
		if _, err := verifier.Verify(t.Context(), &changed); err == nil {
			t.Errorf("another %s: not noticed", what)
		}
	}

	var says struct {
		Type          string `json:"_type"`
		PredicateType string `json:"predicateType"`
		Subject       []struct {
			Name   string            `json:"name"`
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
		Predicate slsa.ProvenancePredicate `json:"predicate"`
	}
	strict := json.NewDecoder(bytes.NewReader(payload))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&says); err != nil {
		t.Fatal(err)
	}
	if says.Type != "https://in-toto.io/Statement/v1" || says.PredicateType != slsa.PredicateSLSAProvenance {
		t.Errorf("%s, %s", says.Type, says.PredicateType)
	}
	subjects := map[string]string{}
	for _, s := range says.Subject {
		subjects[s.Name] = s.Digest["sha256"]
	}
	listed := 0
	for line := range strings.Lines(string(read(t, filepath.Join(dir, "SHA256SUMS")))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if strings.HasSuffix(name, statementSuffix) {
			continue
		}
		listed++
		if subjects[name] != sum {
			t.Errorf("%s is %q in the statement, and %s in the list", name, subjects[name], sum)
		}
	}
	if listed != 3 || len(subjects) != listed {
		t.Errorf("%d files in the list, %d in the statement", listed, len(subjects))
	}
	d := says.Predicate.BuildDefinition
	external, _ := json.Marshal(d.ExternalParameters)
	internal, _ := json.Marshal(d.InternalParameters)
	const want = `{"dirty":false,"platforms":["linux/amd64","linux/arm64"],"sourceDateEpoch":1700000000,"version":"v1.2.3"}`
	if string(external) != want {
		t.Errorf("%s, want %s", external, want)
	}
	if !bytes.Contains(internal, []byte(`"go":"go1.26.8"`)) || !bytes.Contains(internal, []byte("CGO_ENABLED=0")) {
		t.Errorf("%s", internal)
	}
	if r := d.ResolvedDependencies; len(r) != 2 || r[0].Digest["gitCommit"] != strings.Repeat("ab", 20) ||
		r[0].URI != "git+https://github.com/leasehold-dev/leasehold@refs/tags/v1.2.3" ||
		r[1].URI != "pkg:golang/std@1.26.8" || says.Predicate.RunDetails.Builder.ID == "" {
		t.Errorf("%+v", says.Predicate)
	}
}

// TestSignCommand: a command with the key somewhere else signs as well, and what it writes is checked before it is
// published. A key that cannot sign, and a folder that is not what its list says, are rejected.
func TestSignCommand(t *testing.T) {
	private, public := newKey(t)
	other, _ := newKey(t)
	folder := small(t)
	sign := func(dir string, args ...string) error {
		return run(t.Context(), append([]string{"-sign", dir}, args...), io.Discard, io.Discard)
	}
	by := func(command string) []string { return []string{"-key", public, "-sign-command", command} }
	if err := sign(folder, by("openssl dgst -sha256 -sign "+private)...); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "leasehold.pub"), read(t, public))
	if out, err := shell(t, folder, documented(t, "**It is signed with a key of yours**")); err != nil {
		t.Errorf("%v\n%s", err, out)
	}

	tampered, without, more := small(t), small(t), small(t)
	write(t, filepath.Join(tampered, "THIRD_PARTY_NOTICES.txt"), []byte("other\n"))
	if err := os.Remove(filepath.Join(without, "SHA256SUMS")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(more, "leasehold-v1.2.3-extra.zip"), []byte("more"))
	rsa := filepath.Join(t.TempDir(), "rsa")
	if out, err := shell(t, t.TempDir(), "openssl genpkey -algorithm ed25519 -out "+rsa); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, c := range map[string]struct {
		dir  string
		args []string
		says string
	}{
		"another key":             {small(t), by("openssl dgst -sha256 -sign " + other), "no signature by the key"},
		"nothing":                 {small(t), by("true"), "no signature by the key"},
		"a failure":               {small(t), by("exit 3"), "exit status 3"},
		"a public key":            {small(t), []string{"-key", public}, "is a public key"},
		"both":                    {small(t), []string{"-key", private, "-sign-command", "true"}, "is a private key"},
		"no key":                  {small(t), nil, "-sign needs -key"},
		"a command without a key": {small(t), []string{"-sign-command", "true"}, "needs -key"},
		"another kind of key":     {small(t), []string{"-key", rsa}, "ECDSA on P-256"},
		"no file":                 {small(t), []string{"-key", rsa + "x"}, "no such file"},
		"a file that was changed": {tampered, []string{"-key", private}, "nothing is signed"},
		"one more file":           {more, []string{"-key", private}, "nothing is signed"},
		"no list":                 {without, []string{"-key", private}, "there is no SHA256SUMS"},
	} {
		err := sign(c.dir, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(c.dir, signatureFile)); err == nil {
			t.Errorf("%s: it is signed", name)
		}
	}
}
