package setup

import (
	"testing"
	"unsafe"
)

// TestGrowStack: a goroutine that has room does not move its stack when it goes deep, as another does.
func TestGrowStack(t *testing.T) {
	for _, room := range []bool{false, true} {
		moved := make(chan bool)
		go func() {
			var here byte
			if room {
				GrowStack()
			}
			before := uintptr(unsafe.Pointer(&here))
			deep(stackRoom / 1024 / 2) // each with a frame of a little more than a KiB
			moved <- uintptr(unsafe.Pointer(&here)) != before
		}()
		if got := <-moved; got == room {
			t.Errorf("room %t: moved %t", room, got)
		}
	}
}

//go:noinline
func deep(n int) byte {
	var frame [1024]byte
	if n > 0 {
		frame[n] = deep(n - 1)
	}
	return frame[n/2]
}
