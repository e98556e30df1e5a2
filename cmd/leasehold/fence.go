package main

import (
	"context"
)

type fenceCmd struct {
	inTenant

	Check fenceCheckCmd `cmd:"" help:"Pass a fencing token by a resource's fence, which rejects lower ones from then on."`
}

// Help is the longer help of the command.
func (fenceCmd) Help() string {
	return `A fence remembers the highest fencing token that a resource has seen. Check it before each write of a holder, where the resource cannot compare tokens itself:

  leasehold fence check orders-db --token "$token" && psql -f orders.sql

Exit codes: 0 the token is the highest so far, 4 a higher one was seen: the lease is lost, stop the work.`
}

type fenceCheckCmd struct {
	Resource string `arg:"" help:"What the token protects."`
	Token    int64  `required:"" placeholder:"N" help:"The fencing token of the lease."`
}

// Run checks the token.
func (c *fenceCheckCmd) Run(ctx context.Context, f *fenceCmd, s *streams) error {
	server, err := f.connect()
	if err != nil {
		return err
	}
	passed, err := server.Fences().Check(ctx, f.Tenant, c.Resource, c.Token)
	if err != nil {
		return f.outcome(err)
	}
	return show(s, f.JSON, passed, "%s of tenant %s accepts fencing token %d\n", passed.Resource, passed.TenantID, passed.FencingToken)
}
