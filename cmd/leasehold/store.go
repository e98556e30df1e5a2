package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/internal/reread"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// openTimeout bounds the wait for a queue at the start, and for a store if no request may take longer.
const openTimeout = 15 * time.Second

// lostWithMemory is what operators of the store memory must know.
const lostWithMemory = "the store is in memory: when this process ends, all locks, runs and leases are forgotten. Machine IDs are leased again while their " +
	"holders go on, so that two of them may make equal IDs. For anything but trials use --store sqlite, which is the default"

// use says what a store is opened for.
type use struct {
	count  bool // what is billed is asked for
	repair bool // it raises the tokens of a store that lost writes, which no server may use
}

// openStore opens the store and makes sure that it responds; where says in words where locks are stored.
func openStore(ctx context.Context, c *settings.Config, log *slog.Logger, u use) (store docstore.Store,
	where string, err error) {
	ctx, cancel := context.WithTimeout(ctx, max(openTimeout, c.RequestTimeout))
	defer cancel()
	switch c.Store {
	case "memory":
		log.Warn(lostWithMemory)
		return docstore.NewMemory(nil), "in memory, until the server ends", nil
	case "firestore":
		return openFirestore(ctx, c)
	case "dynamodb":
		return openDynamoDB(ctx, c, log, u.count)
	case "redis":
		return openRedis(ctx, c, log, u.repair)
	default:
		return openSQLite(ctx, c, log)
	}
}

func openSQLite(ctx context.Context, c *settings.Config, log *slog.Logger) (docstore.Store, string, error) {
	path, err := sqlitePath(c)
	if err != nil {
		return nil, "", err
	}
	store, err := sqlitestore.Open(ctx, path, nil)
	if err != nil {
		return nil, "", fmt.Errorf("%w\nChoose another folder with %s", err, c.Name("LEASEHOLD_DATA"))
	}
	for _, w := range store.Warnings() {
		log.Warn(w)
	}
	return store, "in " + path, nil
}

// auditBesideStore says that audit events take the space of the store, and what to do; empty if they do not, or if it is
// not known.
func auditBesideStore(c *settings.Config) (detail, fix string) {
	path, err := sqlitePath(c)
	if c.Store != "sqlite" || c.AuditLog == "" || err != nil || !sameDisk(filepath.Dir(c.AuditLog), filepath.Dir(path)) {
		return "", ""
	}
	most := "all"
	if c.AuditSize > 0 {
		most = fmt.Sprintf("%d MiB", c.AuditSize*c.AuditFiles+maxUnknownFiles*maxUnknownSize/bytesOfAuditSize)
	}
	return fmt.Sprintf("the audit file %s may take %s of the file system of the store: while that is full, leases are neither "+
			"granted nor renewed", c.AuditLog, most),
		fmt.Sprintf("name a file on another one with %s, or keep so much free; %s and %s bound it",
			c.Name("LEASEHOLD_AUDIT_LOG"), c.Name("LEASEHOLD_AUDIT_SIZE"), c.Name("LEASEHOLD_AUDIT_FILES"))
}

// sqlitePath is the file of the store sqlite.
func sqlitePath(c *settings.Config) (string, error) {
	dir := c.Data
	if dir == "" {
		var err error
		if dir, err = dataFolder(os.Getenv); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "leasehold.db"), nil
}

func openFirestore(ctx context.Context, c *settings.Config) (docstore.Store, string, error) {
	// The credentials are renewed for as long as the server lives, not only while it starts.
	store, err := gcpfirestore.Open(context.WithoutCancel(ctx), &gcpfirestore.Options{
		Project: c.Project, Database: c.Database, Root: c.Root, Due: []string{analysis.ExpiryField},
		IndexShards: int(c.FirestoreIndexShards),
	})
	if err != nil {
		return nil, "", fmt.Errorf("%w\nSet %s and %s", err, c.Name("LEASEHOLD_PROJECT"), c.Name("LEASEHOLD_DATABASE"))
	}
	// Opening sends nothing. A read finds a wrong project or database now, and not with the first request.
	if _, err := store.Get(ctx, docstore.Key{Kind: "health", ID: "ready"}); err != nil {
		_ = store.Close() // the first error is the one that matters
		return nil, "", fmt.Errorf("%w\nSet %s and %s", err, c.Name("LEASEHOLD_PROJECT"), c.Name("LEASEHOLD_DATABASE"))
	}
	return store, "in the Firestore database " + c.Database, nil
}

func openDynamoDB(ctx context.Context, c *settings.Config, log *slog.Logger, count bool) (docstore.Store, string,
	error) {
	o := awsdynamodb.Options{
		Region: c.Region, Endpoint: c.Endpoint, MaxSkew: c.MaxSkew, CreateTable: c.CreateTable,
		IndexShards: int(c.IndexShards), CountUnits: count,
	}
	if c.CreateTable {
		o.Indexes = []string{analysis.ExpiryField} // for the sweep
	}
	store, err := awsdynamodb.Open(ctx, c.Table, &o)
	if err != nil {
		return nil, "", fmt.Errorf("%w\nSet %s, %s and %s; serve with --create-table makes the table", err,
			c.Name("LEASEHOLD_TABLE"), c.Name("LEASEHOLD_REGION"), c.Name("LEASEHOLD_ENDPOINT"))
	}
	for _, w := range store.Warnings() {
		log.Warn(w)
	}
	return store, "in the DynamoDB table " + c.Table, nil
}

func openRedis(ctx context.Context, c *settings.Config, log *slog.Logger, repair bool) (docstore.Store, string,
	error) {
	o := &redisstore.Options{
		Addr: c.RedisAddr, Username: c.RedisUser, Password: c.RedisPassword, DB: int(c.RedisDB), Prefix: c.RedisPrefix,
		Shards: int(c.RedisShards), Repair: repair, SentinelMaster: c.RedisSentinelMaster,
		SentinelUsername: c.RedisSentinelUser, SentinelPassword: c.RedisSentinelPassword, AllowEviction: c.RedisAllowEviction,
	}
	if c.RedisPasswordFile != "" {
		file, err := reread.Token(c.RedisPasswordFile)
		if err != nil {
			return nil, "", usage("%s: %w", c.Name("LEASEHOLD_REDIS_PASSWORD_FILE"), err)
		}
		o.PasswordNow = file.Again
	}
	if c.RedisTLS {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	o.Warn = func(warning string) { log.Warn(warning) }
	redisstore.SetLog(log)
	store, err := redisstore.Open(ctx, o)
	if err != nil {
		return nil, "",
			fmt.Errorf(
				"%w\nSet --redis-addr, and if the server requires them --redis-user, --redis-password-file and --redis-tls", err)
	}
	for _, w := range store.Warnings() {
		log.Warn(w)
	}
	return store, fmt.Sprintf("in Redis on %s, in keys with the prefix {%s}", store.Addr(), c.RedisPrefix), nil
}

// dataFolder is Leasehold's folder in the folder that the operating system has for a user's data.
func dataFolder(env func(string) string) (string, error) {
	var candidates []string
	switch runtime.GOOS {
	case "windows":
		candidates = []string{env("LocalAppData")}
	case "darwin":
		candidates = []string{under(env("HOME"), "Library", "Application Support")}
	default:
		candidates = []string{env("XDG_DATA_HOME"), under(env("HOME"), ".local", "share")}
	}
	for _, dir := range candidates {
		if filepath.IsAbs(dir) {
			return filepath.Join(dir, "leasehold"), nil
		}
	}
	return "", usage("this user has no data folder: name one with --data DIR")
}

func under(dir string, rest ...string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(append([]string{dir}, rest...)...)
}
