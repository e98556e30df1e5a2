package dynamodbtest

import (
	"fmt"
	"slices"
)

type updateTable struct {
	named
	AttributeDefinitions        []attributeDefinition
	BillingMode                 string
	ProvisionedThroughput       *throughput
	DeletionProtectionEnabled   *bool
	GlobalSecondaryIndexUpdates []indexUpdate
	tableSettings
}

type indexUpdate struct {
	Create *indexSpec
	Update *struct {
		IndexName             string
		ProvisionedThroughput *throughput
	}
	Delete *struct{ IndexName string }
}

// check looks at each member by itself.
func (r *updateTable) check() *apiError {
	errs := []*apiError{
		checkDefinitions(r.AttributeDefinitions),
		oneOf("BillingMode", r.BillingMode, "PROVISIONED", "PAY_PER_REQUEST"),
		r.ProvisionedThroughput.check("provisionedThroughput"),
		r.tableSettings.check(),
	}
	for i, u := range r.GlobalSecondaryIndexUpdates {
		prefix := fmt.Sprintf("globalSecondaryIndexUpdates.%d.member.", i+1)
		if u.Create != nil {
			errs = append(errs, u.Create.check(prefix+"create."))
		}
		if u.Update != nil {
			errs = append(errs, checkName(prefix+"update.indexName", u.Update.IndexName),
				u.Update.ProvisionedThroughput.check(prefix+"update.provisionedThroughput"))
			if u.Update.ProvisionedThroughput == nil {
				errs = append(errs, missing(prefix+"update.provisionedThroughput"))
			}
		}
		if u.Delete != nil {
			errs = append(errs, checkName(prefix+"delete.indexName", u.Delete.IndexName))
		}
	}
	return all(errs...)
}

// run changes a copy of the table, which takes the table's place when everything about it is in order. Unlike the
// service's, the change is complete when the request responds.
func (r *updateTable) run(s *Server, _ mode) (any, *apiError) {
	t, err := r.find(s, r.check())
	if err != nil {
		return nil, err
	}
	if r.BillingMode == "" && r.ProvisionedThroughput == nil && r.DeletionProtectionEnabled == nil &&
		len(r.GlobalSecondaryIndexUpdates) == 0 && r.tableSettings == (tableSettings{}) {
		return nil, invalid("At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates or " +
			"SSESpecification or ReplicaUpdates is required")
	}
	next := *t
	next.indexes = make([]*index, len(t.indexes))
	for i, x := range t.indexes {
		same := *x
		next.indexes[i] = &same
	}
	next.definitions = slices.Clone(t.definitions)
	err = all(r.checkTogether(), r.checkStream(t))
	if err == nil {
		err = r.updateIndexes(&next)
	}
	if err == nil {
		err = r.updateBilling(t, &next)
	}
	if err != nil {
		return nil, err
	}
	if next.throughput == nil && t.throughput != nil {
		next.onDemand = s.now()
	}
	if r.DeletionProtectionEnabled != nil {
		next.protected = *r.DeletionProtectionEnabled
	}
	next.adopt(r.tableSettings, s.now())
	*t = next
	return map[string]any{"TableDescription": t.describe()}, nil
}

func (r *updateTable) checkStream(t *table) *apiError {
	stream := r.StreamSpecification
	switch {
	case stream == nil || stream.StreamEnabled == nil:
		return nil
	case *stream.StreamEnabled && t.streams():
		return badValue("Table already has an enabled stream: TableName: %s", t.name)
	case !*stream.StreamEnabled && !t.streams():
		return badValue("Table has no stream to disable: TableName: %s", t.name)
	default:
		return nil
	}
}

