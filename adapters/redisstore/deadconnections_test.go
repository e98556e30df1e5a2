package redisstore

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/internal/conns"
	"github.com/leasehold-dev/leasehold/internal/conns/connstest"
)

// obliging answers each command with OK, but the first of a connection, which it does not know.
func obliging(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		parts, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		name := ""
		for i := range 2 * parts { // each has its length before it
			text, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if i == 1 {
				name = strings.ToUpper(strings.TrimSpace(text))
			}
		}
		reply := "+OK\r\n"
		if name == "HELLO" {
			reply = "-ERR unknown command\r\n"
		}
		if _, err := fmt.Fprint(c, reply); err != nil {
			return
		}
	}
}

// TestDeadConnections: requests leave connections that have gone dead, whether they are sent alone or with those of
// others.
func TestDeadConnections(t *testing.T) {
	for name, of := range map[string]func(*Store) sender{
		"alone":       func(s *Store) sender { return s.alone },
		"with others": func(s *Store) sender { return (&line{client: s.client, conns: s.conns}).send },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := connstest.New()
				defer n.Close()
				go func() {
					for {
						c, err := n.Accept()
						if err != nil {
							return
						}
						go obliging(c)
					}
				}()
				s := &Store{conns: &conns.Set{}}
				settings, err := (&Options{Addr: "redis.example:6379", dial: n.Dial}).settings(s.conns)
				if err != nil {
					t.Fatal(err)
				}
				dial := settings.Dialer // of connections that the system does not know: the library must not ask it
				settings.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
					c, err := dial(ctx, network, address)
					return struct{ net.Conn }{c}, err
				}
				c := sdk.NewClient(settings)
				defer c.Close()
				s.client = c
				send := of(s)
				connstest.Calls(t, n, func() error {
					s.conns.Begin()
					_, err := s.retry(t.Context(), nil, func() (any, error) { return send(t.Context(), []any{"PING"}) })
					return err
				})
			})
		})
	}
}
