package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/internal/reread"
)

// remote is how to reach a server.
type remote struct {
	Server        string `default:"http://127.0.0.1:8080" env:"LEASEHOLD_SERVER" placeholder:"URL" help:"The server (${env}; default ${default})."`
	AuthTokenFile string `env:"LEASEHOLD_AUTH_TOKEN_FILE" type:"path" placeholder:"FILE" help:"File with the bearer token (${env}), read again when it was replaced. LEASEHOLD_AUTH_TOKEN holds the token itself."`
}

// AfterApply rejects misspelt variables, as servers do.
func (remote) AfterApply() error { return settings.CheckClient(os.Environ()) }

// connect makes the client of the server.
func (r remote) connect() (*client.Client, error) {
	token, err := r.token()
	if err != nil {
		return nil, err
	}
	server, err := client.New(r.Server, &client.Options{Token: token})
	if err != nil {
		name := "--server"
		if os.Getenv("LEASEHOLD_SERVER") == r.Server {
			name = "LEASEHOLD_SERVER"
		}
		return nil, usage("%s%s", name, strings.TrimPrefix(err.Error(), "server"))
	}
	return server, nil
}

// authenticated reports whether requests carry a token, which says who they are from.
func (r remote) authenticated() bool {
	return r.AuthTokenFile != "" || os.Getenv("LEASEHOLD_AUTH_TOKEN") != ""
}

// token is the source of the bearer token; nil if there is none. That of a file may be replaced while a command runs.
func (r remote) token() (func(context.Context) (string, error), error) {
	token := os.Getenv("LEASEHOLD_AUTH_TOKEN")
	if r.AuthTokenFile != "" {
		file, err := reread.Token(r.AuthTokenFile)
		if _, empty := errors.AsType[reread.EmptyError](err); empty {
			return nil, usage("--auth-token-file %s: it is empty; leasehold token new prints a token once", r.AuthTokenFile)
		}
		if err != nil {
			return nil, usage("--auth-token-file: %w", err)
		}
		return func(ctx context.Context) (string, error) {
			if client.Rejected(ctx) {
				return file.Again(), nil
			}
			return file.Latest(), nil
		}, nil
	}
	if token == "" {
		return nil, nil //nolint:nilnil // no token is no error
	}
	return func(context.Context) (string, error) { return token, nil }, nil
}

// unreachableError says that no server responds at the address, and what to do.
type unreachableError struct {
	text  string
	cause error
}

func (e *unreachableError) Error() string { return e.text }

func (e *unreachableError) Unwrap() error { return e.cause }

// explain makes an error of the network, or for want of a token, one that says what to do on a command line. Other
// errors stay as they are.
func (r remote) explain(err error) error {
	if e, ok := errors.AsType[*contracts.Error](err); ok && e.Code == contracts.CodeUnauthenticated && !r.authenticated() {
		own := *e // without what the API says about headers
		own.Detail = "this server asks for a token: set LEASEHOLD_AUTH_TOKEN, or name a file with --auth-token-file FILE"
		return &own
	}
	failed, ok := errors.AsType[*url.Error](err)
	if !ok || errors.Is(err, context.Canceled) {
		return err
	}
	server, host := r.Server, ""
	if u, err := url.Parse(r.Server); err == nil {
		server, host = u.Redacted(), u.Host
	}
	dial, ok := errors.AsType[*net.OpError](err)
	switch {
	case ok && dial.Op == "dial":
		text := fmt.Sprintf("cannot reach %s: %s; is the server running, and is --server its address?", server, reason(dial))
		if httpapi.Loopback(host) {
			start := "leasehold serve"
			if server != defaultServer {
				start += " --listen " + host
			}
			text = fmt.Sprintf("cannot reach %s: %s; is the server running? Start one with: %s", server, reason(dial), start)
		}
		return &unreachableError{text, err}
	case failed.Timeout():
		return &unreachableError{server + " did not respond in time", err}
	default:
		return &unreachableError{fmt.Sprintf("request to %s: %v", server, failed.Err), err}
	}
}

// unavailable reports whether an error says that the server could not be reached, or that it failed: the same may
// succeed later.
func unavailable(err error) bool {
	if _, ok := errors.AsType[*unreachableError](err); ok {
		return true
	}
	e, ok := errors.AsType[*contracts.Error](err)
	return ok && !e.Final() && (e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests)
}

