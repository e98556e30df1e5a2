package extid

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// ff1Generic is FF1 as NIST SP 800-38G writes it down (algorithms 7 and 8), for every radix up to 36, with big numbers
// and without a thought of speed. It is what the fast code is compared with.
func ff1Generic(t testing.TB, key, tweak []byte, radix int, x string, decrypt bool) string {
	t.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	n := len(x)
	u := n / 2
	v := n - u
	a, b := x[:u], x[u:]
	most := new(big.Int).Exp(big.NewInt(int64(radix)), big.NewInt(int64(v)), nil)
	bytesB := (most.Sub(most, big.NewInt(1)).BitLen() + 7) / 8
	d := 4*((bytesB+3)/4) + 4
	p := []byte{
		1, 2, 1, 0, 0, byte(radix), 10, byte(u),
		byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n),
		byte(len(tweak) >> 24), byte(len(tweak) >> 16), byte(len(tweak) >> 8), byte(len(tweak)),
	}
	for step := range 10 {
		i := step
		if decrypt {
			i, a, b = 9-step, b, a // both directions take the half that stays from b
		}
		q := append([]byte(nil), tweak...)
		for (len(q)+1+bytesB)%aes.BlockSize != 0 {
			q = append(q, 0)
		}
		q = append(q, byte(i))
		q = append(q, number(t, b, radix).FillBytes(make([]byte, bytesB))...)
		message := append(append([]byte(nil), p...), q...)
		cipher.NewCBCEncrypter(block, make([]byte, aes.BlockSize)).CryptBlocks(message, message)
		r := message[len(message)-aes.BlockSize:]
		s := append([]byte(nil), r...)
		for j := byte(1); len(s) < d; j++ {
			next := append([]byte(nil), r...)
			next[aes.BlockSize-1] ^= j
			block.Encrypt(next, next)
			s = append(s, next...)
		}
		y := new(big.Int).SetBytes(s[:d])
		width := len(a)
		modulus := new(big.Int).Exp(big.NewInt(int64(radix)), big.NewInt(int64(width)), nil)
		c := number(t, a, radix)
		if decrypt {
			c.Sub(c, y)
		} else {
			c.Add(c, y)
		}
		c.Mod(c, modulus)
		text := c.Text(radix)
		text = strings.Repeat("0", width-len(text)) + text
		if decrypt {
			a = text
		} else {
			a, b = b, text
		}
	}
	return a + b
}

func number(t testing.TB, digits string, radix int) *big.Int {
	t.Helper()
	n, ok := new(big.Int).SetString(digits, radix)
	if !ok {
		t.Fatalf("%q is no number of radix %d", digits, radix)
	}
	return n
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	nist128 = "2B7E151628AED2A6ABF7158809CF4F3C"
	nist192 = nist128 + "EF4359D8D580AA4F"
	nist256 = nist192 + "7F036D6F04FC6A94"
)

// TestGenericFF1 holds the slow code to what others have published: the nine samples of NIST (FF1samples.pdf), and
// samples of radix 2, which NIST has none of.
func TestGenericFF1(t *testing.T) {
	for _, c := range []struct {
		name, key, tweak string
		radix            int
		plain, encrypted string
	}{
		{"NIST 1", nist128, "", 10, "0123456789", "2433477484"},
		{"NIST 2", nist128, "39383736353433323130", 10, "0123456789", "6124200773"},
		{"NIST 3", nist128, "3737373770717273373737", 36, "0123456789abcdefghi", "a9tv40mll9kdu509eum"},
		{"NIST 4", nist192, "", 10, "0123456789", "2830668132"},
		{"NIST 5", nist192, "39383736353433323130", 10, "0123456789", "2496655549"},
		{"NIST 6", nist192, "3737373770717273373737", 36, "0123456789abcdefghi", "xbj3kv35jrawxv32ysr"},
		{"NIST 7", nist256, "", 10, "0123456789", "6657667009"},
		{"NIST 8", nist256, "39383736353433323130", 10, "0123456789", "1001623463"},
		{"NIST 9", nist256, "3737373770717273373737", 36, "0123456789abcdefghi", "xs8a0azh2avyalyzuwd"},
		{
			"Zcash, radix 2, 88 digits", nist256, "", 2,
			"0101010101010101010101010101010101010101010101010101010101010101010101010101010101010101",
			"0000111101000001111011010111011111110001100101000000001101101110100010010111001100100110",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			key, tweak := unhex(t, c.key), unhex(t, c.tweak)
			if got := ff1Generic(t, key, tweak, c.radix, c.plain, false); got != c.encrypted {
				t.Errorf("encrypted: got %s, want %s", got, c.encrypted)
			}
			if got := ff1Generic(t, key, tweak, c.radix, c.encrypted, true); got != c.plain {
				t.Errorf("decrypted: got %s, want %s", got, c.plain)
			}
		})
	}
}

// TestFF1AgreesWithGeneric: the fast code is FF1 for radix 2 and 64 digits, for each size of key and for tweaks that
// end before, at and behind the edges of a block.
func TestFF1AgreesWithGeneric(t *testing.T) {
	random := rand.New(rand.NewPCG(38, 7))
	tweak := make([]byte, MaxEntityBytes)
	for i := range tweak {
		tweak[i] = byte(random.Uint32())
	}
	for _, key := range []string{nist128, nist192, nist256} {
		for size := range MaxEntityBytes + 1 {
			f, err := newFF1(unhex(t, key), tweak[:size])
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range []uint64{0, 1, 1 << 63, ^uint64(0), random.Uint64(), random.Uint64()} {
				want, err := strconv.ParseUint(
					ff1Generic(t, unhex(t, key), tweak[:size], 2, fmt.Sprintf("%064b", x), false), 2, 64)
				if err != nil {
					t.Fatal(err)
				}
				if got := f.forward(x); got != want {
					t.Fatalf("key of %d bits, tweak of %d bytes: %x becomes %x, want %x", len(key)*4, size, x, got, want)
				}
				if got := f.inverse(want); got != x {
					t.Fatalf("key of %d bits, tweak of %d bytes: back from %x: got %x, want %x", len(key)*4, size, want, got, x)
				}
			}
		}
	}
}

func TestFF1RefusesKeys(t *testing.T) {
	if _, err := newFF1(make([]byte, 17), nil); err == nil {
		t.Error("a key of 17 bytes was accepted")
	}
}
