package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/setup"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/restore"
)

// storeCmd is maintenance of a store, without a server in between.
type storeCmd struct {
	kong.Plugins // the flags of the settings

	Prune       pruneCmd       `cmd:"" help:"Remove locks that ended long ago (SQLite, Redis)."`
	RaiseTokens raiseTokensCmd `cmd:"" help:"Raise all fencing tokens to the present, after a backup was restored."`

	flags settingFlags
}

func newStoreCmd() storeCmd {
	flags := newSettingFlags(settings.Maintain)
	return storeCmd{Plugins: flags.plugin(), flags: flags}
}

// Help is the longer help of the command.
func (storeCmd) Help() string {
	return `The commands open the store directly, with the settings that the server has. A server may run at the same time.

  leasehold store prune --data DIR
  leasehold store raise-tokens --store redis --redis-addr 127.0.0.1:6379 --dry-run`
}

// open opens the store of the settings. done closes it.
func (cmd *storeCmd) open(ctx context.Context, s *streams, u use) (store docstore.Store, where string,
	done func(), err error) {
	c, err := cmd.flags.load()
	if err != nil {
		return nil, "", nil, err
	}
	if c.Store == "memory" {
		return nil, "", nil, usage("%s memory is lost when its server ends: there is nothing to maintain",
			c.Name("LEASEHOLD_STORE"))
	}
	if c.Store == "sqlite" {
		path, err := sqlitePath(c)
		if err != nil {
			return nil, "", nil, err
		}
		if _, err := os.Stat(path); err != nil { // to open it would make a new one
			return nil, "", nil, usage("there is no database to maintain: %w\nName its folder with --data DIR", err)
		}
	}
	log := telemetry.AtLeast(c.Level(), newLog(c.Log, s))
	if store, where, err = openStore(ctx, c, log, u); err != nil {
		return nil, "", nil, err
	}
	return store, where, func() { closeLogged(log, "close the store", store.Close) }, nil
}

type pruneCmd struct {
	progressFlags
	JSON bool `name:"json" help:"Print the result as JSON."`
}

// Help is the longer help of the command.
func (pruneCmd) Help() string {
	return `Removes the documents of locks whose lease ended longer ago than the server's --retention said when it ended. "leasehold serve" does it every five minutes. DynamoDB and Firestore remove such documents by themselves, if time to live is set up (docs/guides/stores.md).

Ctrl-C stops it after the documents that are being removed; run it again to go on.`
}

// Run prunes the store.
func (c *pruneCmd) Run(ctx context.Context, parent *storeCmd, s *streams) error {
	store, where, done, err := parent.open(ctx, s, use{})
	if err != nil {
		return err
	}
	defer done()
	p, ok := store.(docstore.Pruner)
	if !ok {
		return usage("this store removes ended locks by itself, by its time to live: docs/guides/stores.md says how to set it up")
	}
	return c.prune(ctx, p, where, s)
}

func (c *pruneCmd) prune(ctx context.Context, p docstore.Pruner, where string, s *streams) error {
	interruptsOf(ctx).endAtOnce()
	shown, stop := c.begin(ctx, s)
	n, err := setup.Prune(context.WithoutCancel(ctx), p, func(removed int) error {
		shown.add(removed, "")
		return ctx.Err()
	})
	stop()
	passed, failed := docstore.Failure(err)
	if passed.Count > 0 {
		fmt.Fprintf(s.err, "leasehold: %d documents that are to be removed cannot be read, and are left alone:\n%s\n",
			passed.Count, passed.Error())
	}
	switch {
	case errors.Is(failed, context.Canceled):
		return interruption("interrupted: removed %d documents %s; run it again to go on", n, where)
	case failed != nil:
		return fmt.Errorf("removed %d documents, then: %w", n, failed)
	}
	if c.JSON {
		counts := map[string]int{"removed": n}
		if passed.Count > 0 {
			counts["damaged"] = passed.Count
		}
		return json.NewEncoder(s.out).Encode(counts)
	}
	_, err = fmt.Fprintf(s.out, "Removed %d documents %s.\n", n, where)
	return err
}

