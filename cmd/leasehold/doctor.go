package main

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/internal/buildinfo"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

type doctorCmd struct {
	kong.Plugins // the flags of the settings

	Server        string `env:"LEASEHOLD_SERVER" placeholder:"URL" help:"Check this server from here (${env}), and not the settings of one."`
	AuthTokenFile string `env:"LEASEHOLD_AUTH_TOKEN_FILE" type:"path" placeholder:"FILE" help:"File with the bearer token (${env}). LEASEHOLD_AUTH_TOKEN holds the token itself."`
	Tenant        string `default:"default" env:"LEASEHOLD_TENANT" help:"The tenant that commands will name to that server (${env}; default ${default})."`
	JSON          bool   `name:"json" help:"Print one JSON object a line, for machines."`

	flags settingFlags
}

func newDoctorCmd() doctorCmd {
	flags := newSettingFlags(settings.Serve)
	return doctorCmd{Plugins: flags.plugin(), flags: flags}
}

// Help is the longer help of the command.
func (doctorCmd) Help() string {
	return `Without --server it checks what "leasehold serve" would start with, by the same flags and variables: the settings, who callers are, the certificate, the store with its clock, its index and its removal of old documents. Run it as the user that the server runs as: it opens the store as the server does, and writes one small document that the store removes. It makes no table, and no database of SQLite. With --server it checks a server that runs: the way there, the clock, the version, who you are to it, and whether your tenant is the one that commands will name.

  leasehold doctor
  leasehold doctor --store dynamodb --table leasehold --region eu-west-1
  leasehold doctor --server https://leasehold.example --auth-token-file token

Each line is ok, warn (it works, and will cost you something), FAIL (it does not work) or skip (it cannot be checked from here), with what to do.

Exit codes: 0 nothing failed, 1 something failed, 2 the settings are wrong.`
}

// finding is what a check found.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warn, fail or skip
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // what to do, unless the detail says it
}

// examination is a run of the checks.
type examination struct {
	s      *streams
	json   bool
	failed int
}

// tell prints a finding.
func (e *examination) tell(check, status, detail, fix string) error {
	if status == "fail" {
		e.failed++
	}
	if e.json {
		return show(e.s, true, finding{check, status, detail, fix}, "")
	}
	if status == "fail" {
		status = "FAIL"
	}
	text := fmt.Sprintf("%-5s %-12s %s\n", status, check, strings.ReplaceAll(detail, "\n", "\n"+strings.Repeat(" ", 19)))
	if fix != "" {
		text += strings.Repeat(" ", 19) + "→ " + fix + "\n"
	}
	_, err := io.WriteString(e.s.out, text)
	return err
}

// result tells what a check found: fine if there is no error.
func (e *examination) result(check string, err error, fine, fix string) error {
	if err != nil {
		return e.tell(check, "fail", err.Error(), fix)
	}
	return e.tell(check, "ok", fine, "")
}

// Run checks.
func (cmd *doctorCmd) Run(ctx context.Context, s *streams) error {
	e := &examination{s: s, json: cmd.JSON}
	given := cmd.flags.given()
	var err error
	switch {
	case cmd.Server == "":
		err = cmd.settings(ctx, e)
	case len(given) > 0:
		for name := range given {
			return usage("--server and --%s cannot both be given: either a server that runs is checked, or settings", name)
		}
	default:
		err = cmd.server(ctx, e)
	}
	if err != nil {
		return err
	}
	if e.failed > 0 {
		return &exitError{exitFailed, fmt.Errorf("%d of the checks failed", e.failed)}
	}
	return nil
}

// settings checks what a server would start with.
func (cmd *doctorCmd) settings(ctx context.Context, e *examination) error {
	c, err := cmd.flags.load()
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	if err := errors.Join(
		e.tell("version", "ok", buildinfo.This(version).String(), ""),
		e.tell("settings", "ok", "store "+c.Store+", listens on "+c.Listen+", callers: "+c.Authentication(
			"development mode, which accepts everyone on this machine"), ""),
		e.callers(ctx, c, quiet),
		e.certificate(c, quiet),
		e.files(c.GuardedFiles()),
	); err != nil {
		return err
	}
	if err := e.audit(c); err != nil {
		return err
	}
	c.CreateTable = false // it only looks
	if c.Store == "sqlite" {
		if path, err := sqlitePath(c); err == nil {
			// serve makes it: an empty file, too, is none
			if f, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && f.Size() == 0 {
				return e.missing(c, path)
			}
		}
	}
	store, where, err := openStore(ctx, c, quiet, use{})
	if err != nil {
		return e.result("store", err, "", "")
	}
	defer closeLogged(quiet, "close the store", store.Close)
	return errors.Join(
		e.tell("store", "ok", where, ""),
		e.log(store),
		e.warnings(store),
		e.write(ctx, store),
		e.clock(ctx, c, store),
		e.index(ctx, store),
		e.removal(ctx, c, store),
	)
}

