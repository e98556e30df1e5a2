package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

type lockCmd struct {
	inTenant

	Run          lockRunCmd      `cmd:"" help:"Run a command while a lock is held."`
	Acquire      acquireCmd      `cmd:"" help:"Take a lock."`
	Renew        renewCmd        `cmd:"" help:"Keep a lock for longer. Gives up after a quarter of the ttl."`
	Release      releaseCmd      `cmd:"" help:"Give a lock back."`
	ForceRelease forceReleaseCmd `cmd:"" help:"End another owner's lease (administrators)."`
	Get          getCmd          `cmd:"" help:"Look at a lock."`
	List         listCmd         `cmd:"" help:"List the locks that are held, or others."`
}

// Help is the longer help of the command.
func (lockCmd) Help() string {
	return `To run a command under a lock, which is renewed meanwhile:

  leasehold lock run deploy-prod -- ./deploy.sh

Step by step, in a script:

  token=$(leasehold lock acquire deploy-prod --owner ci-42 --ttl 60s --quiet) || exit
  …work, passing $token on to whatever can compare it…
  leasehold lock release deploy-prod --owner ci-42 --token "$token"

One at a time holds a lock. Readers and a writer, three at a time, ten a minute, a line of those who wait, the latest that takes over, several locks at once: flags of "lock run", whose help shows each.

Who holds a lock and who waits for it, with their places, and how the last leases ended:

  leasehold lock get deploy-prod

Exit codes: 0 done, 3 the lock is held, or too many wait for it, 4 the lease is lost, expired or released: stop the work, 5 no such lock, 130 interrupted; those of "lock run" are in its help. With --json an error is a JSON object on standard error, with its code and exit_code.`
}

// owner is who acquires and releases locks.
type owner struct {
	Owner string `env:"LEASEHOLD_OWNER" placeholder:"NAME" help:"Who holds the lease (${env}); the default is user@host. With authentication: a suffix to the token's subject, by default none."`
}

// id is the owner_id to send. A server in development mode needs one; a token says it by itself. The default is the
// same for all commands of a user on a machine, so that one can release what another acquired.
func (o owner) id(c remote) string {
	if o.Owner != "" || c.authenticated() {
		return o.Owner
	}
	return userAtHost()
}

// ofProcess is the owner_id of a command that releases what it acquired: the default tells those of one user on a
// machine apart.
func (o owner) ofProcess(c remote) string {
	if o.Owner != "" || c.authenticated() {
		return o.Owner
	}
	return userAtHost() + ":" + strconv.Itoa(os.Getpid())
}

func userAtHost() string {
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
	TTL time.Duration `name:"ttl" default:"30s" help:"How long the lease lasts from now, in whole seconds from 1s to 24h (default ${default})."`
}

func (t ttl) seconds() (int64, error) {
	const longest = lock.MaxTTLSeconds * time.Second
	if t.TTL < time.Second || t.TTL > longest || t.TTL%time.Second != 0 {
		return 0, usage("--ttl %v: must be whole seconds from 1s to 24h, such as 30s or 5m", t.TTL)
	}
	return int64(t.TTL / time.Second), nil
}

type acquireCmd struct {
	Key string `arg:"" help:"The lock."`
	owner
	ttl
	lockMode
	requestID
	Metadata map[string]string `placeholder:"K=V" help:"Labels for people who look at the lock."`
	Wait     time.Duration     `help:"How long to wait for a lock that is held (default: not at all)."`
	Quiet    bool              `short:"q" help:"Print the fencing token and nothing else."`
}

