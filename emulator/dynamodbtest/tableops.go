package dynamodbtest

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

// arnPrefix makes the names of tables look like those of the service.
const arnPrefix = "arn:aws:dynamodb:local:000000000000:table/"

func newTableID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// table finds a table by the name in a request.
func (s *Server) table(name string) (*table, *apiError) {
	if t := s.tables[name]; t != nil {
		return t, nil
	}
	return nil, newError(prefixDynamo+"ResourceNotFoundException", "Requested resource not found")
}

// named is the request of the operations that take a table's name and nothing else.
type named struct{ TableName string }

func (r *named) targets() []target { return []target{{table: r.TableName}} }

// find is what those operations begin with; more are checks of other members. Unlike operations on items they name the table
// that is not there.
func (r *named) find(s *Server, more ...*apiError) (*table, *apiError) {
	if err := all(append([]*apiError{checkName("TableName", r.TableName)}, more...)...); err != nil {
		return nil, err
	}
	if t := s.tables[r.TableName]; t != nil {
		return t, nil
	}
	return nil, noTable(r.TableName)
}

type describeTable struct{ named }

func (r *describeTable) run(s *Server, _ mode) (any, *apiError) {
	t, err := r.find(s)
	if err != nil {
		return nil, err
	}
	return map[string]any{"Table": t.describe()}, nil
}

type deleteTable struct{ named }

func (r *deleteTable) run(s *Server, _ mode) (any, *apiError) {
	t, err := r.find(s)
	if err != nil {
		return nil, err
	}
	if t.protected {
		return nil, invalid("Resource cannot be deleted as it is currently protected against deletion. " +
			"Disable deletion protection first.")
	}
	delete(s.tables, t.name)
	description := t.describe()
	description["TableStatus"] = "DELETING"
	return map[string]any{"TableDescription": description}, nil
}

type listTables struct {
	ExclusiveStartTableName *string
	Limit                   *int64
}

func (r *listTables) targets() []target { return nil }

func (r *listTables) run(s *Server, _ mode) (any, *apiError) {
	const most = 100
	limit := most
	var start *apiError
	if r.ExclusiveStartTableName != nil {
		start = checkName("ExclusiveStartTableName", *r.ExclusiveStartTableName)
	}
	if err := all(start, atLeast(1, "Limit", r.Limit), atMost(most, "Limit", r.Limit)); err != nil {
		return nil, err
	}
	if r.Limit != nil {
		limit = int(*r.Limit)
	}
	found := []string{}
	out := map[string]any{}
	for _, name := range sortedKeys(s.tables) {
		if r.ExclusiveStartTableName != nil && name <= *r.ExclusiveStartTableName {
			continue
		}
		if len(found) == limit {
			out["LastEvaluatedTableName"] = found[limit-1]
			break
		}
		found = append(found, name)
	}
	out["TableNames"] = found
	return out, nil
}

// describe is the TableDescription.
func (t *table) describe() map[string]any {
	out := map[string]any{
		"TableName":                 t.name,
		"TableId":                   t.id,
		"TableArn":                  arnPrefix + t.name,
		"TableStatus":               "ACTIVE",
		"CreationDateTime":          seconds(t.created),
		"AttributeDefinitions":      t.describeDefinitions(),
		"KeySchema":                 t.key.describe(),
		"ProvisionedThroughput":     t.throughput.describe(),
		"ItemCount":                 len(t.items),
		"TableSizeBytes":            t.rows.size(),
		"DeletionProtectionEnabled": t.protected,
	}
	if t.throughput == nil {
		out["BillingModeSummary"] = map[string]any{
			"BillingMode":                       "PAY_PER_REQUEST",
			"LastUpdateToPayPerRequestDateTime": seconds(t.onDemand),
		}
	}
	t.describeSettings(out)
	for _, x := range t.indexes {
		member := "GlobalSecondaryIndexes"
		if x.local {
			member = "LocalSecondaryIndexes"
		}
		list, _ := out[member].([]map[string]any)
		out[member] = append(list, x.describe(t))
	}
	return out
}

func (x *index) describe(t *table) map[string]any {
	projection := map[string]any{"ProjectionType": x.projection}
	if x.include != nil {
		projection["NonKeyAttributes"] = x.include
	}
	count := 0
	for _, p := range x.rows.parts {
		count += len(p.rows)
	}
	out := map[string]any{
		"IndexName":      x.name,
		"IndexArn":       arnPrefix + t.name + "/index/" + x.name,
		"KeySchema":      x.key.describe(),
		"Projection":     projection,
		"ItemCount":      count,
		"IndexSizeBytes": x.rows.size(),
	}
	if !x.local {
		out["IndexStatus"] = "ACTIVE"
		out["ProvisionedThroughput"] = x.throughput.describe()
	}
	return out
}

func (t *table) describeDefinitions() []attributeDefinition {
	out := make([]attributeDefinition, len(t.definitions))
	for i, d := range t.definitions {
		out[i] = attributeDefinition{d.name, string(d.kind)}
	}
	return out
}

func (k keySchema) describe() []keySchemaElement {
	out := []keySchemaElement{{k.hash.name, "HASH"}}
	if k.sort != nil {
		out = append(out, keySchemaElement{k.sort.name, "RANGE"})
	}
	return out
}

func (p *throughput) describe() map[string]any {
	read, write := int64(0), int64(0)
	if p != nil {
		read, write = *p.ReadCapacityUnits, *p.WriteCapacityUnits
	}
	return map[string]any{"ReadCapacityUnits": read, "WriteCapacityUnits": write, "NumberOfDecreasesToday": 0}
}

func (v *view) size() int {
	n := 0
	for _, p := range v.parts {
		for _, row := range p.rows {
			n += attr.Size(row)
		}
	}
	return n
}

// seconds is a time as the protocol writes it: seconds with a fraction.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
