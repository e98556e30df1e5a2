package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

type lockRunCmd struct {
	Key     string   `arg:"" optional:"" help:"The lock."`
	Command []string `arg:"" optional:"" help:"The command and its arguments, after \"--\"."`

	Named    string            `name:"key" placeholder:"KEY" help:"The lock, instead of the argument."`
	Also     []string          `placeholder:"KEY" sep:"none" help:"Another lock to hold as well; may be given several times. All of them are acquired in one step, or none. Up to 20 with the first, with one holder each."`
	Wait     time.Duration     `help:"How long to wait for a lock that is held (default: not at all)."`
	Skip     bool              `help:"A lock that cannot be had is no error: nothing is run, and the exit code is 0."`
	Quiet    bool              `short:"q" help:"Say nothing but errors: not that the command waits, skips, or has trouble with renewals."`
	Grace    time.Duration     `placeholder:"DURATION" help:"How long before the lease ends the command is asked to end if the lease is not renewed; less than half of --ttl. The default is a tenth of it, at most 10s: what it is more, an outage that the lock survives is less."`
	Metadata map[string]string `placeholder:"K=V" help:"Labels for people who look at the lock."`
	Owner    string            `env:"LEASEHOLD_OWNER" placeholder:"NAME" help:"Who holds the lease (${env}); the default is user@host:process. With authentication: a suffix to the token's subject, by default the host's name and random characters."`
	ttl
	lockMode

	kong.Plugins // the flags of the settings

	flags settingFlags
}

func newLockRunCmd() lockRunCmd {
	flags := newSettingFlags(settings.Directly)
	return lockRunCmd{Plugins: flags.plugin(), flags: flags}
}

// Help is the longer help of the command.
func (lockRunCmd) Help() string {
	return `Takes the lock, runs the command, renews the lease until the command has ended, and releases the lock:

  leasehold lock run deploy-prod --wait 10m -- ./deploy.sh v42
  17 2 * * *  leasehold lock run report --skip -q -- /usr/local/bin/report
  leasehold lock run report --store sqlite --data /var/lib/report -- ./report.sh

The second line is one of a crontab, for a job that several machines have: where the lock is held, nothing runs. A job that is over before another machine begins runs there again: see "leasehold once --every". The third needs no server: every process that wants the lock opens the same store, here a file on one machine.

One command at a time holds a lock. Flags change that; all who ask for the same lock must give the same ones:

  leasehold lock run config --shared --wait 1m -- ./read.sh                         any number of readers
  leasehold lock run config --wait 1m -- ./write.sh                                 the writer, alone
  leasehold lock run import --permits 3 --wait 1h -- ./import.sh                    three at a time
  leasehold lock run mail --rate 10/min --wait 1h -- ./send.sh                      ten in any minute
  leasehold lock run deploy --fair --wait 1h -- ./deploy.sh                         one at a time, in their order
  leasehold lock run site --fair --max-waiting 1 --wait 1h --skip -- ./build.sh     one runs, one waits, others are skipped
  leasehold lock run preview --replace -- ./preview.sh                              the latest takes over
  leasehold lock run account-17 --also account-4 --wait 1m -- ./transfer.sh         two locks, both or none

With --shared, --permits and --rate those who wait do it in line, as with --fair: first come, first served. With --replace the holder before learns of its loss when it renews its lease, within a third of --ttl, and its command is killed; until then both run, and only the token tells them apart. With --rate the command begins when that is granted, and runs for as long as it likes: there is no lease to renew or to lose. With --also the command is ended when any of the locks is lost; there is no line, so that others who want only one of them can be first.

The command finds LEASEHOLD_KEY and LEASEHOLD_FENCING_TOKEN in its environment, and none of Leasehold's secrets (LEASEHOLD_AUTH_TOKEN …). The token is higher than that of every earlier holder: pass it on to what the command writes to, which rejects a lower one; "leasehold fence check" does that for what cannot. With --permits it also finds LEASEHOLD_PERMIT, a number from 1 that no other holder has at the time; the tokens of one permit only ever increase. With --also it finds LEASEHOLD_KEY_2 and LEASEHOLD_FENCING_TOKEN_2 for the first of them, _3 for the next and so on. Standard input and outputs are the command's. A terminal is, too: the command can ask, and has its keys.

The command has a process group of its own. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to it, and the lock stays held until the command has ended. What it leaves behind then is killed, for the lock is released.

Ctrl-Z, and SIGTSTP, stops the command and this process. No one renews the lease then: "fg" before it ends lets the command go on; otherwise the command is killed, and others have the lock.

The lease is renewed each third of --ttl. If that does not succeed, the command gets SIGTERM when --grace is left of the lease, and SIGKILL when a twentieth of the ttl is left, at most 1s: with --ttl 30s after 22.5s and 29s. All times count from before the last request that succeeded, so that the command has ended before another can have the lock. If the server says that the lease is over (force-released), the command is killed at once.

A second process of this program watches over the command, so that this holds also when this process is stopped or frozen, or dies: then the command gets SIGTERM at once, and SIGKILL after --grace, or when its lease ends if that is earlier. A machine that slept beyond the lease kills the command as it wakes. On Linux all of this is done to everything that the command started, also in sessions of its own; on macOS and other systems only to its process group, so that what leaves that goes on; on Windows there is no watcher, and what the command started goes on. While both processes are stopped, no one ends the command. Then the token protects.

A server that cannot be reached, or does not respond, is asked again for 3s; with --wait for the wait and 5s, but for no longer than 10s. What it may have granted all the same is given up within 5s after that.

Exit codes, as those of env and timeout:

    0        the command succeeded; with --skip also: the lock was held
    1 to 255 the command's own
    118      the server or the store could not be reached, or failed; nothing was run
    119      the lock was held until --wait was over; nothing was run
    120      the lock, or one of several, is held, or too many wait for it; nothing was run
    121      the lock, or one of several, was lost, and the command was ended
    125      another error of Leasehold, such as wrong usage; nothing was run
    126      the command cannot be run
    127      the command was not found
    128+N    signal N killed the command
    130      this process was interrupted before the lock was acquired

Whatever is not the command's own is said on standard error in a line that begins with "leasehold:", and so is an exit code of the command that is one of the above.`
}

