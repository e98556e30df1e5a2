package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/leasehold-dev/leasehold/emulator/dynamodb"
	"github.com/leasehold-dev/leasehold/emulator/firestore"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

type emulateCmd struct {
	Firestore emulateFirestoreCmd `cmd:"" help:"Emulate Firestore (gRPC)."`
	Dynamodb  emulateDynamoDBCmd  `cmd:"" help:"Emulate DynamoDB (HTTP)."`
}

// Help is the longer help of the command.
func (emulateCmd) Help() string {
	return `For tests and for trying things out, without Java, Docker or an account. What they hold is in memory and gone when they end. They answer loudly to what they do not support, believe everybody, and listen on this machine only.`
}

type emulateFirestoreCmd struct {
	Listen     string `default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"Address to listen on (default ${default}). Port 0 takes a free one."`
	Optimistic bool   `help:"Let transactions that clash fail at the commit, instead of waiting for each other's locks."`
}

// Run emulates until the context ends.
func (c *emulateFirestoreCmd) Run(ctx context.Context, s *streams) error {
	if err := onLoopback(c.Listen); err != nil {
		return err
	}
	o := &firestore.Options{}
	if c.Optimistic {
		o.Mode = firestore.Optimistic
	}
	server, err := firestore.Listen(c.Listen, o)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w; choose another address with --listen", c.Listen, err)
	}
	fmt.Fprintf(s.out, "listening on %[1]s\n\n  export FIRESTORE_EMULATOR_HOST=%[1]s\n\nStop with Ctrl-C.\n", server.Addr())
	<-ctx.Done()
	return server.Close()
}

type emulateDynamoDBCmd struct {
	Listen string `default:"127.0.0.1:8000" placeholder:"HOST:PORT" help:"Address to listen on (default ${default}). Port 0 takes a free one."`
}

// Run emulates until the context ends.
func (c *emulateDynamoDBCmd) Run(ctx context.Context, s *streams) error {
	if err := onLoopback(c.Listen); err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w; choose another address with --listen", c.Listen, err)
	}
	server := httpapi.Server(dynamodb.New(nil), slog.New(slog.NewTextHandler(s.err, nil)))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	fmt.Fprintf(s.out, "listening on http://%[1]s\n\n  export AWS_ENDPOINT_URL_DYNAMODB=http://%[1]s AWS_REGION=local AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local\n\nStop with Ctrl-C.\n", l.Addr())
	select {
	case err := <-ended:
		return fmt.Errorf("the emulator ended: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}

// onLoopback refuses addresses that others can reach: emulators ask nobody who they are.
func onLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return usage("--listen %q: must be host:port, such as 127.0.0.1:8000", address)
	}
	if !httpapi.Loopback(host) {
		return usage("--listen %s can be reached from other machines, and an emulator believes everybody: listen on 127.0.0.1", address)
	}
	return nil
}
