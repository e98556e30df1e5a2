// Freeport prints a port of 127.0.0.1 that was free a moment ago.
package main

import (
	"fmt"
	"log"
	"net"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	if err := l.Close(); err != nil {
		log.Fatal(err)
	}
}
