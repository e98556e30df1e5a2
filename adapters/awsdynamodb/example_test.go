package awsdynamodb_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/fence"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// inMemory is a client of an emulator without a network. A program would use sdk.NewFromConfig.
func inMemory() *sdk.Client { return dial(dynamodbtest.New(nil)) }

var anybody = credentials.NewStaticCredentialsProvider("local", "local", "")

// A table of one's own remembers, in each item, the highest fencing token that wrote it. A writer whose lease was taken
// over carries an older token and is rejected by the service.
func ExampleCondition() {
	ctx, client := context.Background(), inMemory()
	_, err := client.CreateTable(ctx, &sdk.CreateTableInput{
		TableName: aws.String("reports"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: "HASH"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	write := func(text string, lease fence.Lease) error {
		fenced, err := awsdynamodb.Condition(lock.FenceCond("lease_token", lease))
		if err != nil {
			return err
		}
		fenced.Names["#text"] = "text"
		fenced.Values[":text"] = &types.AttributeValueMemberS{Value: text}
		fenced.Names["#token"], fenced.Names["#subject"] = "lease_token", "lease_token_subject"
		fenced.Values[":token"] = &types.AttributeValueMemberN{Value: strconv.FormatInt(lease.Token, 10)}
		fenced.Values[":subject"] = &types.AttributeValueMemberS{Value: lease.Subject}
		_, err = client.UpdateItem(ctx, &sdk.UpdateItemInput{
			TableName:                 aws.String("reports"),
			Key:                       map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "2026"}},
			UpdateExpression:          aws.String("SET #text = :text, #token = :token, #subject = :subject"),
			ConditionExpression:       aws.String(fenced.Condition),
			ExpressionAttributeNames:  fenced.Names,
			ExpressionAttributeValues: fenced.Values,
		})
		return err
	}
	for _, w := range []struct {
		text  string
		token int64
	}{{"by the first holder", 1}, {"by the second", 2}, {"by the first, who woke up late", 1}} {
		err := write(w.text, fence.Lease{Subject: "lock/reports", Token: w.token}) // of a lock: l.Lease()
		_, stale := errors.AsType[*types.ConditionalCheckFailedException](err)
		fmt.Println(w.text+":", err == nil, stale)
	}
	// Output:
	// by the first holder: true false
	// by the second: true false
	// by the first, who woke up late: false true
}

// A transaction of one's own contains the proof that the lease still stands: the service checks the lock's document and
// writes in one step (LS-FENCE-001).
func ExampleStore_Check() {
	ctx, client := context.Background(), inMemory()
	store, err := awsdynamodb.Open(ctx, "leasehold", &awsdynamodb.Options{Client: client, CreateTable: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	locks := lock.New(store, nil)
	id := lock.ID{Tenant: "acme", Key: "deploy/prod"}
	held, err := locks.Acquire(ctx, lock.Acquire{ID: id, Owner: "ci-42", RequestID: "r1", TTLSeconds: 30})
	if err != nil || held.Code != lock.OK {
		fmt.Println(held.Code, err)
		return
	}
	publish := func(version string) error {
		lease := lock.WhileHeld(id, "ci-42", held.Lease.Token)
		check, err := store.Check(ctx, lease.Key, lease.If)
		if err != nil {
			return err
		}
		_, err = client.TransactWriteItems(ctx, &sdk.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{check, {
			Put: &types.Put{TableName: aws.String("leasehold"), Item: map[string]types.AttributeValue{
				"_pk":     &types.AttributeValueMemberS{Value: "releases/acme"},
				"_sk":     &types.AttributeValueMemberS{Value: "prod"},
				"version": &types.AttributeValueMemberS{Value: version},
			}},
		}}})
		return err
	}
	fmt.Println("while held:", publish("1.0"))

	_, err = locks.ForceRelease(ctx, lock.ForceRelease{ID: id, By: "admin", Reason: "it hangs", RequestID: "f1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	canceled, ok := errors.AsType[*types.TransactionCanceledException](publish("1.1"))
	fmt.Println("after the lease was ended:",
		ok && aws.ToString(canceled.CancellationReasons[0].Code) == "ConditionalCheckFailed")
	// Output:
	// while held: <nil>
	// after the lease was ended: true
}
