package redisstore

import (
	"errors"
	"math"
)

// MessagePack is what documents are stored in, and what scripts are told and answer, because Redis reads and writes it
// in C. This is as much of it as Lua has: nil, booleans, numbers, texts and lists, and tables of fields. It is read
// where it stands, and nothing is copied.

func appendNil(b []byte) []byte { return append(b, 0xc0) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 0xc3)
	}
	return append(b, 0xc2)
}

func appendInt(b []byte, n int64) []byte {
	switch {
	case n >= -0x20 && n < 0x80:
		return append(b, byte(n)) //nolint:gosec // as two's complement
	case n >= 0 && n <= math.MaxUint16:
		return appendBig(append(b, 0xcd), uint64(n), 2)
	case n >= 0 && n <= math.MaxUint32:
		return appendBig(append(b, 0xce), uint64(n), 4)
	default:
		return appendBig(append(b, 0xd3), uint64(n), 8) //nolint:gosec // as two's complement
	}
}

func appendFloat(b []byte, f float64) []byte {
	return appendBig(append(b, 0xcb), math.Float64bits(f), 8)
}

// appendText appends a text that is in two parts.
func appendText(b []byte, first, rest string) []byte {
	switch n := len(first) + len(rest); {
	case n < 0x20:
		b = append(b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		b = append(b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		b = appendBig(append(b, 0xda), uint64(n), 2)
	default:
		b = appendBig(append(b, 0xdb), uint64(n), 4)
	}
	return append(append(b, first...), rest...)
}

// appendList begins a list of n parts.
func appendList(b []byte, n int) []byte {
	if n < 0x10 {
		return append(b, 0x90|byte(n)) //nolint:gosec // below 16
	}
	return appendBig(append(b, 0xdd), uint64(n), 4)
}

func appendBig(b []byte, n uint64, size int) []byte {
	for shift := 8 * (size - 1); shift >= 0; shift -= 8 {
		b = append(b, byte(n>>shift)) //nolint:gosec // its last eight bits
	}
	return b
}

// kind is what a part is.
type kind byte

const (
	isNothing kind = iota // the end, or nothing that Lua writes
	isNil
	isBool
	isInt
	isFloat
	isText
	isList
	isTable
)

// part is one part of a packed text.
type part struct {
	kind kind
	n    int64 // the number; how many parts a list has, and pairs a table; 1 of a bool that is true
	f    float64
	text string
}

// unpacker reads parts, one after the other.
type unpacker struct{ rest string }

var errPacked = errors.New("it is no MessagePack, or ends too early")

// next reads a part. Those of a list or table follow as parts of their own.
func (u *unpacker) next() part {
	if u.rest == "" {
		return part{}
	}
	c := u.rest[0]
	u.rest = u.rest[1:]
	switch {
	case c < 0x80:
		return part{kind: isInt, n: int64(c)}
	case c < 0x90:
		return part{kind: isTable, n: int64(c & 0xf)}
	case c < 0xa0:
		return part{kind: isList, n: int64(c & 0xf)}
	case c < 0xc0:
		return u.text(uint64(c & 0x1f))
	case c >= 0xe0:
		return part{kind: isInt, n: int64(c) - 0x100}
	}
	switch c {
	case 0xc0:
		return part{kind: isNil}
	case 0xc2, 0xc3:
		return part{kind: isBool, n: int64(c & 1)}
	//nolint:gosec // of 4 bytes
	case 0xca:
		return u.sized(4, func(n uint64) part {
			return part{kind: isFloat, f: float64(math.Float32frombits(uint32(n)))}
		})
	case 0xcb:
		return u.sized(8, func(n uint64) part { return part{kind: isFloat, f: math.Float64frombits(n)} })
	case 0xcc, 0xcd, 0xce, 0xcf:
		return u.sized(1<<(c&3), func(n uint64) part { return part{kind: isInt, n: int64(min(n, math.MaxInt64))} })
	case 0xd0, 0xd1, 0xd2, 0xd3:
		size := 1 << (c & 3)
		return u.sized(size, func(n uint64) part {
			shift := 64 - 8*size
			return part{kind: isInt, n: int64(n<<shift) >> shift} //nolint:gosec // as two's complement
		})
	case 0xd9, 0xda, 0xdb:
		return u.sized(1<<(c-0xd9), u.text)
	case 0xdc, 0xdd:
		return u.sized(2<<(c-0xdc),
			func(n uint64) part { return part{kind: isList, n: int64(n)} }) //nolint:gosec // of 4 bytes
	case 0xde, 0xdf:
		return u.sized(2<<(c-0xde),
			func(n uint64) part { return part{kind: isTable, n: int64(n)} }) //nolint:gosec // of 4 bytes
	default:
		return part{}
	}
}

// sized reads a number of so many bytes, and what it begins.
func (u *unpacker) sized(size int, then func(uint64) part) part {
	if len(u.rest) < size {
		return part{}
	}
	var n uint64
	for i := range size {
		n = n<<8 | uint64(u.rest[i])
	}
	u.rest = u.rest[size:]
	return then(n)
}

func (u *unpacker) text(n uint64) part {
	if uint64(len(u.rest)) < n {
		return part{}
	}
	p := part{kind: isText, text: u.rest[:n]}
	u.rest = u.rest[n:]
	return p
}

// skip reads the parts of a list or table, and returns whether they are all there.
func (u *unpacker) skip(p part) bool {
	more := p.n
	if p.kind == isTable {
		more *= 2
	} else if p.kind != isList {
		return p.kind != isNothing
	}
	for range more {
		if !u.skip(u.next()) {
			return false
		}
	}
	return true
}
