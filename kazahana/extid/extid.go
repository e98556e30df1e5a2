package extid

import (
	"bytes"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

// MaxEntityBytes is the greatest length of [Options.Entity].
const MaxEntityBytes = 64

// Ahead is how far in the future the timestamp of an ID may be when it is decoded: clocks differ.
const Ahead = time.Minute

// Options are the settings of [New]. The zero value is for IDs of the default layout.
type Options struct {
	// Entity is what the IDs name, "user" or "order": at most MaxEntityBytes of printable ASCII. Under one secret each
	// entity has public IDs of its own, so that one shown in place of another is almost always implausible. Like the
	// secret it must never change. The unkeyed mode does not use it.
	Entity string

	// Layout is that of the IDs; the zero value is kazahana.DefaultLayout. Only customEpoch, bitReserve and bitTs
	// matter here.
	Layout kazahana.Layout

	// AnyID turns off the check whether an ID can have been made, for numbers that are not kazahana's. Negative ones
	// are implausible even then.
	AnyID bool

	// Now is the clock that timestamps are compared with; nil means time.Now.
	Now func() time.Time
}

// Converter converts IDs to public IDs and back. It can be used from several goroutines at once.
type Converter struct {
	keys    [KeyNumbers]permutation // by number; nil where there is none
	known   []int                   // the numbers in use, ascending
	current int                     // the number to encode with
	layout  kazahana.Layout
	anyID   bool
	now     func() time.Time
}

// New returns a converter that encodes with the first key and decodes with the key that a public ID names. Nil options
// mean the zero value. An error names the invalid key or option.
func New(keys []Key, o *Options) (*Converter, error) {
	if o == nil {
		o = &Options{}
	}
	c := &Converter{layout: o.Layout, anyID: o.AnyID, now: o.Now}
	if c.layout == (kazahana.Layout{}) {
		c.layout = kazahana.DefaultLayout()
	}
	if c.now == nil {
		c.now = time.Now
	}
	if err := c.layout.Validate(); err != nil {
		return nil, fmt.Errorf("layout: %w", err)
	}
	if err := checkEntity(o.Entity); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("no key: give at least one; {Mode: %q} is the one without a secret", Unkeyed)
	}
	for i, k := range keys {
		p, err := k.permutation(o.Entity)
		if err != nil {
			return nil, err
		}
		if c.keys[k.Number] != nil {
			return nil, fmt.Errorf("two keys have the number %d: give each its own", k.Number)
		}
		for _, other := range keys[:i] {
			if len(k.Secret) > 0 && bytes.Equal(k.Secret, other.Secret) {
				return nil, fmt.Errorf("keys %d and %d have the same secret: give each its own", other.Number, k.Number)
			}
		}
		c.keys[k.Number] = p
	}
	for n, p := range c.keys {
		if p != nil {
			c.known = append(c.known, n)
		}
	}
	c.current = keys[0].Number
	return c, nil
}

// Encode is the public ID of an ID: [Length] characters of base64url. An ID that [Converter.Decode] would find
// implausible is encoded all the same.
func (c *Converter) Encode(id kazahana.ID) string {
	var b [Length]byte
	return string(c.AppendEncode(b[:0], id))
}

// AppendEncode appends the public ID to dst, without other memory.
func (c *Converter) AppendEncode(dst []byte, id kazahana.ID) []byte {
	return appendText(dst, c.keys[c.current].forward(uint64(id)), c.current) //nolint:gosec // G115: the same 64 bits
}

// Decode is the ID of a public ID. The error is [ErrMalformed], a [KeyNumberError] or [ErrImplausible]; in all of
// these cases there is nothing to look up.
func (c *Converter) Decode(external string) (kazahana.ID, error) {
	bits, number, err := parseText(external)
	if err != nil {
		return 0, err
	}
	key := c.keys[number]
	if key == nil {
		return 0, &KeyNumberError{Number: number, Known: c.known}
	}
	id := kazahana.ID(key.inverse(bits)) //nolint:gosec // G115: the same 64 bits
	if !c.plausible(id) {
		return 0, ErrImplausible
	}
	return id, nil
}

// plausible reports whether such an ID can have been made by now.
func (c *Converter) plausible(id kazahana.ID) bool {
	if id < 0 || c.anyID {
		return id >= 0
	}
	timestamp := int64(id) >> c.layout.BitNode()
	return timestamp>>c.layout.BitTs == 0 && timestamp <= c.now().Add(Ahead).UnixMilli()-c.layout.CustomEpoch
}
