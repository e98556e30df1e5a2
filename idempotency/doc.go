// Package idempotency makes HTTP requests with the header Idempotency-Key take effect once: a middleware for net/http,
// on the gate of package once.
//
//	// c is a client of a server; or direct.Runs, on a store
//	m, err := idempotency.New(c.Runs("shop"), account, &idempotency.Options{Name: "payments"})
//	mux.Handle("POST /payments", m.Wrap(payments))
//
// The first request with a key runs the handler. Its response is stored and then sent, and every later request with the
// key gets that response. A request that arrives while the handler runs waits for the response.
//
//	request ──▶ begin ──┬─ granted ──▶ handler ──┬─ responds, or panics ──▶ stored ──▶ sent
//	                    │                        ├─ 409, 503 with Retry-After, 425, 429, NothingDone ──▶ sent; the key is free
//	                    │                        └─ its lock went to another one ──▶ that one's response, if there is one
//	                    ├─ finished ──▶ the stored response, with Idempotency-Replayed: true
//	                    ├─ another payload ──▶ 422
//	                    ├─ running ──▶ wait for the response; after Options.Wait 409, with Retry-After
//	                    └─ the gate does not respond ──▶ 503
//
// # Who decides
//
// The gate does, in one conditional write for each begin and each end. A run is held by a lock that is refreshed while
// the handler works. If its process dies, the lock expires after Options.TTL, and the next request with the key runs
// the handler again. What a handler that was only stopped still wants to write can be refused by the fencing token in
// its context (fence.From).
//
// # What can go wrong
//
// A handler that died may have taken effect before it did: the next run repeats it, unless what it writes to refuses
// that. If the handler has done its work and the gate is away for ten seconds or until the lock expires, the response
// is sent all the same, Options.Warn says so, and it is stored when the gate is back: a retry at another process that
// comes before that runs the handler again. A process that ends asks for what is left: [Middleware.Shutdown]. A process
// that was stopped, or cut off, for longer than its lock lasts still has its response stored if no other one took over.
// A gate that does not respond means 503, within two seconds if it refuses connections and within three otherwise, and
// the handler does not run.
//
// A caller that hangs up does not stop the handler: its retry finds the response. A deadline of the request's context
// does.
//
// # What is stored
//
// A handler that returns and wrote nothing is a failed one: see [ErrNoResponse].
//
// What came of a handler that began, also 5xx and a panic, unless it says that nothing was done: see
// [StoreOutcome], [NothingDone] and [StoreSuccess]. The status, the body and chosen header fields, 256 KiB in all.
// Of a response that is larger, only the status is: the first caller gets it whole, and later ones get 409 with the
// code IDEMPOTENT_RESPONSE_NOT_STORED. The middleware holds responses in memory until they are stored, so that
// handlers cannot stream, hijack the connection or send trailers. docs/guides/idempotency.md has the details.
package idempotency
