// Package oidc finds out who sent a request from the bearer token of an OpenID Connect issuer: it is the
// [httpapi.Identity] of a server that others can reach (LS-AUTH-001).
//
// # Who decides
//
// The issuer does. It signs tokens (JWT, RFC 7519) and publishes the public keys; this package believes a token that one
// of these keys verifies, that names this server as its audience, and whose time it is. Nothing else in a request
// says who sent it. The subject (sub) becomes the owner of leases, one claim is the tenant, one scope makes an
// administrator, another a worker.
//
//	Authorization: Bearer <token>
//	  ─▶ one header, at most 8 KiB, three parts, a signature algorithm with a public key
//	  ─▶ the issuer's key of that name ─▶ signature                              (go-oidc, on the keys of this package)
//	  ─▶ iss and aud ─▶ exp, nbf and iat, with leeway ─▶ sub ─▶ tenant ─▶ scopes
//	  ─▶ httpapi.Caller
//
// # Where the keys come from
//
// From the issuer's key set (JWKS, RFC 7517), read by the first request that needs it, so that a server starts while its
// issuer is down. What was read lives for the max-age that the issuer gave it: 15 minutes if it gave none, at least 1
// minute, at most 24 hours. No other part of Cache-Control is looked at.
//
//	          first token               half its life, by the next request
//	(nothing) ───────────▶ read ─▶ good ──────────────────────────────────▶ good, being read again
//	                         ▲      │ a token names an unknown key                  │
//	                         └──────┴───────────────────────────────────────────────┘
//
// Requests that wait for keys share one read, and a read begins at least 10 seconds after the one before it began,
// however many made-up key names arrive. A key that the issuer has removed is refused when the set that held it has been
// replaced, which is at the end of its life at the latest. A new key is accepted at once or, if the keys have
// just been read, up to 10 seconds later.
//
// # What can go wrong
//
// A token that cannot be believed is [httpapi.ErrUnauthenticated], with a sentence that says what to change: that it has
// expired, for whom it is, which claim is missing. Neither the token nor a part of its signature is ever in an error.
//
// If the keys cannot be read (the issuer is down, slow, or answers something else) the error is another one, and the door
// answers UNAVAILABLE: the caller did nothing wrong. Tokens signed with known keys stay valid meanwhile until the
// set's life ends. The next request after 10 seconds tries again; nothing has to be restarted.
package oidc
