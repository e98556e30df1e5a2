// Package redistest starts Redis servers for tests: the real one where redis-server is installed, and everywhere an
// in-process stand-in (github.com/alicebob/miniredis), so that tests need nothing but Go.
//
// It is experimental: any release may change or remove it.
//
//	redis.Each(t, nil, func(t *testing.T, server *redis.Server) {
//		store := open(t, server.Addr())
//		…
//	})
//
// The real server decides what is right; the stand-in shows on every machine that nothing is broken. It has no CONFIG,
// no ACL and no settings, and its scripts know no flags (a line like "#!lua flags=allow-oom" is taken out on the way).
//
// Both are behind a proxy on a free loopback port, which counts commands and lets a test decide what becomes of the
// next one: its request or its response is lost, it is executed and an error is returned, or it is executed late.
package redistest
