package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// What a statement says that it is: in-toto Statement v1 with the predicate SLSA Provenance v1.
const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://slsa.dev/provenance/v1"
	buildType     = repository + "/blob/main/docs/guides/releases.md#provenance"
	builderID     = repository + "/tree/main/release" // the tool; who ran it is what the key of the signature says
)

// statement says of which sources, by what and with which parameters the files of a release were made. It has nothing
// of the machine and no time but that of the commit, so that who makes the release again makes the same statement.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []artifact `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

// artifact is a file of the release, or what it was made of.
type artifact struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType string     `json:"buildType"`
		External  parameters `json:"externalParameters"`
		Internal  toolchain  `json:"internalParameters"`
		Resolved  []artifact `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// parameters are what who makes a release chooses.
type parameters struct {
	Version         string   `json:"version"`
	Platforms       []string `json:"platforms"`
	Dirty           bool     `json:"dirty"`           // there were changes that are in no commit
	SourceDateEpoch int64    `json:"sourceDateEpoch"` // the time of every file in an archive, seconds since 1970
}

// toolchain is what the tool sets.
type toolchain struct {
	Go    string   `json:"go"`
	Flags []string `json:"flags"`
	Env   []string `json:"env"`
}

// provenance is the statement about the files.
func (b *builder) provenance(files []file) (file, error) {
	s := statement{Type: statementType, PredicateType: predicateType}
	for _, f := range sorted(files) {
		s.Subject = append(s.Subject, artifact{Name: f.name, Digest: map[string]string{"sha256": f.sum()}})
	}
	d := &s.Predicate.BuildDefinition
	d.BuildType = buildType
	d.External = parameters{string(b.version), namesOf(b.platforms), b.source.dirty, b.source.time.Unix()}
	d.Internal = toolchain{b.goVersion, buildFlags, buildEnv}
	d.Resolved = []artifact{
		{
			URI:    fmt.Sprintf("git+%s@refs/tags/%s", repository, b.version),
			Digest: map[string]string{"gitCommit": b.source.commit},
		},
		{URI: purl(standard, strings.TrimPrefix(b.goVersion, "go"))},
	}
	s.Predicate.RunDetails.Builder.ID = builderID
	text, err := json.MarshalIndent(s, "", "  ")
	return file{name: b.name("provenance") + ".json", content: append(text, '\n')}, err
}