// releaseTimeout is how long a lock is tried to be released at the end.
const releaseTimeout = 5 * time.Second

// retryFor is how long a lock is asked for while no server responds, also where the address may be wrong, because what
// a timer starts must outlast a restart of the server: as long as any call lasts beside its wait, and for 10 s at most,
// which is an outage that --wait goes on after.
func (c *lockRunCmd) retryFor() time.Duration {
	if c.Wait == 0 {
		return hold.AtOnceTime
	}
	return min(10*time.Second, c.Wait+hold.CallTime)
}

// Run runs the command.
func (c *lockRunCmd) Run(ctx context.Context, l *lockCmd, k *kong.Context, s *streams) error {
	path, err := c.prepare(l.Tenant)
	if err != nil {
		return trouble(err)
	}
	provider, done, err := c.provider(ctx, l, k, s)
	if err != nil {
		return trouble(err)
	}
	defer done()
	holder, err := locks.New(provider, c.holding(l, s))
	if err != nil {
		return trouble(usage("%w", err))
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		_ = holder.Close(ctx) // what an interrupted request may have acquired; otherwise that expires
	}()

	waiting, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	r := &relay{abort: abort}
	r.listen(ctx)
	defer r.stop()
	held, variables, err := c.acquire(waiting, holder)
	if err != nil {
		return c.notAcquired(err, r, l, s)
	}
	p, err := r.start(func() (*program, error) {
		return begin(path, c.Command, settings.WithoutLock(os.Environ()), variables, c.bound(held), s)
	})
	if err != nil {
		_ = c.release(ctx, held) // otherwise it expires
		return err
	}
	lost := c.watch(p, held)
	r.stop()
	return c.outcome(p, lost, c.release(ctx, held), l, s)
}

// holding are the options of the client that holds the lock.
func (c *lockRunCmd) holding(l *lockCmd, s *streams) *locks.Options {
	o := &locks.Options{Owner: owner{c.Owner}.ofProcess(l.remote), TTL: c.TTL}
	if !l.JSON { // then standard error has JSON only, and an address that may be wrong ends the command
		o.Observe, o.RetryFor = (&lockNews{cmd: c, lock: l, s: s}).tell, c.retryFor()
	}
	return o
}

