package extid

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Mode is a way to hide IDs.
type Mode string

// The modes. Their names are also in the test vectors and, for those with a secret, in the derivation of the key.
const (
	AES256  Mode = "ff1-aes256" // FF1 with AES-256 under a secret; the default
	AES128  Mode = "ff1-aes128" // FF1 with AES-128 under a secret: about a seventh faster
	Unkeyed Mode = "unkeyed"    // a public permutation: hides, does not protect
)

// MinSecretBytes is the least length of a secret. Length alone does not make it hard to guess: use random
// bytes, such as those of `openssl rand -base64 32`.
const MinSecretBytes = 16

// Key is one way to convert IDs. Its number is in every public ID made with it, so number, mode and secret of a key
// that was in use never change.
type Key struct {
	Number int    // from 0 to 3; with Unkeyed only 0
	Mode   Mode   // empty means AES256
	Secret []byte `json:"-"` // MinSecretBytes or more; none with Unkeyed
}

// Format writes number and mode, whatever the verb: a key in a log does not show its secret.
func (k Key) Format(w fmt.State, _ rune) { fmt.Fprintf(w, "key %d (%s)", k.Number, k.mode()) }

func (k Key) mode() Mode {
	if k.Mode == "" {
		return AES256
	}
	return k.Mode
}

// label separates the keys that are derived from one secret, here and elsewhere.
const label = "leasehold extid "

// derive makes the AES key from the secret.
func (k Key) derive() ([]byte, error) {
	size := 32
	if k.mode() == AES128 {
		size = 16
	}
	return hkdf.Key(sha256.New, k.Secret, nil, label+string(k.mode()), size)
}

// permutation is a bijection of the 64-bit numbers.
type permutation interface {
	forward(x uint64) uint64
	inverse(x uint64) uint64
}

// permutation checks the key and makes its permutation.
func (k Key) permutation(entity string) (permutation, error) {
	if k.Number < 0 || k.Number >= KeyNumbers {
		return nil, fmt.Errorf("key number %d: must be from 0 to %d", k.Number, KeyNumbers-1)
	}
	switch k.mode() {
	case Unkeyed:
		switch {
		case k.Number != 0:
			return nil, fmt.Errorf("%v: the unkeyed mode has no key, its number must be 0", k)
		case len(k.Secret) > 0:
			return nil, fmt.Errorf("%v: the unkeyed mode takes no secret; set the mode to %q to use it", k, AES256)
		}
		return mixer{}, nil
	case AES256, AES128:
		if len(k.Secret) < MinSecretBytes {
			return nil, fmt.Errorf(
				"%v: its secret has %d bytes, must have at least %d random ones; `openssl rand -base64 32` makes some",
				k, len(k.Secret), MinSecretBytes)
		}
		key, err := k.derive()
		if err != nil {
			return nil, fmt.Errorf("%v: %w", k, err)
		}
		return newFF1(key, []byte(entity))
	default:
		return nil, fmt.Errorf("key %d: mode %q: must be %q, %q or %q", k.Number, k.Mode, AES256, AES128, Unkeyed)
	}
}

// checkEntity accepts only what every language writes as the same bytes.
func checkEntity(entity string) error {
	if len(entity) > MaxEntityBytes {
		return fmt.Errorf("entity has %d bytes, %d at most", len(entity), MaxEntityBytes)
	}
	for i := range len(entity) {
		if c := entity[i]; c <= ' ' || c > '~' {
			return errors.New("entity must be printable ASCII without spaces: it is a name for programs, like \"user\"")
		}
	}
	return nil
}
