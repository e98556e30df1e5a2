package dynamodbtest

import (
	"encoding/base64"
	"slices"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/expr"
)

// Limits of items and keys in bytes.
const (
	maxItemSize  = 400 * 1024
	maxHashSize  = 2048
	maxRangeSize = 1024
)

// keyAttr is an attribute that is part of a key, with its type S, N or B.
type keyAttr struct {
	name string
	kind attr.Type
}

// keySchema is the key of a table or of an index: one or two attributes.
type keySchema struct {
	hash keyAttr
	sort *keyAttr // nil: a hash key alone
}

func (k keySchema) attrs() []keyAttr {
	if k.sort == nil {
		return []keyAttr{k.hash}
	}
	return []keyAttr{k.hash, *k.sort}
}

func (k keySchema) has(name string) bool {
	for _, a := range k.attrs() {
		if a.name == name {
			return true
		}
	}
	return false
}

// of returns the key's attributes of an item.
func (k keySchema) of(item attr.Map) attr.Map {
	key := make(attr.Map, 2)
	for _, a := range k.attrs() {
		key[a.name] = item[a.name]
	}
	return key
}

// id encodes a value of a key so that different values have different encodings.
func id(v attr.Value) string {
	switch v := v.(type) {
	case attr.String:
		return string(v)
	case attr.Binary:
		return string(v)
	case attr.Number:
		return v.String()
	default:
		return ""
	}
}

// itemID identifies an item of a table by its key.
type itemID struct{ hash, sort string }

func (k keySchema) id(item attr.Map) itemID {
	out := itemID{hash: id(item[k.hash.name])}
	if k.sort != nil {
		out.sort = id(item[k.sort.name])
	}
	return out
}

// keyText writes a value of a key for [Item]: text as it is, numbers normalised, binary in base64.
func keyText(v attr.Value) string {
	if b, ok := v.(attr.Binary); ok {
		return base64.StdEncoding.EncodeToString([]byte(b))
	}
	return id(v)
}

// checkKey checks the Key of a request: exactly the key's attributes, with their types.
func (t *table) checkKey(key attr.Map) *apiError {
	if len(key) != len(t.key.attrs()) {
		return invalid("The provided key element does not match the schema")
	}
	for i, a := range t.key.attrs() {
		v := key[a.name]
		if v == nil || v.Type() != a.kind {
			return invalid("The provided key element does not match the schema")
		}
		if err := checkKeyValue(a, v, i == 0); err != nil {
			return err
		}
	}
	return nil
}

// checkItem checks a whole item: its key, the keys of indexes where it has them, and its size.
func (t *table) checkItem(item attr.Map) *apiError {
	for i, a := range t.key.attrs() {
		v := item[a.name]
		if v == nil {
			return badValue("Missing the key %s in the item", a.name)
		}
		if v.Type() != a.kind {
			return badValue("Type mismatch for key %s expected: %s actual: %s", a.name, a.kind, v.Type())
		}
		if err := checkKeyValue(a, v, i == 0); err != nil {
			return err
		}
	}
	return t.checkIndexKeys(item)
}

func (t *table) checkIndexKeys(item attr.Map) *apiError {
	for _, x := range t.indexes {
		for i, a := range x.key.attrs() {
			v := item[a.name]
			if v == nil {
				continue
			}
			if v.Type() != a.kind {
				return badValue("Type mismatch for Index Key %s Expected: %s Actual: %s IndexName: %s",
					a.name, a.kind, v.Type(), x.name)
			}
			if kind := emptyKind(v); kind != "" {
				return invalid("One or more parameter values are not valid. A value specified for a secondary index "+
					"key is not supported. The AttributeValue for a key attribute cannot contain an empty %s value. "+
					"IndexName: %s, IndexKey: %s", kind, x.name, a.name)
			}
			if err := checkKeySize(v, i == 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkKeyValue(a keyAttr, v attr.Value, hash bool) *apiError {
	if kind := emptyKind(v); kind != "" {
		return invalid("One or more parameter values are not valid. The AttributeValue for a key attribute "+
			"cannot contain an empty %s value. Key: %s", kind, a.name)
	}
	return checkKeySize(v, hash)
}

func emptyKind(v attr.Value) string {
	switch v {
	case attr.String(""):
		return "string"
	case attr.Binary(""):
		return "binary"
	default:
		return ""
	}
}

func checkKeySize(v attr.Value, hash bool) *apiError {
	if v.Type() == attr.N {
		return nil
	}
	switch n := len(id(v)); {
	case hash && n > maxHashSize:
		return badValue("Size of hashkey has exceeded the maximum size limit of2048 bytes")
	case !hash && n > maxRangeSize:
		return badValue("Aggregated size of all range keys has exceeded the size limit of 1024 bytes")
	default:
		return nil
	}
}

// checkUpdate rejects an update that touches the key, or that gives an attribute of an index a type that the index
// cannot hold.
func (t *table) checkUpdate(u *expr.Update) *apiError {
	for _, a := range t.key.attrs() {
		if slices.Contains(u.Names(), a.name) {
			return badValue("Cannot update attribute %s. This attribute is part of the key", a.name)
		}
	}
	for _, x := range t.indexes {
		for _, a := range x.key.attrs() {
			if v := u.Literal(a.name); v != nil && v.Type() != a.kind {
				return badValue("Type mismatch for Index Key %s Expected: %s Actual: %s IndexName: %s",
					a.name, a.kind, v.Type(), x.name)
			}
		}
	}
	return nil
}
