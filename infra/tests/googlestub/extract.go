package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The npm package @cdktf/provider-google is generated from the schema of the provider. Its files have one form, which
// extract reads:
//
//	index.js    function …ToHclTerraform and synthesizeHclAttributes: names, types and blocks of what can be set
//	            "// NAME - computed: true, optional: false, required: false": what the provider sets
//	index.d.ts  readonly NAME?: with a link to the documentation: what is optional; "Possible values: [...]"
var (
	classStart = regexp.MustCompile(`(?m)^(?:export )?class (\w+) extends`)
	funcStart  = regexp.MustCompile(`(?m)^function (\w+)ToHclTerraform\(`)
	argument   = regexp.MustCompile(
		`(?s)(\w+): \{\n\s+value: (.*?),\n\s+isBlock: (true|false),\n\s+type: "(\w+)",\n\s+storageClassType: "(\w+)",`)
	result = regexp.MustCompile(
		`// (\w+) - computed: true, optional: false, required: false\n\s+(?:get \w+\(\) \{\n\s+return (.*?);|this\._\w+ = new (\w+)\(this, "\w+"(.*?)\);)`)
	mapped   = regexp.MustCompile(`\b([a-z]\w*)ToHclTerraform\b`)
	property = regexp.MustCompile(`(?s)/\*\*(.*?)\*/\n\s+readonly \w+(\??): `)
	iface    = regexp.MustCompile(`(?ms)^export interface (\w+) .*?^}`)
	anchor   = regexp.MustCompile(`#(\w+) \w+#\w+\}`)
	possible = regexp.MustCompile(`Possible values: (\[[^\]]*\])`)
	versions = regexp.MustCompile(`providerVersion: '([\d.]+)'`)
	typeName = regexp.MustCompile(`terraformResourceType: '(\w+)'`)
)

// source is one resource of the package.
type source struct {
	funcs   map[string]string // by the name of the interface in lower case
	classes map[string]string
	docs    map[string]map[string]doc // by interface and by name
}

type doc struct {
	optional bool
	enum     []string
}

// extract reads resources from an unpacked package, by the names of its folders such as cloud-run-v2-service.
func extract(folder string, names []string) (*Schema, error) {
	s := &Schema{Source: "@cdktf/provider-google", Resources: map[string]*Type{}}
	for _, name := range names {
		js, err := os.ReadFile(filepath.Join(folder, "lib", name, "index.js")) //nolint:gosec // the folder is the caller's
		if err != nil {
			return nil, err
		}
		dts, err := os.ReadFile(filepath.Join(folder, "lib", name, "index.d.ts")) //nolint:gosec // the folder is the caller's
		if err != nil {
			return nil, err
		}
		x := parse(string(js), string(dts))
		main, config := "", ""
		for class, text := range x.classes {
			if strings.Contains(text, "synthesizeHclAttributes()") {
				main, config = class, class+"Config"
				if m := versions.FindStringSubmatch(text); m != nil {
					s.Version = m[1]
				}
			}
		}
		_, arguments, found := strings.Cut(x.classes[main], "synthesizeHclAttributes()")
		if !found {
			return nil, fmt.Errorf("%s has no class with synthesizeHclAttributes", name)
		}
		block, err := x.block(config, main, arguments)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if name == "provider" {
			s.Provider = block
			continue
		}
		m := typeName.FindStringSubmatch(x.classes[main])
		if m == nil {
			return nil, fmt.Errorf("%s has no name of a resource", name)
		}
		for _, implied := range []string{"id", "project", "region", "location", "zone"} {
			if a := block.Attributes[implied]; a != nil && a.Optional {
				a.Computed = true // the provider sets them from its own settings
			}
		}
		s.Resources[m[1]] = &Type{*block}
	}
	if s.Provider == nil {
		return nil, errors.New("name the folder provider, too")
	}
	return s, nil
}

func parse(js, dts string) *source {
	x := &source{funcs: chunks(funcStart, js), classes: chunks(classStart, js), docs: map[string]map[string]doc{}}
	for _, m := range iface.FindAllStringSubmatch(dts, -1) {
		members := map[string]doc{}
		for _, p := range property.FindAllStringSubmatch(m[0], -1) {
			a := anchor.FindStringSubmatch(p[1])
			if a == nil {
				continue
			}
			d := doc{optional: p[2] == "?"}
			if e := possible.FindStringSubmatch(p[1]); e != nil && json.Unmarshal([]byte(e[1]), &d.enum) != nil {
				d.enum = nil
			}
			members[a[1]] = d
		}
		x.docs[m[1]] = members
	}
	return x
}

