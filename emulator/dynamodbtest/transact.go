package dynamodbtest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

// Limits of transactions.
const (
	maxTransactItems = 100
	maxTransactSize  = 4 << 20
	maxTokenLength   = 36
	tokenLifetime    = 10 * time.Minute // how long a ClientRequestToken makes a transaction idempotent
	transactFactor   = 2                // every item is read or written twice: to prepare and to commit
)

type transactWriteItems struct {
	TransactItems               []transactWrite
	ClientRequestToken          *string
	ReturnConsumedCapacity      string
	ReturnItemCollectionMetrics string
}

type transactWrite struct {
	Put            *transactPut
	Update         *transactUpdate
	Delete         *transactKey
	ConditionCheck *transactKey
}

type transactPut struct {
	writeParams
	Item map[string]any
}

type transactUpdate struct {
	writeParams
	Key              map[string]any
	UpdateExpression *string
}

type transactKey struct {
	writeParams
	Key map[string]any
}

func (t transactWrite) target() target {
	switch {
	case t.Put != nil:
		return target{t.Put.TableName, t.Put.Item}
	case t.Update != nil:
		return target{t.Update.TableName, t.Update.Key}
	case t.Delete != nil:
		return target{t.Delete.TableName, t.Delete.Key}
	case t.ConditionCheck != nil:
		return target{t.ConditionCheck.TableName, t.ConditionCheck.Key}
	default:
		return target{}
	}
}

func (r *transactWriteItems) targets() []target {
	out := make([]target, len(r.TransactItems))
	for i, t := range r.TransactItems {
		out[i] = t.target()
	}
	return out
}

// check looks at each member of the item at index i by itself.
func (t transactWrite) check(i int) *apiError {
	var errs []*apiError
	if w := t.Put; w != nil {
		errs = append(errs, w.check(itemMember(i, "put."), "Item", w.Item))
	}
	if w := t.Update; w != nil {
		errs = append(errs, w.check(itemMember(i, "update."), "Key", w.Key))
		if w.UpdateExpression == nil {
			errs = append(errs, missing(itemMember(i, "update.updateExpression")))
		}
	}
	if w := t.Delete; w != nil {
		errs = append(errs, w.check(itemMember(i, "delete."), "Key", w.Key))
	}
	if w := t.ConditionCheck; w != nil {
		errs = append(errs, w.check(itemMember(i, "conditionCheck."), "Key", w.Key))
		if w.ConditionExpression == nil {
			errs = append(errs, missing(itemMember(i, "conditionCheck.conditionExpression")))
		}
	}
	return all(errs...)
}

// prepare makes the write of an item that was checked, which names exactly one action.
func (t transactWrite) prepare() (*write, *apiError) {
	actions := 0
	for _, given := range []bool{t.Put != nil, t.Update != nil, t.Delete != nil, t.ConditionCheck != nil} {
		if given {
			actions++
		}
	}
	if actions != 1 {
		return nil, invalid("TransactItems can only contain one of Check, Put, Update or Delete")
	}
	switch {
	case t.Put != nil:
		return t.Put.prepare(verbPut, "Item", t.Put.Item, nil)
	case t.Update != nil:
		return t.Update.prepare(verbUpdate, "Key", t.Update.Key, t.Update.UpdateExpression)
	case t.Delete != nil:
		return t.Delete.prepare(verbDelete, "Key", t.Delete.Key, nil)
	default:
		return t.ConditionCheck.prepare(verbCheck, "Key", t.ConditionCheck.Key, nil)
	}
}

// replay is what the server remembers of a transaction that was done under a token.
type replay struct {
	request [sha256.Size]byte
	until   time.Time
	reads   usages // what the same request costs again
}

// fingerprint identifies a request apart from its token.
func (r *transactWriteItems) fingerprint() [sha256.Size]byte {
	plain := *r
	plain.ClientRequestToken = nil
	encoded, err := json.Marshal(plain)
	if err != nil {
		panic(err) // it came from JSON
	}
	return sha256.Sum256(encoded)
}

