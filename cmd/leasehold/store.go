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
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// storeFlags say where locks are kept. The functions of both clouds read the same environment variables.
type storeFlags struct {
	Store string `default:"sqlite" enum:"sqlite,memory,firestore,dynamodb,redis" env:"LEASEHOLD_STORE" help:"Where locks are kept: ${enum} (${env}). In memory they are gone when the server ends."`

	Data string `group:"With --store sqlite" env:"LEASEHOLD_DATA" placeholder:"DIR" help:"Folder of the file (${env}); the default is Leasehold's folder in the user's data folder."`

	Project  string `group:"With --store firestore" env:"LEASEHOLD_PROJECT" placeholder:"ID" help:"Google Cloud project (${env}, then GOOGLE_CLOUD_PROJECT, then that of the credentials). FIRESTORE_EMULATOR_HOST is honored."`
	Database string `group:"With --store firestore" default:"(default)" env:"LEASEHOLD_DATABASE" placeholder:"ID" help:"Database of the project (${env}; default ${default})."`
	Root     string `group:"With --store firestore" env:"LEASEHOLD_ROOT" placeholder:"PATH" help:"Document below which everything is kept, such as leasehold/v1 (${env}; default: the top level)."`

	Table       string        `group:"With --store dynamodb" env:"LEASEHOLD_TABLE" help:"The table (${env})."`
	CreateTable bool          `group:"With --store dynamodb" env:"LEASEHOLD_CREATE_TABLE" help:"Create the table if it is missing, for development (${env})."`
	Region      string        `group:"With --store dynamodb" env:"LEASEHOLD_REGION" help:"AWS region (${env}, then AWS_REGION, then the shared configuration)."`
	Endpoint    string        `group:"With --store dynamodb" env:"LEASEHOLD_ENDPOINT" placeholder:"URL" help:"Another server than the region's, such as an emulator (${env})."`
	MaxSkew     time.Duration `group:"With --store dynamodb" default:"1s" env:"LEASEHOLD_MAX_SKEW" help:"How far this machine's clock may be from DynamoDB's before requests are refused with CLOCK_SKEW (${env}; default ${default})."`

	RedisAddr   string `group:"With --store redis" default:"127.0.0.1:6379" env:"LEASEHOLD_REDIS_ADDR" placeholder:"HOST:PORT" help:"The server, or any member of a cluster (${env}; default ${default}). A URL works too: redis://user:password@host:6379/0, rediss:// for TLS; set one with a password in the environment, where others do not see it."`
	RedisUser   string `group:"With --store redis" env:"LEASEHOLD_REDIS_USER" placeholder:"NAME" help:"User to log in as (${env}). The password comes from LEASEHOLD_REDIS_PASSWORD, or from the URL."`
	RedisTLS    bool   `name:"redis-tls" group:"With --store redis" env:"LEASEHOLD_REDIS_TLS" help:"Connect by TLS (${env})."`
	RedisDB     int    `name:"redis-db" group:"With --store redis" env:"LEASEHOLD_REDIS_DB" placeholder:"N" help:"Number of the database (${env}; default 0). A cluster has 0 alone."`
	RedisPrefix string `group:"With --store redis" default:"leasehold" env:"LEASEHOLD_REDIS_PREFIX" placeholder:"NAME" help:"What every key begins with, in braces (${env}; default ${default})."`
}

// redisPassword is no flag: a command line can be read by others.
const redisPassword = "LEASEHOLD_REDIS_PASSWORD" //nolint:gosec // the variable's name

// patience is how long the start waits for a store that is not on this machine.
const patience = 15 * time.Second

// open opens the store and makes sure that it answers; where says in words where locks are kept.
func (f *storeFlags) open(ctx context.Context, log *slog.Logger) (store docstore.Store, where string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch f.Store {
	case "memory":
		return docstore.NewMemory(nil), "in memory: they are gone when the server ends", nil
	case "firestore":
		return f.openFirestore(ctx)
	case "dynamodb":
		return f.openDynamoDB(ctx, log)
	case "redis":
		return f.openRedis(ctx, log)
	default:
		return f.openSQLite(ctx)
	}
}

func (f *storeFlags) openSQLite(ctx context.Context) (docstore.Store, string, error) {
	dir := f.Data
	if dir == "" {
		var err error
		if dir, err = dataFolder(os.Getenv); err != nil {
			return nil, "", err
		}
	}
	path := filepath.Join(dir, "leasehold.db")
	store, err := sqlitestore.Open(ctx, path, nil)
	if err != nil {
		return nil, "", fmt.Errorf("%w\nChoose another folder with --data DIR", err)
	}
	return store, "in " + path, nil
}

func (f *storeFlags) openFirestore(ctx context.Context) (docstore.Store, string, error) {
	// The credentials are renewed for as long as the server lives, not only while it starts.
	store, err := gcpfirestore.Open(context.WithoutCancel(ctx), &gcpfirestore.Options{Project: f.Project, Database: f.Database, Root: f.Root})
	if err != nil {
		return nil, "", fmt.Errorf("%w\nSet --project and --database", err)
	}
	// Opening sends nothing. A wrong project or database shall be found now, and not by the first caller.
	if _, err := store.Get(ctx, docstore.Key{Kind: "health", ID: "ready"}); err != nil {
		_ = store.Close() // the first error is the one that matters
		return nil, "", fmt.Errorf("%w\nSet --project and --database", err)
	}
	return store, "in the Firestore database " + f.Database, nil
}

func (f *storeFlags) openDynamoDB(ctx context.Context, log *slog.Logger) (docstore.Store, string, error) {
	if f.Table == "" {
		return nil, "", usage("--store dynamodb needs --table: the name of the table")
	}
	if f.MaxSkew <= 0 {
		return nil, "", usage("--max-skew must be longer than 0")
	}
	o := awsdynamodb.Options{Region: f.Region, Endpoint: f.Endpoint, MaxSkew: f.MaxSkew, CreateTable: f.CreateTable}
	if f.CreateTable {
		o.Indexes = []string{analysis.ExpiryField} // for the sweep
	}
	store, err := awsdynamodb.Open(ctx, f.Table, &o)
	if err != nil {
		return nil, "", fmt.Errorf("%w\nSet --table, --region and --endpoint; --create-table makes the table", err)
	}
	for _, w := range store.Warnings() {
		log.Warn(w)
	}
	return store, "in the DynamoDB table " + f.Table, nil
}

func (f *storeFlags) openRedis(ctx context.Context, log *slog.Logger) (docstore.Store, string, error) {
	o := &redisstore.Options{
		Addr: f.RedisAddr, Username: f.RedisUser, Password: os.Getenv(redisPassword), DB: f.RedisDB, Prefix: f.RedisPrefix,
	}
	if f.RedisTLS {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	redisstore.SetLog(log)
	store, err := redisstore.Open(ctx, o)
	if err != nil {
		return nil, "", fmt.Errorf("%w\nSet --redis-addr, and where the server asks for them --redis-user, %s and --redis-tls", err, redisPassword)
	}
	for _, w := range store.Warnings() {
		log.Warn(w)
	}
	return store, fmt.Sprintf("in Redis on %s, in keys that begin with {%s}", store.Addr(), f.RedisPrefix), nil
}

// dataFolder is Leasehold's folder where the operating system wants programs to keep a user's data.
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
	return "", usage("no data folder is known for this user; name one with --data DIR")
}

func under(dir string, rest ...string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(append([]string{dir}, rest...)...)
}
