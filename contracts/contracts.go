// Package contracts is what the HTTP API promises its callers: the OpenAPI documents, the types of their bodies, the
// table of error codes, and [Error]. Server and clients both use it; it imports the standard library only.
//
// openapi.yaml is written by hand and comes first; openapi-internal.yaml has the endpoints of task queues and
// schedulers. The types (types*.gen.go), openapi.json and schema/*.json are generated from them: `make generate` writes
// them, and a test fails if they differ. codes.yaml has the error codes, each in one row, from which the table in
// codes.gen.go, the document's enum and the page about errors are made. vectors/ is for those who do the same in other
// languages: it is generated from the code in the same way.
package contracts

import _ "embed" // for the documents

// OpenAPI is the contract as an OpenAPI 3.1 document in YAML.
//
//go:embed openapi.yaml
var OpenAPI []byte

// OpenAPIJSON is the same document in JSON.
//
//go:embed openapi.json
var OpenAPIJSON []byte

// OpenAPIInternal has the endpoints under /internal/. It refers to [OpenAPI] as "openapi.yaml".
//
//go:embed openapi-internal.yaml
var OpenAPIInternal []byte

//go:generate go run ./internal/gencodes ..
//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.7.2 -config oapi-codegen.yaml openapi.yaml
//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.7.2 -config oapi-codegen-internal.yaml openapi-internal.yaml
//go:generate go run ./internal/genschema openapi.json schema openapi.yaml openapi-internal.yaml
//go:generate go run ./internal/genvectors vectors
