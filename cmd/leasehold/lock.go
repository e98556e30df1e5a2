package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
)

type lockCmd struct {
	remote

	Tenant string `default:"default" env:"LEASEHOLD_TENANT" help:"The tenant (${env}; default ${default})."`
	JSON   bool   `name:"json" help:"Print the server's response as JSON."`

	Acquire      acquireCmd      `cmd:"" help:"Take a lock."`
	Renew        renewCmd        `cmd:"" help:"Keep a lock for longer. Gives up after a quarter of the ttl."`
	Release      releaseCmd      `cmd:"" help:"Give a lock back."`
	ForceRelease forceReleaseCmd `cmd:"" help:"End another owner's lease (administrators)."`
	Get          getCmd          `cmd:"" help:"Look at a lock."`
	List         listCmd         `cmd:"" help:"List locks."`
}

// Help is the longer help of the command.
func (lockCmd) Help() string {
	return `In a script:

  token=$(leasehold lock acquire deploy-prod --owner ci-42 --ttl 60s --quiet) || exit
  …work, passing $token on to whatever can compare it…
  leasehold lock release deploy-prod --owner ci-42 --token "$token"

Exit codes: 0 done, 3 another owner holds the lock, 4 the lease is lost, expired or released: stop the work, 5 no such lock, 130 interrupted while waiting.`
}

// client is the client that the commands share.
func (c *lockCmd) client() (*client.Locks, error) {
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	server, err := client.New(c.Server, &client.Options{Token: token})
	if err != nil {
		return nil, usage("--server: %w", err)
	}
	return server.Locks(), nil
}

// remote is how to reach a server.
type remote struct {
	Server        string `default:"http://127.0.0.1:8080" env:"LEASEHOLD_SERVER" placeholder:"URL" help:"The server (${env}; default ${default})."`
	AuthTokenFile string `env:"LEASEHOLD_AUTH_TOKEN_FILE" type:"path" placeholder:"FILE" help:"File with the bearer token (${env}). LEASEHOLD_AUTH_TOKEN holds the token itself."`
}

// authenticated reports whether requests carry a token, which says who they are from.
func (r remote) authenticated() bool {
	return r.AuthTokenFile != "" || os.Getenv("LEASEHOLD_AUTH_TOKEN") != ""
}

// token is the source of the bearer token; nil if there is none.
func (r remote) token() (func(context.Context) (string, error), error) {
	token := os.Getenv("LEASEHOLD_AUTH_TOKEN")
	if r.AuthTokenFile != "" {
		b, err := os.ReadFile(r.AuthTokenFile)
		if err != nil {
			return nil, usage("--auth-token-file: %w", err)
		}
		token = strings.TrimSpace(string(b))
	}
	if token == "" {
		return nil, nil //nolint:nilnil // no token is no error
	}
	return func(context.Context) (string, error) { return token, nil }, nil
}

// owner is who acquires and releases locks.
type owner struct {
	Owner string `env:"LEASEHOLD_OWNER" placeholder:"NAME" help:"Who holds the lease (${env}); the default is user@host. With authentication: a suffix to the token's subject, by default none."`
}

