package main

import (
	"context"
	"errors"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

type idForceReleaseCmd struct {
	remote

	Service string `env:"LEASEHOLD_SERVICE" default:"default" placeholder:"NAME" help:"Whose leases (${env}; default ${default})."`
	Reason  string `required:"" help:"Why: for the server's log."`
	First   *int64 `placeholder:"N" help:"The smallest machine ID (default 0)."`
	Last    *int64 `placeholder:"N" help:"The largest machine ID (default: no bound)."`
	All     bool   `help:"End all leases of the service, instead of a range."`
}

// Help is the longer help of the command.
func (idForceReleaseCmd) Help() string {
	return `Stop the holders first: one that goes on makes IDs that may equal those of the next holder. The machine IDs become free 30 seconds
later, because the clock of a holder may have been ahead, or when their leases expire, if that is earlier.

  leasehold id force-release --service payments --first 0 --last 63 --reason "the hosts were terminated"`
}

// Run ends the leases.
func (c *idForceReleaseCmd) Run(ctx context.Context, top *idCmd, s *streams) error {
	if c.All == (c.First != nil || c.Last != nil) {
		return usage("say which leases to end: a range by --first and --last, or --all of the service")
	}
	server, err := c.connect()
	if err != nil {
		return err
	}
	r := contracts.MachineIDForceReleaseRequest{ServiceID: c.Service, Last: c.Last, Reason: c.Reason}
	if c.First != nil {
		r.First = *c.First
	}
	done, err := server.MachineIDs().ForceRelease(ctx, r)
	err = c.explain(err)
	if e, ok := errors.AsType[*contracts.Error](err); ok {
		return withExit(e.Code, err)
	}
	if err != nil {
		return err
	}
	return show(s, top.JSON, done,
		"%d leases of service %s in namespace %s were ended; their machine IDs are free from %s on\n",
		done.Leases, c.Service, done.Space, time.UnixMilli(done.Free).UTC().Format(contracts.TimeFormat))
}
