// Package awssqs is Amazon SQS at both ends of the analysis gate: [Queue.Enqueue] is where the sweep puts analyses, and
// [Queue.Poll] takes messages to a worker in a container. A Lambda function gets its messages from the platform and needs
// [Hider] alone.
//
// # Who decides
//
// Whether an analysis runs is the gate's business, never the queue's: SQS delivers at least once, and a message that is seen
// twice at once is refused by the lock. The queue decides when a message is seen again. Three things move that time:
//
//	receive ──▶ hidden ──── handler says done ─────────▶ deleted
//	              │ ▲
//	              │ └── each heartbeat: hidden for as long as the lock lasts
//	              ├──── "come again after d" ──────────▶ hidden for d, then seen again
//	              ├──── stopping: handed back ─────────▶ seen again at once
//	              ├──── killed, or panicked ───────────▶ seen again when the time is over
//	              └──── received too often ────────────▶ dead-letter queue
//
// # What can go wrong
//
// A queue that does not answer is asked again, with pauses that grow to [MaxPause] and are drawn at random. A message whose
// deletion got lost comes again and is acknowledged then, for its analysis is finished. A receipt handle that has expired is
// logged, no more: somebody else has the message. SQS hides a message for twelve hours from its receive at most; a run
// that lasts longer goes on, and its message is seen by others, whom the lock refuses. When the process stops, the request
// that waits for messages is given up, and a message that was on its way then is seen again after [PollOptions].Visibility.
//
// # FIFO queues
//
// A queue whose name ends with ".fifo" gets the analysis ID as message group and the name of the call as deduplication ID. Its
// messages are received one by one, so that one that comes again is not overtaken by the next of its group.
package awssqs
