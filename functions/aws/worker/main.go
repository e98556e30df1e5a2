// Command worker is the Lambda function that stands at an SQS queue of analyses. This version of Leasehold has no
// analysis gate: the function runs nothing and hands every message back, so that a queue that is attached to it keeps
// its messages. It is built like the function api, and the queue's event source mapping must report batch item failures.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
)

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	lambda.Start(handBack)
}

// handBack names every message of a batch as failed: SQS shows it again when its visibility timeout is over. An event of
// another kind fails the invocation.
func handBack(ctx context.Context, batch events.SQSEvent) (events.SQSEventResponse, error) {
	var back events.SQSEventResponse
	for _, m := range batch.Records {
		if m.EventSource != "aws:sqs" || m.MessageId == "" {
			return events.SQSEventResponse{}, errors.New("the event is not a batch of SQS messages: attach this function to a queue")
		}
		back.BatchItemFailures = append(back.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: m.MessageId})
	}
	if len(back.BatchItemFailures) == 0 {
		return events.SQSEventResponse{}, errors.New("the event has no SQS messages: attach this function to a queue")
	}
	slog.ErrorContext(ctx, "this version has no analysis gate: the messages go back to the queue", "messages", len(back.BatchItemFailures))
	return back, nil
}
