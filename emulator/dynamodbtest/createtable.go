package dynamodbtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

const maxIndexes = 20

// The values that this server takes, of BillingMode and of ProjectionType.
const (
	onDemand   = "PAY_PER_REQUEST"
	wholeItems = "ALL"
	keysOnly   = "KEYS_ONLY"
)

type createTable struct {
	TableName              string
	AttributeDefinitions   []attributeDefinition
	KeySchema              []keySchemaElement
	GlobalSecondaryIndexes []indexSpec
	BillingMode            string
}

type attributeDefinition struct{ AttributeName, AttributeType string }

type keySchemaElement struct{ AttributeName, KeyType string }

type indexSpec struct {
	IndexName  string
	KeySchema  []keySchemaElement
	Projection struct{ ProjectionType string }
}

func (r *createTable) targets() []target { return []target{{table: r.TableName}} }

func (r *createTable) run(s *Server, _ mode) (any, *apiError) {
	err := r.check()
	if err != nil {
		return nil, err
	}
	t := &table{name: r.TableName, id: newTableID(), created: s.now(), items: map[itemID]attr.Map{}}
	if t.definitions, err = distinct(r.AttributeDefinitions); err != nil {
		return nil, err
	}
	if t.key, err = t.schema(r.KeySchema); err != nil {
		return nil, err
	}
	t.rows = &view{key: t.key, table: t.key}
	if err := r.addIndexes(t); err != nil {
		return nil, err
	}
	if err := t.checkDefinitionsUsed(); err != nil {
		return nil, err
	}
	if s.tables[t.name] != nil {
		return nil, newError(prefixDynamo+"ResourceInUseException", "Table already exists: %s", t.name)
	}
	s.tables[t.name] = t
	return map[string]any{"TableDescription": t.describe()}, nil
}

// check looks at each member by itself.
func (r *createTable) check() *apiError {
	errs := []*apiError{
		checkName("TableName", r.TableName),
		length(2, "KeySchema", len(r.KeySchema)),
		checkElements("", r.KeySchema),
		checkDefinitions(r.AttributeDefinitions),
	}
	if r.BillingMode != onDemand {
		errs = append(errs, unsupported("a BillingMode other than "+onDemand))
	}
	for i, spec := range r.GlobalSecondaryIndexes {
		errs = append(errs, spec.check(fmt.Sprintf("globalSecondaryIndexes.%d.member.", i+1)))
	}
	return all(errs...)
}

func checkDefinitions(definitions []attributeDefinition) *apiError {
	var errs []*apiError
	for i, d := range definitions {
		member := fmt.Sprintf("attributeDefinitions.%d.member.", i+1)
		switch {
		case d.AttributeName == "":
			errs = append(errs, missing(member+"attributeName"))
		case len(d.AttributeName) > 255:
			errs = append(errs, constraint(d.AttributeName, member+"attributeName",
				"Member must have length less than or equal to 255"))
		}
		if d.AttributeType == "" {
			errs = append(errs, missing(member+"attributeType"))
		}
		errs = append(errs, oneOf(member+"attributeType", d.AttributeType, "B", "N", "S"))
	}
	return all(errs...)
}

func checkElements(prefix string, elements []keySchemaElement) *apiError {
	var errs []*apiError
	for i, e := range elements {
		member := fmt.Sprintf("%skeySchema.%d.member.", prefix, i+1)
		if e.AttributeName == "" {
			errs = append(errs, missing(member+"attributeName"))
		}
		if e.KeyType == "" {
			errs = append(errs, missing(member+"keyType"))
		}
		errs = append(errs, oneOf(member+"keyType", e.KeyType, "HASH", "RANGE"))
	}
	return all(errs...)
}