func (r *updateTable) updateIndexes(t *table) *apiError {
	changed := 0
	for _, u := range r.GlobalSecondaryIndexUpdates {
		if u.Create != nil || u.Delete != nil {
			changed++
		}
	}
	if changed > 1 {
		return newError(prefixDynamo+"LimitExceededException",
			"Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table")
	}
	for _, u := range r.GlobalSecondaryIndexUpdates {
		var err *apiError
		switch {
		case u.Create != nil && u.Update == nil && u.Delete == nil:
			err = r.createIndex(t, *u.Create)
		case u.Delete != nil && u.Create == nil && u.Update == nil:
			err = t.deleteIndex(u.Delete.IndexName)
		case u.Update != nil && u.Create == nil && u.Delete == nil:
			x := t.index(u.Update.IndexName)
			if x == nil || x.local {
				return noIndex(u.Update.IndexName)
			}
			x.throughput = u.Update.ProvisionedThroughput
		default:
			return badValue("One of Create, Update and Delete must be specified in each of GlobalSecondaryIndexUpdates")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func noIndex(name string) *apiError {
	return newError(prefixDynamo+"ResourceNotFoundException", "Requested resource not found: index %s", name)
}

// createIndex adds an index and fills it with the items that have its keys.
func (r *updateTable) createIndex(t *table, spec indexSpec) *apiError {
	more, err := (&createTable{AttributeDefinitions: r.AttributeDefinitions}).definitions()
	if err != nil {
		return err
	}
	for _, d := range more {
		i := slices.IndexFunc(t.definitions, func(a keyAttr) bool { return a.name == d.name })
		switch {
		case i < 0:
			t.definitions = append(t.definitions, d)
		case t.definitions[i].kind != d.kind:
			return badValue("The type of the attribute %s cannot change from %s to %s", d.name, t.definitions[i].kind, d.kind)
		}
	}
	if err := t.addIndex(spec, false); err != nil {
		return err
	}
	x := t.indexes[len(t.indexes)-1]
	slices.SortStableFunc(t.indexes, func(a, b *index) int { // global ones first
		switch {
		case a.local == b.local:
			return 0
		case b.local:
			return -1
		default:
			return 1
		}
	})
	global := 0
	for _, x := range t.indexes {
		if !x.local {
			global++
		}
	}
	if global > maxGlobalIndexes {
		return newError(prefixDynamo+"LimitExceededException",
			"GlobalSecondaryIndex count exceeds the per-table limit of %d", maxGlobalIndexes)
	}
	if err := t.checkDefinitionsUsed(); err != nil {
		return err
	}
	for _, item := range t.items {
		x.rows.replace(nil, x.image(t, item))
	}
	return nil
}

// deleteIndex removes a global index and the definitions that only it used.
func (t *table) deleteIndex(name string) *apiError {
	if x := t.index(name); x == nil || x.local {
		return noIndex(name)
	}
	t.indexes = slices.DeleteFunc(t.indexes, func(x *index) bool { return x.name == name })
	t.definitions = slices.DeleteFunc(t.definitions, func(a keyAttr) bool {
		return !t.key.has(a.name) && !slices.ContainsFunc(t.indexes, func(x *index) bool { return x.key.has(a.name) })
	})
	return nil
}

// updateBilling changes the billing mode and the throughput, and holds them against each other.
func (r *updateTable) updateBilling(was, t *table) *apiError {
	mode := r.BillingMode
	if mode == "" && t.throughput == nil {
		mode = "PAY_PER_REQUEST"
	}
	rules := createTable{BillingMode: mode}
	switch given := r.ProvisionedThroughput; {
	case mode == "PAY_PER_REQUEST":
		if err := rules.checkBilling("", given); err != nil {
			return err
		}
		if was.throughput != nil {
			for _, x := range t.indexes {
				x.throughput = nil
			}
		}
		t.throughput = nil
	case given != nil && was.throughput != nil && *given.ReadCapacityUnits == *was.throughput.ReadCapacityUnits &&
		*given.WriteCapacityUnits == *was.throughput.WriteCapacityUnits:
		return invalid("The provisioned throughput for the table will not change. The requested value equals the current value. "+
			"Current ReadCapacityUnits provisioned for the table: %[1]d. Requested ReadCapacityUnits: %[1]d. "+
			"Current WriteCapacityUnits provisioned for the table: %[2]d. Requested WriteCapacityUnits: %[2]d. "+
			"Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits.",
			*given.ReadCapacityUnits, *given.WriteCapacityUnits)
	case given != nil:
		t.throughput = given
	}
	if err := rules.checkBilling("", t.throughput); err != nil {
		return err
	}
	for _, x := range t.indexes {
		if x.local {
			continue
		}
		if err := rules.checkBilling(x.name, x.throughput); err != nil {
			return err
		}
	}
	return nil
}