// Run takes the lock, waiting if asked to.
func (c *acquireCmd) Run(ctx context.Context, l *lockCmd, s *streams) error {
	server, err := l.locks()
	if err != nil {
		return err
	}
	r := contracts.AcquireRequest{RequestID: cmp.Or(c.RequestID, client.NewRequestID()), OwnerID: c.id(l.remote),
		Metadata: c.Metadata}
	if err := c.into(&r, c.ttl, c.Wait > 0, l.Tenant, c.Key); err != nil {
		return err
	}
	progress := s.err
	if l.JSON {
		progress = io.Discard // standard error has JSON only
	}
	lease, err := acquire(ctx, server, l.Tenant, c.Key, r, c.Wait, progress)
	if err != nil {
		return l.outcome(err)
	}
	if c.Quiet {
		_, err := fmt.Fprintln(s.out, lease.FencingToken)
		return err
	}
	if lease.Mode == contracts.LockModeRate {
		return show(s, l.JSON, lease, "%s of tenant %s is granted to you, fencing token %d\n", lease.LockKey, lease.TenantID,
			lease.FencingToken)
	}
	permit := ""
	if lease.Permit > 0 {
		permit = fmt.Sprintf("permit %d of ", lease.Permit)
	}
	return show(s, l.JSON, lease, "%s%s of tenant %s is held by you until %s, fencing token %d\nrelease it with: %s\n",
		permit, lease.LockKey, lease.TenantID, lease.ExpiresAt, lease.FencingToken, c.releaseCommand(l, lease))
}

// releaseCommand is the command that releases a lease, for the same shell: it repeats the flags that this one was
// given, and leaves to the variables what they say.
func (c *acquireCmd) releaseCommand(l *lockCmd, lease client.Lease) string {
	server := l.Server
	if u, err := url.Parse(server); err == nil && u.User != nil && os.Getenv("LEASEHOLD_SERVER") != server {
		server = u.Redacted() // no password in what may end in a log
	}
	command := []string{"leasehold lock release", shellWord(lease.LockKey), fmt.Sprintf("--token %d", lease.FencingToken)}
	for _, f := range []struct{ name, value, variable, usual string }{
		{"tenant", l.Tenant, "LEASEHOLD_TENANT", "default"},
		{"owner", c.Owner, "LEASEHOLD_OWNER", ""},
		{"server", server, "LEASEHOLD_SERVER", defaultServer},
		{"auth-token-file", l.AuthTokenFile, "LEASEHOLD_AUTH_TOKEN_FILE", ""},
	} {
		if f.value != cmp.Or(os.Getenv(f.variable), f.usual) {
			command = append(command, "--"+f.name, shellWord(f.value))
		}
	}
	return strings.Join(command, " ")
}

// shellWord is a word as a POSIX shell reads it.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:@%+,=", r))
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// acquire asks for the lock until it is acquired, an error occurs or the wait is over: once without a wait, so that it
// is said who holds it, and then with one, which the server does.
func acquire(
	ctx context.Context, server *client.LockAPI, tenant, key string, r contracts.AcquireRequest, wait time.Duration,
	progress io.Writer,
) (client.Lease, error) {
	until := time.Now().Add(wait)
	for said := ""; ; {
		begin := time.Now()
		lease, err := server.Acquire(ctx, tenant, key, r)
		e, _ := errors.AsType[*contracts.Error](err)
		closed := e != nil && (e.Code == contracts.CodeLockHeld || e.Code == contracts.CodeLockDelayed)
		crowded := e != nil && e.Code == contracts.CodeOverloaded && r.WaitSeconds > 0
		left := time.Until(until)
		switch {
		case err != nil && ctx.Err() != nil:
			abandon(ctx, server, tenant, key, r, err)
			return lease, interrupted(key)
		case !closed && !crowded:
			return lease, err
		case left <= 0:
			abandon(ctx, server, tenant, key, r, err)
			return lease, err
		case closed && waitsFor(e) != said:
			said = waitsFor(e)
			fmt.Fprintf(progress, "%s; waiting for up to %v\n", heldBy(key, tenant, e), left.Round(time.Second))
		}
		pause := time.Duration(0)
		// the server does not wait as it was asked to
		if crowded || time.Since(begin) < time.Duration(r.WaitSeconds)*time.Second/2 {
			pause = min(e.RetryAfter, 5*time.Second)
			pause = min(pause+rand.N(100*time.Millisecond+pause/10), left)
		}
		if closed && e.PollAfter > 0 { // it says when
			pause = min(e.PollAfter, left)
		}
		select {
		case <-ctx.Done():
			abandon(ctx, server, tenant, key, r, err)
			return lease, interrupted(key)
		case <-time.After(pause):
		}
		if r.WaitSeconds = 0; !crowded {
			r.WaitSeconds = int64(min(max(0, time.Until(until))+time.Second-1, lock.MaxWaitSeconds*time.Second) / time.Second)
		}
	}
}

