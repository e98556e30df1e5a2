// Package demo shows what Leasehold is for, live and on this machine: a page with worker processes that the reader
// freezes and kills, and scenes that check themselves. The page and the terminal show the same scenes.
//
//	leasehold demo, with a browser: [Run]              without: [Check]
//	  ├─ the API and the console, on the adapter         │
//	  │  of DynamoDB and its emulator in memory          │
//	  ├─ /demo/: the page, its buttons, the accounts     │
//	  ├─ three workers, each under one lock in turn      │
//	  └─ a button ─────────────▶ scenes ◀────────────────┘
//	                               └─ a server on the embedded store, and workers that contend, repeat themselves and die
//
// # Scenes
//
// A [scene] is what is done to processes, and what must hold. What it shows comes from the server's responses. What it
// checks comes from elsewhere: counters in the work itself, and the documents of the store. So it fails if the server
// lies.
//
// # The page
//
// Three processes pay into one account, kept twice: without a fence, and with one.
//
//	acquire ─▶ begin ─▶ work ─▶ read both accounts ─▶ write both ─▶ release
//
// A worker is frozen with SIGSTOP, at the moment that hurts: it holds the lock, and has read and not written yet. It is
// continued when no other is between its read and its write, and writes before another reads. So what the reader sees
// depends neither on luck nor on the speed of the machine. It is killed with SIGKILL, at once. An answer is lost by
// closing the connection after a write was carried out. Only the wrong clock is a number that the worker adds to its
// time.
//
// Both accounts trust the caller: they store the balance that it computed. Without a fence the write with the latest
// time wins, as in many stores. With it the fence of the API decides, and rejects a stale token; the account keeps the
// token beside the balance, and so knows a write that is sent again.
//
// # What can go wrong
//
// Who can press Freeze can stop three processes of this machine, which is all that the endpoints can do beside playing
// the scenes. They are for this machine and for the page's own origin, like the API of a server in development mode. A
// worker ends when its standard input does, so that none stays when this process is killed; one that is frozen cannot
// notice that, and package process says what the systems do with it.
package demo