// reason says in short why an address cannot be reached.
func reason(dial *net.OpError) string {
	if number, ok := errors.AsType[syscall.Errno](dial); ok {
		return number.Error()
	}
	if name, ok := errors.AsType[*net.DNSError](dial); ok {
		return name.Err
	}
	return cmp.Or(fmt.Sprint(dial.Err), "no connection")
}

// tenanted is how to reach a server, and for which tenant.
type tenanted struct {
	remote

	Tenant string `default:"default" env:"LEASEHOLD_TENANT" help:"The tenant (${env}; default ${default})."`
}

// inTenant is what commands about what belongs to a tenant have in common.
type inTenant struct {
	tenanted
	output
}

// AfterApply reads the flags together.
func (c *inTenant) AfterApply() error {
	c.settle()
	return c.remote.AfterApply()
}

// output is how a response is shown.
type output struct {
	Output string `short:"o" enum:"table,wide,json" default:"table" placeholder:"table|wide|json" help:"How to print what the server responds: a table or a sentence, the same with all columns, or JSON."`
	JSON   bool   `name:"json" help:"The same as --output json: the server's response as JSON, an error as JSON on standard error."`
}

// settle makes the two flags agree.
func (o *output) settle() { o.JSON = o.JSON || o.Output == "json" }

// wide reports whether to show all columns.
func (o *output) wide() bool { return o.Output == "wide" }

// locks is the client that the commands about locks share.
func (c *inTenant) locks() (*client.LockAPI, error) {
	server, err := c.connect()
	if err != nil {
		return nil, err
	}
	return server.LockAPI(), nil
}

// outcome gives an error of the server its exit code, and names the tenant.
func (c *inTenant) outcome(err error) error {
	var e *contracts.Error
	if err = c.explain(err); !errors.As(err, &e) {
		return err
	}
	return withExit(e.Code, c.ofTenant(err))
}

// ofTenant names the tenant in an error of the server, and how to name the right one if the token is for another.
func (c *tenanted) ofTenant(err error) error {
	err = fmt.Errorf("%w (tenant %s)", err, c.Tenant)
	e, _ := errors.AsType[*contracts.Error](err)
	own, ok := strings.CutPrefix(e.Detail, "your token is for tenant ")
	if ok && e.Code == contracts.CodePermissionDenied {
		if own, ok := unquotedPrefix(own); ok {
			own = shellWord(own)
			return fmt.Errorf("%w\nSay --tenant %s, or set LEASEHOLD_TENANT=%[2]s", err, own)
		}
	}
	return err
}

// ofNoTenant is the error of a command whose subject is of no tenant, where one is named: what it shows or changes is
// that of all.
func ofNoTenant(what string) error {
	if name := os.Getenv("LEASEHOLD_TENANT"); name != "" && name != "default" {
		return usage(
			"LEASEHOLD_TENANT=%s: %s to no tenant, and whoever may see one sees all of them: unset it for this command",
			shellWord(name), what)
	}
	return nil
}

// unquotedPrefix is the text in quotes with which another one begins.
func unquotedPrefix(text string) (string, bool) {
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", false
	}
	text, err = strconv.Unquote(quoted)
	return text, err == nil
}

// withExit gives an error of the server its exit code.
func withExit(code contracts.Code, err error) error {
	switch code {
	case contracts.CodeLockHeld, contracts.CodeLockDelayed, contracts.CodeLockQueueFull,
		contracts.CodeRunInProgress:
		return &exitError{exitHeld, err}
	case contracts.CodeLeaseLost, contracts.CodeLeaseExpired, contracts.CodeLeaseReleased, contracts.CodeNotOwner,
		contracts.CodeLockNotHeld,
		contracts.CodeStaleToken, contracts.CodeOtherSubject, contracts.CodeStaleIncarnation, contracts.CodeStaleEpoch:
		return &exitError{exitGone, err}
	case contracts.CodeNotFound, contracts.CodeUnknownService, contracts.CodeMemberUnknown,
		contracts.CodeTopologyUndetermined, contracts.CodeNoEligibleMember:
		return &exitError{exitMissing, err}
	case contracts.CodeNotFailed, contracts.CodeNotReady, contracts.CodeEndChanged:
		return &exitError{exitNotFailed, err}
	case contracts.CodeInvalidArgument, contracts.CodeRequestIDReused:
		return &exitError{exitUsage, err}
	default:
		return err
	}
}
