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

// find is what those operations begin with; more are checks of other members. Unlike operations on items they name the
// table that is not there.
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

type listTables struct{}

func (r *listTables) targets() []target { return nil }

// run lists all tables at once.
func (r *listTables) run(s *Server, _ mode) (any, *apiError) {
	return map[string]any{"TableNames": append([]string{}, sortedKeys(s.tables)...)}, nil
}

// describe is the TableDescription.
func (t *table) describe() map[string]any {
	out := map[string]any{
		"TableName":            t.name,
		"TableId":              t.id,
		"TableArn":             arnPrefix + t.name,
		"TableStatus":          "ACTIVE",
		"CreationDateTime":     seconds(t.created),
		"AttributeDefinitions": t.describeDefinitions(),
		"KeySchema":            t.key.describe(),
		"BillingModeSummary": map[string]any{
			"BillingMode": onDemand, "LastUpdateToPayPerRequestDateTime": seconds(t.created),
		},
		"ProvisionedThroughput": noThroughput(),
		"ItemCount":             len(t.items),
		"TableSizeBytes":        t.rows.size(),
	}
	if len(t.indexes) > 0 {
		indexes := make([]map[string]any, len(t.indexes))
		for i, x := range t.indexes {
			indexes[i] = x.describe(t)
		}
		out["GlobalSecondaryIndexes"] = indexes
	}
	return out
}

func (x *index) describe(t *table) map[string]any {
	count := 0
	for _, p := range x.rows.parts {
		count += len(p.rows)
	}
	return map[string]any{
		"IndexName":             x.name,
		"IndexArn":              arnPrefix + t.name + "/index/" + x.name,
		"IndexStatus":           "ACTIVE",
		"KeySchema":             x.key.describe(),
		"Projection":            map[string]any{"ProjectionType": x.projection},
		"ProvisionedThroughput": noThroughput(),
		"ItemCount":             count,
		"IndexSizeBytes":        x.rows.size(),
	}
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

// noThroughput is that of tables and indexes that are paid per request.
func noThroughput() map[string]any {
	return map[string]any{"ReadCapacityUnits": 0, "WriteCapacityUnits": 0, "NumberOfDecreasesToday": 0}
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
