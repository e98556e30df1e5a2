// Package awsjson is what the emulators of AWS services have in common: servers of the protocol AWS JSON 1.0, a POST
// with JSON to the root whose header X-Amz-Target names the operation.
//
// [Serve] and [RoundTripper] connect clients to a server, with a network and without. A [Book] counts the requests and
// keeps the faults in force; [Wait] is for faults that take time. [Encode] and [Write] make the response.
//
// Each emulator decides for itself which operations there are, in which order a request is checked, what its errors
// look like and what a fault does: the services differ there, and so do their exported types.
package awsjson
