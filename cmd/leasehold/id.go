package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/kazahana/extid"
)

type idCmd struct {
	JSON bool `name:"json" help:"Print JSON, one object a line."`

	Next         idNextCmd         `cmd:"" help:"Make IDs."`
	Decode       idDecodeCmd       `cmd:"" help:"Take IDs apart, from decimal digits or public IDs."`
	Encode       idEncodeCmd       `cmd:"" help:"Convert IDs to public IDs of 11 characters."`
	ForceRelease idForceReleaseCmd `cmd:"" help:"End leases of machine IDs whose holders are gone (operators)."`
	Bench        idBenchCmd        `cmd:"" help:"Measure how many IDs this machine makes; takes 4 seconds."`
}

// Help is the longer help of the command.
func (idCmd) Help() string {
	return `Public IDs are converted under the secret in LEASEHOLD_EXTERNAL_ID_SECRET, or in the file of --secret-file, or with --mode unkeyed
by a public algorithm:

  export LEASEHOLD_EXTERNAL_ID_SECRET=$(openssl rand -base64 32)
  leasehold id encode --entity user 7301444403200005
  leasehold id decode --entity user 9xO-N-buxPg

Secret, mode, key and entity must be those of the program that shows the public IDs. An ID "-" means IDs from the standard input,
one a line.`
}

// layoutFlags say where the parts of an ID are. Their defaults are kazahana.DefaultLayout.
type layoutFlags struct {
	Epoch      int64 `default:"1767225600000" placeholder:"MS" help:"When timestamps begin, in Unix milliseconds (default ${default}, the start of 2026)."`
	BitReserve int   `default:"1" placeholder:"N" help:"Zero bits at the front (default ${default})."`
	BitTs      int   `default:"41" placeholder:"N" help:"Bits of the timestamp (default ${default})."`
	BitID      int   `name:"bit-id" default:"14" placeholder:"N" help:"Bits of the machine ID with its fallback bit (default ${default})."`
	BitSeq     int   `default:"8" placeholder:"N" help:"Bits of the sequence (default ${default})."`
}

func (f layoutFlags) layout() (kazahana.Layout, error) {
	l := kazahana.Layout{CustomEpoch: f.Epoch, BitReserve: f.BitReserve, BitTs: f.BitTs, BitID: f.BitID, BitSeq: f.BitSeq}
	if err := l.Validate(); err != nil {
		return l, usage("--epoch, --bit-…: %w", err)
	}
	return l, nil
}

// conversion says how IDs become public IDs. A secret is no flag: other users of the machine can read flags.
type conversion struct {
	Mode       string `default:"ff1-aes256" enum:"ff1-aes256,ff1-aes128,unkeyed" help:"How to convert: ff1-aes256 (the default), ff1-aes128, or unkeyed, which needs no secret."`
	Entity     string `env:"LEASEHOLD_EXTERNAL_ID_ENTITY" placeholder:"NAME" help:"What the IDs name, as \"user\" (${env})."`
	Key        int    `default:"0" env:"LEASEHOLD_EXTERNAL_ID_KEY" placeholder:"N" help:"Number of the secret, 0 to 3 (${env}; default ${default})."`
	SecretFile string `env:"LEASEHOLD_EXTERNAL_ID_SECRET_FILE" type:"path" placeholder:"FILE" help:"File with the secret (${env}); a line end at its end does not count. LEASEHOLD_EXTERNAL_ID_SECRET holds the secret itself."`
}

// AfterApply rejects misspelt variables, as servers do.
func (conversion) AfterApply() error { return settings.CheckClient(os.Environ()) }

func (c conversion) converter(l kazahana.Layout, anyID bool) (*extid.Converter, error) {
	k := extid.Key{Number: c.Key, Mode: extid.Mode(c.Mode)}
	if k.Mode != extid.Unkeyed {
		secret := os.Getenv("LEASEHOLD_EXTERNAL_ID_SECRET")
		if c.SecretFile != "" {
			b, err := os.ReadFile(c.SecretFile)
			if err != nil {
				return nil, usage("--secret-file: %w", err)
			}
			secret = strings.TrimRight(string(b), "\r\n")
		}
		if secret == "" {
			return nil, usage(
				"no secret: set LEASEHOLD_EXTERNAL_ID_SECRET, or --secret-file, or say --mode unkeyed to convert without one")
		}
		k.Secret = []byte(secret)
	}
	converter, err := extid.New([]extid.Key{k}, &extid.Options{Entity: c.Entity, Layout: l, AnyID: anyID})
	if err != nil {
		return nil, usage("public IDs: %w", err)
	}
	return converter, nil
}

type idEncodeCmd struct {
	IDs []string `arg:"" name:"id" help:"IDs in decimal digits; - reads them from the standard input."`
	conversion
}

// converted is what encode prints as JSON.
type converted struct {
	ID         kazahana.ID `json:"id"`
	ExternalID string      `json:"external_id"`
}

// Run prints the public IDs.
func (c *idEncodeCmd) Run(ctx context.Context, top *idCmd, s *streams) error {
	converter, err := c.converter(kazahana.DefaultLayout(), true)
	if err != nil {
		return err
	}
	return each(ctx, c.IDs, func(text string) error {
		id, err := kazahana.ParseID(text)
		if err != nil {
			return usage("%w", err)
		}
		external := converter.Encode(id)
		return show(s, top.JSON, converted{id, external}, "%s\n", external)
	})
}

