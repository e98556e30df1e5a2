// Genschema writes the bodies of an OpenAPI document as JSON schemas, one file each, for people who validate with other
// tools: genschema openapi.yaml schema
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
	if len(os.Args) != 3 {
		log.Fatal("usage: genschema openapi.yaml folder")
	}
	source, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	files, err := Schemas(source)
	if err != nil {
		log.Fatalf("%s: %v", os.Args[1], err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(os.Args[2], name), content, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// Schemas returns the schema files of an OpenAPI document by name: each object among its components, with the parts it
// refers to written out, so that each file stands alone.
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
		if s["type"] != "object" || s["properties"] == nil {
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

// fileName is the file of a schema: "AcquireRequest" is in acquire_request.json, "MachineIDLease" in machine_id_lease.json.
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