// held is what the command holds while it runs: a lock, or several.
type held interface {
	Context() context.Context
	Left() time.Duration
	Unlock(ctx context.Context) error
}

// acquire waits for the lock, or for all of them, and returns the variables that the command finds in its environment.
// With a rate nothing is held: what that grants has only a token.
func (c *lockRunCmd) acquire(ctx context.Context, holder *locks.Client) (h held, variables []string, err error) {
	rate, err := c.rate()
	if err != nil {
		return nil, nil, err
	}
	if rate.Limit > 0 {
		token, err := holder.Take(ctx, c.Key, rate, &locks.TakeOptions{
			Wait: &c.Wait, MaxWaiting: int(given(c.MaxWaiting)), Metadata: c.Metadata,
		})
		return nil, named("", c.Key, fencing.OfLock(c.Key, 0, token)), err
	}
	o := c.options()
	o.Wait, o.Margin, o.Metadata = &c.Wait, max(c.Grace, last(c.TTL)), c.Metadata
	if len(c.Also) > 0 {
		all, err := holder.LockAll(ctx, c.keys(), &o)
		if err != nil {
			return nil, nil, err
		}
		variables = named("", c.Key, all.Lease(c.Key))
		for i, key := range c.Also {
			variables = append(variables, named("_"+strconv.Itoa(i+2), key, all.Lease(key))...)
		}
		return all, variables, nil
	}
	l, err := holder.Lock(ctx, c.Key, &o)
	if err != nil {
		return nil, nil, err
	}
	variables = named("", c.Key, l.Lease())
	if l.Permit() > 0 {
		variables = append(variables, "LEASEHOLD_PERMIT="+strconv.Itoa(l.Permit()))
	}
	return l, variables, nil
}

// keys are those of all locks.
func (c *lockRunCmd) keys() []string { return append([]string{c.Key}, c.Also...) }

// named are the variables of one lock. The suffix tells those of several apart.
func named(suffix, key string, l fencing.Lease) []string {
	return []string{"LEASEHOLD_KEY" + suffix + "=" + key, "LEASEHOLD_FENCING_TOKEN" + suffix + "=" +
		strconv.FormatInt(l.Token, 10), "LEASEHOLD_FENCING_SUBJECT" + suffix + "=" + l.Subject}
}

// prepare checks the arguments, and finds the command.
func (c *lockRunCmd) prepare(tenant string) (path string, err error) {
	if c.Named != "" {
		if c.Key != "" {
			c.Command = append([]string{c.Key}, c.Command...)
		}
		c.Key = c.Named
	}
	if _, err := c.seconds(); err != nil {
		return "", err
	}
	switch {
	case c.Key == "":
		return "", usage("the lock is missing: leasehold lock run KEY -- COMMAND")
	case len(c.Command) == 0:
		return "", usage("the command is missing: leasehold lock run %s -- COMMAND", c.Key)
	case c.Wait < 0:
		return "", usage("--wait %v: must not be negative", c.Wait)
	case c.Grace < 0 || c.Grace >= c.TTL/2:
		return "", usage(
			"--grace %v: must be less than half of --ttl %v, so that a renewal that fails can be tried again before", c.Grace,
			c.TTL)
	}
	if c.Rate != nil && c.Grace > 0 {
		return "", usage("--grace does not belong to --rate, whose grants are not held")
	}
	if err := c.into(&contracts.AcquireRequest{Metadata: c.Metadata}, c.ttl, c.Wait > 0, tenant, c.Key); err != nil {
		return "", err
	}
	if err := c.checkSeveral(tenant); err != nil {
		return "", err
	}
	c.Grace = cmp.Or(c.Grace, min(c.TTL/10, 10*time.Second))
	return find(c.Command[0])
}

