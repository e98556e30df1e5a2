// Command player serves the conformance scripts over HTTP, to the tests of clients in any language. It prints its URL as the first line of its
// output, and serves until it is stopped; with -stdin also until its standard input ends, so that it ends with the process that started it.
//
//	go run ./contracts/conformance/player [-addr 127.0.0.1:0] [-stdin]
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/leasehold-dev/leasehold/contracts/conformance"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "where to listen; port 0 means any that is free")
	wait := flag.Bool("stdin", false, "end when standard input ends")
	flag.Parse()
	if err := serve(*addr, *wait); err != nil {
		log.Fatal(err)
	}
}

func serve(addr string, wait bool) error {
	p, err := conformance.NewPlayer()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr) //nolint:noctx // it lasts as long as the process
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	if wait {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
	}
	s := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	return s.Serve(l)
}
