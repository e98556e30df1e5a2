package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// oldest is the first version of Redis whose scripts say what they are going to do, so that the server can reject one
// before it starts: on a replica, without memory, without a disk.
const oldest = 7

// inspect checks the server: its version and role, whether this user may run the scripts, and whether what is
// acknowledged survives. It finds out that the server belongs to a cluster.
func (s *Store) inspect(ctx context.Context) error {
	hello, err := ask(ctx, s.client, "HELLO", "3")
	if err != nil {
		return s.explain(ctx, "open", err)
	}
	about, _ := hello.(map[any]any)
	version, _ := about["version"].(string)
	if err := s.checkVersion(version); err != nil {
		return err
	}
	if about["mode"] == "cluster" {
		if err := s.useCluster(); err != nil {
			return err
		}
	}
	probe := docstore.Key{Kind: "health", ID: "ready"}
	forbidden, err := s.run(ctx, checkScript, true, []string{
		s.keys.doc(probe), s.keys.ids(probe.Kind, probe.Tenant), s.keys.own(), s.keys.ends(), s.keys.tenants(),
	})
	if err != nil {
		return s.explain(ctx, "open", err)
	}
	if len(forbidden) > 0 {
		return fmt.Errorf("redis: open %s on %s: this user may not run %v: %s", s.keys.root, s.addr, forbidden, permissions)
	}
	if _, err := s.claim(ctx); err != nil && !isPassing(err) {
		return s.explain(ctx, "open", err)
	}
	member, err := s.member(ctx)
	if err != nil {
		return s.explain(ctx, "open", err)
	}
	return s.checkSettings(ctx, member)
}

// ask sends a command that is not of the store's everyday work.
func ask(ctx context.Context, c sdk.UniversalClient, command ...any) (any, error) {
	return retry(ctx, true, func() (any, error) { return send(ctx, c, command) })
}

func (s *Store) checkVersion(version string) error {
	major, _, _ := strings.Cut(version, ".")
	switch n, err := strconv.Atoi(major); {
	case err != nil:
		s.warnf("its version could not be checked (%q): %d or later is needed", version, oldest)
	case n < oldest:
		return fmt.Errorf("redis: open %s on %s: the server is of version %s: %d or later is needed", s.keys.root, s.addr, version, oldest)
	}
	return nil
}

// checkSettings warns of what could take back an acknowledged write, and with it a fencing token.
func (s *Store) checkSettings(ctx context.Context, member sdk.UniversalClient) error {
	reply, err := ask(ctx, member, "INFO")
	if err != nil && !isRejection(err) {
		return s.explain(ctx, "open", err)
	}
	text, _ := reply.(string)
	info := fields(text)
	if info["role"] == "slave" {
		s.warnf("the server is a replica: it will refuse every call until it becomes the primary; name the primary")
	}
	switch policy, known := info["maxmemory_policy"]; {
	case !known:
		s.warnf("whether it evicts keys could not be checked (INFO): maxmemory-policy must be noeviction or one of volatile-*, or " +
			"tokens may begin anew")
	case strings.HasPrefix(policy, "allkeys-"):
		s.warnf("maxmemory-policy is %s: documents may be evicted when memory is short, and their tokens begin anew; set noeviction", policy)
	}
	switch info["aof_enabled"] {
	case "1":
		return s.checkSync(ctx, member)
	case "0":
		s.warnf("appendonly is no: acknowledged writes are lost when the server ends or loses power, and a token may be given " +
			"twice; set appendonly yes and appendfsync always")
	default:
		s.warnf("whether it keeps an append-only file could not be checked (INFO): without one a token may be given twice " +
			"after a restart")
	}
	return nil
}

// checkSync checks how soon the append-only file reaches the disk. Managed services forbid CONFIG.
func (s *Store) checkSync(ctx context.Context, member sdk.UniversalClient) error {
	reply, err := ask(ctx, member, "CONFIG", "GET", "appendfsync")
	if err != nil && !isRejection(err) {
		return s.explain(ctx, "open", err)
	}
	config, _ := reply.(map[any]any)
	switch policy, _ := config["appendfsync"].(string); policy {
	case "always", "everysec":
	case "":
		s.warnf("appendfsync could not be checked (CONFIG GET): it must be always, or everysec where a second of acknowledged " +
			"writes may be lost with the power")
	default:
		s.warnf("appendfsync is %s: half a minute of acknowledged writes may be lost with the power, and a token may be given twice; "+
			"set always", policy)
	}
	return nil
}

// isRejection reports whether the server does not know a command, or does not let this user run it.
func isRejection(err error) bool {
	return sdk.HasErrorPrefix(err, "NOPERM") || sdk.HasErrorPrefix(err, "unknown command") || sdk.HasErrorPrefix(err, "unknown subcommand")
}

func (s *Store) warnf(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf("Redis on %s: ", s.addr)+fmt.Sprintf(format, args...))
}

// fields reads the response to INFO: lines of name:value, and headings.
func fields(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			found[name] = value
		}
	}
	return found
}
