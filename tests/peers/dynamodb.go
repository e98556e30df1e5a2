package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cirello.io/dynamolock/v2"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
)

func dynamo(addr string) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: "local", BaseEndpoint: aws.String("http://" + addr),
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
}

// dynamolockLocks is dynamolock, without its heartbeat, which is no part of a cycle.
type dynamolockLocks struct{ callers []*dynamolock.Client }

func openDynamolock(ctx context.Context, addr string, callers int, ttl time.Duration) (locker, error) {
	const table = "dynamolock"
	l, client := &dynamolockLocks{}, dynamo(addr)
	for i := range callers {
		c, err := dynamolock.New(client, table, dynamolock.WithOwnerName(fmt.Sprint("caller ", i)),
			dynamolock.WithLeaseDuration(ttl), dynamolock.DisableHeartbeat())
		if err != nil {
			return nil, err
		}
		l.callers = append(l.callers, c)
	}
	_, err := l.callers[0].CreateTableWithContext(ctx, table, dynamolock.WithCustomPartitionKeyName("key"))
	if _, there := errors.AsType[*types.ResourceInUseException](err); there {
		err = nil
	}
	return l, err
}

func (l *dynamolockLocks) acquire(ctx context.Context, caller int, key string,
	o ...dynamolock.AcquireLockOption) (release, error) {
	c := l.callers[caller]
	held, err := c.AcquireLockWithContext(ctx, key, o...)
	if _, no := errors.AsType[*dynamolock.LockNotGrantedError](err); no {
		return nil, errHeld
	} else if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		_, err := c.ReleaseLockWithContext(ctx, held)
		return err
	}, nil
}

func (l *dynamolockLocks) try(ctx context.Context, caller int, key string) (release, error) {
	return l.acquire(ctx, caller, key, dynamolock.FailIfLocked())
}

func (l *dynamolockLocks) wait(ctx context.Context, caller int, key string) (release, error) {
	return l.acquire(ctx, caller, key, dynamolock.WithRefreshPeriod(again),
		dynamolock.WithAdditionalTimeToWaitForLock(time.Hour))
}

func (l *dynamolockLocks) crash(int) {}

func (l *dynamolockLocks) close() error { return nil } // Close would release, one by one, what is still held

func openDynamoDB(ctx context.Context, addr string, _ int, ttl time.Duration) (locker, error) {
	s, err := awsdynamodb.Open(ctx, "leasehold", &awsdynamodb.Options{Client: dynamo(addr), CreateTable: true})
	return onStore(s, ttl), err
}
