package aws_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// A Lambda function of your own, with the work in Go. In its main the store is dynamodb.Open, the hider sqs.OpenHider,
// and the last lines are lambda.Start(worker).
func ExampleNewWorker() {
	ctx := context.Background()
	store := docstore.NewMemory(nil)
	_, err := store.Write(ctx, docstore.Write{
		Key: docstore.Key{Kind: analysis.Kind, ID: "a1"}, Set: docstore.Doc{"title": docstore.String("a video"),
			"lockToken": docstore.Int(0)},
	})
	if err != nil {
		log.Fatal(err)
	}

	worker, err := aws.NewWorker(&tasks.Worker{
		Gate: direct.Analyses(analysis.New(store, nil)),
		Work: func(_ context.Context, l once.Lock) (string, error) {
			fmt.Println("running", l.RunID, "with the fence", l.Token)
			return "s3://results/" + l.RunID, nil
		},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}

	event :=
		`{"Records":[{"messageId":"m1","receiptHandle":"r1","body":"{\"analysisId\":\"a1\"}","eventSource":"aws:sqs"}]}`
	for range 2 { // a queue delivers at least once
		response, err := worker.Invoke(ctx, []byte(event))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(strings.TrimSpace(string(response)))
	}
	// Output:
	// running a1 with the fence 1
	// {"batchItemFailures":[]}
	// {"batchItemFailures":[]}
}
