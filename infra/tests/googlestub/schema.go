package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Schema is what the stub knows of the provider: a part of its schema, as the npm package @cdktf/provider-google
// (MPL-2.0) has it.
type Schema struct {
	Source    string           `json:"source"` // package that it was read from
	Version   string           `json:"version"`
	Provider  *Block           `json:"provider"`
	Resources map[string]*Type `json:"resources"`
}

// Type is the schema of a resource.
type Type struct {
	Block
}

// Block is the body of a resource or of a block in it.
type Block struct {
	Attributes map[string]*Attribute `json:"attributes,omitempty"`
	Blocks     map[string]*Nested    `json:"blocks,omitempty"`
}

// Attribute is an argument or a result.
type Attribute struct {
	Type     json.RawMessage `json:"type"` // as Terraform writes types in JSON
	Required bool            `json:"required,omitempty"`
	Optional bool            `json:"optional,omitempty"`
	Computed bool            `json:"computed,omitempty"`
	Enum     []string        `json:"enum,omitempty"` // the documentation's possible values
}

// Nested is a kind of block in a body.
type Nested struct {
	Nesting string `json:"nesting"` // list, set or single
	Min     int64  `json:"min,omitempty"`
	Max     int64  `json:"max,omitempty"` // 0: any number
	Block
}

//go:embed schema.json
var schemaJSON []byte

func readSchema() (*Schema, error) {
	var s Schema
	return &s, json.Unmarshal(schemaJSON, &s)
}

// print writes the schema with one resource in each line.
func (s *Schema) print(w io.Writer) error {
	provider, err := json.Marshal(s.Provider)
	if err != nil {
		return err
	}
	lines := make([]string, 0, len(s.Resources))
	for _, name := range slices.Sorted(maps.Keys(s.Resources)) {
		resource, err := json.Marshal(s.Resources[name])
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%q: %s", name, resource))
	}
	_, err = fmt.Fprintf(w, "{\n\"source\": %q, \"version\": %q,\n\"provider\": %s,\n\"resources\": {\n%s\n}}\n", s.Source,
		s.Version, provider, strings.Join(lines, ",\n"))
	return err
}
