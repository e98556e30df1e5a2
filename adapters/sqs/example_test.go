package sqs_test

import (
	"context"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/leasehold-dev/leasehold/adapters/sqs"
	emulator "github.com/leasehold-dev/leasehold/emulator/sqs"
)

// One message, from a queue to a handler. A worker calls tasks.Worker.Deliver in it, and polls until its context ends. With
// SQS itself the first lines are sqs.Open.
func ExampleQueue_Poll() {
	ctx := context.Background()
	client := client("http://sqs.local", emulator.New(nil).RoundTripper())
	created, err := client.CreateQueue(ctx, &sdk.CreateQueueInput{QueueName: aws.String("analyses")})
	if err != nil {
		log.Fatal(err)
	}
	queue, err := sqs.New(ctx, client, aws.ToString(created.QueueUrl))
	if err != nil {
		log.Fatal(err)
	}

	if err := queue.Enqueue(ctx, "a1", "a1-first"); err != nil {
		log.Fatal(err)
	}
	err = queue.Poll(ctx, func(_ context.Context, d sqs.Delivery) sqs.Result {
		fmt.Printf("%s, delivery %d\n", d.Body, d.Receives)
		return sqs.Result{Done: true}
	}, &sqs.PollOptions{Most: 1})
	fmt.Println("ended:", err)
	// Output:
	// {"analysisId":"a1"}, delivery 1
	// ended: <nil>
}
