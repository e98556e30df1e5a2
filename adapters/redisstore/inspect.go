package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
	hello, err := s.ask(ctx, s.client, "HELLO", "3")
	if err != nil {
		return s.explain(ctx, "open", err)
	}
	about, _ := hello.(map[any]any)
	if about["mode"] == "sentinel" {
		return fmt.Errorf("redis: open %s on %s: this is a Sentinel, and no server: name the master that it watches "+
			"(LEASEHOLD_REDIS_SENTINEL_MASTER)", s.keys.root, s.addr)
	}
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
	of := s.keys.of(probe.Tenant)
	forbidden, err := s.run(ctx, checkScript, []string{
		of.doc(probe), of.ids(probe.Kind, probe.Tenant), of.own, of.ends, of.tenants, of.by(probe.Kind, probe.Tenant),
	})
	if err != nil {
		return s.explain(ctx, "open", err)
	}
	if len(forbidden) > 0 {
		return fmt.Errorf("redis: open %s on %s: this user may not run %v: %s", s.keys.root, s.addr, forbidden, permissions)
	}
	for _, of := range s.keys.shards {
		if _, err := s.claim(ctx, of); isPassing(err) {
			break // the first call on each shard asks again
		} else if err != nil {
			return s.explain(ctx, "open", err)
		}
	}
	if s.warned.found, err = s.settings(ctx); err != nil {
		return s.explain(ctx, "open", err)
	}
	if err := s.evicting(); err != nil {
		return fmt.Errorf("redis: open %s on %s: %w", s.keys.root, s.addr, err)
	}
	return nil
}

// ask sends a command that is not of the store's everyday work.
func (s *Store) ask(ctx context.Context, c sdk.UniversalClient, command ...any) (any, error) {
	return s.retry(ctx, nil, func() (any, error) { return send(ctx, c, command) })
}

func (s *Store) checkVersion(version string) error {
	major, _, _ := strings.Cut(version, ".")
	switch n, err := strconv.Atoi(major); {
	case err != nil:
		s.warned.always = append(s.warned.always, s.sentence("its version could not be checked (%q): %d or later is needed",
			version, oldest))
	case n < oldest:
		return fmt.Errorf("redis: open %s on %s: the server is of version %s: %d or later is needed", s.keys.root,
			s.addr, version, oldest)
	}
	return nil
}

// settings says what could take back an acknowledged write, and with it a fencing token. What several members of a
// cluster have in common is said once.
func (s *Store) settings(ctx context.Context) (found []string, err error) {
	servers, err := s.servers(ctx)
	if err != nil {
		return nil, err
	}
	s.eviction.look()
	defer func() { s.eviction.looked(err == nil) }()
	for _, server := range servers {
		of, err := s.settingsOf(ctx, server)
		if err != nil {
			return nil, err
		}
		for _, w := range of {
			if !slices.Contains(found, w) {
				found = append(found, w)
			}
		}
	}
	return found, nil
}

func (s *Store) settingsOf(ctx context.Context, server sdk.UniversalClient) (found []string, err error) {
	warnf := func(format string, args ...any) { found = append(found, s.sentence(format, args...)) }
	reply, err := s.ask(ctx, server, "INFO")
	if err != nil && !isRejection(err) {
		return nil, err
	}
	text, _ := reply.(string)
	info := fields(text)
	if info["role"] == "slave" {
		warnf("the server is a replica: it will refuse every call until it becomes the primary; name the primary")
	}
	// Only keys with an expiry are evicted by volatile-*, and no key of Leasehold has one.
	switch policy, known := info["maxmemory_policy"]; {
	case !known:
		warnf(
			"whether it evicts keys could not be checked (INFO): maxmemory-policy must be noeviction or one of volatile-*, or " +
				"locks may be free before their time")
	case policy == "noeviction" || strings.HasPrefix(policy, "volatile-"):
	case info["maxmemory"] == "0":
		warnf("maxmemory-policy is %s: with a maxmemory, documents would be evicted, and their locks be free before their "+
			"time; set noeviction", policy)
	default:
		s.eviction.found(info["run_id"], info["evicted_keys"])
		warnf("maxmemory-policy is %s: documents may be evicted when memory is short, and their locks are free before their "+
			"time (%s keys were evicted so far); set noeviction", policy, cmp.Or(info["evicted_keys"], "0"))
	}
	if _, known := info["run_id"]; !known && info["role"] != "" {
		warnf("which server it is could not be found out (INFO): after a failover that loses writes a token may be given twice, " +
			"unless you run `leasehold store raise-tokens`")
	}
	switch info["aof_enabled"] {
	case "1":
		sync, err := s.syncSetting(ctx, server)
		if err != nil {
			return nil, err
		}
		switch sync {
		case "always":
		case "":
			warnf(
				"appendfsync could not be checked (CONFIG GET): it must be always, or acknowledged writes may be lost with the power")
		case "everysec":
			warnf(
				"appendfsync is everysec: two seconds of acknowledged writes may be lost with the power, and a lock be granted while it is held; set always")
		default:
			warnf(
				"appendfsync is %s: half a minute of acknowledged writes may be lost with the power, and a lock be granted while it is held; set always", sync)
		}
	case "0":
		warnf(
			"appendonly is no: acknowledged writes are lost when the server ends or loses power, and a lock be granted " +
				"while it is held; set appendonly yes and appendfsync always")
	default:
		warnf("whether it keeps an append-only file could not be checked (INFO): without one a lock may be granted while it is held, " +
			"after a restart")
	}
	return found, nil
}

// syncSetting is how soon the append-only file reaches the disk, empty if that is not said: managed services forbid
// CONFIG.
func (s *Store) syncSetting(ctx context.Context, server sdk.UniversalClient) (string, error) {
	reply, err := s.ask(ctx, server, "CONFIG", "GET", "appendfsync")
	if err != nil && !isRejection(err) {
		return "", err
	}
	config, _ := reply.(map[any]any)
	policy, _ := config["appendfsync"].(string)
	return policy, nil
}

// isRejection reports whether the server does not know a command, or does not let this user run it.
func isRejection(err error) bool {
	return sdk.HasErrorPrefix(err, "NOPERM") || sdk.HasErrorPrefix(err, "unknown command") ||
		sdk.HasErrorPrefix(err, "unknown subcommand")
}

// sentence is a warning that says which server it is about.
func (s *Store) sentence(format string, args ...any) string {
	return fmt.Sprintf("Redis on %s: ", s.addr) + fmt.Sprintf(format, args...)
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
