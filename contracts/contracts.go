// Package contracts is what callers of the HTTP API are promised: the OpenAPI document, the types of its bodies and the
// table of error codes. Server and client both read it; it imports the standard library only.
//
// openapi.yaml is written by hand and comes first. types.gen.go and schema/*.json come out of it: `make generate` writes
// them anew, and a test fails when they differ. vectors/kazahana.json, for IDs in other languages, comes out of kazahana
// in the same way.
package contracts

import _ "embed" // for the document

// OpenAPI is the contract as an OpenAPI 3.1 document in YAML.
//
//go:embed openapi.yaml
var OpenAPI []byte

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.7.2 -config oapi-codegen.yaml openapi.yaml
//go:generate go run ./internal/genschema openapi.yaml schema
//go:generate go run ./internal/genvectors vectors/kazahana.json
