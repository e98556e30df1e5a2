package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Names of what a signer adds to a release, and of what it signs.
const (
	sumsFile        = "SHA256SUMS"
	signatureFile   = sumsFile + ".sig"
	statementSuffix = "-provenance.json"
	envelopeSuffix  = "-provenance.intoto.jsonl"
)

// payloadType is what an envelope says that its content is.
const payloadType = "application/vnd.in-toto+json"

// signer signs with ECDSA on P-256 over SHA-256: what OpenSSL checks in one command, and what key management services
// and cosign sign with.
type signer struct {
	public  *ecdsa.PublicKey
	private *ecdsa.PrivateKey // nil: command signs
	command string            // for sh: message on standard input, signature in DER on standard output
}

// newSigner reads a key in PEM: a private one, or, if a command signs, the public one that belongs to it.
func newSigner(path, command string) (*signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("-key: %w", err)
	}
	s := &signer{command: command}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var key any
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "PUBLIC KEY":
			key, err = x509.ParsePKIXPublicKey(block.Bytes)
		default:
			continue // "openssl ecparam -genkey" writes its parameters first
		}
		if err != nil {
			return nil, fmt.Errorf("-key %s: %w", path, err)
		}
		switch key := key.(type) {
		case *ecdsa.PrivateKey:
			s.private, s.public = key, &key.PublicKey
		case *ecdsa.PublicKey:
			s.public = key
		}
		break
	}
	switch {
	case s.public == nil || s.public.Curve != elliptic.P256():
		return nil, fmt.Errorf("-key %s: want a key for ECDSA on P-256 in PEM, not encrypted", path)
	case command == "" && s.private == nil:
		return nil, fmt.Errorf("-key %s is a public key: give the private one, or -sign-command beside it", path)
	case command != "" && s.private != nil:
		return nil, fmt.Errorf("-key %s is a private key: -sign-command needs the public one that belongs to it", path)
	}
	return s, nil
}

// id names the key: the SHA-256 of the public key in DER, in hexadecimal.
func (s *signer) id() (string, error) {
	der, err := x509.MarshalPKIXPublicKey(s.public)
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), err
}

// sign returns the signature in DER, after it has checked it. With a private key, the same message has the same
// signature (RFC 6979).
func (s *signer) sign(ctx context.Context, message []byte) ([]byte, error) {
	digest := sha256.Sum256(message)
	var signature []byte
	var err error
	if s.private != nil {
		signature, err = s.private.Sign(nil, digest[:], crypto.SHA256)
	} else {
		c := exec.CommandContext(ctx, "sh", "-c", s.command)
		c.Stdin, c.Stderr = bytes.NewReader(message), os.Stderr
		if signature, err = c.Output(); err != nil {
			err = fmt.Errorf("-sign-command: %w", err)
		}
	}
	if err != nil {
		return nil, err
	}
	if !ecdsa.VerifyASN1(s.public, digest[:], signature) {
		return nil, errors.New("-sign-command: what it wrote is no signature by the key: want ECDSA over SHA-256, in DER")
	}
	return signature, nil
}

// signatures are the files that sign a release: the signature of SHA256SUMS, and the statement of provenance in an
// envelope (DSSE) for programs that read such.
func (s *signer) signatures(ctx context.Context, files []file) ([]file, error) {
	var added []file
	for _, f := range files {
		if f.name == sumsFile {
			signature, err := s.sign(ctx, f.content)
			if err != nil {
				return nil, err
			}
			added = append(added, file{name: signatureFile, content: signature})
		}
		if base, ok := strings.CutSuffix(f.name, statementSuffix); ok {
			envelope, err := s.envelope(ctx, f.content)
			if err != nil {
				return nil, err
			}
			added = append(added, file{name: base + envelopeSuffix, content: envelope})
		}
	}
	if len(added) != 2 {
		return nil, fmt.Errorf("a release has one %s and one file …%s", sumsFile, statementSuffix)
	}
	return added, nil
}

// envelope is a statement with its signature, as DSSE 1.0 has it, in one line of JSON.
func (s *signer) envelope(ctx context.Context, payload []byte) ([]byte, error) {
	type envelopeSignature struct {
		KeyID     string `json:"keyid"`
		Signature []byte `json:"sig"`
	}
	signature, err := s.sign(ctx,
		fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload))
	if err != nil {
		return nil, err
	}
	id, err := s.id()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(struct {
		PayloadType string              `json:"payloadType"`
		Payload     []byte              `json:"payload"`
		Signatures  []envelopeSignature `json:"signatures"`
	}{payloadType, payload, []envelopeSignature{{id, signature}}})
	return append(text, '\n'), err
}

// signFolder signs a release that lies in a folder, if it is what its SHA256SUMS says.
func (s *signer) signFolder(ctx context.Context, dir string) ([]file, error) {
	files, err := tree(dir, "")
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(f file) bool {
		return f.name == signatureFile || strings.HasSuffix(f.name, envelopeSuffix) // of an earlier attempt
	})
	listed := slices.IndexFunc(files, func(f file) bool { return f.name == sumsFile })
	if listed < 0 {
		return nil, fmt.Errorf("there is no %s in %s", sumsFile, dir)
	}
	others := slices.Delete(slices.Clone(files), listed, listed+1)
	if !bytes.Equal(checksums(others).content, files[listed].content) {
		return nil, fmt.Errorf("%s: the files are not those that %s lists: nothing is signed", dir, sumsFile)
	}
	added, err := s.signatures(ctx, files)
	if err != nil {
		return nil, err
	}
	for _, f := range added {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.content, 0o644); err != nil {
			return nil, err
		}
	}
	return added, nil
}
