package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/leasehold-dev/leasehold/once"
)

// invoker is what the dispatcher needs of *lambda.Client.
type invoker interface {
	Invoke(ctx context.Context, in *lambda.InvokeInput, o ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// dispatcher starts a durable execution for each analysis, once.
type dispatcher struct {
	client invoker
	// of the durable function, with a version or an alias: an execution goes on with the code that it began with
	function string
}

// start is the work of an analysis: a [once.Work]. It returns when the execution was accepted, with its ARN, which the
// gate stores as the result.
//
// The gate lets one delivery in. If that one crashes between the invocation and the result, the next one invokes again,
// with the same name and the same payload, and Lambda returns the execution that is there. So nothing may be in the
// payload that differs from run to run: no token, no time.
func (d dispatcher) start(ctx context.Context, l once.Lock) (string, error) {
	name := executionName(l.RunID)
	payload, err := json.Marshal(map[string]string{"analysis_id": l.RunID})
	if err != nil {
		return "", err
	}
	out, err := d.client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &d.function,
		// a request that waits for the response has 15 minutes, an execution a year
		InvocationType:       types.InvocationTypeEvent,
		DurableExecutionName: &name,
		Payload:              payload,
	})
	if _, taken := errors.AsType[*types.DurableExecutionAlreadyStartedException](err); taken {
		return "", once.Permanent(fmt.Errorf("the execution %s has another payload: %w", name, err))
	}
	if err != nil {
		return "", err // the message is delivered again
	}
	if out.DurableExecutionArn == nil {
		return "", once.Permanent(fmt.Errorf("%s is no durable function: it was invoked, and may be invoked again",
			d.function))
	}
	return *out.DurableExecutionArn, nil
}

var (
	plain  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	hashed = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// executionName is the analysis ID where it can be the name of an execution, and a hash of it where it cannot, or where
// it looks like such a hash: two analyses never have one name.
func executionName(analysis string) string {
	if plain.MatchString(analysis) && !hashed.MatchString(analysis) {
		return analysis
	}
	sum := sha256.Sum256([]byte(analysis))
	return hex.EncodeToString(sum[:])
}