func (r *transactWriteItems) run(s *Server, _ mode) (any, *apiError) {
	errs := []*apiError{
		checkCapacity(r.ReturnConsumedCapacity),
		checkCollectionMetrics(r.ReturnItemCollectionMetrics),
		length(maxTransactItems, "TransactItems", len(r.TransactItems)),
	}
	if token := r.ClientRequestToken; token != nil && *token == "" {
		errs = append(errs, constraint("", "ClientRequestToken", "Member must have length greater than or equal to 1"))
	} else if token != nil && len(*token) > maxTokenLength {
		errs = append(errs, constraint(*token, "ClientRequestToken", "Member must have length less than or equal to 36"))
	}
	for i, t := range r.TransactItems {
		errs = append(errs, t.check(i))
	}
	err := all(errs...)
	if err != nil {
		return nil, err
	}
	if done, err := s.replayed(r); done != nil || err != nil {
		return r.response(done), err
	}
	writes := make([]*write, len(r.TransactItems))
	size := 0
	for i, t := range r.TransactItems {
		if writes[i], err = t.prepare(); err != nil {
			return nil, err
		}
		size += attr.Size(writes[i].item)
	}
	if size > maxTransactSize {
		return nil, tooLarge()
	}
	used, err := s.transact(writes)
	if err != nil {
		return nil, err
	}
	if r.ClientRequestToken != nil {
		s.remember(r, writes)
	}
	return r.response(used), nil
}

func (r *transactWriteItems) response(used usages) any {
	out := map[string]any{}
	if wantsCapacity(r.ReturnConsumedCapacity) {
		out["ConsumedCapacity"] = used.json()
	}
	return out
}

// place is where an item is.
type place struct {
	t  *table
	id itemID
}

func errOneItemTwice() *apiError {
	return invalid("Transaction request cannot include multiple operations on one item")
}

// itemMember names a member of the item at index i the way the service does.
func itemMember(i int, member string) string {
	return fmt.Sprintf("transactItems.%d.member.%s", i+1, member)
}

func tooLarge() *apiError {
	return invalid("Collection size of items exceeded, which can also be caused by the aggregate size of the items " +
		"in the transaction exceeding the 4MB limit")
}

// replayed looks for a transaction that was done under the request's token.
func (s *Server) replayed(r *transactWriteItems) (usages, *apiError) {
	if r.ClientRequestToken == nil {
		return nil, nil
	}
	token := *r.ClientRequestToken
	s.forget()
	done, ok := s.replays[token]
	switch {
	case !ok:
		return nil, nil
	case done.request != r.fingerprint():
		return nil, newError(prefixDynamo+"IdempotentParameterMismatchException",
			"The ClientRequestToken %s was used with other parameters less than 10 minutes ago", token)
	}
	s.charge(done.reads.sorted()...)
	return done.reads, nil
}

// forget drops the transactions whose tokens have had their time.
func (s *Server) forget() {
	now := s.now()
	for len(s.tokens) > 0 && !now.Before(s.replays[s.tokens[0]].until) {
		delete(s.replays, s.tokens[0])
		s.tokens = s.tokens[1:]
	}
}

func (s *Server) remember(r *transactWriteItems, writes []*write) {
	reads := usages{}
	for _, w := range writes {
		reads.of(w.table).read(attr.Size(w.table.items[w.id]), true)
	}
	s.replays[*r.ClientRequestToken] = replay{r.fingerprint(), s.now().Add(tokenLifetime), reads}
	s.tokens = append(s.tokens, *r.ClientRequestToken)
}