// checkSeveral checks what is asked for together with --also.
func (c *lockRunCmd) checkSeveral(tenant string) error {
	if len(c.Also) == 0 {
		return nil
	}
	if m := c.lockMode; m != (lockMode{}) {
		return usage(
			"--also: several locks have one holder each and no line, so leave out --shared, --permits, --rate, --replace, --fair, --max-waiting and --lock-delay")
	}
	for i, key := range c.keys() {
		if key == "" {
			return usage("--also: the lock is missing")
		}
		if slices.Contains(c.keys()[:i], key) {
			return usage("--also %s: the lock is named twice", key)
		}
	}
	if n := len(c.keys()); n > lock.MaxSetKeys {
		return usage("--also: %d locks with the first: at most %d", n, lock.MaxSetKeys)
	}
	r := lock.AcquireSet{Tenant: tenant, Keys: c.keys(), Owner: "x", RequestID: "x",
		TTLSeconds: int64(c.TTL / time.Second), Metadata: c.Metadata}
	if err := r.Validate(); err != nil {
		return usage("--also: %w", err)
	}
	return nil
}

// bound is the lease that bounds the command.
func (c *lockRunCmd) bound(held held) bound {
	if held == nil {
		return bound{grace: c.Grace}
	}
	return bound{left: held.Left, last: last(c.TTL), ask: max(c.Grace, last(c.TTL)), grace: c.Grace}
}

// provider is the locks of a server, or of a store if the flags name one.
func (c *lockRunCmd) provider(ctx context.Context, l *lockCmd, k *kong.Context, s *streams) (p locks.Provider,
	done func(), err error) {
	store, done, err := c.flags.direct(ctx, k, s)
	if err != nil {
		return nil, nil, err
	}
	if store != nil {
		return direct.Locks(lock.New(store, nil), l.Tenant), done, nil
	}
	server, err := l.locks()
	if err != nil {
		return nil, nil, err
	}
	return server.For(l.Tenant), done, nil
}

// notAcquired gives the error of a lock that was not acquired its exit code.
func (c *lockRunCmd) notAcquired(err error, r *relay, l *lockCmd, s *streams) error {
	var refused *contracts.Error
	if err = l.explain(err); errors.As(err, &refused) {
		err = l.ofTenant(err)
	}
	full := errors.Is(err, contracts.CodeLockQueueFull)
	switch held := refused != nil && slices.Contains(closed, refused.Code); {
	case r.aborted():
		return interrupted(c.Key)
	case held && c.Skip:
		if !c.Quiet && !l.JSON {
			fmt.Fprintf(s.err, "leasehold: skipped: %v\n", err)
		}
		return nil
	case held && c.Wait > 0 && !full:
		return &exitError{exitWaited, err}
	case held:
		return &exitError{exitOtherHolds, err}
	case refused != nil && refused.Code != contracts.CodeLeaseExpired:
		return trouble(err)
	default: // no response, or one that came too late; a store's errors have no code
		return &exitError{exitUnavailable, err}
	}
}

// watch waits until the command has ended, and ends it if the lock is lost before. The error is the reason. held is nil
// if there is none to lose.
func (c *lockRunCmd) watch(p *program, held held) error {
	if held == nil {
		<-p.ended
		return nil
	}
	select {
	case <-p.ended:
		if held.Left() > 0 {
			return nil
		}
		return locks.Check(held.Context())
	case <-held.Context().Done():
		lost := context.Cause(held.Context())
		p.end(c.Grace, func() bool { return held.Left() <= last(c.TTL) })
		return lost
	}
}

// release releases the lock. The error says that it may still be held, or was lost before.
func (c *lockRunCmd) release(ctx context.Context, held held) error {
	if held == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	return held.Unlock(ctx)
}

// outcome is the exit code of the command that has ended, unless the lock was lost.
func (c *lockRunCmd) outcome(p *program, lost, released error, l *lockCmd, s *streams) error {
	switch {
	case lost != nil:
	case errors.Is(released, contracts.CodeLeaseLost), errors.Is(released, contracts.CodeLeaseReleased),
		errors.Is(released, contracts.CodeNotOwner):
		lost = released // perhaps before the command ended, and no renewal had told it
	case errors.Is(released, locks.ErrNotReleased) && !l.JSON:
		fmt.Fprintf(s.err, "leasehold: %v\n", l.explain(released))
	}
	err := p.outcome()
	code, ok := exitCode(err)
	switch {
	case lost != nil:
		why := l.explain(lost)
		if _, unreachable := errors.AsType[*unreachableError](why); unreachable {
			why = fmt.Errorf("the lock is lost: it could not be renewed: %w", why)
		}
		end := "succeeded"
		if err != nil {
			end = p.err.Error()
		}
		return &exitError{exitLost, fmt.Errorf("%w (%s ended: %s)", why, p.name, end)}
	case err == nil:
		return nil
	case !ok:
		return &exitError{exitTrouble, err}
	case code < exitUnavailable || l.JSON:
		return &exitError{code, nil}
	default:
		return &exitError{code, itsOwn(err, code, "lock run")}
	}
}

