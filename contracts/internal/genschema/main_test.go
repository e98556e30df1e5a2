package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/leasehold-dev/leasehold/contracts"
)

// TestSchemasAreUpToDate, LS-API: the files in contracts/schema are those of the two documents.
func TestSchemasAreUpToDate(t *testing.T) {
	want, err := Schemas(contracts.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	internal, err := Schemas(contracts.OpenAPIInternal)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(want, internal)
	folder := filepath.Join("..", "..", "schema")
	have, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(have) != len(want) {
		t.Errorf("%d files, want %d", len(have), len(want))
	}
	for name, content := range want {
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s differs: run make generate (%v)", name, err)
		}
	}
}

// TestJSONSaysTheSame, LS-API: openapi.json is up to date, and has the content of openapi.yaml.
func TestJSONSaysTheSame(t *testing.T) {
	want, err := JSON(contracts.OpenAPI)
	if err != nil || !bytes.Equal(want, contracts.OpenAPIJSON) {
		t.Errorf("openapi.json differs: run make generate (%v)", err)
	}
	var fromYAML, fromJSON any
	if err := errors.Join(yaml.Unmarshal(contracts.OpenAPI, &fromYAML),
		yaml.Unmarshal(contracts.OpenAPIJSON, &fromJSON)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(fromYAML, fromJSON) {
		t.Error("openapi.json has another content than openapi.yaml")
	}
}

func TestReferenceToNothing(t *testing.T) {
	_, err := Schemas(
		[]byte(`{components: {schemas: {A: {type: object, properties: {b: {$ref: "#/components/schemas/B"}}}}}}`))
	if err == nil || err.Error() != "A: #/components/schemas/B refers to nothing" {
		t.Errorf("got %v", err)
	}
}

func TestFileName(t *testing.T) {
	for schema, want := range map[string]string{
		"Lock": "lock.json", "AcquireRequest": "acquire_request.json", "MachineIDLease": "machine_id_lease.json",
		"LeaseID": "lease_id.json",
	} {
		if got := fileName(schema); got != want {
			t.Errorf("%s is in %s, want %s", schema, got, want)
		}
	}
}
