package extid_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/kazahana/extid"
)

// Secrets of tests, one for each key.
var (
	secretA = []byte("a secret for tests, 32 bytes: A!")
	secretB = []byte("a secret for tests, 32 bytes: B!")
)

// noon is the time of these tests, half a year after the default epoch.
var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// converter makes one whose clock stands at noon.
func converter(t testing.TB, o extid.Options, keys ...extid.Key) *extid.Converter {
	t.Helper()
	if o.Now == nil {
		o.Now = func() time.Time { return noon }
	}
	c, err := extid.New(keys, &o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// keyrings are all modes, and keys under all numbers.
var keyrings = map[string][]extid.Key{
	"unkeyed":    {{Mode: extid.Unkeyed}},
	"ff1-aes128": {{Mode: extid.AES128, Secret: secretA}},
	"ff1-aes256": {{Secret: secretA}},
	"key 1":      {{Number: 1, Secret: secretA}},
	"key 2":      {{Number: 2, Mode: extid.AES128, Secret: secretA}},
	"key 3":      {{Number: 3, Secret: secretA}},
}

func TestRoundTrip(t *testing.T) {
	for name, keys := range keyrings {
		t.Run(name, func(t *testing.T) {
			c := converter(t, extid.Options{Entity: "user", AnyID: true}, keys...)
			random := rand.New(rand.NewPCG(1, 2))
			seen := map[string]kazahana.ID{}
			for i := range 10_000 {
				id := kazahana.ID(i)
				if i%2 == 1 {
					id = kazahana.ID(random.Int64())
				}
				external := c.Encode(id)
				if other, ok := seen[external]; ok && other != id {
					t.Fatalf("%d and %d are both %s", id, other, external)
				}
				seen[external] = id
				if got, err := c.Decode(external); got != id || err != nil {
					t.Fatalf("%d became %s, and that %d, %v", id, external, got, err)
				}
			}
		})
	}
}

// TestSeparation: secret, entity and mode each give public IDs of their own; the number of the key changes the last
// character only.
func TestSeparation(t *testing.T) {
	const id = kazahana.ID(7_301_444_403_200_005)
	texts := map[string]string{}
	for name, c := range map[string]*extid.Converter{
		"unkeyed":          converter(t, extid.Options{}, extid.Key{Mode: extid.Unkeyed}),
		"secret A":         converter(t, extid.Options{}, extid.Key{Secret: secretA}),
		"secret B":         converter(t, extid.Options{}, extid.Key{Secret: secretB}),
		"secret A, user":   converter(t, extid.Options{Entity: "user"}, extid.Key{Secret: secretA}),
		"secret A, order":  converter(t, extid.Options{Entity: "order"}, extid.Key{Secret: secretA}),
		"secret A, AES128": converter(t, extid.Options{}, extid.Key{Mode: extid.AES128, Secret: secretA}),
	} {
		text := c.Encode(id)
		if other, ok := texts[text]; ok {
			t.Errorf("%s and %s are both %s", name, other, text)
		}
		texts[text] = name
	}
	zero := converter(t, extid.Options{}, extid.Key{Secret: secretA}).Encode(id)
	three := converter(t, extid.Options{}, extid.Key{Number: 3, Secret: secretA}).Encode(id)
	if zero[:10] != three[:10] || zero[10] == three[10] {
		t.Errorf("key 0 gives %s, key 3 with the same secret %s", zero, three)
	}
}

// TestRotation walks through a change of the secret as the documentation describes it.
func TestRotation(t *testing.T) {
	const id = kazahana.ID(7_301_444_403_200_005)
	old, fresh := extid.Key{Secret: secretA}, extid.Key{Number: 1, Secret: secretB}
	before := converter(t, extid.Options{}, old)
	prepared := converter(t, extid.Options{}, old, fresh)
	after := converter(t, extid.Options{}, fresh, old)
	alone := converter(t, extid.Options{}, fresh)

	first, second := before.Encode(id), after.Encode(id)
	if prepared.Encode(id) != first {
		t.Error("a key at the end of the list encodes")
	}
	if first == second {
		t.Error("the new key does not encode")
	}
	for name, c := range map[string]*extid.Converter{"prepared": prepared, "after": after} {
		for _, text := range []string{first, second} {
			if got, err := c.Decode(text); got != id || err != nil {
				t.Errorf("%s: %s is %d, %v", name, text, got, err)
			}
		}
	}
	for _, c := range []struct {
		converter *extid.Converter
		text      string
		want      extid.KeyNumberError
		message   string
	}{
		{before, second, extid.KeyNumberError{Number: 1, Known: []int{0}},
			"public ID names key 1 in its last character, known are 0: check the character, or configure the key"},
		{alone, first, extid.KeyNumberError{Number: 0, Known: []int{1}},
			"public ID names key 0 in its last character, known are 1: check the character, or configure the key"},
	} {
		_, err := c.converter.Decode(c.text)
		e, ok := errors.AsType[*extid.KeyNumberError](err)
		if !ok || !reflect.DeepEqual(*e, c.want) || e.Error() != c.message {
			t.Errorf("%s: got %v", c.text, err)
		}
		if errors.Is(err, extid.ErrMalformed) || errors.Is(err, extid.ErrImplausible) {
			t.Errorf("%s: %v is taken for another error", c.text, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	c := converter(t, extid.Options{AnyID: true}, extid.Key{Mode: extid.Unkeyed})
	good := c.Encode(5)
	for _, bad := range []struct {
		name, text string
		want       any
		message    string
	}{
		{"empty", "", &extid.LengthError{Length: 0}, "public ID is empty: must have exactly 11 characters"},
		{"10 characters", good[:10], &extid.LengthError{Length: 10}, "public ID has 10 characters: must have exactly 11"},
		{"12 characters", good + "A", &extid.LengthError{Length: 12}, "public ID has 12 characters: must have exactly 11"},
		{"megabytes", strings.Repeat("A", 1<<20), &extid.LengthError{Length: 1 << 20},
			"public ID has 1048576 characters: must have exactly 11"},
		{"line end behind", good + "\n", &extid.CharacterError{'\n', 12},
			`public ID has '\n' at position 12: remove the white space`},
		{"line end in place of the last", good[:10] + "\n", &extid.CharacterError{'\n', 11},
			`public ID has '\n' at position 11: remove the white space`},
		{"carriage return inside", "AAAAA\rAAAAA", &extid.CharacterError{'\r', 6},
			`public ID has '\r' at position 6: remove the white space`},
		{"space before", " " + good, &extid.CharacterError{' ', 1},
			`public ID has ' ' at position 1: remove the white space`},
		{"padding", good + "=", &extid.CharacterError{'=', 12}, `public ID has '=' at position 12: remove the padding`},
		{"base64", "AAAA+AAAAAA", &extid.CharacterError{'+', 5},
			`public ID has '+' at position 5: write it in base64url, with '-' and '_' in place of '+' and '/'`},
		{"dot", "AAAAAAAAAA.", &extid.CharacterError{'.', 11},
			`public ID has '.' at position 11: only A to Z, a to z, 0 to 9, '-' and '_' are allowed`},
		{"not ASCII, 11 bytes", "AAAAAAAAAé", &extid.CharacterError{'é', 10},
			`public ID has 'é' at position 10: only A to Z, a to z, 0 to 9, '-' and '_' are allowed`},
		{"not UTF-8", "AAAAAAAAAA\xff", &extid.CharacterError{'\uFFFD', 11},
			`public ID has '�' at position 11: only A to Z, a to z, 0 to 9, '-' and '_' are allowed`},
		{"NUL", "AAAAAAAAAA\x00", &extid.CharacterError{0, 11},
			`public ID has '\x00' at position 11: only A to Z, a to z, 0 to 9, '-' and '_' are allowed`},
	} {
		t.Run(bad.name, func(t *testing.T) {
			id, err := c.Decode(bad.text)
			var got any = err
			if id != 0 || !reflect.DeepEqual(got, bad.want) || err.Error() != bad.message {
				t.Errorf("got %d, %v, want %v", id, err, bad.message)
			}
			if !errors.Is(err, extid.ErrMalformed) {
				t.Errorf("%v is not ErrMalformed", err)
			}
		})
	}
}

// TestLastCharacter: of the four characters that base64 decoders take for the last one, one is the ID's.
func TestLastCharacter(t *testing.T) {
	c := converter(t, extid.Options{AnyID: true}, extid.Key{Mode: extid.Unkeyed})
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for id := range kazahana.ID(256) {
		text := c.Encode(id)
		value := strings.IndexByte(alphabet, text[10])
		if value%4 != 0 {
			t.Fatalf("%d is %s, whose last character says key %d", id, text, value%4)
		}
		for number := 1; number < extid.KeyNumbers; number++ {
			_, err := c.Decode(text[:10] + alphabet[value+number:value+number+1])
			if e, ok := errors.AsType[*extid.KeyNumberError](err); !ok || e.Number != number {
				t.Fatalf("%s with another last character: %v", text, err)
			}
		}
	}
}

func TestPlausible(t *testing.T) {
	late := kazahana.Layout{CustomEpoch: noon.UnixMilli() - 1000, BitReserve: 2, BitTs: 40, BitID: 14, BitSeq: 8}
	id := func(l kazahana.Layout, at time.Time) kazahana.ID {
		return kazahana.ID((at.UnixMilli()-l.CustomEpoch)<<l.BitNode() | 5)
	}
	for _, c := range []struct {
		name    string
		options extid.Options
		id      kazahana.ID
		want    error
	}{
		{"now", extid.Options{}, id(kazahana.DefaultLayout(), noon), nil},
		{"the first of all", extid.Options{}, 0, nil},
		{"a minute ahead", extid.Options{}, id(kazahana.DefaultLayout(), noon.Add(extid.Ahead)), nil},
		{"a minute and a millisecond ahead", extid.Options{},
			id(kazahana.DefaultLayout(), noon.Add(extid.Ahead+time.Millisecond)), extid.ErrImplausible},
		{"the last of all", extid.Options{}, math.MaxInt64, extid.ErrImplausible},
		{"negative", extid.Options{}, -1, extid.ErrImplausible},
		{"any, the last of all", extid.Options{AnyID: true}, math.MaxInt64, nil},
		{"any, negative", extid.Options{AnyID: true}, -1, extid.ErrImplausible},
		{"other layout, now", extid.Options{Layout: late}, id(late, noon), nil},
		{"other layout, too late", extid.Options{Layout: late}, id(late, noon.Add(extid.Ahead+time.Millisecond)),
			extid.ErrImplausible},
		{"other layout, reserved bit", extid.Options{Layout: late}, 1 << 62, extid.ErrImplausible},
		{"clock before the epoch", extid.Options{Now: func() time.Time { return time.UnixMilli(0) }}, 5,
			extid.ErrImplausible},
	} {
		for name, keys := range keyrings {
			t.Run(c.name+", "+name, func(t *testing.T) {
				conv := converter(t, c.options, keys...)
				got, err := conv.Decode(conv.Encode(c.id))
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Fatalf("got %d, %v, want %v", got, err, c.want)
				}
				if want := c.id; err == nil && got != want || err != nil && got != 0 {
					t.Errorf("got %d", got)
				}
			})
		}
	}
}

// TestReservedBitsBeyondTheClock: with a clock at the end of the layout, the reserved bits alone reject.
func TestReservedBitsBeyondTheClock(t *testing.T) {
	l := kazahana.Layout{BitReserve: 2, BitTs: 40, BitID: 14, BitSeq: 8}
	c := converter(t, extid.Options{Layout: l, Now: func() time.Time { return l.End().AddDate(1, 0, 0) }},
		extid.Key{Mode: extid.Unkeyed})
	if got, err := c.Decode(c.Encode(1<<62 - 1)); got != 1<<62-1 || err != nil {
		t.Errorf("the last ID: %d, %v", got, err)
	}
	if _, err := c.Decode(c.Encode(1 << 62)); !errors.Is(err, extid.ErrImplausible) {
		t.Errorf("with a reserved bit: %v", err)
	}
}

// TestRandomStringsAreImplausible: half a year after the epoch, about 1 made-up string in 280 passes.
func TestRandomStringsAreImplausible(t *testing.T) {
	for _, mode := range []extid.Mode{extid.Unkeyed, extid.AES256} {
		k := extid.Key{Mode: mode}
		if mode != extid.Unkeyed {
			k.Secret = secretA
		}
		c, all := converter(t, extid.Options{}, k), converter(t, extid.Options{AnyID: true}, k)
		random := rand.New(rand.NewPCG(3, 4))
		passed := 0
		const tries = 20_000
		for range tries {
			id := kazahana.ID(random.Uint64())
			if _, err := c.Decode(all.Encode(id)); err == nil {
				passed++
			}
		}
		share := float64(noon.UnixMilli()-kazahana.DefaultEpoch) / (1 << 42)
		if want := share * tries; math.Abs(float64(passed)-want) > 5*math.Sqrt(want) {
			t.Errorf("%s: %d of %d passed, want about %.0f", mode, passed, tries, want)
		}
	}
}

func TestRefusedOptions(t *testing.T) {
	ok := []extid.Key{{Secret: secretA}}
	for _, c := range []struct {
		name    string
		keys    []extid.Key
		options *extid.Options
		want    string
	}{
		{"no key", nil, nil, `no key: give at least one; {Mode: "unkeyed"} is the one without a secret`},
		{"no secret", []extid.Key{{}}, nil,
			"key 0 (ff1-aes256): its secret has 0 bytes, must have at least 16 random ones; `openssl rand -base64 32` makes some"},
		{"short secret", []extid.Key{{Number: 2, Mode: extid.AES128, Secret: secretA[:15]}}, nil,
			"key 2 (ff1-aes128): its secret has 15 bytes, must have at least 16 random ones; `openssl rand -base64 32` makes some"},
		{"number below", []extid.Key{{Number: -1, Secret: secretA}}, nil, "key number -1: must be from 0 to 3"},
		{"number above", []extid.Key{{Number: 4, Secret: secretA}}, nil, "key number 4: must be from 0 to 3"},
		{"number twice", []extid.Key{{Number: 1, Secret: secretA}, {Number: 1, Secret: secretB}}, nil,
			"two keys have the number 1: give each its own"},
		{"secret twice", []extid.Key{{Number: 1, Secret: secretA}, {Secret: secretA}}, nil,
			"keys 1 and 0 have the same secret: give each its own"},
		{"unkeyed with a number", []extid.Key{{Number: 1, Mode: extid.Unkeyed}}, nil,
			"key 1 (unkeyed): the unkeyed mode has no key, its number must be 0"},
		{"unkeyed with a secret", []extid.Key{{Mode: extid.Unkeyed, Secret: secretA}}, nil,
			`key 0 (unkeyed): the unkeyed mode takes no secret; set the mode to "ff1-aes256" to use it`},
		{"unknown mode", []extid.Key{{Mode: "xtea", Secret: secretA}}, nil,
			`key 0: mode "xtea": must be "ff1-aes256", "ff1-aes128" or "unkeyed"`},
		{"long entity", ok, &extid.Options{Entity: strings.Repeat("e", 65)}, "entity has 65 bytes, 64 at most"},
		{"entity with a space", ok, &extid.Options{Entity: "my users"},
			`entity must be printable ASCII without spaces: it is a name for programs, like "user"`},
		{"entity not ASCII", ok, &extid.Options{Entity: "café"},
			`entity must be printable ASCII without spaces: it is a name for programs, like "user"`},
		{"layout", ok, &extid.Options{Layout: kazahana.Layout{BitTs: 41}},
			"layout: bitReserve must be at least 1, so that IDs are positive as signed 64-bit numbers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := extid.New(c.keys, c.options); err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
	if _, err := extid.New([]extid.Key{{Secret: secretA[:16]}},
		&extid.Options{Entity: strings.Repeat("e", 64)}); err != nil {
		t.Errorf("at the bounds: %v", err)
	}
}

// TestSecretsStayOutOfLogs: no verb shows the secret of a key, alone or inside something.
func TestSecretsStayOutOfLogs(t *testing.T) {
	k := extid.Key{Number: 2, Secret: secretA}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if got := fmt.Sprintf(verb, k); got != "key 2 (ff1-aes256)" {
			t.Errorf("%s: %s", verb, got)
		}
		if got := fmt.Sprintf(verb, []extid.Key{k}); !strings.Contains(got, "key 2 (ff1-aes256)") || len(got) > 40 {
			t.Errorf("%s in a list: %s", verb, got)
		}
	}
}

// sink takes results to where the compiler cannot leave them on the stack.
var sink string

// TestAllocations: nothing but the string is allocated, and with AppendEncode and Decode nothing at all.
func TestAllocations(t *testing.T) {
	const id = kazahana.ID(7_301_444_403_200_005)
	for name, keys := range keyrings {
		c := converter(t, extid.Options{Entity: "user"}, keys...)
		text := c.Encode(id)
		buffer := make([]byte, 0, extid.Length)
		if n := testing.AllocsPerRun(1000, func() { sink = c.Encode(id) }); n != 1 {
			t.Errorf("%s: Encode allocates %v times", name, n)
		}
		if n := testing.AllocsPerRun(1000, func() { c.AppendEncode(buffer, id) }); n > 0 {
			t.Errorf("%s: AppendEncode allocates %v times", name, n)
		}
		if n := testing.AllocsPerRun(1000, func() { _, _ = c.Decode(text) }); n > 0 {
			t.Errorf("%s: Decode allocates %v times", name, n)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, mode := range []extid.Mode{extid.Unkeyed, extid.AES128, extid.AES256} {
		b.Run(string(mode), func(b *testing.B) {
			c := converter(b, extid.Options{Entity: "user"}, keyrings[string(mode)]...)
			b.ReportAllocs()
			for id := kazahana.ID(7_301_444_403_200_000); b.Loop(); id++ {
				sink = c.Encode(id)
			}
		})
	}
}

func BenchmarkAppendEncode(b *testing.B) {
	for _, mode := range []extid.Mode{extid.Unkeyed, extid.AES128, extid.AES256} {
		b.Run(string(mode), func(b *testing.B) {
			c := converter(b, extid.Options{Entity: "user"}, keyrings[string(mode)]...)
			buffer := make([]byte, 0, extid.Length)
			b.ReportAllocs()
			for id := kazahana.ID(7_301_444_403_200_000); b.Loop(); id++ {
				c.AppendEncode(buffer, id)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, mode := range []extid.Mode{extid.Unkeyed, extid.AES128, extid.AES256} {
		b.Run(string(mode), func(b *testing.B) {
			c := converter(b, extid.Options{Entity: "user"}, keyrings[string(mode)]...)
			text := c.Encode(7_301_444_403_200_005)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Decode(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
