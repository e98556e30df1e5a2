// Package sqstest is an Amazon SQS in memory for tests: it speaks the JSON protocol of the current AWS SDKs over HTTP,
// and it makes happen on purpose what a queue seldom does by itself.
//
// It is experimental: any release may change or remove it.
//
//	s := sqs.Start(t, nil)                        // closes with the test
//	client := sdk.New(sdk.Options{BaseEndpoint: &s.URL, Region: "eu-north-1", Credentials: anyStatic})
//
// A [Server] is an [net/http.Handler] too, for a listener of your own, and [Server.RoundTripper] connects a client to
// it without a network, inside a testing/synctest bubble for instance.
//
// # What is supported
//
// CreateQueue, GetQueueUrl, GetQueueAttributes, SetQueueAttributes, SendMessage, ReceiveMessage, DeleteMessage and
// ChangeMessageVisibility, with
//
//   - visibility time-outs of queue, receive and message, twelve hours at most from a receive;
//   - long polling, of a receive or of the queue;
//   - delays, retention, receive counts and the move to a dead-letter queue;
//   - FIFO queues: one order for each message group, a group that waits while one of its messages is in flight, and
//     deduplication for five minutes by ID or by content;
//   - receipt handles as strict as the service's documentation: only that of the latest receive deletes a message.
//
// # What is not
//
// Every other operation and member of a request is rejected with an error that says "emulator/sqstest does not
// support"; nothing is ignored. That holds for message attributes, batches, policies, tags and encryption. Signatures
// are required and not verified. Without a fault no message is delivered twice before its time, a standard queue keeps
// the order of sending, and counts are exact, all of which the service does not promise.
//
// # Time
//
// Everything goes by [Options].Now. Long polls wait on real timers for what that clock says is left; after moving a
// clock of your own, call [Server.Wake]. Inside a synctest bubble the default clock does the right thing.
//
// # Faults
//
// [Server.Inject] takes a rule, [Fault]: which requests, how many of them, and what happens. See [Kind] for what can.
// [Server.Count] and [Server.Requests] say how many requests reached the server, so that a test can assert what a thing
// costs.
package sqstest
