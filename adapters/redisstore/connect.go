package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	sdk "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/leasehold-dev/leasehold/internal/conns"
)

// settings are those of a client, whose connections are in the set. Errors do not show the address, for a password may
// be in it.
func (o *Options) settings(set *conns.Set) (*sdk.Options, error) {
	c := &sdk.Options{Addr: o.Addr}
	if o.Addr == "" {
		c.Addr = DefaultAddr
	}
	if o.SentinelMaster != "" {
		for addr := range strings.SplitSeq(o.Addr, ",") {
			if host, _, err := net.SplitHostPort(addr); err != nil || strings.ContainsAny(host, "/@ ") {
				return nil, errors.New("redis: with SentinelMaster, Addr must be the host:port of Sentinels, such as " +
					"10.0.0.1:26379,10.0.0.2:26379")
			}
		}
	} else if o.SentinelUsername != "" || o.SentinelPassword != "" {
		return nil, errors.New("redis: a user or password of Sentinels needs the name of their master")
	} else if strings.Contains(o.Addr, "://") {
		var err error
		if c, err = sdk.ParseURL(o.Addr); err != nil {
			return nil, errors.New(
				"redis: Addr is no URL like redis://user:password@host:6379/0 (rediss:// for TLS, unix:// for a socket); " +
					"write special characters of the password as %XX")
		}
	} else if host, _, err := net.SplitHostPort(c.Addr); err != nil || strings.ContainsAny(host, "/@") {
		return nil, errors.New("redis: Addr must be host:port, such as " + DefaultAddr +
			", or a URL like redis://user:password@host:6379/0")
	}
	if o.DB < 0 || c.DB < 0 {
		return nil, errors.New("redis: DB must be the number of a database, 0 or greater")
	}
	if o.Username != "" {
		c.Username = o.Username
	}
	if o.Password != "" {
		c.Password = o.Password
	}
	if o.PasswordNow != nil {
		user := c.Username
		c.CredentialsProviderContext = func(context.Context) (string, string, error) { return user, o.PasswordNow(), nil }
	}
	if o.TLS != nil {
		c.TLSConfig = o.TLS
	}
	if o.DB != 0 {
		c.DB = o.DB
	}
	if c.DialTimeout <= 0 { // the URL may name others
		c.DialTimeout = conns.TryTimeout
	}
	if c.ReadTimeout == 0 {
		c.ReadTimeout = conns.TryTimeout
	}
	c.Dialer = dialer(set, c, o.dial)
	c.ContextTimeoutEnabled = true
	c.DialerRetries = 1 // the store has its own rules for retrying
	c.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return c, nil
}

// followSentinels is a client of the server that the Sentinels say is the primary.
func (o *Options) followSentinels(c *sdk.Options) *sdk.Client {
	client := sdk.NewFailoverClient(&sdk.FailoverOptions{
		MasterName: o.SentinelMaster, SentinelAddrs: strings.Split(c.Addr, ","),
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		Username: c.Username, Password: c.Password, CredentialsProviderContext: c.CredentialsProviderContext,
		DB: c.DB, TLSConfig: c.TLSConfig,
		DialTimeout: c.DialTimeout, ReadTimeout: c.ReadTimeout, Dialer: c.Dialer, OnConnect: c.OnConnect,
		ContextTimeoutEnabled: true, DialerRetries: 1,
	})
	client.AddHook(dialing{})
	return client
}

// errDial is the error of a connection that could not be made, or of the question to Sentinels where to.
var errDial = errors.New("no connection could be made")

// dialing marks the errors of connections that could not be made: nothing was sent.
type dialing struct{}

// DialHook implements [sdk.Hook].
func (dialing) DialHook(next sdk.DialHook) sdk.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errDial, err)
		}
		return conn, nil
	}
}

// ProcessHook implements [sdk.Hook].
func (dialing) ProcessHook(next sdk.ProcessHook) sdk.ProcessHook { return next }

// ProcessPipelineHook implements [sdk.Hook].
func (dialing) ProcessPipelineHook(next sdk.ProcessPipelineHook) sdk.ProcessPipelineHook { return next }

// dialer makes connections that are in the set, below TLS, if it is used: the library then asks the system whether the
// server has closed them. dial makes them instead of the system, if it is not nil.
func dialer(set *conns.Set, c *sdk.Options, dial conns.Dial) conns.Dial {
	if dial == nil {
		dial = (&net.Dialer{Timeout: c.DialTimeout}).DialContext
	}
	dial = set.Track(dial)
	if c.TLSConfig == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, c.DialTimeout)
		defer cancel()
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		config := c.TLSConfig
		if config.ServerName == "" {
			config = config.Clone()
			config.ServerName, _, _ = net.SplitHostPort(address)
		}
		secured := tls.Client(raw, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Addr: raw.RemoteAddr(), Err: errors.Join(err, raw.Close())}
		}
		return secured, nil
	}
}

// useCluster replaces the client of one member by one of its whole cluster.
func (s *Store) useCluster() error {
	member, ok := s.client.(*sdk.Client)
	if !ok || !s.owned {
		return nil // a client of the caller's has its own settings
	}
	o := member.Options()
	s.client = sdk.NewClusterClient(&sdk.ClusterOptions{
		Addrs: []string{o.Addr}, Dialer: o.Dialer, OnConnect: o.OnConnect, Username: o.Username, Password: o.Password,
		CredentialsProviderContext: o.CredentialsProviderContext, TLSConfig: o.TLSConfig,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		PoolSize: o.PoolSize, PoolTimeout: o.PoolTimeout, MinIdleConns: o.MinIdleConns, MaxIdleConns: o.MaxIdleConns,
		MaxActiveConns: o.MaxActiveConns, ConnMaxIdleTime: o.ConnMaxIdleTime, ConnMaxLifetime: o.ConnMaxLifetime,
		ContextTimeoutEnabled: true, DialerRetries: 1, MaintNotificationsConfig: o.MaintNotificationsConfig,
	})
	if err := member.Close(); err != nil {
		return fmt.Errorf("redis: close the first connection with %s: %w", s.addr, err)
	}
	return nil
}

// servers are clients of those that hold the documents: in a cluster, the primaries of their slots.
func (s *Store) servers(ctx context.Context) ([]sdk.UniversalClient, error) {
	cluster, ok := s.client.(*sdk.ClusterClient)
	if !ok {
		return []sdk.UniversalClient{s.client}, nil
	}
	var found []sdk.UniversalClient
	for _, of := range s.keys.shards {
		c, err := cluster.MasterForKey(ctx, of.root)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(found, sdk.UniversalClient(c)) {
			found = append(found, c)
		}
	}
	return found, nil
}
