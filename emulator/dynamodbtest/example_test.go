package dynamodbtest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
)

// The response to a conditional write is lost, the SDK repeats the write, and the repetition fails on what the first
// attempt wrote. A program that looks at the item found can tell. Inside a test, dynamodb.Start(t, nil) replaces the
// first lines.
func Example() {
	server := dynamodbtest.New(nil)
	client := sdk.New(sdk.Options{
		Region:       "eu-north-1",
		BaseEndpoint: aws.String("http://dynamodb.local"),
		HTTPClient:   &http.Client{Transport: server.RoundTripper()},
		Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
	})
	ctx := context.Background()
	_, err := client.CreateTable(ctx, &sdk.CreateTableInput{
		TableName:            aws.String("locks"),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: "HASH"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.DropAfter, Op: "PutItem", Times: 1})
	_, err = client.PutItem(ctx, &sdk.PutItemInput{
		TableName: aws.String("locks"),
		Item: map[string]types.AttributeValue{
			"id":      &types.AttributeValueMemberS{Value: "deploy"},
			"attempt": &types.AttributeValueMemberS{Value: "7f1c"},
		},
		ConditionExpression:                 aws.String("attribute_not_exists(id)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		found := failed.Item["attempt"].(*types.AttributeValueMemberS)
		fmt.Println("rejected by attempt", found.Value)
	}
	fmt.Println(server.Count("PutItem"), "requests")
	// Output:
	// rejected by attempt 7f1c
	// 2 requests
}