// id is the owner_id to send. A server in development mode needs one; a token says it by itself.
func (o owner) id(c *lockCmd) string {
	if o.Owner != "" || c.authenticated() {
		return o.Owner
	}
	name, host := "someone", "somewhere"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

type requestID struct {
	RequestID string `placeholder:"ID" help:"Name of this command, to retry it after a lost response; the default is a new one."`
}

type ttl struct {
	TTL time.Duration `name:"ttl" default:"30s" help:"How long the lease lasts from now, in whole seconds (default ${default})."`
}

func (t ttl) seconds() (int64, error) {
	if t.TTL%time.Second != 0 {
		return 0, usage("--ttl %v: must be whole seconds", t.TTL)
	}
	return int64(t.TTL / time.Second), nil
}

type acquireCmd struct {
	Key string `arg:"" help:"The lock."`
	owner
	ttl
	requestID
	Metadata map[string]string `placeholder:"K=V" help:"Labels for people who look at the lock."`
	Wait     time.Duration     `help:"How long to wait for a lock that is held (default: not at all)."`
	Quiet    bool              `short:"q" help:"Print the fencing token and nothing else."`
}

// Run takes the lock, waiting if asked to.
func (c *acquireCmd) Run(ctx context.Context, l *lockCmd, s *streams) error {
	server, err := l.client()
	if err != nil {
		return err
	}
	seconds, err := c.seconds()
	if err != nil {
		return err
	}
	r := contracts.AcquireRequest{
		RequestID: c.RequestID, OwnerID: c.id(l), TTLSeconds: seconds, Metadata: c.Metadata,
	}
	if r.RequestID == "" {
		r.RequestID = client.NewRequestID()
	}
	lease, err := acquire(ctx, server, l.Tenant, c.Key, r, c.Wait, s.err)
	if err != nil {
		return l.outcome(err)
	}
	if c.Quiet {
		_, err := fmt.Fprintln(s.out, lease.FencingToken)
		return err
	}
	return show(s, l.JSON, lease, "%s of tenant %s is held by you until %s, fencing token %d\n",
		lease.LockKey, lease.TenantID, lease.ExpiresAt, lease.FencingToken)
}

// acquire retries until the lock is acquired, an error occurs or the wait is over: when the holder's lease expires, and at least
// every five seconds, because a holder may release early.
func acquire(
	ctx context.Context, server *client.Locks, tenant, key string, r contracts.AcquireRequest, wait time.Duration, progress io.Writer,
) (client.Lease, error) {
	until := time.Now().Add(wait)
	for holder := ""; ; {
		lease, err := server.Acquire(ctx, tenant, key, r)
		var e *contracts.Error
		switch {
		case err != nil && ctx.Err() != nil:
			abandon(ctx, server, tenant, key, r, err)
			return lease, interrupted(key)
		case err == nil || !errors.As(err, &e) || e.Code != contracts.CodeLockHeld:
			return lease, err
		}
		left := time.Until(until)
		if left <= 0 {
			return lease, err
		}
		if e.Owner != holder {
			holder = e.Owner
			fmt.Fprintf(progress, "%s of tenant %s is held by %s until %s; waiting for up to %v\n",
				key, tenant, holder, e.ExpiresAt.Format(contracts.TimeFormat), left.Round(time.Second))
		}
		pause := min(e.RetryAfter, 5*time.Second)
		pause = min(pause+rand.N(100*time.Millisecond+pause/10), left)
		select {
		case <-ctx.Done():
			return lease, interrupted(key)
		case <-time.After(pause):
		}
	}
}

// abandonTimeout is how long an interrupted command tries to release what it may have acquired.
const abandonTimeout = 5 * time.Second

// abandon releases what an interrupted acquire may have acquired. If that fails, the lease expires.
func abandon(ctx context.Context, server *client.Locks, tenant, key string, r contracts.AcquireRequest, err error) {
	if _, ok := errors.AsType[*client.UnknownOutcomeError](err); !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	_ = server.Abandon(ctx, tenant, key, r) // the interruption is what is reported
}

func interrupted(key string) error {
	return &exitError{exitInterrupted, fmt.Errorf("interrupted before %s was acquired", key)}
}

type renewCmd struct {
	Key   string `arg:"" help:"The lock."`
	Token int64  `required:"" help:"The lease's fencing token."`
	owner
	ttl
	requestID
}

// Run renews the lease.
func (c *renewCmd) Run(ctx context.Context, l *lockCmd, s *streams) error {
	server, err := l.client()
	if err != nil {
		return err
	}
	seconds, err := c.seconds()
	if err != nil {
		return err
	}
	// A renewal that takes as long as the lease is useless: it ends in time for another try.
	ctx, cancel := context.WithTimeout(ctx, max(c.TTL/4, time.Second))
	defer cancel()
	lease, err := server.Renew(ctx, l.Tenant, c.Key, contracts.RenewRequest{
		RequestID: c.RequestID, OwnerID: c.id(l), FencingToken: c.Token, TTLSeconds: seconds,
	})
	if err != nil {
		return l.outcome(err)
	}
	return show(s, l.JSON, lease, "%s of tenant %s is held by you until %s, fencing token %d\n",
		lease.LockKey, lease.TenantID, lease.ExpiresAt, lease.FencingToken)
}

type releaseCmd struct {
	Key   string `arg:"" help:"The lock."`
	Token int64  `required:"" help:"The lease's fencing token."`
	owner
	requestID
}

// Run releases the lock.
func (c *releaseCmd) Run(ctx context.Context, l *lockCmd, s *streams) error {
	server, err := l.client()
	if err != nil {
		return err
	}
	lease, err := server.Release(ctx, l.Tenant, c.Key, contracts.ReleaseRequest{
		RequestID: c.RequestID, OwnerID: c.id(l), FencingToken: c.Token,
	})
	if err != nil {
		return l.outcome(err)
	}
	return show(s, l.JSON, lease, "%s of tenant %s is free\n", lease.LockKey, lease.TenantID)
}

type forceReleaseCmd struct {
	Key     string `arg:"" help:"The lock."`
	Reason  string `required:"" help:"Why: kept in the lock and shown to its holder."`
	LeaseID string `placeholder:"ID" help:"End only this lease, as \"lock get --json\" shows it, never a later one."`
	owner
	requestID
}

// Run ends another owner's lease.
func (c *forceReleaseCmd) Run(ctx context.Context, l *lockCmd, s *streams) error {
	server, err := l.client()
	if err != nil {
		return err
	}
	lock, err := server.ForceRelease(ctx, l.Tenant, c.Key, contracts.ForceReleaseRequest{
		RequestID: c.RequestID, OwnerID: c.id(l), Reason: c.Reason, LeaseID: c.LeaseID,
	})
	if err != nil {
		return l.outcome(err)
	}
	return show(s, l.JSON, lock, "%s of tenant %s is free; %s held it\n", lock.LockKey, lock.TenantID, lock.OwnerID)
}

type getCmd struct {
	Key string `arg:"" help:"The lock."`
}

// Run shows a lock.
func (c *getCmd) Run(ctx context.Context, l *lockCmd, s *streams) error {
	server, err := l.client()
	if err != nil {
		return err
	}
	lock, err := server.Get(ctx, l.Tenant, c.Key)
	if err != nil {
		return l.outcome(err)
	}
	return show(s, l.JSON, lock, "%s", table([]contracts.Lock{lock}))
}

type listCmd struct {
	Prefix string `help:"Only locks whose key begins with this."`
	State  string `enum:",ACTIVE,RELEASED,EXPIRED" default:"" help:"Only locks in this state: ACTIVE, RELEASED or EXPIRED."`
}

// Run lists all locks, page by page. With --json it prints one lock a line.
func (c *listCmd) Run(ctx context.Context, l *lockCmd, s *streams) error {
	server, err := l.client()
	if err != nil {
		return err
	}
	q := client.LockQuery{Prefix: c.Prefix, State: contracts.State(c.State), PageSize: 1000}
	for shown := false; ; {
		page, err := server.List(ctx, l.Tenant, q)
		if err != nil {
			return l.outcome(err)
		}
		switch {
		case l.JSON:
			for _, lock := range page.Locks {
				if err := show(s, true, lock, ""); err != nil {
					return err
				}
			}
		case len(page.Locks) > 0:
			shown = true
			fmt.Fprint(s.out, table(page.Locks))
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			if !shown && !l.JSON {
				fmt.Fprintf(s.err, "no locks of tenant %s\n", l.Tenant)
			}
			return nil
		}
	}
}

// table is a page of locks for people.
func table(locks []contracts.Lock) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TENANT\tLOCK\tSTATE\tOWNER\tUNTIL")
	for _, l := range locks {
		until := l.ExpiresAt
		if l.ReleasedAt != "" {
			until = l.ReleasedAt
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.TenantID, l.LockKey, l.State, l.OwnerID, until)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// show prints a response: as one line of JSON, or in words.
func show(s *streams, asJSON bool, answer any, words string, args ...any) error {
	if asJSON {
		e := json.NewEncoder(s.out)
		e.SetEscapeHTML(false)
		return e.Encode(answer)
	}
	_, err := fmt.Fprintf(s.out, words, args...)
	return err
}

// outcome gives an error of the server its exit code, and names the tenant.
func (c *lockCmd) outcome(err error) error {
	var e *contracts.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.Code == contracts.CodeLockHeld {
		err = fmt.Errorf("%w by %s until %s", err, e.Owner, e.ExpiresAt.Format(contracts.TimeFormat))
	}
	err = fmt.Errorf("%w (tenant %s)", err, c.Tenant)
	switch e.Code {
	case contracts.CodeLockHeld:
		return &exitError{exitHeld, err}
	case contracts.CodeLeaseLost, contracts.CodeLeaseExpired, contracts.CodeLeaseReleased, contracts.CodeNotOwner, contracts.CodeLockNotHeld:
		return &exitError{exitGone, err}
	case contracts.CodeNotFound:
		return &exitError{exitMissing, err}
	case contracts.CodeInvalidArgument, contracts.CodeRequestIDReused:
		return &exitError{exitUsage, err}
	default:
		return err
	}
}
