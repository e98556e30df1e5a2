package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/leasehold-dev/leasehold/emulator/cloudtaskstest"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/emulator/sqstest"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

type emulateCmd struct {
	Firestore emulateFirestoreCmd `cmd:"" help:"Emulate Firestore (gRPC)."`
	Dynamodb  emulateDynamoDBCmd  `cmd:"" help:"Emulate DynamoDB (HTTP)."`
	Sqs       emulateSQSCmd       `cmd:"" help:"Emulate SQS (HTTP)."`

	Cloudtasks emulateCloudTasksCmd `cmd:"" help:"Emulate Cloud Tasks (gRPC), which delivers to this machine."`
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
	o := &firestoretest.Options{}
	if c.Optimistic {
		o.Mode = firestoretest.Optimistic
	}
	server, err := firestoretest.Listen(c.Listen, o)
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
	return emulateHTTP(ctx, s, c.Listen, dynamodbtest.New(nil), func(url string) string { return "AWS_ENDPOINT_URL_DYNAMODB=" + url })
}

type emulateSQSCmd struct {
	Listen string   `default:"127.0.0.1:9324" placeholder:"HOST:PORT" help:"Address to listen on (default ${default}). Port 0 takes a free one."`
	Queue  []string `default:"analyses" placeholder:"NAME" help:"Queue that is there from the start; may be given several times (default ${default}). Its URL is http://HOST:PORT/000000000000/NAME."`
}

// Run emulates until the context ends.
func (c *emulateSQSCmd) Run(ctx context.Context, s *streams) error {
	server := sqstest.New(nil)
	for _, name := range c.Queue {
		if err := server.CreateQueue(name); err != nil {
			return usage("--queue: %w", err)
		}
	}
	return emulateHTTP(ctx, s, c.Listen, server, func(url string) string {
		return "AWS_ENDPOINT_URL_SQS=" + url + " LEASEHOLD_QUEUE_URL=" + url + "/000000000000/" + c.Queue[0]
	})
}

// emulateHTTP serves an emulator of one of AWS' services until the context ends. export is how a shell tells others where it is.
func emulateHTTP(ctx context.Context, s *streams, listen string, h http.Handler, export func(url string) string) error {
	if err := onLoopback(listen); err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w; choose another address with --listen", listen, err)
	}
	server := httpapi.Server(h, slog.New(slog.NewTextHandler(s.err, nil)))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	url := "http://" + l.Addr().String()
	fmt.Fprintf(s.out, "listening on %s\n\n  export %s AWS_REGION=local AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local\n\nStop with Ctrl-C.\n",
		url, export(url))
	select {
	case err := <-ended:
		return fmt.Errorf("the emulator ended: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return errors.Join(err, server.Close())
	}
	return server.Close() // of those who wait for messages
}

type emulateCloudTasksCmd struct {
	Listen string   `default:"127.0.0.1:8123" placeholder:"HOST:PORT" help:"Address to listen on (default ${default}). Port 0 takes a free one."`
	Queue  []string `default:"projects/demo/locations/local/queues/analyses" placeholder:"NAME" help:"Queue that is there from the start; may be given several times (default ${default})."`
}

// Run emulates until the context ends.
func (c *emulateCloudTasksCmd) Run(ctx context.Context, s *streams) error {
	if err := onLoopback(c.Listen); err != nil {
		return err
	}
	server, err := cloudtaskstest.Listen(c.Listen, &cloudtaskstest.Options{Queues: c.Queue, Log: slog.New(slog.NewTextHandler(s.err, nil))})
	if err != nil {
		return fmt.Errorf("%w; choose another address with --listen", err)
	}
	fmt.Fprintf(s.out, "listening on %[1]s\n\n  export CLOUD_TASKS_EMULATOR_HOST=%[1]s LEASEHOLD_TASK_ISSUER=%[2]s LEASEHOLD_TASK_QUEUE=%[3]s\n\nStop with Ctrl-C.\n",
		server.Addr(), server.Issuer(), c.Queue[0])
	<-ctx.Done()
	return server.Close()
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
