// Package awssqs connects the run-once guard of analyses with Amazon SQS: the sweep puts analyses into a queue with
// [Queue.Enqueue], and [Queue.Poll] delivers messages to a worker in a container. A Lambda function receives its
// messages from the platform and needs only [Hider].
//
// # Who decides
//
// The lock of an analysis decides whether it runs, never the queue: SQS delivers at least once, and the lock rejects a
// second delivery while the first is handled. The queue decides when a message becomes visible again. Some things
// change that time:
//
//	receive ──▶ hidden ──── handler says done ─────────▶ deleted
//	              │ ▲
//	              │ └── each heartbeat: hidden for as long as the lock lasts
//	              ├──── retry after d ─────────────────▶ hidden for d, then visible
//	              ├──── stopping ──────────────────────▶ visible at once
//	              ├──── killed, or panicked ───────────▶ visible when the visibility timeout ends
//	              ├──── no retry can help ─────────────▶ sent to the dead-letter queue, and deleted
//	              └──── received too often ────────────▶ dead-letter queue
//
// # What can go wrong
//
// A queue that does not respond is polled again, with random pauses that grow to [MaxPause]. A message whose deletion
// was lost is delivered again and then acknowledged, because its analysis is finished. An expired receipt handle is
// only logged: another worker has the message. SQS hides a message for at most twelve hours from its receive; a longer
// run continues, and the lock rejects other deliveries of its message. When the process stops, it cancels the pending
// receive; a message in transit becomes visible again after [PollOptions].Visibility.
//
// # Fair queues
//
// With [Options].Tenant the messages of a standard queue name the tenant whose analysis it is, as their message group.
// SQS then delivers those of quiet tenants first while one tenant has many in flight or waiting. Receivers do nothing
// for it.
//
// # FIFO queues
//
// A queue whose name ends with ".fifo" gets the analysis ID as message group and the name of the call as deduplication
// ID. Its messages are received one by one, so that a redelivered one is not overtaken by the next of its group.
package awssqs
