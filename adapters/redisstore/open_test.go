package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestWarnings: what could take back an acknowledged write is said when the store is opened, and nothing else is.
func TestWarnings(t *testing.T) {
	safe := []string{"--appendonly", "yes", "--appendfsync", "always"}
	for name, c := range map[string]struct {
		args []string
		want []string // one for each warning
	}{
		"safe": {safe, nil},
		"everysec": {[]string{"--appendonly", "yes", "--appendfsync", "everysec"},
			[]string{"appendfsync is everysec"}},
		"no file": {nil, []string{"appendonly is no"}},
		"no sync": {[]string{"--appendonly", "yes", "--appendfsync", "no"}, []string{"appendfsync is no"}},
		"eviction": {append(safe, "--maxmemory-policy", "allkeys-lru"),
			[]string{"maxmemory-policy is allkeys-lru"}},
		"eviction of any": {append(safe, "--maxmemory-policy", "allkeys-random"),
			[]string{"maxmemory-policy is allkeys-random"}},
		"eviction of the rare": {append(safe, "--maxmemory-policy", "allkeys-lfu"),
			[]string{"maxmemory-policy is allkeys-lfu"}},
		"eviction of what ends": {append(safe, "--maxmemory-policy", "volatile-lru"), nil},
		"of what ends soon":     {append(safe, "--maxmemory-policy", "volatile-ttl"), nil},
		"replica":               {append(safe, "--replicaof", "127.0.0.1", "1"), []string{"is a replica"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, c.args...)
			got := open(t, server, nil).Warnings()
			if len(got) != len(c.want) {
				t.Fatalf("%q, want %q", got, c.want)
			}
			for i := range got {
				if !strings.Contains(got[i], c.want[i]) || !strings.Contains(got[i], server.Addr()) {
					t.Errorf("%q does not say %q of %s", got[i], c.want[i], server.Addr())
				}
			}
		})
	}
	t.Run("changed while it runs", func(t *testing.T) {
		server := redistest.Start(t, safe...)
		news := make(chan string, 10)
		s := open(t, server, &redisstore.Options{Warn: func(w string) { news <- w }})
		if w := s.Warnings(); len(w) != 0 {
			t.Errorf("%q", w)
		}
		admin := client(t, server)
		for setting, values := range map[string][3]string{
			"maxmemory-policy": {"allkeys-lfu", "maxmemory-policy is allkeys-lfu", "noeviction"},
			"appendfsync":      {"everysec", "appendfsync is everysec", "always"},
			"appendonly":       {"no", "appendonly is no", "yes"},
		} {
			if err := admin.ConfigSet(t.Context(), setting, values[0]).Err(); err != nil {
				t.Fatal(err)
			}
			for range 2 { // it is said once
				s.Look(t.Context())
			}
			if w := s.Warnings(); len(news) != 1 || len(w) != 1 || <-news != w[0] || !strings.Contains(w[0], values[1]) {
				t.Errorf("%s: warnings %q", setting, w)
			}
			if err := admin.ConfigSet(t.Context(), setting, values[2]).Err(); err != nil {
				t.Fatal(err)
			}
			s.Look(t.Context())
			if w := s.Warnings(); len(news) != 0 || len(w) != 0 {
				t.Errorf("%s, set back: warnings %q", setting, w)
			}
		}
		// Calls look by themselves.
		if err := admin.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), key("k")); err != nil || len(news) != 0 {
			t.Errorf("at once: %v", err)
		}
		s.LookAlways()
		if _, err := s.Get(t.Context(), key("k")); err != nil {
			t.Fatal(err)
		}
		select {
		case w := <-news:
			if !strings.Contains(w, "allkeys-lru") {
				t.Errorf("%q", w)
			}
		case <-time.After(time.Minute):
			t.Error("no call looked at the settings")
		}
	})
	t.Run("nothing could be checked", func(t *testing.T) {
		got := open(t, redistest.StandIn(t), nil).Warnings()
		if len(got) != 2 || !strings.Contains(got[0], "evicts keys could not be checked") ||
			!strings.Contains(got[1], "append-only file could not be checked") {
			t.Errorf("%q", got)
		}
	})
}

