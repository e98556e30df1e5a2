// Package settings reads what the Lambda functions of this module have in common from their environment: where analyses
// and locks are kept, and how a value of each kind is written.
package settings

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
)

// OpenTimeout is a little less than the 10 s that Lambda gives an instance to start: what is wrong reaches the log.
const OpenTimeout = 9 * time.Second

// Getenv looks a variable up; empty if it is not set. os.Getenv is one.
type Getenv func(string) string

// Store says where things are kept.
//
//	LEASEHOLD_TABLE      DynamoDB table; required
//	LEASEHOLD_ENDPOINT   where DynamoDB is, if not in AWS: an emulator
//	LEASEHOLD_MAX_SKEW   how far this machine's clock may be off, such as 500ms
type Store struct {
	Table, Endpoint string
	MaxSkew         time.Duration
}

// Store reads the settings of the store.
func (getenv Getenv) Store() (Store, error) {
	s := Store{Table: getenv("LEASEHOLD_TABLE"), Endpoint: getenv("LEASEHOLD_ENDPOINT")}
	var err error
	if s.MaxSkew, err = getenv.Duration("LEASEHOLD_MAX_SKEW"); err != nil {
		return Store{}, err
	}
	if s.Table == "" {
		return Store{}, errors.New("LEASEHOLD_TABLE is required: the name of the DynamoDB table")
	}
	return s, nil
}

// Open opens the store, which should have an index on each of the fields, and logs what is doubtful about it.
func (s Store) Open(ctx context.Context, log *slog.Logger, indexes ...string) (*awsdynamodb.Store, error) {
	store, err := awsdynamodb.Open(ctx, s.Table, &awsdynamodb.Options{Endpoint: s.Endpoint, MaxSkew: s.MaxSkew, Indexes: indexes})
	if err != nil {
		return nil, err
	}
	for _, w := range store.Warnings() {
		log.WarnContext(ctx, w, "table", s.Table)
	}
	return store, nil
}

// Duration is a setting like "500ms"; 0 if it is not set.
func (getenv Getenv) Duration(name string) (time.Duration, error) {
	text := getenv(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s is %q: it must be a duration such as 500ms or 30s", name, text)
	}
	return d, nil
}

// Count is a setting like "5"; 0 if it is not set.
func (getenv Getenv) Count(name string) (int64, error) {
	text := getenv(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%s is %q: it must be a whole number above 0", name, text)
	}
	return n, nil
}
