package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// bom is a bill of materials in the form of CycloneDX 1.6, as far as it is used here.
type bom struct {
	Schema       string          `json:"$schema"`
	Format       string          `json:"bomFormat"`
	Spec         string          `json:"specVersion"`
	Serial       string          `json:"serialNumber"`
	Version      int             `json:"version"`
	Metadata     bomMetadata     `json:"metadata"`
	Components   []bomComponent  `json:"components"`
	Dependencies []bomDependency `json:"dependencies"`
}

type bomMetadata struct {
	Timestamp string       `json:"timestamp"`
	Component bomComponent `json:"component"`
}

type bomComponent struct {
	Type       string        `json:"type"`
	Ref        string        `json:"bom-ref"`
	Name       string        `json:"name"`
	Version    string        `json:"version,omitempty"`
	Scope      string        `json:"scope,omitempty"`
	Hashes     []bomHash     `json:"hashes,omitempty"`
	Licenses   []bomLicense  `json:"licenses,omitempty"`
	PURL       string        `json:"purl,omitempty"`
	References []bomExternal `json:"externalReferences,omitempty"`
	Properties []bomProperty `json:"properties,omitempty"`
}

type bomHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type bomLicense struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type bomExternal struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

type bomProperty struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type bomDependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

func licensesOf(ids ...string) []bomLicense {
	var list []bomLicense
	for _, id := range ids {
		var l bomLicense
		l.License.ID = id
		list = append(list, l)
	}
	return list
}

// purl is the package URL of a module.
func purl(path, version string) string {
	escaped := url.PathEscape(version)
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(escaped, "+", "%2B")
}

// sbom says which program of the release has which modules, as they are recorded in the programs themselves.
func (b *builder) sbom(programs []*binary, modules []*linked) ([]byte, error) {
	main := bomComponent{
		Type: "application", Ref: purl(modulePath, b.label), Name: "leasehold", Version: b.label,
		Licenses: licensesOf("Apache-2.0"), PURL: purl(modulePath, b.label),
		References: []bomExternal{{"vcs", repository}},
		Properties: []bomProperty{{"leasehold:commit", b.source.commit}, {"leasehold:go", b.goVersion}},
	}
	out := &bom{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: bomMetadata{b.source.time.Format(time.RFC3339), main},
	}
	std := purl(standard, strings.TrimPrefix(b.goVersion, "go"))
	var parts []string
	for _, p := range programs {
		ref := p.platform.os + "/" + p.platform.arch + "/" + p.file().name
		parts = append(parts, ref)
		out.Components = append(out.Components, bomComponent{
			Type: "application", Ref: ref, Name: p.file().name, Version: b.label, Hashes: []bomHash{{"SHA-256", p.file().sum()}},
			Properties: []bomProperty{{"leasehold:package", p.info.Path}, {"leasehold:platform", p.platform.String()}},
		})
		depends := []string{std}
		for _, d := range p.info.Deps {
			depends = append(depends, purl(d.Path, d.Version))
		}
		slices.Sort(depends)
		out.Dependencies = append(out.Dependencies, bomDependency{ref, depends})
	}
	for _, m := range modules {
		version := m.version
		if m.path == standard {
			version = strings.TrimPrefix(version, "go")
		}
		ref := purl(m.path, version)
		c := bomComponent{Type: "library", Ref: ref, Name: m.path, Version: version, Scope: "required",
			Licenses: licensesOf(m.licenses...), PURL: ref}
		if m.sum != "" {
			c.Properties = []bomProperty{{"go.sum", m.sum}}
		}
		out.Components = append(out.Components, c)
	}
	roots := bomComponent{
		Type: "data", Ref: purl(rootsModule, rootsVersion()), Name: "root certificates of Mozilla", Version: rootsVersion(),
		Licenses:   licensesOf("MPL-2.0"),
		Properties: []bomProperty{{"leasehold:in", b.name("image") + ".tar"}},
	}
	out.Components = append(out.Components, roots)
	out.Dependencies = append([]bomDependency{{main.Ref, append(parts, roots.Ref)}}, out.Dependencies...)

	// The number is that of the content, so that it is the same in each build of the same release.
	plain, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	id := sha256.Sum256(plain)
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8
	out.Serial = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}
