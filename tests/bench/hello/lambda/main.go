// Command lambda is a hello of the framework that the Lambda functions use, with the same client, set up as its
// documentation says: it reads one item of a table for each event. The benchmark of cold starts compares Leasehold with
// it.
package main

import (
	"context"
	"net/http"
	"os"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func main() {
	c, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		panic(err)
	}
	client := dynamodb.NewFromConfig(c, func(o *dynamodb.Options) {
		o.BaseEndpoint = aws.String(os.Getenv("LEASEHOLD_ENDPOINT"))
	})
	lambda.Start(func(ctx context.Context, _ events.LambdaFunctionURLRequest) (events.LambdaFunctionURLResponse, error) {
		_, err := client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: aws.String(os.Getenv("LEASEHOLD_TABLE")), ConsistentRead: aws.Bool(true),
			Key: map[string]types.AttributeValue{
				"_pk": &types.AttributeValueMemberS{Value: "locks/acme"}, "_sk": &types.AttributeValueMemberS{Value: "deploy"},
			},
		})
		return events.LambdaFunctionURLResponse{StatusCode: http.StatusOK, Body: "hello"}, err
	})
}