type raiseTokensCmd struct {
	progressFlags
	DryRun   bool   `help:"Count what would be raised, and write nothing."`
	Name     string `placeholder:"NAME" help:"Name of this raise: one that was interrupted goes on under its name, within a day. Each restore needs a new one, which is the default."`
	Parallel int    `default:"64" help:"How many documents are written at once, 1 to 256 (default ${default})."`
	JSON     bool   `name:"json" help:"Print the result as JSON."`
}

// Help is the longer help of the command.
func (raiseTokensCmd) Help() string {
	return `After a backup was restored, or a failover of Redis lost writes, the store has forgotten its latest grants, and would give their fencing tokens again. This command sets the token of every lock, analysis and fence that is lower to the store's time in microseconds, which is above every token that was ever granted. Run it once, before servers use the store again: each run takes their tokens from those who hold leases.

Leases that are held according to the backup stay held until they expire, but their holders have lost the token: renewals fail, and fences reject them.

Tokens are set a minute ahead. Start the servers after that minute: a lock that is new before has tokens below the fences that were raised.

Ctrl-C stops it after the documents that are being written, and it says the name to go on with. Without that name, and after its end with it, the command begins anew, which is always safe. To go on is safe only if the store was not restored again and lost nothing since. A store that is asked too much slows the command down; it fails when the store has done nothing for a minute.`
}

// Run raises the tokens.
func (c *raiseTokensCmd) Run(ctx context.Context, parent *storeCmd, s *streams) error {
	store, where, done, err := parent.open(ctx, s, use{repair: true})
	if err != nil {
		return err
	}
	defer done()
	interruptsOf(ctx).endAtOnce()
	shown, stop := c.begin(ctx, s)
	damaged := 0
	raise, err := restore.RaiseTokens(ctx, store, restore.Options{
		DryRun: c.DryRun, Name: c.Name, Parallel: c.Parallel, Retrying: shown.trouble,
		Progress: func(r restore.Report) { shown.add(1, r.Kind) },
		Damaged: func(k docstore.Key, field string) {
			switch damaged++; {
			case damaged > 20: // a store full of them needs no longer list
			case field == "":
				shown.sayf("%s cannot be read; left as it is", k)
			default:
				shown.sayf("%s: field %q is not a whole number; left as it is", k, field)
			}
		}})
	stop()
	if bad, ok := errors.AsType[*field.Error](err); ok {
		return usage("--%s %s", bad.Name, bad.Problem)
	}
	if c.JSON && err == nil {
		err = json.NewEncoder(s.out).Encode(struct {
			DryRun bool `json:"dry_run"`
			restore.Raise
		}{c.DryRun, raise})
	} else if !c.JSON {
		printReports(s, raise, c.DryRun, err == nil, where)
	}
	goOn := ""
	if raise.Name != "" && !c.DryRun {
		goOn = "; to go on, unless the store is restored again or loses writes: the same command with --name " +
			quoted(raise.Name)
	}
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) && c.DryRun:
		return interruption("interrupted: not all documents were counted")
	case err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled):
		return interruption("interrupted: not all tokens were raised, start no server%s", goOn)
	case err != nil:
		return fmt.Errorf("the raise did not come to its end: %w%s", err, goOn)
	case damaged > 0:
		return fmt.Errorf("%d documents have no usable token: set it by hand, above all that were granted", damaged)
	}
	return nil
}

func printReports(s *streams, r restore.Raise, dry, whole bool, where string) {
	raised := "raised"
	if dry {
		raised = "to raise"
	}
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "KIND\tDOCUMENTS\t%s\tCURRENT\tDAMAGED\n", map[bool]string{false: "RAISED", true: "TO RAISE"}[dry])
	total, fences := 0, 0
	for _, k := range r.Kinds {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\n", k.Kind, k.Documents, k.Raised, k.Current, k.Damaged)
		total += k.Raised
		if k.Kind == lock.FenceKind {
			fences = k.Raised
		}
	}
	_ = t.Flush() // an output that is gone
	fmt.Fprintf(s.out, "%d tokens %s %s.\n", total, raised, where)
	if whole && !dry && (fences > 0 || r.Resumed) {
		fmt.Fprintln(s.out,
			"Start the servers in a minute, not before: a lock that is new until then stays below the fences that were raised.")
	}
}
