//go:build !unix

// Command worker stops and continues a process, which only Unix has signals for.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "worker: this example needs SIGSTOP, which this system does not have")
	os.Exit(1)
}
