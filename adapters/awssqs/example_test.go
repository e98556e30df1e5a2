package awssqs_test

import (
	"context"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/leasehold-dev/leasehold/adapters/awssqs"
	"github.com/leasehold-dev/leasehold/emulator/sqstest"
)

// One message, from a queue to a handler. A worker calls tasks.Worker.Deliver in it, and polls until its context ends.
// With SQS itself the first lines are sqs.Open.
func ExampleQueue_Poll() {
	ctx := context.Background()
	client := client("http://sqs.local", sqstest.New(nil).RoundTripper())
	created, err := client.CreateQueue(ctx, &sdk.CreateQueueInput{QueueName: aws.String("analyses")})
	if err != nil {
		log.Fatal(err)
	}
	queue, err := awssqs.New(ctx, client, aws.ToString(created.QueueUrl))
	if err != nil {
		log.Fatal(err)
	}

	if err := queue.Enqueue(ctx, "a1", "a1-first"); err != nil {
		log.Fatal(err)
	}
	err = queue.Poll(ctx, func(_ context.Context, d awssqs.Delivery) awssqs.Result {
		fmt.Printf("%s, delivery %d\n", d.Body, d.Receives)
		return awssqs.Result{Done: true}
	}, &awssqs.PollOptions{Most: 1})
	fmt.Println("ended:", err)
	// Output:
	// {"analysisId":"a1"}, delivery 1
	// ended: <nil>
}