// waitsFor is what a command waits for: when that changes, it says so again. Neither renewals of the holder nor grants
// of a rate to others change it.
func waitsFor(e *contracts.Error) string {
	if e.ExpiresAt.IsZero() {
		return fmt.Sprint(e.Code, e.Position)
	}
	return fmt.Sprint(e.Code, e.Position, e.LockKey, e.Owner)
}

// heldBy says who has a lock, or why else it cannot be had, and which place the command has in its line.
func heldBy(key, tenant string, e *contracts.Error) string {
	key, place := cmp.Or(e.LockKey, key), ""
	if e.Position > 0 {
		place = fmt.Sprintf(", place %d in line", e.Position)
	}
	switch {
	case e.Code != contracts.CodeLockHeld:
		return e.Error()
	case e.Owner == "" && e.Detail == "":
		return fmt.Sprintf("%s of tenant %s is held%s", key, tenant, place)
	case e.ExpiresAt.IsZero(): // a rate, or a line without a holder
		return fmt.Sprintf("%s of tenant %s: %s%s", key, tenant, cmp.Or(e.Detail, e.Title), place)
	default:
		return fmt.Sprintf("%s of tenant %s is held by %s until %s%s", key, tenant, printable(e.Owner),
			e.ExpiresAt.Format(contracts.TimeFormat), place)
	}
}

// abandonTimeout is how long an interrupted command tries to release what it may have acquired.
const abandonTimeout = 5 * time.Second

// abandon releases what an acquire that is given up may have acquired, and gives its place in line to the next. If that
// fails, the lease expires.
func abandon(ctx context.Context, server *client.LockAPI, tenant, key string, r contracts.AcquireRequest, err error) {
	_, unknown := errors.AsType[*client.UnknownOutcomeError](err)
	e, _ := errors.AsType[*contracts.Error](err)
	inLine := r.WaitSeconds > 0 && (e != nil && e.Position > 0 || r.Fair || r.Mode != "" &&
		r.Mode != contracts.LockModeExclusive)
	if !unknown && !inLine {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	_ = server.Abandon(ctx, tenant, key, r) // the interruption is what is reported
}

func interrupted(key string) error { return interruption("interrupted before %s was acquired", key) }

type renewCmd struct {
	Key       string `arg:"" help:"The lock."`
	Token     int64  `required:"" placeholder:"N" help:"The lease's fencing token."`
	ExpiresAt string `placeholder:"TIME" help:"When the lease expires as far as you know, as \"lock acquire --json\" showed it: it is renewed only while that is so."`
	owner
	ttl
	requestID
}

// Run renews the lease.
func (c *renewCmd) Run(ctx context.Context, l *lockCmd, s *streams) error {
	server, err := l.locks()
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
		RequestID: c.RequestID, OwnerID: c.id(l.remote), FencingToken: c.Token, TTLSeconds: seconds, ExpiresAt: c.ExpiresAt,
	})
	if err != nil {
		return l.outcome(err)
	}
	return show(s, l.JSON, lease, "%s of tenant %s is held by you until %s, fencing token %d\n",
		lease.LockKey, lease.TenantID, lease.ExpiresAt, lease.FencingToken)
}

type releaseCmd struct {
	Key   string `arg:"" help:"The lock."`
	Token int64  `required:"" placeholder:"N" help:"The lease's fencing token."`
	owner
	requestID
}

// Run releases the lock.
func (c *releaseCmd) Run(ctx context.Context, l *lockCmd, s *streams) error {
	server, err := l.locks()
	if err != nil {
		return err
	}
	lease, err := server.Release(ctx, l.Tenant, c.Key, contracts.ReleaseRequest{
		RequestID: c.RequestID, OwnerID: c.id(l.remote), FencingToken: c.Token,
	})
	if err != nil {
		return l.outcome(err)
	}
	return show(s, l.JSON, lease, "%s of tenant %s is free\n", lease.LockKey, lease.TenantID)
}