// transact decides all writes on the state before any of them, and applies them if every one can be.
func (s *Server) transact(writes []*write) (usages, *apiError) {
	tables := make([]*table, len(writes))
	for i, w := range writes {
		var err *apiError
		if tables[i], err = s.table(w.tableName); err != nil {
			return nil, err
		}
	}
	causes := make([]cause, len(writes))
	failed := false
	note := func(i int, err *apiError) {
		failed = true
		causes[i] = cause{Code: "ValidationError", Message: err.msg}
		if err.kind == prefixDynamo+"ConditionalCheckFailedException" {
			causes[i].Code = "ConditionalCheckFailed"
			if err.item != nil {
				causes[i].Item = attr.JSONMap(err.item)
			}
		}
	}
	seen := map[place]bool{}
	for i, w := range writes {
		causes[i].Code = "None"
		if err := w.resolve(tables[i]); err != nil {
			note(i, err)
			continue
		}
		at := place{w.table, w.id}
		if seen[at] {
			return nil, errOneItemTwice()
		}
		seen[at] = true
	}
	if failed {
		return nil, canceled(causes)
	}
	used, results := usages{}, make([]attr.Map, len(writes))
	size := 0
	for i, w := range writes {
		found := w.table.items[w.id]
		after, err := w.decide(found)
		if err != nil {
			note(i, err)
			used.of(w.table).refused(found)
			continue
		}
		results[i] = after
		size += attr.Size(after)
		used.of(w.table).wrote(found, after)
	}
	s.charge(used.sorted()...)
	if failed {
		return nil, canceled(causes)
	}
	if size > maxTransactSize {
		return nil, tooLarge()
	}
	for i, w := range writes {
		if w.verb != verbCheck {
			w.table.put(w.id, results[i])
		}
	}
	for t := range used {
		t.commit()
	}
	return used, nil
}

type transactGetItems struct {
	TransactItems []struct {
		Get *struct {
			TableName string
			Key       map[string]any
		}
	}
	ReturnConsumedCapacity string
}

func (r *transactGetItems) targets() []target {
	out := make([]target, len(r.TransactItems))
	for i, t := range r.TransactItems {
		if t.Get != nil {
			out[i] = target{t.Get.TableName, t.Get.Key}
		}
	}
	return out
}

func (r *transactGetItems) run(s *Server, _ mode) (any, *apiError) {
	errs := []*apiError{checkCapacity(r.ReturnConsumedCapacity),
		length(maxTransactItems, "TransactItems", len(r.TransactItems))}
	for i, t := range r.TransactItems {
		if t.Get == nil {
			errs = append(errs, missing(itemMember(i, "get")))
			continue
		}
		if t.Get.Key == nil {
			errs = append(errs, missing(itemMember(i, "get.key")))
		}
		errs = append(errs, checkName(itemMember(i, "get.tableName"), t.Get.TableName))
	}
	if err := all(errs...); err != nil {
		return nil, err
	}
	responses := make([]map[string]any, len(r.TransactItems))
	used, size := usages{}, 0
	seen := map[place]bool{}
	for i, t := range r.TransactItems {
		key, err := decodeItem("Key", t.Get.Key)
		if err != nil {
			return nil, err
		}
		on, err := s.table(t.Get.TableName)
		if err != nil {
			return nil, err
		}
		if err := on.checkKey(key); err != nil {
			causes := make([]cause, len(r.TransactItems))
			for j := range causes {
				causes[j].Code = "None"
			}
			causes[i] = cause{Code: "ValidationError", Message: err.msg}
			return nil, canceled(causes)
		}
		at := place{on, on.key.id(key)}
		if seen[at] {
			return nil, errOneItemTwice()
		}
		seen[at] = true
		item := on.fetch(key, false)
		size += attr.Size(item)
		used.of(on).read(attr.Size(item), true)
		responses[i] = map[string]any{}
		if item != nil {
			responses[i]["Item"] = attr.JSONMap(item)
		}
	}
	if size > maxTransactSize {
		return nil, tooLarge()
	}
	s.charge(used.sorted()...)
	out := map[string]any{"Responses": responses}
	if wantsCapacity(r.ReturnConsumedCapacity) {
		out["ConsumedCapacity"] = used.json()
	}
	return out, nil
}
