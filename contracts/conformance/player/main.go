// Command player serves the conformance scripts over HTTP, to the tests of clients in any language. It prints its URL
// as the first line of its output, and serves until it is stopped; with -stdin also until its standard input ends, so
// that it ends with the process that started it.
//
//	go run ./contracts/conformance/player [-addr 127.0.0.1:0] [-stdin] [-step-timeout 2s]
package main

import (
	"errors"
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
	timeout := flag.Duration("step-timeout", conformance.StepTimeout,
		"how long a step waits for its request: less, and a client that sends none fails sooner")
	flag.Parse()
	in := io.Reader(os.Stdin)
	if !*wait {
		in = nil
	}
	if err := serve(*addr, *timeout, in, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// serve serves until in ends, for ever if it is nil, and writes its URL to out.
func serve(addr string, timeout time.Duration, in io.Reader, out io.Writer) error {
	p, err := conformance.NewPlayer()
	if err != nil {
		return err
	}
	p.StepTimeout = timeout
	l, err := net.Listen("tcp", addr) //nolint:noctx // it lasts as long as the process
	if err != nil {
		return err
	}
	s := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	if in != nil {
		go func() {
			_, _ = io.Copy(io.Discard, in)
			_ = s.Close()
		}()
	}
	if _, err := fmt.Fprintf(out, "http://%s\n", l.Addr()); err != nil {
		return err
	}
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