type idDecodeCmd struct {
	IDs     []string `arg:"" name:"id" help:"Decimal digits, or public IDs of 11 characters; - reads them from the standard input."`
	Decimal bool     `help:"Take 11 digits as a decimal ID, not as an external one."`
	Base32  bool     `name:"base32" help:"Take 13 digits of base 32, as \"id next --base32\" prints them."`
	Any     bool     `help:"Show public IDs that cannot have been made by now, too."`
	conversion
	layoutFlags
}

// decoded is what decode and next print as JSON.
type decoded struct {
	ID         kazahana.ID `json:"id"`
	Base32     string      `json:"base32"`
	ExternalID string      `json:"external_id,omitempty"`
	Time       string      `json:"time"`
	UnixMs     int64       `json:"unix_ms"`
	Fallback   bool        `json:"fallback"`
	MachineID  int64       `json:"machine_id"`
	Sequence   int64       `json:"sequence"`
	Node       int64       `json:"node"`
}

// takeApart is an ID in its parts.
func takeApart(id kazahana.ID, l kazahana.Layout) decoded {
	p := l.Decode(id)
	return decoded{
		ID: id, Base32: id.Base32(), Time: p.Time.Format("2006-01-02T15:04:05.000Z"), UnixMs: p.Time.UnixMilli(),
		Fallback: p.Fallback, MachineID: p.MachineID, Sequence: p.Sequence, Node: p.Node,
	}
}

// Run prints the parts of the IDs.
func (c *idDecodeCmd) Run(ctx context.Context, top *idCmd, s *streams) error {
	layout, err := c.layout()
	if err != nil {
		return err
	}
	var converter *extid.Converter // made when the first public ID comes: decimal ones need no secret
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	header := "ID\tTIME\tFALLBACK\tMACHINE\tSEQUENCE\tNODE\n"
	err = each(ctx, c.IDs, func(text string) error {
		var id kazahana.ID
		external := ""
		if c.Base32 {
			if id, err = kazahana.ParseBase32(text); err != nil {
				return usage("%w", err)
			}
		} else if digits := strings.Trim(text, "0123456789") == ""; digits && (c.Decimal || len(text) != extid.Length) {
			if id, err = kazahana.ParseID(text); err != nil {
				return usage("%w", err)
			}
		} else {
			if converter == nil {
				if converter, err = c.converter(layout, c.Any); err != nil {
					return err
				}
			}
			if id, err = converter.Decode(text); err != nil {
				return undecodable(text, err)
			}
			external = text
		}
		d := takeApart(id, layout)
		d.ExternalID = external
		if top.JSON {
			return show(s, true, d, "")
		}
		_, err := fmt.Fprintf(w, "%s%v\t%s\t%t\t%d\t%d\t%d\n", header, d.ID, d.Time, d.Fallback, d.MachineID,
			d.Sequence, d.Node)
		header = ""
		return err
	})
	return errors.Join(err, w.Flush())
}

// undecodable says what to look at when a public ID is refused.
func undecodable(text string, err error) error {
	if len(text) > 40 {
		text = text[:40] + "…"
	}
	if errors.Is(err, extid.ErrImplausible) {
		return usage(
			"%q decodes to no ID that was made: another secret, --mode, --entity or layout, or made up; --any shows it all the same", text)
	}
	if e, ok := errors.AsType[*extid.KeyNumberError](err); ok {
		return usage("%q: %w: --key %d, with its secret", text, err, e.Number)
	}
	return usage("%q: %w", text, err)
}

// each calls f for each ID of the command line, where "-" means the lines of the standard input.
func each(ctx context.Context, ids []string, f func(string) error) error {
	for _, id := range ids {
		if id != "-" {
			if err := f(strings.TrimPrefix(id, dash)); err != nil {
				return err
			}
			continue
		}
		if err := eachLine(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// eachLine calls f for each line of the standard input. A read cannot be interrupted, so it is left behind when the
// context ends.
func eachLine(ctx context.Context, f func(string) error) error {
	lines, failed := make(chan string), make(chan error, 1)
	go func() {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
		failed <- in.Err()
	}()
	for {
		select {
		case line := <-lines:
			if err := f(line); err != nil {
				return err
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// dash stands before a public ID that begins with "-" while the command line is parsed.
const dash = "\x00"

// markDashes puts dash before public IDs that begin with "-", as one in 64 does, so that they are not taken for flags:
// a script that passes on what it was given would fail now and then. No flag of the command looks like one.
func markDashes(args []string) []string {
	if len(args) < 3 || args[0] != "id" || args[1] != "decode" {
		return args
	}
	marked := slices.Clone(args)
	for i, a := range marked {
		if len(a) == extid.Length && a[0] == '-' && !strings.ContainsFunc(a, notExternal) {
			marked[i] = dash + a
		}
	}
	return marked
}

// notExternal reports whether a character is outside the alphabet of public IDs.
func notExternal(r rune) bool {
	return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}
