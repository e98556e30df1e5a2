package extid

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"sync"
)

// ff1 is FF1 of NIST SP 800-38G for radix 2 and 64 digits: a Feistel network of 10 rounds over two halves of 32 bits.
//
// The round function is a CBC-MAC over P || Q. P depends on widths and on the length of the tweak only. Q is the tweak,
// zeros, the number of the round (1 byte) and the half (4 bytes), with as many zeros as make it whole blocks. So all
// blocks but the last are the same in each round, and of the last one 11 bytes are. They are worked in once, and a
// round is one AES block, however long the tweak is.
type ff1 struct {
	block cipher.Block
	chain [aes.BlockSize]byte // the CBC chain before the last block, with its constant bytes worked in
}

const (
	ff1Rounds = 10
	ff1Radix  = 2
	ff1Digits = 64
	ff1Tail   = 1 + 4 // bytes at the end of Q that change: round and half
)

// newFF1 prepares the permutation under an AES key of 16, 24 or 32 bytes. The tweak is at most MaxEntityBytes long.
func newFF1(key, tweak []byte) (*ff1, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	f := &ff1{block: block}
	absorb := func(b []byte) {
		for i, c := range b {
			f.chain[i] ^= c
		}
	}

	// [1] [2] [1] [radix]^3 [10] [u mod 256] [n]^4 [t]^4
	p := []byte{1, 2, 1, 0, 0, ff1Radix, ff1Rounds, ff1Digits / 2, 0, 0, 0, ff1Digits, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(p[12:], uint32(len(tweak))) //nolint:gosec // G115: bounded by MaxEntityBytes
	absorb(p)
	block.Encrypt(f.chain[:], f.chain[:])

	zeros := (aes.BlockSize - (len(tweak)+ff1Tail)%aes.BlockSize) % aes.BlockSize
	q := append(append([]byte(nil), tweak...), make([]byte, zeros)...)
	for len(q) > aes.BlockSize-ff1Tail {
		absorb(q[:aes.BlockSize])
		block.Encrypt(f.chain[:], f.chain[:])
		q = q[aes.BlockSize:]
	}
	absorb(q)
	return f, nil
}

// scratch holds the block of a call. It cannot be on the stack: what is handed to a method of an interface escapes.
var scratch = sync.Pool{New: func() any { return new([aes.BlockSize]byte) }}

// round is what a round adds to the other half: y modulo 2^32, where y is the first 8 bytes of the MAC.
func (f *ff1) round(s *[aes.BlockSize]byte, i byte, half uint32) uint32 {
	const tail = aes.BlockSize - ff1Tail
	*s = f.chain
	s[tail] ^= i
	binary.BigEndian.PutUint32(s[tail+1:], binary.BigEndian.Uint32(s[tail+1:])^half)
	f.block.Encrypt(s[:], s[:])
	return binary.BigEndian.Uint32(s[4:])
}

func (f *ff1) forward(x uint64) uint64 {
	s := scratch.Get().(*[aes.BlockSize]byte)
	a, b := halves(x)
	for i := range byte(ff1Rounds) {
		a, b = b, a+f.round(s, i, b)
	}
	scratch.Put(s)
	return uint64(a)<<32 | uint64(b)
}

func (f *ff1) inverse(x uint64) uint64 {
	s := scratch.Get().(*[aes.BlockSize]byte)
	a, b := halves(x)
	for i := byte(ff1Rounds); i > 0; i-- {
		a, b = b-f.round(s, i-1, a), a
	}
	scratch.Put(s)
	return uint64(a)<<32 | uint64(b)
}

// halves are the higher and the lower 32 bits.
func halves(x uint64) (a, b uint32) {
	return uint32(x >> 32), uint32(x & 0xffffffff)
}