const secret = "hunter2!%"

// TestUsers: a user with too few rights is reported when the store is opened; one with the documented rights gets
// on.
func TestUsers(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	admin := client(t, server)
	for _, user := range [][]string{
		{"documented", "~{ours}:*", "+@string", "+@sortedset", "+@scripting", "+@connection", "+time",
			"+info", "+config|get"},
		{"unchecked", "~{ours}:*", "+@string", "+@sortedset", "+@scripting", "+@connection", "+time"},
		{"half", "~{ours}:*", "+@all", "-getdel", "-zadd"},
		{"elsewhere", "~other:*", "+@all"},
		{"reader", "~{ours}:*", "+@read", "+@connection"},
	} {
		args := []any{"ACL", "SETUSER", user[0], "on", ">" + secret}
		for _, rule := range user[1:] {
			args = append(args, rule)
		}
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := admin.ConfigSet(t.Context(), "requirepass", secret).Err(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		o    redisstore.Options
		want []string // of the error; nil for none
		warn int
	}{
		"documented":     {redisstore.Options{Username: "documented", Password: secret}, nil, 0},
		"by a URL":       {redisstore.Options{Addr: "redis://documented:hunter2!%25@" + server.Addr() + "/0"}, nil, 0},
		"unchecked":      {redisstore.Options{Username: "unchecked", Password: secret}, nil, 2},
		"password alone": {redisstore.Options{Password: secret}, nil, 0},
		"half": {redisstore.Options{Username: "half", Password: secret},
			[]string{"may not run [GETDEL ZADD]", "+@string"}, 0},
		"elsewhere": {redisstore.Options{Username: "elsewhere", Password: secret}, []string{"NOPERM", "~{PREFIX}:*"},
			0},
		"reader":      {redisstore.Options{Username: "reader", Password: secret}, []string{"NOPERM", "+@scripting"}, 0},
		"no password": {redisstore.Options{}, []string{"NOAUTH", "set a user and a password"}, 0},
		"wrong password": {redisstore.Options{Username: "documented", Password: secret + "x"},
			[]string{"WRONGPASS", "not accepted"}, 0},
		"no such database": {redisstore.Options{Username: "documented", Password: secret, DB: 99},
			[]string{"there is no database"}, 0},
		"unknown user": {redisstore.Options{Username: "unknown", Password: secret}, []string{"WRONGPASS", "not accepted"},
			0},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.o
			o.Prefix = "ours"
			if o.Addr == "" {
				o.Addr = server.Addr()
			}
			s, err := redisstore.Open(t.Context(), &o)
			says(t, err, c.want)
			if err != nil {
				return
			}
			defer s.Close()
			if len(s.Warnings()) != c.warn || s.Addr() != server.Addr() {
				t.Errorf("%q on %s", s.Warnings(), s.Addr())
			}
			if _, err := s.Write(t.Context(), docstore.Write{Key: key(name), Set: docstore.Doc{"a": docstore.Int(1)},
				Unset: []string{"b"}}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPasswordThatIsReplaced: a store asks for the password at each connection, so that one that is replaced while it is
// open counts from the next connection on.
func TestPasswordThatIsReplaced(t *testing.T) {
	server := redistest.Start(t)
	admin := client(t, server)
	var password atomic.Value
	replace := func(text string) {
		t.Helper()
		password.Store(text)
		if err := admin.ConfigSet(t.Context(), "requirepass", text).Err(); err != nil {
			t.Fatal(err)
		}
		if err := admin.Do(t.Context(), "CLIENT", "KILL", "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
	}
	replace("first")
	s, err := redisstore.Open(t.Context(), &redisstore.Options{Addr: "redis://u:not-this@" + server.Addr(),
		Username: "default", PasswordNow: func() string { return password.Load().(string) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, text := range []string{"second", "third"} {
		replace(text)
		if _, err := s.Write(t.Context(), docstore.Write{Key: key("k"),
			Set: docstore.Doc{"a": docstore.Int(int64(i))}}); err != nil {
			t.Errorf("with the password %s: %v", text, err)
		}
	}
}

// says compares an error with the texts that it must have, none of them for no error, and with the one that it must
// not.
func says(t *testing.T, err error, want []string) {
	t.Helper()
	if (err != nil) != (want != nil) {
		t.Errorf("error %v, want %q", err, want)
	}
	for _, w := range want {
		if !strings.Contains(fmt.Sprint(err), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if strings.Contains(fmt.Sprint(err), "hunter2") {
		t.Errorf("%q shows the password", err)
	}
}

// TestOptionsThatCannotWork are rejected before anything is sent.
func TestOptionsThatCannotWork(t *testing.T) {
	brought := sdk.NewClient(&sdk.Options{})
	defer brought.Close()
	for name, c := range map[string]struct {
		o    redisstore.Options
		want string
	}{
		"prefix with a brace":   {redisstore.Options{Prefix: "a}b"}, "Prefix"},
		"prefix too long":       {redisstore.Options{Prefix: strings.Repeat("p", 65)}, "64 at most"},
		"no port":               {redisstore.Options{Addr: "localhost"}, "host:port"},
		"user in the address":   {redisstore.Options{Addr: "ann:hunter2@localhost:1"}, "host:port"},
		"another scheme":        {redisstore.Options{Addr: "http://ann:hunter2@localhost:1"}, "redis://"},
		"no database":           {redisstore.Options{Addr: "redis://ann:hunter2@localhost:1/hunter2"}, "redis://"},
		"a slash in a password": {redisstore.Options{Addr: "redis://:12/hunter2@localhost:1"}, "%XX"},
		"negative database":     {redisstore.Options{DB: -1}, "DB"},
		"negative, in a URL":    {redisstore.Options{Addr: "redis://localhost:1/-1"}, "DB"},
		"client and address":    {redisstore.Options{Client: brought, Addr: "localhost:1"}, "leave out Addr"},
		"client and TLS": {redisstore.Options{Client: brought, TLS: &tls.Config{MinVersion: tls.VersionTLS12}},
			"leave out Addr"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := redisstore.Open(ctx, &c.o)
			says(t, err, []string{"redis: ", c.want})
		})
	}
}

// TestClientBroughtAlong is used, with retries of its own switched on, and stays open.
func TestClientBroughtAlong(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		c := client(t, server)
		_, err := redisstore.Open(t.Context(), &redisstore.Options{Client: c})
		says(t, err, []string{"redis: Client", "OnConnect"})
		c.Options().OnConnect = onConnect(t, redisstore.DefaultPrefix)
		s, err := redisstore.Open(t.Context(), &redisstore.Options{Client: c})
		if err != nil {
			t.Fatal(err)
		}
		add := docstore.Write{Key: key("k"), Add: map[string]int64{"n": 1}}
		if _, err := s.Write(t.Context(), add); err != nil {
			t.Fatal(err)
		}
		server.Inject(redistest.LostResponse, "EVALSHA")
		if _, err := s.Write(t.Context(), add); !errors.Is(err, docstore.ErrUnavailable) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
		snap, err := s.Get(t.Context(), key("k"))
		if err != nil || !snap.Docs[0].Equal(docstore.Doc{"n": docstore.Int(2)}) {
			t.Errorf("%v, %v", snap.Docs, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Ping(t.Context()).Err(); err != nil {
			t.Errorf("the client was closed: %v", err)
		}
	})
}

// TestNobodyThere: neither an address where no one listens nor one where another caller does makes Open wait for long.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("SSH-2.0-x\r\n"))
			_ = c.Close()
		}
	}()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{closed.Addr().String(): "nothing was sent", l.Addr().String(): "no answer"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := redisstore.Open(ctx, &redisstore.Options{Addr: addr})
		cancel()
		if !errors.Is(err, docstore.ErrUnavailable) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
		says(t, err, []string{addr, want})
	}
}
