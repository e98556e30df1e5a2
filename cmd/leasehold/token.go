package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/tokenfile"
)

type tokenCmd struct {
	output

	New    tokenNewCmd    `cmd:"" help:"Make a bearer token and print it, once."`
	List   tokenListCmd   `cmd:"" help:"List the tokens of the file: whose they are, and until when."`
	Revoke tokenRevokeCmd `cmd:"" help:"Remove a token from the file."`
}

// AfterApply reads the flags together.
func (c *tokenCmd) AfterApply() error { //nolint:unparam // kong wants an error
	c.settle()
	return nil
}

// Help is the longer help of the command.
func (tokenCmd) Help() string {
	return `For a server without an identity provider: "leasehold serve --auth-tokens FILE" accepts the bearer tokens of the file, which say who calls; they are no fencing tokens. It has their hashes, and for each whose it is; a token is printed when it is made, and stored nowhere. A server reads the file again within a second when it changes.

  leasehold token new --file /etc/leasehold/tokens --subject build-1 --tenant acme > build-1.token
  leasehold token new --file /etc/leasehold/tokens --subject ann --tenant acme --right admin --right operate --expires 720h
  leasehold token list --file /etc/leasehold/tokens
  leasehold token revoke --file /etc/leasehold/tokens 4ek7mzqa

Callers send a bearer token with --auth-token-file FILE, or in LEASEHOLD_AUTH_TOKEN. What they hold is owned by the subject; a token opens the locks, the fences, the runs and the clusters of its tenant. Give each machine one of its own, so that it can be revoked, and audit events say who it was.

Exit codes: 0 done, 1 the file cannot be read or written, 2 wrong usage, 5 there is no such token.`
}

// tokenFile is the file that all of them are about.
type tokenFile struct {
	File string `required:"" env:"LEASEHOLD_AUTH_TOKENS" type:"path" placeholder:"FILE" help:"The file of tokens (${env})."`
}

type tokenNewCmd struct {
	tokenFile

	Subject string        `required:"" placeholder:"NAME" help:"Who sends it: the owner of the leases that are acquired with it."`
	Tenant  string        `required:"" placeholder:"NAME" help:"The only tenant whose locks, fences and runs it opens."`
	Right   []string      `enum:"admin,operate,worker,ids" placeholder:"RIGHT" help:"A right beside the locks, fences, runs and clusters of the tenant; may be given several times. admin: everything in the tenant, also what is others'; operate: what belongs to no tenant or to all, such as retrying analyses; worker: to run analyses; ids: to lease machine IDs."`
	Expires time.Duration `placeholder:"DURATION" help:"How long it is valid, such as 720h. The default is until it is revoked."`
	Note    string        `help:"For those who read the list."`
}

// Run makes a token.
func (c *tokenNewCmd) Run(t *tokenCmd, s *streams) error {
	now := time.Now()
	token := tokenfile.Token{Subject: c.Subject, Tenant: c.Tenant, Rights: c.Right, Note: c.Note}
	switch {
	case c.Expires < 0:
		return usage("--expires %v: must not be negative", c.Expires)
	case c.Expires > 0:
		token.Expires = now.Add(c.Expires)
	}
	secret, token, err := tokenfile.New(token, now)
	if err != nil {
		return usage("%w", err)
	}
	err = tokenfile.Change(c.File, func(all []tokenfile.Token) ([]tokenfile.Token, error) {
		return append(all, token), nil
	})
	if err != nil {
		return err
	}
	if t.JSON {
		return show(s, true, madeToken{secret, token}, "")
	}
	fmt.Fprintf(s.err, "leasehold: bearer token %s of %s in tenant %s, %s; it is shown only now\n", token.ID,
		printable(token.Subject), printable(token.Tenant), until(token))
	fmt.Fprintf(s.err, "leasehold: it may use the locks, fences, runs and clusters of tenant %s", printable(token.Tenant))
	for _, known := range httpapi.KnownRights {
		if slices.Contains(token.Rights, known.Name) {
			fmt.Fprintf(s.err, "; %s", known.May)
		}
	}
	fmt.Fprintln(s.err)
	_, err = fmt.Fprintln(s.out, secret)
	return err
}

// madeToken is a new token as JSON.
type madeToken struct {
	Secret string `json:"token"`
	tokenfile.Token
}

// until says how long a token is valid.
func until(t tokenfile.Token) string {
	if t.Expires.IsZero() {
		return "until it is revoked"
	}
	return "until " + t.Expires.UTC().Format(time.RFC3339)
}

type tokenListCmd struct{ tokenFile }

// Run lists the tokens. With --json it prints one a line.
func (c *tokenListCmd) Run(t *tokenCmd, s *streams) error {
	all, err := tokenfile.Read(c.File)
	if err != nil {
		return err
	}
	if t.JSON {
		for _, one := range all {
			if err := show(s, true, one, ""); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		fmt.Fprintln(s.err, "no tokens")
		return nil
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSUBJECT\tTENANT\tRIGHTS\tUNTIL\tNOTE")
	for _, one := range all {
		end := "-"
		if !one.Expires.IsZero() {
			end = one.Expires.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", printable(one.ID), printable(one.Subject), printable(one.Tenant),
			cmp.Or(strings.Join(one.Rights, ","), "-"), end, printable(one.Note))
	}
	_ = w.Flush() // a strings.Builder takes everything
	_, err = fmt.Fprint(s.out, trimmed(b.String()))
	return err
}

type tokenRevokeCmd struct {
	tokenFile

	ID string `arg:"" name:"id" help:"The token, as the list names it."`
}

// Run removes a token.
func (c *tokenRevokeCmd) Run(t *tokenCmd, s *streams) error {
	var gone tokenfile.Token
	err := tokenfile.Change(c.File, func(all []tokenfile.Token) ([]tokenfile.Token, error) {
		i := slices.IndexFunc(all, func(one tokenfile.Token) bool { return one.ID == c.ID })
		if i < 0 {
			return nil, &exitError{exitMissing, fmt.Errorf("there is no token %s in %s", printable(c.ID), c.File)}
		}
		gone = all[i]
		return slices.Delete(all, i, i+1), nil
	})
	if err != nil {
		return err
	}
	return show(s, t.JSON, gone,
		"bearer token %s of %s in tenant %s is revoked; what is held with it lasts until it expires\n",
		gone.ID, printable(gone.Subject), printable(gone.Tenant))
}