// chunks splits a file at its declarations.
func chunks(start *regexp.Regexp, text string) map[string]string {
	out := map[string]string{}
	declaration := regexp.MustCompile(`(?m)^(?:export )?(?:class|function) `)
	for _, m := range start.FindAllStringSubmatchIndex(text, -1) {
		end := len(text)
		if next := declaration.FindStringIndex(text[m[1]:]); next != nil {
			end = m[1] + next[0]
		}
		out[text[m[2]:m[3]]] = text[m[0]:end]
	}
	return out
}

// block is the schema of an interface, whose arguments a text names and whose results a class has.
func (x *source) block(name, class, arguments string) (*Block, error) {
	b := &Block{Attributes: map[string]*Attribute{}, Blocks: map[string]*Nested{}}
	for _, m := range argument.FindAllStringSubmatch(arguments, -1) {
		arg, value, isBlock, kind, storage := m[1], m[2], m[3] == "true", m[4], m[5]
		d, ok := x.docs[name][arg]
		if !ok {
			return nil, fmt.Errorf("%s.%s is not documented", name, arg)
		}
		if !isBlock {
			t, err := attributeType(kind, storage)
			if err != nil {
				return nil, fmt.Errorf("%s.%s: %w", name, arg, err)
			}
			b.Attributes[arg] = &Attribute{Type: t, Required: !d.optional, Optional: d.optional, Enum: d.enum}
			continue
		}
		inner := mapped.FindStringSubmatch(value)
		if inner == nil {
			return nil, fmt.Errorf("%s.%s is a block of an unknown form: %s", name, arg, value)
		}
		child := strings.ToUpper(inner[1][:1]) + inner[1][1:]
		body, err := x.block(child, child+"OutputReference", x.funcs[inner[1]])
		if err != nil {
			return nil, err
		}
		n := &Nested{Nesting: kind, Block: *body}
		switch {
		case kind == "struct":
			n.Nesting = "single"
		case !strings.Contains(value, "listMapper"):
			n.Max = 1
		}
		if !d.optional {
			n.Min = 1
		}
		b.Blocks[arg] = n
	}
	for _, m := range result.FindAllStringSubmatch(x.classes[class], -1) {
		t, err := x.resultType(m[2], m[3], m[4])
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", class, m[1], err)
		}
		b.Attributes[m[1]] = &Attribute{Type: t, Computed: true}
	}
	return b, nil
}

func attributeType(kind, storage string) (json.RawMessage, error) {
	item := map[string]string{"string": "string", "number": "number",
		"boolean": "bool"}[strings.TrimSuffix(strings.TrimSuffix(storage, "List"), "Map")]
	switch {
	case item == "":
	case kind == "simple":
		return json.Marshal(item)
	case slices.Contains([]string{"list", "set", "map"}, kind):
		return json.Marshal([]string{kind, item})
	}
	return nil, fmt.Errorf("unknown type %s %s", kind, storage)
}

// resultType is the type of what a getter returns, or of the class that it makes.
func (x *source) resultType(getter, class, rest string) (json.RawMessage, error) {
	kind := "list"
	if strings.Contains(rest, "true") || strings.Contains(getter, "Fn.tolist") {
		kind = "set"
	}
	switch {
	case class != "" && strings.HasSuffix(class, "Map"):
		return json.Marshal([]string{"map", "string"})
	case class != "":
		members := map[string]json.RawMessage{}
		for _, m := range result.FindAllStringSubmatch(x.classes[strings.TrimSuffix(class, "List")+"OutputReference"], -1) {
			t, err := x.resultType(m[2], m[3], m[4])
			if err != nil {
				return nil, err
			}
			members[m[1]] = t
		}
		return json.Marshal([]any{kind, []any{"object", members}})
	case strings.Contains(getter, "getStringMapAttribute"):
		return json.Marshal([]string{"map", "string"})
	case strings.Contains(getter, "getNumberListAttribute"):
		return json.Marshal([]string{kind, "number"})
	case strings.Contains(getter, "getListAttribute"):
		return json.Marshal([]string{kind, "string"})
	case strings.Contains(getter, "getNumberAttribute"):
		return json.Marshal("number")
	case strings.Contains(getter, "getBooleanAttribute"):
		return json.Marshal("bool")
	case strings.Contains(getter, "getStringAttribute"):
		return json.Marshal("string")
	}
	return nil, fmt.Errorf("unknown getter %s %s", getter, class)
}