type forceReleaseCmd struct {
	Key     string `arg:"" help:"The lock."`
	Reason  string `required:"" help:"Why: shown to the holder, and kept until the lock is acquired again."`
	LeaseID string `placeholder:"ID" help:"End only this lease, as \"lock get --json\" shows it, never a later one."`
	owner
	requestID
}

// Run ends another owner's lease.
func (c *forceReleaseCmd) Run(ctx context.Context, l *lockCmd, s *streams) error {
	server, err := l.locks()
	if err != nil {
		return err
	}
	lock, err := server.ForceRelease(ctx, l.Tenant, c.Key, contracts.ForceReleaseRequest{
		RequestID: c.RequestID, OwnerID: c.id(l.remote), Reason: c.Reason, LeaseID: c.LeaseID,
	})
	if err != nil {
		return l.outcome(err)
	}
	if lock.OwnerID == "" {
		return show(s, l.JSON, lock,
			"this request ended a lease of %s of tenant %s before, and the lock has had later ones; they are as they were\n",
			lock.LockKey, lock.TenantID)
	}
	return show(s, l.JSON, lock, "%s of tenant %s is free; %s held it\n", lock.LockKey, lock.TenantID, lock.OwnerID)
}

type getCmd struct {
	Key string `arg:"" help:"The lock."`
	watch
}

// Run shows a lock.
func (c *getCmd) Run(ctx context.Context, l *lockCmd, s *streams) error {
	server, err := l.locks()
	if err != nil {
		return err
	}
	find := func() ([]contracts.Lock, error) {
		found, err := server.Get(ctx, l.Tenant, c.Key)
		if c.Watch && errors.Is(err, contracts.CodeNotFound) {
			return nil, nil
		}
		return []contracts.Lock{found}, err
	}
	if c.Watch {
		return c.follow(ctx, l, s, find, nil)
	}
	found, err := find()
	if err != nil {
		return l.outcome(err)
	}
	now, text := time.Now(), printable
	if l.wide() {
		text = quoted
	}
	return show(s, l.JSON, found[0], "%s", table(found, now, l.wide())+details(found[0], now, text))
}

type listCmd struct {
	Prefix string `help:"Only locks whose key begins with this."`
	State  string `xor:"which" placeholder:"active|released|expired" help:"Only locks in this state; the default is active."`
	All    bool   `xor:"which" help:"Locks in every state."`
	Owner  string `help:"Only locks that this owner holds, held last, or waits for in line."`
	Urgent bool   `help:"Only locks that are waited for in line or about to expire: less than a third of the lease is left, which a holder that renews in time never comes to."`
	watch
}

// state is the state of the locks to list; empty for all.
func (c *listCmd) state() (contracts.State, error) {
	states := []contracts.State{contracts.StateActive, contracts.StateReleased, contracts.StateExpired}
	state := contracts.State(strings.ToUpper(c.State))
	switch {
	case c.All, c.Urgent && c.State == "":
		return "", nil
	case state == "":
		return contracts.StateActive, nil
	case !slices.Contains(states, state):
		return "", usage("--state %s: must be active, released or expired", c.State)
	}
	return state, nil
}

// Run lists locks, page by page. With --json it prints one lock a line.
func (c *listCmd) Run(ctx context.Context, l *lockCmd, s *streams) error {
	server, err := l.locks()
	if err != nil {
		return err
	}
	state, err := c.state()
	if err != nil {
		return err
	}
	pages := func(each func([]contracts.Lock) error) error {
		for q := (client.LockQuery{Prefix: c.Prefix, State: state, Owner: c.Owner, Urgent: c.Urgent, PageSize: 1000}); ; {
			page, err := server.List(ctx, l.Tenant, q)
			if err != nil {
				return err
			}
			if err := each(page.Locks); err != nil {
				return err
			}
			for _, u := range page.Unreadable {
				fmt.Fprintf(s.err, "leasehold: lock %s cannot be read (%s); the server's log says why\n", printable(u.LockKey),
					u.Code)
			}
			if q.PageToken = page.NextPageToken; q.PageToken == "" {
				return nil
			}
		}
	}
	if c.Watch {
		return c.follow(ctx, l, s, func() (all []contracts.Lock, err error) {
			err = pages(func(page []contracts.Lock) error {
				all = append(all, page...)
				return nil
			})
			return all, err
		}, func(key string) (contracts.Lock, error) { return server.Get(ctx, l.Tenant, key) })
	}
	shown := false
	err = pages(func(page []contracts.Lock) error {
		if len(page) == 0 {
			return nil
		}
		shown = true
		return showLocks(s, l, page)
	})
	if err == nil && !shown && !l.JSON {
		fmt.Fprintln(s.err, c.none(l.Tenant, state))
	}
	return l.outcome(err)
}