// forged is a token that no issuer has signed: to reject it its keys are needed.
var forged = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"leasehold-doctor"}`)) + ".e30.AA"

// callers checks that tokens can be verified.
func (e *examination) callers(ctx context.Context, c *settings.Config, log *slog.Logger) error {
	who, err := identify(ctx, c, log)
	if err != nil {
		return e.result("callers", err, "", "")
	}
	if c.AuthIssuer == "" {
		if c.AuthTokens == "" {
			return e.tell("callers", "ok", "no tokens, and so this machine only", "")
		}
		return e.tell("callers", "ok", "the tokens of "+c.AuthTokens, "")
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+forged)
	switch _, err = who.Identify(r); {
	case err == nil:
		return e.tell("callers", "fail", "a forged token is accepted", "report this: SECURITY.md says how")
	case errors.Is(err, httpapi.ErrUnauthenticated):
		return e.tell("callers", "ok", "the keys of "+c.AuthIssuer+" can be read", "")
	}
	return e.result("callers", err, "", c.Name("LEASEHOLD_AUTH_ISSUER")+" is the issuer's URL as it stands in tokens (iss); "+
		"this machine must reach it")
}

// audit checks that the file of audit events can be written, and leaves none behind that was not there.
func (e *examination) audit(c *settings.Config) error {
	if c.AuditLog == "" {
		return nil
	}
	f, err := os.OpenFile(c.AuditLog, os.O_APPEND|os.O_WRONLY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the server makes it
		err = tryFolder(filepath.Dir(c.AuditLog))
	case err == nil:
		err = f.Close()
		if err == nil && c.AuditSize > 0 {
			err = tryFolder(filepath.Dir(c.AuditLog)) // it is renamed there
		}
	}
	if detail, fix := auditBesideStore(c); err == nil && detail != "" {
		return e.tell("audit", "warn", detail, fix)
	}
	return e.result("audit", err, "events go to "+c.AuditLog,
		"let the server's user write there, or name another file with "+c.Name("LEASEHOLD_AUDIT_LOG"))
}

// tryFolder reports whether a file can be made in a folder, and leaves none there.
func tryFolder(folder string) error {
	f, err := os.CreateTemp(folder, ".leasehold-doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// missing checks whether serve could make a database that there is none of: in its folder, or in the nearest one that
// there is.
func (e *examination) missing(c *settings.Config, path string) error {
	folder := filepath.Dir(path)
	for parent := filepath.Dir(folder); parent != folder; folder, parent = parent, filepath.Dir(parent) {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err := tryFolder(folder); err != nil {
		return e.result("store", fmt.Errorf("there is no database %s, and serve cannot make it: %w", path, err), "",
			"let the server's user write there, or name another folder with "+c.Name("LEASEHOLD_DATA"))
	}
	return e.tell("store", "warn", "there is no database "+path+" yet: nothing else of the store is checked",
		"if there should be one, name its folder with "+c.Name("LEASEHOLD_DATA")+"; otherwise serve makes it")
}

// certificateWarning is how long before the end of a certificate one should know of it.
const certificateWarning = 21 * 24 * time.Hour

// certificate checks the server's certificate.
func (e *examination) certificate(c *settings.Config, log *slog.Logger) error {
	t, err := openCertificate(c, log)
	if err != nil {
		return e.result("certificate", err, "", "")
	}
	if t == nil {
		if detail, fix := tokensInTheClear(c); detail != "" {
			return e.tell("certificate", "warn", detail, fix)
		}
		return e.tell("certificate", "ok", "none: the server speaks HTTP without TLS", "")
	}
	leaf, err := x509.ParseCertificate(t.Latest().Certificate[0])
	if err != nil {
		return e.result("certificate", err, "", "")
	}
	until := leaf.NotAfter.UTC().Format(time.RFC3339)
	fix := "renew it; the server reads the new one by itself"
	switch left := time.Until(leaf.NotAfter); {
	case left <= 0:
		return e.tell("certificate", "fail", "it ended at "+until, fix)
	case left < certificateWarning:
		return e.tell("certificate", "warn", "it ends at "+until, fix)
	}
	return e.tell("certificate", "ok", "until "+until, "")
}

// tokensInTheClear says that a server without a certificate is sent tokens from elsewhere, and what to do.
func tokensInTheClear(c *settings.Config) (detail, fix string) {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil || c.TLSCert != "" || !c.Authenticates() || httpapi.Loopback(host) || c.CloudRun {
		return "", ""
	}
	return "no certificate: what sends tokens to " + c.Listen + " must not send them in the clear",
		"set " + c.Name("LEASEHOLD_TLS_CERT") + " and " + c.Name("LEASEHOLD_TLS_KEY") + ", or end TLS in front of the server"
}

// log tells how large SQLite's log is; one that is too large is among the warnings.
func (e *examination) log(store docstore.Store) error {
	s, ok := store.(*sqlitestore.Store)
	if !ok {
		return nil
	}
	return e.tell("log", "ok", fmt.Sprintf("the log beside the database has %.1f MB", float64(s.LogBytes())/1e6), "")
}

// warnings tells what is set up in a way that can cost data, or money.
func (e *examination) warnings(store docstore.Store) error {
	w, ok := store.(interface{ Warnings() []string })
	if !ok {
		return nil
	}
	var errs []error
	for _, text := range w.Warnings() {
		errs = append(errs, e.tell("store", "warn", text, ""))
	}
	return errors.Join(errs...)
}

// write checks that a document can be written, as /readyz does.
func (e *examination) write(ctx context.Context, store docstore.Store) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	begin := time.Now()
	err := httpapi.TryWrite(ctx, store)
	return e.result("write", err, fmt.Sprintf("a write takes %v", time.Since(begin).Round(100*time.Microsecond)),
		"the program needs the right to read and write; docs/guides/stores.md lists the permissions")
}

// clockWarning is how far a clock may be off before one should know of it.
const clockWarning = time.Second

// clock compares this machine's clock with the store's.
func (e *examination) clock(ctx context.Context, c *settings.Config, store docstore.Store) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	begin := time.Now()
	behind, at, err := httpapi.StoreBehind(ctx, store)
	switch {
	case err != nil:
		return e.result("clock", err, "", "")
	case behind > 0:
		return e.tell("clock", "warn", httpapi.BehindText(behind), "set the clock of the store's machine by chrony or "+
			"systemd-timesyncd, and start the store after time-sync.target")
	case c.Store == "memory", c.Store == "sqlite":
		return e.tell("clock", "ok", "it is this machine's", "")
	}
	low, high := time.Until(at), at.Sub(begin) // the store's clock is ahead by something between these
	if m, ok := store.(docstore.Meter); ok {
		if u := m.Usage().Clock; u.Known { // the store's time is made of this clock
			low, high = u.Offset-u.Uncertainty/2, u.Offset+u.Uncertainty/2
		}
	}
	return e.offset("the store's", low, high)
}

// offset tells by how much a clock is ahead of this machine's.
func (e *examination) offset(whose string, low, high time.Duration) error {
	off, how := time.Duration(0), "ahead of"
	switch {
	case low > 0:
		off, how = low, "behind"
	case high < 0:
		off = -high
	}
	detail := fmt.Sprintf("this machine's clock is at least %v %s %s", off.Round(time.Millisecond), how, whose)
	if off <= clockWarning {
		return e.tell("clock", "ok", "this machine's clock and "+whose+" agree within a second", "")
	}
	return e.tell("clock", "warn", detail, "synchronise it, with chrony or systemd-timesyncd: tokens keep the order all the "+
		"same, but times that people compare are wrong, and DynamoDB's requests need a clock that is right")
}

// index checks that analyses whose locks have expired can be found without reading all.
func (e *examination) index(ctx context.Context, store docstore.Store) error {
	d, ok := store.(docstore.DueLister)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	_, err := d.Due(ctx, docstore.DueQuery{Kind: analysis.Kind, Field: analysis.ExpiryField, UpTo: time.Now(), Limit: 1})
	if errors.Is(err, docstore.ErrNoIndex) {
		return e.tell("index", "warn", "there is no index for the sweep, which finds runs whose workers died: "+err.Error(),
			"make it as docs/guides/stores.md says, or go without the sweep")
	}
	return e.result("index", err, "the sweep finds expired locks by an index", "")
}

// removal checks that the store removes documents whose time to live has passed.
func (e *examination) removal(ctx context.Context, c *settings.Config, store docstore.Store) error {
	if s, ok := store.(*awsdynamodb.Store); ok {
		ctx, cancel := context.WithTimeout(ctx, openTimeout)
		defer cancel()
		on, err := s.TimeToLive(ctx)
		if err != nil {
			return e.tell("removal", "skip", "whether the table's time to live is on is not known: "+err.Error(),
				"let the program call dynamodb:DescribeTimeToLive, or look at the table")
		}
		if !on {
			return e.tell("removal", "warn", "the table's time to live is off: what has ended is never removed, and is paid for",
				"aws dynamodb update-time-to-live --table-name "+c.Table+
					" --time-to-live-specification Enabled=true,AttributeName="+awsdynamodb.TimeToLiveAttribute)
		}
		return e.tell("removal", "ok", "the table's time to live is on", "")
	}
	if c.Store == "firestore" {
		return e.tell("removal", "skip", "policies of time to live cannot be read with the rights of a server",
			"gcloud firestore fields ttls list; docs/guides/gcp.md has those that are needed")
	}
	return e.tell("removal", "ok", "the server removes what has ended by itself", "")
}

// server checks a server that runs.
func (cmd *doctorCmd) server(ctx context.Context, e *examination) error {
	r := remote{Server: strings.TrimSuffix(cmd.Server, "/"), AuthTokenFile: cmd.AuthTokenFile}
	c, err := r.connect()
	if err != nil {
		return err
	}
	if cmd.AuthTokenFile != "" {
		if err := e.files([]settings.GuardedFile{{Name: "--auth-token-file", Path: cmd.AuthTokenFile}}); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	_, body, err := get(ctx, r.Server+"/healthz")
	if err != nil {
		fix := ""
		if strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
			fix = "the server speaks HTTP without TLS: use http://, if it is on this machine"
		}
		return e.result("server", r.explain(err), "", fix)
	}
	if err := e.tell("server", "ok", r.Server+" responds", ""); err != nil {
		return err
	}
	var health contracts.Health
	probes := json.Unmarshal(body, &health) == nil && health.Status == "ok" // Cloud Run keeps paths that end in z for itself
	begin := time.Now()
	caller, err := c.Operations().Caller(ctx)
	if err != nil {
		fix := ""
		if errors.Is(err, contracts.CodeUnauthenticated) {
			fix = "set LEASEHOLD_AUTH_TOKEN, or name a file with --auth-token-file; docs/guides/authentication.md says which token"
		}
		return e.result("caller", r.explain(err), "", fix)
	}
	end := time.Now()
	who := fmt.Sprintf("you are %s, in the tenant %s", caller.Subject, caller.TenantID)
	if caller.Development {
		who = "development mode: everyone may do everything"
	}
	if err := errors.Join(e.version(caller.Version), e.tell("caller", "ok", who, ""),
		e.tenant(cmd.Tenant, caller)); err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, caller.At)
	if err != nil {
		return e.result("clock", err, "", "")
	}
	if err := e.offset("the server's", at.Sub(end), at.Add(time.Millisecond).Sub(begin)); err != nil {
		return err
	}
	if !probes {
		return nil
	}
	return e.result("ready", ready(ctx, r), "the server's store takes writes",
		"its log has the reason; run doctor where it runs, with its settings")
}

// version compares the server's version with this program's.
func (e *examination) version(of string) error {
	switch own := buildinfo.This(version).Version; of {
	case "":
		return e.tell("version", "skip", "the server does not say it", "")
	case own:
		return e.tell("version", "ok", of+", as this program", "")
	default:
		return e.tell("version", "warn", "the server is "+of+", this program is "+own,
			"docs/guides/releases.md says which go together")
	}
}

// tenant compares the tenant that commands name with the only one that the caller may touch.
func (e *examination) tenant(named string, caller contracts.CallerInfo) error {
	if caller.Development || caller.TenantID == "" || caller.TenantID == named {
		return e.tell("tenant", "ok", "commands name the tenant "+quoted(named), "")
	}
	own := shellWord(caller.TenantID)
	return e.tell("tenant", "fail", "commands name the tenant "+quoted(named)+", your token is for "+
		quoted(caller.TenantID)+": they will be refused", "set LEASEHOLD_TENANT="+own+", or give --tenant "+own)
}
