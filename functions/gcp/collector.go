package gcp

import (
	"os"
	"runtime/debug"
	"sync"
	"time"
)

const (
	startPercent = 200         // see [debug.SetGCPercent]
	startFor     = time.Minute // longer than it takes until the first response, on any machine
)

// quietStart lets the heap grow to 8 MB instead of 4 before the garbage collector runs, in the first minute of a
// process. It has less than that when it has sent its first response, and a collection before it took a twelfth of the
// processor time until then.
//
// Who sets GOGC or GOMEMLIMIT has decided otherwise.
var quietStart = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		usual := debug.SetGCPercent(startPercent)
		time.AfterFunc(startFor, func() { debug.SetGCPercent(usual) })
	}
})
