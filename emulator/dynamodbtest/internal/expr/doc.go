// Package expr reads and evaluates the part of DynamoDB's expressions that Leasehold uses: conditions and filters,
// updates and key conditions, on attributes as a whole. The grammar is that of "Using expressions in DynamoDB" in the
// developer guide; names and texts of errors are the service's. What is left out of it is rejected by name.
//
//	source ──lex──▶ tokens ──parse──▶ tree ──bind──▶ tree with names and values ──evaluate──▶ result, new item
//
// Parsing knows only the grammar, so that a tree can be printed and parsed again. Binding looks up #names and :values,
// notes which of them were used, and makes the checks that need them. Nothing here touches a table: rules about keys
// belong to the caller, who asks a tree for the names of its attributes.
package expr
