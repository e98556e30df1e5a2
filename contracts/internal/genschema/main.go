// Genschema writes OpenAPI documents in other forms: the first as JSON, and the bodies of all as JSON schemas, one file
// each, for people who validate with other tools: genschema openapi.json schema openapi.yaml openapi-internal.yaml
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 4 {
		log.Fatal("usage: genschema document.json folder document.yaml …")
	}
	for i, document := range os.Args[3:] {
		source, err := os.ReadFile(document)
		if err != nil {
			log.Fatal(err)
		}
		files, err := Schemas(source)
		if err != nil {
			log.Fatalf("%s: %v", document, err)
		}
		for name, content := range files {
			save(filepath.Join(os.Args[2], name), content)
		}
		if i > 0 {
			continue
		}
		content, err := JSON(source)
		if err != nil {
			log.Fatalf("%s: %v", document, err)
		}
		save(os.Args[1], content)
	}
}

func save(name string, content []byte) {
	if err := os.WriteFile(name, content, 0o644); err != nil {
		log.Fatal(err)
	}
}

// JSON returns a document in YAML as JSON, in its order.
func JSON(source []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(source, &doc); err != nil {
		return nil, err
	}
	var compact, out bytes.Buffer
	if err := writeJSON(&compact, doc.Content[0]); err != nil {
		return nil, err
	}
	if err := json.Indent(&out, compact.Bytes(), "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func writeJSON(w *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode:
		w.WriteByte('{')
		for i := 0; i < len(n.Content); i += 2 {
			if i > 0 {
				w.WriteByte(',')
			}
			key, value := n.Content[i], n.Content[i+1]
			if err := writeScalar(w, key.Value); err != nil {
				return err
			}
			w.WriteByte(':')
			if err := writeJSON(w, value); err != nil {
				return err
			}
		}
		w.WriteByte('}')
		return nil
	case yaml.SequenceNode:
		w.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				w.WriteByte(',')
			}
			if err := writeJSON(w, item); err != nil {
				return err
			}
		}
		w.WriteByte(']')
		return nil
	case yaml.ScalarNode:
		var v any
		if err := n.Decode(&v); err != nil {
			return err
		}
		return writeScalar(w, v)
	default:
		return fmt.Errorf("line %d: neither a mapping, a list nor a value", n.Line)
	}
}

func writeScalar(w *bytes.Buffer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// ofItsOwn is the schema that others refer to: the list of codes is in one file, so that a new code changes one file.
const ofItsOwn = "Code"

// Schemas returns the schema files of an OpenAPI document by name: each object among its components, with the parts it
// refers to written out, so that a file needs no other one but code.json.
func Schemas(openapi []byte) (map[string][]byte, error) {
	var doc struct {
		Components struct {
			Schemas map[string]map[string]any `yaml:"schemas"`
		} `yaml:"components"`
	}
	if err := yaml.Unmarshal(openapi, &doc); err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for name, s := range doc.Components.Schemas {
		if name != ofItsOwn && s["oneOf"] == nil && (s["type"] != "object" || s["properties"] == nil) {
			continue
		}
		whole, err := resolve(s, doc.Components.Schemas)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		top := whole.(map[string]any)
		top["$schema"] = "https://json-schema.org/draft/2020-12/schema"
		top["title"] = name
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(top); err != nil {
			return nil, err
		}
		files[fileName(name)] = out.Bytes()
	}
	return files, nil
}

// resolve returns a copy of a part of a schema with every reference replaced by what it refers to, and without the
// "x-" entries that speak to code generators.
func resolve(part any, all map[string]map[string]any) (any, error) {
	switch part := part.(type) {
	case map[string]any:
		if ref, ok := part["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, "#/components/schemas/")
			target, ok := all[name]
			if !ok {
				return nil, fmt.Errorf("%s refers to nothing", ref)
			}
			if name == ofItsOwn {
				return map[string]any{"$ref": fileName(name)}, nil
			}
			return resolve(target, all)
		}
		out := make(map[string]any, len(part))
		for k, v := range part {
			if strings.HasPrefix(k, "x-") {
				continue
			}
			r, err := resolve(v, all)
			if err != nil {
				return nil, err
			}
			out[k] = r
		}
		return out, nil
	case []any:
		out := make([]any, len(part))
		for i, v := range part {
			r, err := resolve(v, all)
			if err != nil {
				return nil, err
			}
			out[i] = r
		}
		return out, nil
	default:
		return part, nil
	}
}

// fileName is the file of a schema: "AcquireRequest" is in acquire_request.json, "MachineIDLease" in
// machine_id_lease.json.
func fileName(schema string) string {
	upper := func(i int) bool { return i < len(schema) && schema[i] >= 'A' && schema[i] <= 'Z' }
	var b strings.Builder
	for i := range len(schema) {
		// A word begins at a capital that does not stand inside of an abbreviation, and at the end of one.
		if i > 0 && upper(i) && (!upper(i-1) || i+1 < len(schema) && !upper(i+1)) {
			b.WriteByte('_')
		}
		b.WriteByte(schema[i])
	}
	return strings.ToLower(b.String()) + ".json"
}
