package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
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

// dynamolockLocks is dynamolock. What is measured is without its heartbeat, which is no part of a cycle.
type dynamolockLocks struct{ callers []*dynamolock.Client }

func openDynamolock(ctx context.Context, addr string, callers int, ttl time.Duration) (locker, error) {
	return dynamolockWith(ctx, addr, callers, ttl, dynamolock.DisableHeartbeat())
}

func dynamolockWith(ctx context.Context, addr string, callers int, ttl time.Duration,
	heartbeat dynamolock.ClientOption) (locker, error) {
	const table = "dynamolock"
	l, client := &dynamolockLocks{}, dynamo(addr)
	for i := range callers {
		c, err := dynamolock.New(client, table, dynamolock.WithOwnerName(fmt.Sprint("caller ", os.Getpid(), i)),
			dynamolock.WithLeaseDuration(ttl), heartbeat)
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
	o ...dynamolock.AcquireLockOption) (held, error) {
	c := l.callers[caller]
	got, err := c.AcquireLockWithContext(ctx, key, o...)
	if _, no := errors.AsType[*dynamolock.LockNotGrantedError](err); no {
		return held{}, errHeld
	} else if err != nil {
		return held{}, err
	}
	return held{release: func(ctx context.Context) error {
		_, err := c.ReleaseLockWithContext(ctx, got)
		return err
	}, mine: func() bool { return !got.IsExpired() }}, nil
}

func (l *dynamolockLocks) try(ctx context.Context, caller int, key string) (held, error) {
	return l.acquire(ctx, caller, key, dynamolock.FailIfLocked())
}

func (l *dynamolockLocks) wait(ctx context.Context, caller int, key string) (held, error) {
	return l.acquire(ctx, caller, key, dynamolock.WithRefreshPeriod(again),
		dynamolock.WithAdditionalTimeToWaitForLock(time.Hour))
}

func (l *dynamolockLocks) crash(int) {}

func (l *dynamolockLocks) close() error { return nil } // Close would release, one by one, what is still held

func openDynamoDB(ctx context.Context, addr string, _ int, ttl time.Duration) (locker, error) {
	s, err := awsdynamodb.Open(ctx, "leasehold", &awsdynamodb.Options{Client: dynamo(addr), CreateTable: true})
	return onStore(s, ttl), err
}

// textbook is the lock that many write for themselves: one item for each lock, with an owner and a time at which it
// ends.
type textbook struct {
	client *sdk.Client
	owner  types.AttributeValue
	ttl    time.Duration
}

func openTextbook(ctx context.Context, addr string, _ int, ttl time.Duration) (locker, error) {
	l := &textbook{dynamo(addr), &types.AttributeValueMemberS{Value: "pid " + strconv.Itoa(os.Getpid())}, ttl}
	_, err := l.client.CreateTable(ctx, &sdk.CreateTableInput{
		TableName: aws.String("textbook"), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}},
	})
	if _, there := errors.AsType[*types.ResourceInUseException](err); there {
		err = nil
	}
	return l, err
}

func (l *textbook) try(ctx context.Context, _ int, key string) (held, error) {
	id := &types.AttributeValueMemberS{Value: key}
	now := time.Now()
	at := func(t time.Time) types.AttributeValue {
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(t.UnixMilli(), 10)}
	}
	_, err := l.client.PutItem(ctx, &sdk.PutItemInput{
		TableName:                 aws.String("textbook"),
		Item:                      map[string]types.AttributeValue{"id": id, "owned_by": l.owner, "ends": at(now.Add(l.ttl))},
		ConditionExpression:       aws.String("attribute_not_exists(id) OR ends < :now"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":now": at(now)},
	})
	if _, no := errors.AsType[*types.ConditionalCheckFailedException](err); no {
		return held{}, errHeld
	}
	return held{release: func(ctx context.Context) error {
		_, err := l.client.DeleteItem(ctx, &sdk.DeleteItemInput{
			TableName: aws.String("textbook"), Key: map[string]types.AttributeValue{"id": id},
			ConditionExpression:       aws.String("owned_by = :me"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":me": l.owner},
		})
		return err
	}}, err
}

func (l *textbook) wait(ctx context.Context, caller int, key string) (held, error) {
	for {
		if h, err := l.try(ctx, caller, key); !errors.Is(err, errHeld) {
			return h, err
		}
		time.Sleep(again)
	}
}

func (l *textbook) crash(int) {}

func (l *textbook) close() error { return nil }
