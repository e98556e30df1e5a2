package awsdynamodb

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// writeUnit is how many bytes of an item one unit of writing pays for; a transaction takes transactFactor of them.
const (
	writeUnit      = 1024
	transactFactor = 2
)

// billing is a client that asks the service what it bills for each request, and adds it up. A write whose condition
// does not hold is billed by the item that it found; the service does not say how much, but shows the item.
type billing struct {
	Client

	billed *driver.Billed
}

// units are what the service says; nothing if it does not.
func units(c *types.ConsumedCapacity) float64 {
	if c == nil {
		return 0
	}
	return aws.ToFloat64(c.CapacityUnits)
}

func sum(all []types.ConsumedCapacity) (n float64) {
	for i := range all {
		n += units(&all[i])
	}
	return n
}

// refused adds what a write costs that changed nothing because of its condition.
func (b billing) refused(err error) {
	if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		b.billed.Wrote(unitsOf(sizeOfItem(failed.Item)))
		return
	}
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok {
		return
	}
	n, refused := 0.0, false
	for _, r := range canceled.CancellationReasons {
		// of those whose conditions held it is not shown, and one unit the least
		n += transactFactor * unitsOf(sizeOfItem(r.Item))
		refused = refused || aws.ToString(r.Code) == "ConditionalCheckFailed"
	}
	if refused {
		b.billed.Wrote(n)
	}
}

// GetItem implements [Client].
func (b billing) GetItem(ctx context.Context, in *sdk.GetItemInput, o ...func(*sdk.Options)) (*sdk.GetItemOutput,
	error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := b.Client.GetItem(ctx, in, o...)
	if err == nil {
		b.billed.Read(units(out.ConsumedCapacity))
	}
	return out, err
}

// Query implements [Client].
func (b billing) Query(ctx context.Context, in *sdk.QueryInput, o ...func(*sdk.Options)) (*sdk.QueryOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := b.Client.Query(ctx, in, o...)
	if err == nil {
		b.billed.Read(units(out.ConsumedCapacity))
	}
	return out, err
}

// Scan implements [Client].
func (b billing) Scan(ctx context.Context, in *sdk.ScanInput, o ...func(*sdk.Options)) (*sdk.ScanOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := b.Client.Scan(ctx, in, o...)
	if err == nil {
		b.billed.Read(units(out.ConsumedCapacity))
	}
	return out, err
}

// UpdateItem implements [Client].
func (b billing) UpdateItem(ctx context.Context, in *sdk.UpdateItemInput,
	o ...func(*sdk.Options)) (*sdk.UpdateItemOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := b.Client.UpdateItem(ctx, in, o...)
	if err != nil {
		b.refused(err)
		return out, err
	}
	b.billed.Wrote(units(out.ConsumedCapacity))
	return out, nil
}

// DeleteItem implements [Client].
func (b billing) DeleteItem(ctx context.Context, in *sdk.DeleteItemInput,
	o ...func(*sdk.Options)) (*sdk.DeleteItemOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := b.Client.DeleteItem(ctx, in, o...)
	if err != nil {
		b.refused(err)
		return out, err
	}
	b.billed.Wrote(units(out.ConsumedCapacity))
	return out, nil
}

// TransactGetItems implements [Client].
func (b billing) TransactGetItems(ctx context.Context, in *sdk.TransactGetItemsInput,
	o ...func(*sdk.Options)) (*sdk.TransactGetItemsOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := b.Client.TransactGetItems(ctx, in, o...)
	if err == nil {
		b.billed.Read(sum(out.ConsumedCapacity))
	}
	return out, err
}

// TransactWriteItems implements [Client].
func (b billing) TransactWriteItems(ctx context.Context, in *sdk.TransactWriteItemsInput,
	o ...func(*sdk.Options)) (*sdk.TransactWriteItemsOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := b.Client.TransactWriteItems(ctx, in, o...)
	if err != nil {
		b.refused(err)
		return out, err
	}
	for i := range out.ConsumedCapacity {
		c := &out.ConsumedCapacity[i]
		if c.ReadCapacityUnits != nil { // the transaction had been carried out before, and is known by its token
			b.billed.Read(*c.ReadCapacityUnits)
			continue
		}
		b.billed.Wrote(units(c))
	}
	return out, nil
}

// unitsOf are the units of writing that an item of a size takes.
func unitsOf(size int) float64 { return float64(max(1, (size+writeUnit-1)/writeUnit)) }

// The sizes of values, as the service bills them (developer guide, "DynamoDB item sizes and formats").
const (
	sizeOfMap   = 3
	sizeOfEntry = 1 // of a map, beside its name and value
)

// sizeOfNumber is a byte for each pair of digits down to the last that is not zero, and one more, or two if it is
// negative. text is a whole number.
func sizeOfNumber(text string) int {
	digits := strings.TrimPrefix(text, "-")
	// of an odd number of digits, the first pair has one
	pairs := (len(strings.TrimRight(digits, "0")) + len(digits)%2 + 1) / 2
	if digits == "0" {
		pairs = 0
	}
	return 1 + pairs + len(text) - len(digits)
}

// sizeOfItem is the size of an item of a table of Leasehold. Lists and sets, which only other programs write, are not
// counted.
func sizeOfItem(item map[string]types.AttributeValue) int {
	n := 0
	for name, v := range item {
		n += len(name) + sizeOf(v)
	}
	return n
}

func sizeOf(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return sizeOfNumber(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberM:
		return sizeOfMap + sizeOfEntry*len(v.Value) + sizeOfItem(v.Value)
	default:
		return 1
	}
}
