package extid_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/kazahana/extid"
)

// Without a secret: order and number of IDs do not show, and everyone can convert.
func Example_unkeyed() {
	users, err := extid.New([]extid.Key{{Mode: extid.Unkeyed}}, nil)
	if err != nil {
		log.Panic(err)
	}
	for id := range kazahana.ID(3) {
		external := users.Encode(id)
		back, err := users.Decode(external)
		fmt.Println(id, external, back, err)
	}

	// Output:
	// 0 nKBm8aSrLuo 0 <nil>
	// 1 Jbd1-uyo9SA 1 <nil>
	// 2 -PdjU7bYd8U 2 <nil>
}

// Under a secret: no one else can tell what a public ID means, or make one.
func Example_secret() {
	// In production: 32 random bytes from the configuration, the same on every server, for ever.
	secret := []byte("an example, not random: 32 bytes")
	users, err := extid.New([]extid.Key{{Secret: secret}}, &extid.Options{Entity: "user"})
	if err != nil {
		log.Panic(err)
	}
	orders, err := extid.New([]extid.Key{{Secret: secret}}, &extid.Options{Entity: "order"})
	if err != nil {
		log.Panic(err)
	}
	const id = kazahana.ID(7_301_444_403_200_005) // in the database
	external := users.Encode(id)                  // in a response
	fmt.Println(external)

	back, err := users.Decode(external) // from a request
	fmt.Println(back, err)

	_, err = orders.Decode(external)
	fmt.Println(errors.Is(err, extid.ErrImplausible)) // to be answered as not found

	// Output:
	// 9xO-N-buxPg
	// 7301444403200005 <nil>
	// true
}

// Another secret, while the links that were made under the first keep working.
func Example_rotation() {
	first := extid.Key{Number: 0, Secret: []byte("an example, not random: 32 bytes")}
	second := extid.Key{Number: 1, Secret: []byte("another example, also 32 bytes..")}
	before, err := extid.New([]extid.Key{first}, nil)
	if err != nil {
		log.Panic(err)
	}
	after, err := extid.New([]extid.Key{second, first}, nil)
	if err != nil {
		log.Panic(err)
	}
	const id = kazahana.ID(7_301_444_403_200_005)
	for _, external := range []string{before.Encode(id), after.Encode(id)} {
		back, err := after.Decode(external)
		fmt.Println(external, back, err)
	}

	// Output:
	// FomMI3t492o 7301444403200005 <nil>
	// Y4hURiGECMp 7301444403200005 <nil>
}

// What to answer to a string that came from outside.
func ExampleConverter_Decode() {
	users, err := extid.New([]extid.Key{{Mode: extid.Unkeyed}}, nil)
	if err != nil {
		log.Panic(err)
	}
	for _, s := range []string{"ASNFZ4mrze8=", "ASNFZ4mrze", "ASNFZ4mrze9", "ASNFZ4mrze8"} {
		_, err := users.Decode(s)
		switch {
		case errors.Is(err, extid.ErrMalformed):
			fmt.Println("bad request:", err)
		case err != nil:
			fmt.Println("not found:", err)
		}
	}

	// Output:
	// bad request: public ID has '=' at position 12: remove the padding
	// bad request: public ID has 10 characters: must have exactly 11
	// not found: public ID names key 1 in its last character, known are 0: check the character, or configure the key
	// not found: public ID belongs to no ID that can have been made: treat it as not found
}
