// Package oidc finds out who sent a request from the bearer token of an OpenID Connect issuer: it is the
// [httpapi.Identity] of a server that other machines can reach.
//
// # Who decides
//
// The issuer decides. It signs tokens (JWT, RFC 7519) and publishes the public keys. This package accepts a token that
// one of these keys verifies, that names this server as its audience and that is valid now. Nothing else in a request
// identifies the caller. The subject (sub) becomes the owner of leases, one claim is the tenant, one scope makes an
// administrator, another a worker.
//
//	Authorization: Bearer <token>
//	  ─▶ one header, at most 32 KiB, three parts, a signature algorithm with a public key
//	  ─▶ the issuer's key of that name ─▶ signature                              (go-oidc, on the keys of this package)
//	  ─▶ iss and aud ─▶ exp, nbf and iat, with leeway ─▶ sub ─▶ tenant ─▶ scopes
//	  ─▶ httpapi.Caller
//
// # Keys
//
// Keys are read from the issuer's key set (JWKS, RFC 7517) by the first request that needs them, so that a server
// starts while its issuer is down. A set is used for the max-age of its response: 15 minutes if there is none, at least
// 1 minute, at most 24 hours. Other parts of Cache-Control are ignored.
//
//	          first token               half its life, by the next request
//	(nothing) ───────────▶ read ─▶ good ──────────────────────────────────▶ good, being read again
//	                         ▲      │ a token names an unknown key, or              │
//	                         │      │ its signature is not by the key of its name   │
//	                         └──────┴───────────────────────────────────────────────┘
//
// Of a key only those members are read that verification needs. Why a key is not used, the log says.
//
// Requests that wait for keys share one read, and reads start at least 10 seconds apart, however many invented key
// names and wrong signatures arrive. Keys age on the monotonic clock and the wall clock at once, whichever is ahead: an
// instance of a function that was frozen may find that the former stood still. A key that the issuer has removed is
// rejected once its set has been replaced, which is at the end of the set's life at the latest. A new key is accepted
// at once or, if the keys have just been read, up to 10 seconds later.
//
// # Errors
//
// A token that is not accepted is [httpapi.ErrUnauthenticated], with a sentence that says what to change: it has
// expired, it is for another audience, a claim is missing. An error never contains the token or a part of its
// signature.
//
// If the keys cannot be read (the issuer is down, slow, or sends something else) the error is another one, and the HTTP
// API responds UNAVAILABLE. Tokens signed with known keys stay valid until the end of the set's life. The next request
// after 10 seconds tries again; no restart is needed. If it would not pass by itself (the issuer is another one than
// the settings say, or none of its keys can be used) the error is [httpapi.ErrMisconfigured], and the API responds
// INTERNAL, which is not tried again.
package oidc
