package main

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/kazahana/extid"
)

type encoding struct {
	Bytes     string `json:"bytes"`
	KeyNumber int    `json:"keyNumber"`
	Text      string `json:"text"`
}

// encodings are made with the standard library: 64 bits, the 2 of the key number and 6 zeros are 9 bytes, of whose 12
// characters the last says nothing.
func encodings() []encoding {
	var all []encoding
	for _, bits := range []uint64{0, 0x0123456789abcdef, 0xfedcba9876543210, math.MaxUint64} {
		for number := range extid.KeyNumbers {
			b := append(binary.BigEndian.AppendUint64(nil, bits), byte(number)<<6)
			all = append(all, encoding{
				Bytes: hex.EncodeToString(b[:8]), KeyNumber: number, Text: base64.RawURLEncoding.EncodeToString(b)[:extid.Length],
			})
		}
	}
	return all
}

type externalID struct {
	Mode       extid.Mode  `json:"mode"`
	Secret     string      `json:"secret,omitempty"`
	AESKey     string      `json:"aesKey,omitempty"`
	Entity     string      `json:"entity"`
	KeyNumber  int         `json:"keyNumber"`
	ID         kazahana.ID `json:"id"`
	ExternalID string      `json:"externalId"`
}

// secret is n bytes that no one should use.
func secret(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func externalIDs() ([]externalID, error) {
	var all []externalID
	for _, c := range []struct {
		key    extid.Key
		entity string
	}{
		{extid.Key{Mode: extid.Unkeyed}, ""},
		{extid.Key{Mode: extid.AES128, Secret: secret(16)}, "user"},
		{extid.Key{Mode: extid.AES256, Secret: secret(32)}, ""},
		{extid.Key{Mode: extid.AES256, Secret: secret(32)}, "user"},
		{extid.Key{Mode: extid.AES256, Secret: secret(32)}, "order"},
		{extid.Key{Mode: extid.AES256, Number: 1, Secret: secret(32)}, "eleven-byte"},
		{extid.Key{Mode: extid.AES256, Number: 2, Secret: secret(64)}, "twelve-bytes"},
		{extid.Key{Mode: extid.AES128, Number: 3, Secret: secret(17)}, strings.Repeat("0123456789abcdef", 4)},
	} {
		converter, err := extid.New([]extid.Key{c.key}, &extid.Options{Entity: c.entity, AnyID: true})
		if err != nil {
			return nil, err
		}
		var aesKey []byte
		if size := map[extid.Mode]int{extid.AES128: 16, extid.AES256: 32}[c.key.Mode]; size > 0 {
			if aesKey, err = hkdf.Key(sha256.New, c.key.Secret, nil, "leasehold extid "+string(c.key.Mode), size); err != nil {
				return nil, err
			}
		}
		for _, id := range []kazahana.ID{0, 1, 7_301_444_403_200_005, 7_301_444_403_200_006, math.MaxInt64} {
			all = append(all, externalID{
				Mode: c.key.Mode, Secret: hex.EncodeToString(c.key.Secret), AESKey: hex.EncodeToString(aesKey), Entity: c.entity,
				KeyNumber: c.key.Number, ID: id, ExternalID: converter.Encode(id),
			})
		}
	}
	return all, nil
}

type plausibility struct {
	Layout     string      `json:"layout"`
	NowUnixMs  int64       `json:"nowUnixMs"`
	ExternalID string      `json:"externalId"`
	ID         kazahana.ID `json:"id"`
	Accepted   bool        `json:"accepted"`
}

// plausibilities are about unkeyed public IDs of which some are of no ID that can have been made.
func plausibilities() ([]plausibility, error) {
	var all []plausibility
	for _, name := range []string{"default", "epoch2020"} {
		l := layouts[name]
		now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
		converter, err := extid.New([]extid.Key{{Mode: extid.Unkeyed}},
			&extid.Options{Layout: l, Now: func() time.Time { return now }})
		if err != nil {
			return nil, err
		}
		limit, err := l.FirstID(now.Add(extid.Ahead + time.Millisecond))
		if err != nil {
			return nil, err
		}
		for _, id := range []kazahana.ID{0, limit - 1, limit, 1 << 62, math.MaxInt64} {
			external := converter.Encode(id)
			got, err := converter.Decode(external)
			if err != nil && !errors.Is(err, extid.ErrImplausible) || err == nil && got != id {
				return nil, fmt.Errorf("%s became %d, %w", external, got, err)
			}
			all = append(all, plausibility{Layout: name, NowUnixMs: now.UnixMilli(), ExternalID: external, ID: id,
				Accepted: err == nil})
		}
	}
	return all, nil
}

type malformedExternal struct {
	Text      string `json:"text"`
	KnownKeys []int  `json:"knownKeys"`
	Reason    string `json:"reason"`
	Position  int    `json:"position,omitempty"`
	KeyNumber *int   `json:"keyNumber,omitempty"`
}

func malformedExternalIDs() ([]malformedExternal, error) {
	unkeyed, one := extid.Key{Mode: extid.Unkeyed}, extid.Key{Number: 1, Secret: secret(16)}
	var all []malformedExternal
	for _, c := range []struct {
		text string
		keys []extid.Key
	}{
		{"", []extid.Key{unkeyed}},
		{"ASNFZ4mrze", []extid.Key{unkeyed}},
		{"ASNFZ4mrze8A", []extid.Key{unkeyed}},
		{"ASNFZ4mrze8AAAAAAAAAAA", []extid.Key{unkeyed}},
		{"ASNFZ4mrze8=", []extid.Key{unkeyed}},
		{"ASNFZ4mrze8\n", []extid.Key{unkeyed}},
		{"ASNFZ4mrze\n", []extid.Key{unkeyed}},
		{"ASNFZ\r4mrze8", []extid.Key{unkeyed}},
		{" ASNFZ4mrze8", []extid.Key{unkeyed}},
		{"ASNFZ4mrze+", []extid.Key{unkeyed}},
		{"ASNFZ/mrze8", []extid.Key{unkeyed}},
		{"ASNFZ4mrz.8", []extid.Key{unkeyed}},
		{"ASNFZ4mrz%8", []extid.Key{unkeyed}},
		{"ASNFZ4mrzé8", []extid.Key{unkeyed}},
		{"ASNFZ4mrzé", []extid.Key{unkeyed}},
		{"ASNFZ4mrze\x00", []extid.Key{unkeyed}},
		{"ASNFZ4mrze9", []extid.Key{unkeyed}},
		{"ASNFZ4mrze-", []extid.Key{unkeyed}},
		{"ASNFZ4mrze_", []extid.Key{unkeyed, one}},
		{"ASNFZ4mrze8", []extid.Key{one}},
	} {
		converter, err := extid.New(c.keys, &extid.Options{AnyID: true})
		if err != nil {
			return nil, err
		}
		m := malformedExternal{Text: c.text}
		for _, k := range c.keys {
			m.KnownKeys = append(m.KnownKeys, k.Number)
		}
		_, err = converter.Decode(c.text)
		var length *extid.LengthError
		var character *extid.CharacterError
		var number *extid.KeyNumberError
		switch {
		case errors.As(err, &length):
			m.Reason = "length"
		case errors.As(err, &character):
			m.Reason, m.Position = "character", character.Position
		case errors.As(err, &number):
			m.Reason, m.KeyNumber = "keyNumber", &number.Number
		default:
			return nil, fmt.Errorf("%q was not refused as malformed: %w", c.text, err)
		}
		all = append(all, m)
	}
	return all, nil
}
