package dynamodbtest_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
)

// BenchmarkConditionalUpdate measures a conditional UpdateItem with the SDK over loopback, each goroutine on an item of
// its own.
func BenchmarkConditionalUpdate(b *testing.B) {
	s := dynamodbtest.Start(b, nil)
	c := connect(s.URL)
	if _, err := c.CreateTable(b.Context(), locksTable()); err != nil {
		b.Fatal(err)
	}
	ids := make(chan int, 1)
	ids <- 0
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		n := <-ids
		ids <- n + 1
		key := item{"id": str(fmt.Sprint("k", n))}
		for pb.Next() {
			_, err := c.UpdateItem(b.Context(), &sdk.UpdateItemInput{TableName: aws.String("locks"), Key: key,
				UpdateExpression:          aws.String("SET n = if_not_exists(n, :zero) + :one"),
				ConditionExpression:       aws.String("attribute_not_exists(id) OR n >= :zero"),
				ExpressionAttributeValues: item{":zero": num("0"), ":one": num("1")}})
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
}
