// Package expr reads and evaluates DynamoDB's expressions: conditions and filters, updates, projections and key
// conditions. The grammar is the one of "Using expressions in DynamoDB" in the developer guide; names and texts of
// errors are the service's.
//
//	source ──lex──▶ tokens ──parse──▶ tree ──bind──▶ tree with names and values ──evaluate──▶ result, new item
//
// Parsing knows only the grammar, so that a tree can be printed and parsed again. Binding looks up #names and :values,
// notes which of them were used, and makes the checks that need them. Nothing here touches a table: rules about keys
// belong to the caller, who asks a tree for its paths.
package expr
