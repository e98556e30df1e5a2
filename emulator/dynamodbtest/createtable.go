package dynamodbtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

// Limits of a table.
const (
	maxLocalIndexes  = 5
	maxGlobalIndexes = 20
	maxIncluded      = 100 // attributes named by all projections together
)

type createTable struct {
	TableName                 string
	AttributeDefinitions      []attributeDefinition
	KeySchema                 []keySchemaElement
	LocalSecondaryIndexes     []indexSpec
	GlobalSecondaryIndexes    []indexSpec
	BillingMode               string
	ProvisionedThroughput     *throughput
	DeletionProtectionEnabled bool
	tableSettings
	Tags []tag
}

type attributeDefinition struct{ AttributeName, AttributeType string }

type keySchemaElement struct{ AttributeName, KeyType string }

type throughput struct{ ReadCapacityUnits, WriteCapacityUnits *int64 }

// check looks at each member by itself.
func (p *throughput) check(member string) *apiError {
	if p == nil {
		return nil
	}
	unit := func(name string, n *int64) *apiError {
		if n == nil {
			return missing(member + "." + name)
		}
		return atLeast(1, member+"."+name, n)
	}
	return all(unit("writeCapacityUnits", p.WriteCapacityUnits), unit("readCapacityUnits", p.ReadCapacityUnits))
}

type indexSpec struct {
	IndexName  string
	KeySchema  []keySchemaElement
	Projection *struct {
		ProjectionType   string
		NonKeyAttributes []string
	}
	ProvisionedThroughput *throughput
}

func (r *createTable) targets() []target { return []target{{table: r.TableName}} }

func (r *createTable) run(s *Server, _ mode) (any, *apiError) {
	err := all(r.check(), r.checkBilling("", r.ProvisionedThroughput), r.checkTogether(), checkTags(nil, r.Tags))
	if err != nil {
		return nil, err
	}
	t := &table{
		name:       r.TableName,
		id:         newTableID(),
		created:    s.now(),
		onDemand:   s.now(),
		throughput: r.ProvisionedThroughput,
		protected:  r.DeletionProtectionEnabled,
		items:      map[itemID]attr.Map{},
	}
	if t.definitions, err = r.definitions(); err != nil {
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
	t.adopt(r.tableSettings, s.now())
	t.tag(r.Tags)
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
		oneOf("BillingMode", r.BillingMode, "PROVISIONED", "PAY_PER_REQUEST"),
		r.ProvisionedThroughput.check("provisionedThroughput"),
		r.tableSettings.check(),
	}
	for i, spec := range r.LocalSecondaryIndexes {
		errs = append(errs, spec.check(fmt.Sprintf("localSecondaryIndexes.%d.member.", i+1)))
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
			errs = append(errs, constraint(d.AttributeName, member+"attributeName", "Member must have length less than or equal to 255"))
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
	errs := []*apiError{length(2, prefix+"keySchema", len(spec.KeySchema)), checkElements(prefix, spec.KeySchema)}
	if p := spec.Projection; p == nil {
		errs = append(errs, missing(prefix+"projection"))
	} else {
		errs = append(errs, oneOf(prefix+"projection.projectionType", p.ProjectionType, "ALL", "INCLUDE", "KEYS_ONLY"))
		if p.NonKeyAttributes != nil {
			errs = append(errs, length(20, prefix+"projection.nonKeyAttributes", len(p.NonKeyAttributes)))
		}
	}
	return all(append(errs, checkName(prefix+"indexName", spec.IndexName), spec.ProvisionedThroughput.check(prefix+"provisionedThroughput"))...)
}

// checkBilling holds the throughput of the table, or of the index named, against the billing mode.
func (r *createTable) checkBilling(index string, given *throughput) *apiError {
	where := ""
	if index != "" {
		where = " for index: " + index
	}
	switch {
	case r.BillingMode == "PAY_PER_REQUEST" && given != nil:
		return badValue("Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is "+
			"PAY_PER_REQUEST%s", where)
	case r.BillingMode == "PAY_PER_REQUEST":
		return nil
	case given == nil:
		return badValue("ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is "+
			"PROVISIONED%s", where)
	default:
		return nil
	}
}

func (r *createTable) definitions() ([]keyAttr, *apiError) {
	var out []keyAttr
	for _, d := range r.AttributeDefinitions {
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

// addIndexes adds the global indexes and then the local ones.
func (r *createTable) addIndexes(t *table) *apiError {
	if r.GlobalSecondaryIndexes != nil && len(r.GlobalSecondaryIndexes) == 0 {
		return badValue("List of GlobalSecondaryIndexes is empty")
	}
	if r.LocalSecondaryIndexes != nil && len(r.LocalSecondaryIndexes) == 0 {
		return badValue("List of LocalSecondaryIndexes is empty")
	}
	if len(r.LocalSecondaryIndexes) > maxLocalIndexes {
		return badValue("Number of LocalSecondaryIndexes exceeds per-table limit of %d", maxLocalIndexes)
	}
	if len(r.GlobalSecondaryIndexes) > maxGlobalIndexes {
		return newError(prefixDynamo+"LimitExceededException",
			"GlobalSecondaryIndex count exceeds the per-table limit of %d", maxGlobalIndexes)
	}
	if r.LocalSecondaryIndexes != nil && t.key.sort == nil {
		return badValue("Table KeySchema does not have a range key, " +
			"which is required when specifying a LocalSecondaryIndex")
	}
	for _, spec := range r.GlobalSecondaryIndexes {
		if err := r.checkBilling(spec.IndexName, spec.ProvisionedThroughput); err != nil {
			return err
		}
		if err := t.addIndex(spec, false); err != nil {
			return err
		}
	}
	for _, spec := range r.LocalSecondaryIndexes {
		if spec.ProvisionedThroughput != nil {
			return unsupported("ProvisionedThroughput of a local index: it uses the table's")
		}
		if err := t.addIndex(spec, true); err != nil {
			return err
		}
	}
	included := 0
	for _, x := range t.indexes {
		included += len(x.include)
	}
	if included > maxIncluded {
		return badValue("Number of NonKeyAttributes exceeds limit of %d", maxIncluded)
	}
	return nil
}

func (t *table) addIndex(spec indexSpec, local bool) *apiError {
	if t.index(spec.IndexName) != nil {
		return badValue("Duplicate index name: %s", spec.IndexName)
	}
	key, err := t.schema(spec.KeySchema)
	if err != nil {
		return err
	}
	if local {
		switch {
		case key.sort == nil:
			return badValue("Index KeySchema does not have a range key for index: %s", spec.IndexName)
		case key.hash != t.key.hash:
			return badValue("Index KeySchema does not have the same leading hash key as table KeySchema for index: "+
				"%s. index hash key: %s, table hash key: %s", spec.IndexName, key.hash.name, t.key.hash.name)
		}
	}
	x := &index{name: spec.IndexName, local: local, key: key, throughput: spec.ProvisionedThroughput}
	x.rows = &view{key: key, table: t.key}
	x.projection, x.include = spec.Projection.ProjectionType, spec.Projection.NonKeyAttributes
	switch {
	case x.projection == "":
		return badValue("Unknown ProjectionType: null")
	case x.include != nil && x.projection != "INCLUDE":
		return badValue("ProjectionType is %s, but NonKeyAttributes is specified", x.projection)
	case len(x.include) == 0 && x.projection == "INCLUDE":
		return badValue("ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
	}
	t.indexes = append(t.indexes, x)
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
