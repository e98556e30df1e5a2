package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

type idNextCmd struct {
	remote

	Count      int    `short:"n" default:"1" placeholder:"N" help:"How many IDs (default ${default})."`
	Service    string `env:"LEASEHOLD_SERVICE" placeholder:"NAME" help:"Whose machine IDs and layout (${env}); the default is the server's."`
	Base32     bool   `name:"base32" help:"Print 13 digits of base 32, texts that sort as IDs do, in place of decimal digits."`
	Standalone bool   `help:"Make the IDs without a server: unique by likelihood only, and marked as fallback IDs."`
}

// Help is the longer help of the command.
func (idNextCmd) Help() string {
	return `A machine ID is leased for the time of the command and released. Without a lease there are no IDs: the exit code is 1. For more than a few,
make IDs in the program that needs them, with kazahana; there an ID takes less than a microsecond and no request.`
}

// Run prints new IDs, in rising order.
func (c *idNextCmd) Run(ctx context.Context, top *idCmd, s *streams) (err error) {
	if c.Count < 1 {
		return usage("--count %d: must be at least 1", c.Count)
	}
	provider, err := c.provider()
	if err != nil {
		return err
	}
	g, err := kazahana.New(provider, &kazahana.Options{
		// the command's error says it
		ServiceID: c.Service, DisableFallback: provider != nil, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, giveBack(ctx, g)) }()

	out := bufio.NewWriter(s.out)
	defer func() { err = errors.Join(err, out.Flush()) }()
	const chunk = 1024
	for left := c.Count; left > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		ids := make([]kazahana.ID, min(left, chunk))
		if err := g.NextIDs(ctx, ids); err != nil {
			if _, ok := errors.AsType[*kazahana.LeaseAcquisitionError](err); ok {
				return fmt.Errorf("%w; --standalone makes IDs without a server", c.explain(err))
			}
			return err
		}
		layout := g.Layout()
		for _, id := range ids {
			text := id.String()
			if c.Base32 {
				text = id.Base32()
			}
			if err := show(&streams{out: out}, top.JSON, takeApart(id, layout), "%s\n", text); err != nil {
				return err
			}
		}
		left -= len(ids)
	}
	return nil
}

// provider is the server, or nil for standalone.
func (c *idNextCmd) provider() (kazahana.LeaseProvider, error) {
	if c.Standalone {
		return nil, nil //nolint:nilnil // what kazahana.New takes for standalone
	}
	server, err := c.connect()
	if err != nil {
		return nil, err
	}
	return server.MachineIDs(), nil
}

// giveBack closes the generator, also when the command was interrupted; for a server that does not respond, a lease
// expires soon over anyway.
func giveBack(ctx context.Context, g *kazahana.Generator) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := g.Close(ctx); err != nil {
		return fmt.Errorf("give the machine ID back: %w", err)
	}
	return nil
}
