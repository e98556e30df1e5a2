package main

import "os"

// spare is never used: see [spareCollections].
var spare []byte

const spareBytes = 32 << 20

// spareCollections makes the garbage collector run less often. It runs when the heap has doubled, and a server that
// keeps a few megabytes would spend a third of its processor time on that, hundreds of times a second. Bytes that are
// never touched count for the collector, and take no memory. What is not collected takes as much as they are, instead:
// it is the same amount whatever else the server keeps, unlike what a higher GOGC takes.
//
// Who sets GOGC or GOMEMLIMIT has decided otherwise.
func spareCollections() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		spare = make([]byte, spareBytes)
	}
}
