package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/fencing"
)

type fenceCmd struct {
	inTenant

	Check  fenceCheckCmd  `cmd:"" help:"Pass a fencing token by a resource's fence, which rejects lower ones from then on."`
	Reset  fenceResetCmd  `cmd:"" help:"Make a fence forget a wrong token that has closed it (administrators)."`
	Remove fenceRemoveCmd `cmd:"" help:"Remove the fence of a resource that is gone (administrators)."`
}

// Help is the longer help of the command.
func (fenceCmd) Help() string {
	return `A fence remembers the highest fencing token that a resource has seen. Check it before each write of a holder, where the resource cannot compare tokens itself:

  leasehold fence check orders-db --token "$token" --subject lock/orders && psql -f orders.sql

Under "leasehold lock run" and "once" both are those of the lease, without flags. Tokens of two locks, or of two runs, have no order: a fence that has seen those of another one compares nothing.

Exit codes: 0 the token is the highest so far, 4 a higher one was seen: the lease is lost, stop the work; or tokens of another lock or run were; 5 there is no token to forget.`
}

type fenceCheckCmd struct {
	Resource string `arg:"" help:"What the token protects."`
	Token    int64  `required:"" env:"LEASEHOLD_FENCING_TOKEN" placeholder:"N" help:"The fencing token of the lease (${env})."`
	Subject  string `required:"" env:"LEASEHOLD_FENCING_SUBJECT" placeholder:"NAME" help:"What it is a token of (${env}): lock/KEY, lock/KEY#PERMIT, run/ID."`
}

// Run checks the token.
func (c *fenceCheckCmd) Run(ctx context.Context, f *fenceCmd, s *streams) error {
	server, err := f.connect()
	if err != nil {
		return err
	}
	passed, err := server.Fences().Check(ctx, f.Tenant, c.Resource, fencing.Lease{Subject: c.Subject, Token: c.Token})
	if err != nil {
		return f.outcome(err)
	}
	return show(s, f.JSON, passed, "%s of tenant %s accepts fencing token %d\n", passed.Resource, passed.TenantID,
		passed.FencingToken)
}

type fenceResetCmd struct {
	Resource string `arg:"" help:"What the fence protects."`
	Token    int64  `required:"" placeholder:"N" help:"The token to forget: the highest one, which a rejected check shows. Nothing is done if it is another by now."`
	Reason   string `required:"" help:"Why: kept with the fence, and in the server's log."`
	owner
}

// Help is the longer help of the command.
func (fenceResetCmd) Help() string {
	return `For a fence that was checked with a token that no lock has given, such as one mistyped: it rejects the tokens of all holders since.

  leasehold fence reset orders-db --token 1795414766484001 --reason "a mistyped token"

Until a current token has been checked again, those of holders that have lost their lease pass, too: stop them first.`
}

// Run resets the fence.
func (c *fenceResetCmd) Run(ctx context.Context, f *fenceCmd, s *streams) error {
	server, err := f.connect()
	if err != nil {
		return err
	}
	request := contracts.FenceResetRequest{OwnerID: c.id(f.remote), HighestToken: c.Token, Reason: c.Reason}
	done, err := server.Fences().Reset(ctx, f.Tenant, c.Resource, request)
	if err != nil {
		return f.changed(err)
	}
	words := "%s of tenant %s has forgotten fencing token %d; the next one that is checked passes, whichever it is\n"
	if done.Replayed {
		words = "%s of tenant %s had forgotten fencing token %d before\n"
	}
	return show(s, f.JSON, done, words, done.Resource, done.TenantID, done.ResetToken)
}

// changed says which token is the highest, if it is another than the one that a change named.
func (f *fenceCmd) changed(err error) error {
	if e, ok := errors.AsType[*contracts.Error](err); ok && e.Code == contracts.CodeStaleToken {
		err = fmt.Errorf("%w: the highest is %d", err, e.HighestToken)
	}
	return f.outcome(err)
}

type fenceRemoveCmd struct {
	Resource string `arg:"" help:"What the fence protected."`
	Token    int64  `required:"" placeholder:"N" help:"The highest token of the fence, or the one that it was reset from. Nothing is done if it is another by now."`
	Reason   string `required:"" help:"Why: it stays in the server's log."`
	owner
}

// Help is the longer help of the command.
func (fenceRemoveCmd) Help() string {
	return `For a resource that is gone, so that its fence does not count against the bound of the tenant any more.

  leasehold fence remove orders-db --token 1795414766484001 --reason "the database was deleted"

The highest token is forgotten: if the resource is used again, the next token that is checked passes, also that of a holder that has lost its lease.`
}

// Run removes the fence.
func (c *fenceRemoveCmd) Run(ctx context.Context, f *fenceCmd, s *streams) error {
	server, err := f.connect()
	if err != nil {
		return err
	}
	request := contracts.FenceRemoveRequest{OwnerID: c.id(f.remote), HighestToken: c.Token, Reason: c.Reason}
	done, err := server.Fences().Remove(ctx, f.Tenant, c.Resource, request)
	if err != nil {
		return f.changed(err)
	}
	words := "the fence of %s of tenant %s is removed, and fencing token %d forgotten\n"
	if done.Replayed {
		words = "there is no fence of %s of tenant %s; token %d was not needed\n"
	}
	return show(s, f.JSON, done, words, done.Resource, done.TenantID, done.RemovedToken)
}
