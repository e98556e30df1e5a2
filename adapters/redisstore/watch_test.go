package redisstore_test

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
)

// TestWatchOfAnotherStore: what another store writes is signalled, where the server can track it.
func TestWatchOfAnotherStore(t *testing.T) {
	t.Parallel()
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		o := redisstore.Options{Prefix: "shared"}
		if err := docstoretest.Watched(t.Context(), open(t, server, &o), open(t, server, &o), server.Real); err != nil {
			t.Error(err)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		server := redistest.StartCluster(t)
		o := redisstore.Options{Prefix: "shared", Shards: 2}
		if err := docstoretest.Watched(t.Context(), open(t, server, &o), open(t, server, &o), true); err != nil {
			t.Error(err)
		}
	})
}

// TestHandOvers: servers hand locks over to each other without reads by the clock.
func TestHandOvers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := redisstore.Options{Prefix: "shared"}
	suite.HandOvers(t, open(t, server, &o), open(t, server, &o), open(t, server, &o))
}

// TestWatchAsAUser: a user with the documented permissions, a password and a database of its own is told of changes.
func TestWatchAsAUser(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	if err := client(t, server).Do(t.Context(), "ACL", "SETUSER", "leasehold", "on", ">secret", "~{shared}:*",
		"~{shared/*", "+@string", "+@sortedset", "+@scripting", "+@connection", "+time", "+info",
		"+config|get").Err(); err != nil {
		t.Fatal(err)
	}
	o := redisstore.Options{Prefix: "shared", Addr: "redis://leasehold:secret@" + server.Addr() + "/3"}
	if err := docstoretest.Watched(t.Context(), open(t, server, &o), open(t, server, &o), true); err != nil {
		t.Error(err)
	}
}

// TestWatchAcrossAnOutage: while there is no connection the watch says that it does not know all changes, and there is
// a signal when it knows them again, because it may have missed one.
func TestWatchAcrossAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := redisstore.Options{Prefix: "shared"}
	here, there := open(t, server, &o), open(t, server, &o)
	w, err := here.Watch(t.Context(), key("a"))
	if err != nil {
		t.Fatal(err)
	}
	knows := func(want bool) {
		t.Helper()
		for w.Complete() != want {
			time.Sleep(time.Millisecond)
		}
	}
	<-w.Changed
	knows(true)
	admin := client(t, server)
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "default", "-client|tracking").Err(); err != nil {
		t.Fatal(err)
	}
	if err := admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	<-w.Changed
	knows(false)
	if _, err := there.Get(t.Context(), key("a")); err != nil { // it connects again
		t.Fatal(err)
	}
	if _, err := there.Write(t.Context(), docstore.Write{Key: key("a"), Add: map[string]int64{"n": 1}}); err != nil {
		t.Fatal(err)
	}
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "default", "+client|tracking").Err(); err != nil {
		t.Fatal(err)
	}
	<-w.Changed
	knows(true)
}