// relay passes the signals that this process receives on to a program. As long as there is none, they end the wait for
// its lock.
type relay struct {
	abort context.CancelFunc
	of    *interrupts // of this process
	stop  func()      // listening; signals then do to this process what they do to every other

	mu      sync.Mutex
	program *program
	over    bool // the wait was ended
}

// listen begins to take signals, and the end of ctx, which ends with the first SIGINT or SIGTERM.
func (r *relay) listen(ctx context.Context) {
	r.mu.Lock() // until r.stop is there
	defer r.mu.Unlock()
	r.of = interruptsOf(ctx)
	received := make(chan os.Signal, 16)
	for _, s := range passedOn {
		if !signal.Ignored(s) { // as nohup does
			signal.Notify(received, s)
		}
	}
	canceled := context.AfterFunc(ctx, func() { r.take(nil) })
	over := make(chan struct{})
	r.stop = sync.OnceFunc(func() {
		signal.Stop(received)
		canceled()
		r.of.pass(false)
		close(over)
	})
	go func() {
		for {
			select {
			case s := <-received:
				r.take(s)
			case <-over:
				return
			}
		}
	}()
}

// take passes a signal on, or ends the wait. A nil signal only does the latter.
func (r *relay) take(s os.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.program == nil:
		r.over = true
		r.abort()
		r.stop() // the next one is for this process: see interrupts
	case s != nil:
		r.program.pass(s)
	}
}

// start starts the program, unless the wait was ended.
func (r *relay) start(begin func() (*program, error)) (p *program, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil, interruption("interrupted before the command was started")
	}
	if r.program, err = begin(); err == nil {
		r.of.pass(true)
	}
	return r.program, err
}

// aborted reports whether a signal ended the wait.
func (r *relay) aborted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// lockNews says on standard error what happens while the command waits for its lock and holds it.
type lockNews struct {
	cmd     *lockRunCmd
	lock    *lockCmd
	s       *streams
	since   time.Time // when it began to wait
	said    string    // what it waits for, as it said last
	trouble bool      // requests fail
	first   lease.Meeting
}

// closed are the codes of a lock that can be had later.
var closed = []contracts.Code{contracts.CodeLockHeld, contracts.CodeLockDelayed, contracts.CodeLockQueueFull}

// tell is called for each event, one at a time.
func (n *lockNews) tell(e locks.Event) {
	refused, ok := errors.AsType[*contracts.Error](e.Err)
	switch {
	case !n.first.Unmet(e.Err) && n.cmd.Quiet: // no server may ever answer there
		return
	case e.What == locks.Waiting && ok && slices.Contains(closed, refused.Code):
		if n.since.IsZero() {
			n.since = e.At
		}
		if s := waitsFor(refused); s != n.said {
			n.said = s
			left := max(0, n.cmd.Wait-e.At.Sub(n.since)).Round(time.Second)
			if n.cmd.Wait < time.Second {
				left = n.cmd.Wait
			}
			room := ""
			if n.cmd.MaxWaiting != nil { // that the line is full ends the wait at once
				room = " if the line has room"
			}
			fmt.Fprintf(n.s.err, "leasehold: %s; waiting for up to %v%s\n", heldBy(e.Key, n.lock.Tenant, refused), left, room)
		}
	case e.What == locks.Waiting, e.What == locks.RenewalFailed:
		if !n.trouble {
			fmt.Fprintf(n.s.err, "leasehold: %v; trying again\n", n.lock.explain(e.Err))
		}
		n.trouble = true
		return
	case e.What == locks.Renewed && n.trouble:
		fmt.Fprintf(n.s.err, "leasehold: the lease of %s is renewed again\n", e.Key)
	case e.What == locks.Abandoned && e.Err != nil:
		fmt.Fprintf(n.s.err, "leasehold: %s may be held until its lease expires: %v\n", e.Key, n.lock.explain(e.Err))
	}
	n.trouble = false
}