// check looks at each member of an index by itself.
func (spec *indexSpec) check(prefix string) *apiError {
	errs := []*apiError{
		length(2, prefix+"keySchema", len(spec.KeySchema)), checkElements(prefix, spec.KeySchema),
		checkName(prefix+"indexName", spec.IndexName),
	}
	if kind := spec.Projection.ProjectionType; kind != wholeItems && kind != keysOnly {
		errs = append(errs, unsupported("a ProjectionType other than %s and %s", wholeItems, keysOnly))
	}
	return all(errs...)
}

// distinct reads the definitions of a request.
func distinct(definitions []attributeDefinition) ([]keyAttr, *apiError) {
	var out []keyAttr
	for _, d := range definitions {
		if slices.ContainsFunc(out, func(a keyAttr) bool { return a.name == d.AttributeName }) {
			return nil, badValue("Duplicate AttributeName in AttributeDefinitions: %s", d.AttributeName)
		}
		out = append(out, keyAttr{d.AttributeName, attr.Type(d.AttributeType)})
	}
	return out, nil
}

// schema checks the key of the table or of an index: a hash key, and perhaps a sort key, both defined.
func (t *table) schema(elements []keySchemaElement) (keySchema, *apiError) {
	var found []keyAttr
	for _, e := range elements {
		i := slices.IndexFunc(t.definitions, func(a keyAttr) bool { return a.name == e.AttributeName })
		if i < 0 {
			return keySchema{}, badValue("Some index key attributes are not defined in AttributeDefinitions. "+
				"Keys: [%s], AttributeDefinitions: [%s]", names(elements, elementName), names(t.definitions, attrName))
		}
		found = append(found, t.definitions[i])
	}
	if elements[0].KeyType != "HASH" {
		return keySchema{}, invalid("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
	}
	key := keySchema{hash: found[0]}
	if len(found) == 1 {
		return key, nil
	}
	if found[0].name == found[1].name {
		return keySchema{}, invalid("Both the Hash Key and the Range Key element in the KeySchema have the same name")
	}
	if elements[1].KeyType != "RANGE" {
		return keySchema{}, invalid("Invalid KeySchema: The second KeySchemaElement is not a RANGE key type")
	}
	key.sort = &found[1]
	return key, nil
}

func elementName(e keySchemaElement) string { return e.AttributeName }
func attrName(a keyAttr) string             { return a.name }

func names[E any](list []E, name func(E) string) string {
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = name(e)
	}
	return strings.Join(out, ", ")
}

func (r *createTable) addIndexes(t *table) *apiError {
	if r.GlobalSecondaryIndexes != nil && len(r.GlobalSecondaryIndexes) == 0 {
		return badValue("List of GlobalSecondaryIndexes is empty")
	}
	for _, spec := range r.GlobalSecondaryIndexes {
		if err := t.addIndex(spec); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) addIndex(spec indexSpec) *apiError {
	if t.index(spec.IndexName) != nil {
		return badValue("Duplicate index name: %s", spec.IndexName)
	}
	if len(t.indexes) == maxIndexes {
		return newError(prefixDynamo+"LimitExceededException",
			"GlobalSecondaryIndex count exceeds the per-table limit of %d", maxIndexes)
	}
	key, err := t.schema(spec.KeySchema)
	if err != nil {
		return err
	}
	t.indexes = append(t.indexes, &index{
		name: spec.IndexName, key: key, projection: spec.Projection.ProjectionType, rows: &view{key: key, table: t.key},
	})
	return nil
}

// checkDefinitionsUsed rejects definitions of attributes that no key has.
func (t *table) checkDefinitionsUsed() *apiError {
	for _, d := range t.definitions {
		used := t.key.has(d.name)
		for _, x := range t.indexes {
			used = used || x.key.has(d.name)
		}
		switch {
		case used:
		case len(t.indexes) == 0:
			return badValue("Number of attributes in KeySchema does not exactly match number of attributes defined " +
				"in AttributeDefinitions")
		default:
			return badValue("Some AttributeDefinitions are not used. AttributeDefinitions: [%s], unused: %s",
				names(t.definitions, attrName), d.name)
		}
	}
	return nil
}
