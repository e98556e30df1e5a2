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
	return `For tests and for trying things out, without Java, Docker or an account. Data is in memory and lost when the emulator ends. Requests that are not supported fail with an error that says so. Emulators accept every caller, and listen on this machine only; --insecure-listen-anywhere is for containers (docs/guides/containers.md).`
}

// anywhere lets an emulator listen where other machines reach it.
type anywhere struct {
	InsecureListenAnywhere bool `help:"Listen on an address that other machines can reach: they may do everything. Only for containers on a development machine."`
}

// check rejects addresses that other machines can reach, unless that was asked for, because emulators do not
// authenticate callers. It warns of an address that was.
func (a anywhere) check(address string, s *streams) error {
	host, _, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return usage("--listen %q: must be host:port, such as 127.0.0.1:8000", address)
	case httpapi.Loopback(host):
		return nil
	case !a.InsecureListenAnywhere:
		return usage(
			"--listen %s can be reached from other machines, and an emulator accepts every caller: listen on 127.0.0.1; "+
				"docs/guides/containers.md says what to do in containers of a development machine", address)
	}
	slog.New(slog.NewTextHandler(s.err, nil)).Warn(insecure, "listen", address)
	return nil
}

type emulateFirestoreCmd struct {
	Listen     string `default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"Address to listen on (default ${default}). Port 0 takes a free one."`
	Optimistic bool   `help:"Transactions that conflict fail at the commit, instead of waiting for locks."`
	anywhere
}

// Run emulates until the context ends.
func (c *emulateFirestoreCmd) Run(ctx context.Context, s *streams) error {
	if err := c.check(c.Listen, s); err != nil {
		return err
	}
	o := &firestoretest.Options{InsecureListenAnywhere: c.InsecureListenAnywhere}
	if c.Optimistic {
		o.Mode = firestoretest.Optimistic
	}
	server, err := firestoretest.Listen(c.Listen, o)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w; choose another address with --listen", c.Listen, err)
	}
	fmt.Fprintf(s.out, "listening on %[1]s\n\n  export FIRESTORE_EMULATOR_HOST=%[1]s\n\nStop with Ctrl-C.\n",
		fromHere(server.Addr()))
	<-ctx.Done()
	return server.Close()
}

type emulateDynamoDBCmd struct {
	Listen string `default:"127.0.0.1:8000" placeholder:"HOST:PORT" help:"Address to listen on (default ${default}). Port 0 takes a free one."`
	anywhere
}

// Help is the longer help of the command.
func (emulateDynamoDBCmd) Help() string {
	return `It starts without tables. A server makes the table that it is started with:

  leasehold serve --store dynamodb --table leasehold --create-table --endpoint http://127.0.0.1:8000 --region local`
}

// Run emulates until the context ends.
func (c *emulateDynamoDBCmd) Run(ctx context.Context, s *streams) error {
	return emulateHTTP(ctx, s, c.Listen, c.anywhere, dynamodbtest.New(
		&dynamodbtest.Options{InsecureListenAnywhere: c.InsecureListenAnywhere}), func(url string) (export, try string) {
		return "AWS_ENDPOINT_URL_DYNAMODB=" + url, "Serve from it, which makes the table:\n\n" +
			"  leasehold serve --store dynamodb --table leasehold --create-table"
	})
}

type emulateSQSCmd struct {
	Listen string   `default:"127.0.0.1:9324" placeholder:"HOST:PORT" help:"Address to listen on (default ${default}). Port 0 takes a free one."`
	Queue  []string `default:"analyses" placeholder:"NAME" help:"Queue that exists from the start; may be repeated (default ${default}). Its URL is http://HOST:PORT/000000000000/NAME."`
	anywhere
}

// Run emulates until the context ends.
func (c *emulateSQSCmd) Run(ctx context.Context, s *streams) error {
	server := sqstest.New(&sqstest.Options{InsecureListenAnywhere: c.InsecureListenAnywhere})
	for _, name := range c.Queue {
		if err := server.CreateQueue(name); err != nil {
			return usage("--queue: %w", err)
		}
	}
	return emulateHTTP(ctx, s, c.Listen, c.anywhere, server, func(url string) (export, try string) {
		queue := url + "/000000000000/" + c.Queue[0]
		return "AWS_ENDPOINT_URL_SQS=" + url + " LEASEHOLD_QUEUE_URL=" + queue,
			fmt.Sprintf(`Send a message, with the AWS command line or with curl:

  aws sqs send-message --endpoint-url %[1]s --queue-url %[2]s --message-body '{"analysisId":"a1"}'

  curl -s --aws-sigv4 aws:amz:local:sqs --user local:local -H 'Content-Type: application/x-amz-json-1.0' \
    -H 'X-Amz-Target: AmazonSQS.SendMessage' %[1]s -d '{"QueueUrl":"%[2]s","MessageBody":"{\"analysisId\":\"a1\"}"}'`, url, queue)
	})
}

// emulateHTTP serves an emulator of an AWS service until the context ends. next returns the variables of its clients
// and what to try.
func emulateHTTP(
	ctx context.Context, s *streams, listen string, where anywhere, h http.Handler,
	next func(url string) (export, try string),
) error {
	if err := where.check(listen, s); err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w; choose another address with --listen", listen, err)
	}
	server := httpapi.Server(h, slog.New(slog.NewTextHandler(s.err, nil)), httpapi.MaxConnections)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	url := "http://" + fromHere(l.Addr().String())
	export, try := next(url)
	fmt.Fprintf(s.out, `listening on %s

  export %s
  export AWS_REGION=local AWS_DEFAULT_REGION=local AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local

%s

Stop with Ctrl-C.
`, url, export, try)
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
	return server.Close() // requests that wait for messages
}

type emulateCloudTasksCmd struct {
	Listen string   `default:"127.0.0.1:8123" placeholder:"HOST:PORT" help:"Address to listen on (default ${default}). Port 0 takes a free one."`
	Queue  []string `default:"projects/demo/locations/local/queues/analyses" placeholder:"NAME" help:"Queue that exists from the start; may be repeated (default ${default})."`
	anywhere
}

// Run emulates until the context ends.
func (c *emulateCloudTasksCmd) Run(ctx context.Context, s *streams) error {
	if err := c.check(c.Listen, s); err != nil {
		return err
	}
	server, err := cloudtaskstest.Listen(c.Listen, &cloudtaskstest.Options{
		Queues: c.Queue, Log: slog.New(slog.NewTextHandler(s.err, nil)), InsecureListenAnywhere: c.InsecureListenAnywhere,
	})
	if err != nil {
		return fmt.Errorf("%w; choose another address with --listen", err)
	}
	fmt.Fprintf(s.out,
		"listening on %[1]s\n\n  export CLOUD_TASKS_EMULATOR_HOST=%[1]s LEASEHOLD_TASK_ISSUER=%[2]s LEASEHOLD_TASK_QUEUE=%[3]s\n\nStop with Ctrl-C.\n",
		fromHere(server.Addr()), server.Issuer(), c.Queue[0])
	<-ctx.Done()
	return server.Close()
}