// showLocks prints locks: as a table, or as JSON, one a line.
func showLocks(s *streams, l *lockCmd, list []contracts.Lock) error {
	if !l.JSON {
		_, err := fmt.Fprint(s.out, table(list, time.Now(), l.wide()))
		return err
	}
	for _, lock := range list {
		if err := show(s, true, lock, ""); err != nil {
			return err
		}
	}
	return nil
}

// none says that there was nothing to list.
func (c *listCmd) none(tenant string, state contracts.State) string {
	text := "no locks of tenant " + tenant
	if state != "" {
		text = "no " + strings.ToLower(string(state)) + " locks of tenant " + tenant
	}
	if c.Urgent {
		return text + " that are waited for in line or about to expire"
	}
	if c.State == "" && !c.All {
		text += "; --all lists ended ones too"
	}
	return text
}

// table is a page of locks for people. Those that have a mode, several holders or a line show that. If it is wide, it
// has all that is known of a lock, and nothing is cut.
func table(locks []contracts.Lock, now time.Time, wide bool) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	modes := wide || slices.ContainsFunc(locks, several)
	fmt.Fprint(w, "TENANT\tLOCK\tSTATE\tOWNER\tAGE\tUNTIL\t")
	if modes {
		fmt.Fprint(w, "MODE\tHOLDERS\tWAITING\t")
	}
	fmt.Fprint(w, "METADATA")
	text := printable
	if wide {
		text = quoted
		fmt.Fprint(w, "\tACQUIRED\tTTL\tLEASE\tENDED BY\tREASON")
	}
	fmt.Fprintln(w)
	for _, l := range locks {
		until := cmp.Or(l.ReleasedAt, l.ExpiresAt)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t", l.TenantID, text(l.LockKey), l.State, text(l.OwnerID),
			age(l.AcquiredAt, now), until)
		if modes {
			fmt.Fprintf(w, "%s\t%d\t%d\t", modeOf(l), holding(l), len(l.Waiting))
		}
		fmt.Fprint(w, labels(l.Metadata, text))
		if wide {
			forced := contracts.ForcedRelease{By: "-"}
			if l.ForceRelease != nil {
				forced = *l.ForceRelease
			}
			fmt.Fprintf(w, "\t%s\t%s\t%s\t%s\t%s", l.AcquiredAt, time.Duration(l.TTLSeconds)*time.Second, l.LeaseID,
				text(forced.By), text(forced.Reason))
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return trimmed(b.String())
}

// trimmed is a table without spaces at the ends of its lines.
func trimmed(table string) string {
	lines := strings.Split(table, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}

// age is the time since a lock was acquired, by the clock of this machine; "-" if that is not known.
func age(acquired string, now time.Time) string {
	t, err := time.Parse(time.RFC3339, acquired)
	if err != nil {
		return "-"
	}
	return max(0, now.Sub(t)).Truncate(time.Second).String()
}

// labels are the metadata of a lock in one column.
func labels(metadata map[string]string, text func(string) string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		all = append(all, text(k)+"="+text(metadata[k]))
	}
	return strings.Join(all, ",")
}

// quoted is text that others chose, in quotes if it could be taken for other columns or for commands to a terminal.
func quoted(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || r == ',' || r == '"' }) {
		return strconv.Quote(text)
	}
	return text
}

// printable is [quoted] text, cut to a length that a table bears.
func printable(text string) string {
	const most = 48
	text = quoted(text)
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// show prints a response: as one line of JSON, or in words.
func show(s *streams, asJSON bool, response any, words string, args ...any) error {
	if asJSON {
		e := json.NewEncoder(s.out)
		e.SetEscapeHTML(false)
		return e.Encode(response)
	}
	_, err := fmt.Fprintf(s.out, words, args...)
	return err
}
