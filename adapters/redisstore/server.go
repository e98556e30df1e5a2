package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// OnConnect is what a client of [Options].Client must have as its OnConnect: with the first script of each connection
// the store looks whether the server is another than before, see server.lua. prefix and shards are those of [Options].
func OnConnect(prefix string, shards int) (func(context.Context, *sdk.Conn) error, error) {
	keys, err := newLayout(prefix, shards)
	if err != nil {
		return nil, err
	}
	s := &Store{keys: keys}
	s.opening.Store(true)
	return s.meet, nil
}

// looks reports whether a client that was brought along does something when it connects.
func looks(c sdk.UniversalClient) bool {
	switch c := c.(type) {
	case *sdk.Client:
		return c.Options().OnConnect != nil
	case *sdk.ClusterClient:
		return c.Options().OnConnect != nil
	default:
		return true // it is of the caller's own making
	}
}

// errUnmet is the error of a call that was not sent, because it could not be found out whether the server is another.
var errUnmet = errors.New("whether the server is another than before could not be found out")

// meet looks, with the first script of a connection, whether the server is another than the one on which the documents
// were: that may have forgotten writes, and counters go on from its time. So no grant needs to ask, whoever connects
// first. A failure ends the connection; while the store is opened, and for a shard on another member of a cluster, it
// is noted instead, and the next call on the shard asks again.
func (s *Store) meet(ctx context.Context, c *sdk.Conn) error {
	answers := make([]*sdk.Cmd, len(s.keys.shards))
	_, err := c.Pipelined(ctx, func(p sdk.Pipeliner) error {
		for i, of := range s.keys.shards {
			answers[i] = p.Do(ctx, s.which(of)...)
		}
		return nil
	})
	if _, answered := errors.AsType[sdk.Error](err); err != nil && !answered {
		return fmt.Errorf("%w: %w", errDial, err)
	}
	for i, of := range s.keys.shards {
		switch err := answers[i].Err(); {
		case err == nil, sdk.HasErrorPrefix(err, "unknown command"): // a Sentinel, which is asked for the server
		case s.opening.Load(), begins(err, elsewhere):
			of.unmet.Store(true)
		default:
			return fmt.Errorf("%w: %w: %w", errDial, errUnmet, err)
		}
	}
	return nil
}

// elsewhere are the errors of a member of a cluster that does not serve a shard.
var elsewhere = []string{"MOVED", "ASK", "CLUSTERDOWN", "TRYAGAIN"}

// which is the command that looks for a shard.
func (s *Store) which(of *shard) []any {
	at := ""
	if s.clock != nil {
		at = strconv.FormatInt(docstore.TruncateMilli(s.clock()).UnixMilli(), 10)
	}
	return []any{"EVAL", serverScript.text, 2, of.own, of.server, at}
}

// parts are the errors of a server that is not the primary now.
var parts = []string{"READONLY", "MASTERDOWN", "LOADING"}

// meeting is a sender that looks whether the server is another if that is not known, and after it was not the primary:
// the connection with it may still be there when it is again.
func (s *Store) meeting(of *shard, then sender) sender {
	return func(ctx context.Context, command []any) (any, error) {
		if of.unmet.Swap(false) {
			s.sent.Requests.Add(1)
			if _, err := send(ctx, s.client, s.which(of)); err != nil {
				of.unmet.Store(true)
				return nil, fmt.Errorf("%w: %w: %w", errDial, errUnmet, err)
			}
		}
		answer, err := then(ctx, command)
		if err != nil && begins(err, parts) {
			of.unmet.Store(true)
		}
		return answer, err
	}
}
