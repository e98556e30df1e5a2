// Package cloudtaskstest is an emulator of Cloud Tasks that runs inside a test: the gRPC API for the real client
// library, and the other half of the service, which delivers the tasks over HTTP, with tokens that verify, headers,
// retries, rate limits and faults on demand. It starts in a millisecond and needs nothing installed.
//
// It is experimental: any release may change or remove it.
//
//	s := cloudtasks.Start(t, nil)                                  // closes with the test
//	client, err := sdk.NewClient(ctx, s.ClientOptions()...)        // cloud.google.com/go/cloudtasks/apiv2
//	err = s.Idle(ctx)                                              // until everything was delivered, or given up
//	for _, a := range s.Attempts() { … }
//
// [Listen] starts one outside of tests; its [Server.Addr] is what CLOUD_TASKS_EMULATOR_HOST takes.
//
// # What is there
//
//   - queues: CreateQueue, GetQueue, PauseQueue, with rate limits and retry configuration; Options.Queues exist from
//     the start
//   - tasks: CreateTask, ListTasks on one page, for HTTP requests to this machine
//   - names: a task's name is rejected with ALREADY_EXISTS while the task lives and after it is gone (the service
//     forgets names after some time, the emulator never)
//   - delivery: schedule time, dispatch deadline, tokens of a service account
//
// Everything else, App Engine requests and OAuth tokens among it, is rejected with UNIMPLEMENTED and the name of the
// method or field; nothing is ignored in silence.
//
// # A task's life
//
//	CreateTask ─▶ waits ─schedule time─▶ waits for its turn ─▶ delivered ─ 2xx ─────────────────▶ gone
//	                ▲                     (queue running,         │
//	                │                      rate, concurrency)     ├─ anything else, or nothing
//	                │                                             │   before the deadline
//	                └────────────── backoff ◀─────────────────────┤
//	                                                              └─ attempts used up ──────────▶ gone
//
// The backoff is the queue's: min_backoff, doubled max_doublings times, then growing by the last step, max_backoff at
// most. System throttling, by which the service slows a queue down on 429, 503 and many errors, is not emulated.
//
// # Tokens
//
// A task with an OIDC token is delivered with one that the emulator signs. Its claims are those of Google's tokens,
// except for the issuer, which is [Server.Issuer]: a URL on this machine that publishes the keys, so that a worker that
// verifies tokens by discovery verifies these.
//
// # Faults
//
// [Server.Inject] takes a rule: which calls or deliveries, how many of them, and what they meet.
//
//	Fail           a call is rejected with an error, and nothing done
//	ApplyThenFail  a call is executed, and its response is an error: a lost response
//	DeliverTwice   a task is delivered by two requests at once, as the service does now and then
//	DeliverAgain   a task is delivered once more after it was acknowledged
//	LoseResponse     a response gets lost on its way back: the task comes again
//	CutOff         a delivery ends without a response when the test says so: the task comes again
//	ChangeToken    the claims of a token are changed before it is signed
//	NoToken        a task comes without its token
//
// [Server.Count] counts calls by method, retries included, and deliveries as "Dispatch".
//
// # Time
//
// Waiting is real time: give queues in tests a backoff of milliseconds. A task's deadline is 15 seconds at
// least; [CutOff] is for those that must not wait for it.
package cloudtaskstest
