// Command googlestub is a stand-in for Terraform's provider google, for checks on a machine that cannot download it: it
// has a part of the provider's schema, validates configurations against it, and plans. It creates nothing and sends
// nothing.
//
//	googlestub                              serves Terraform, which starts it
//	googlestub extract FOLDER RESOURCE…     reads the schema from an unpacked npm package @cdktf/provider-google, and prints it
//
// What it cannot know is what the provider checks with code of its own: conflicts between arguments, patterns of names,
// IAM.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5/tf5server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "googlestub:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 2 && args[0] == "extract" {
		s, err := extract(args[1], args[2:])
		if err != nil {
			return err
		}
		return s.print(os.Stdout)
	}
	s, err := readSchema()
	if err != nil {
		return err
	}
	return tf5server.Serve("registry.terraform.io/hashicorp/google",
		func() tfprotov5.ProviderServer { return &stub{schema: s} })
}

// stub serves the part of the protocol that validation and plans need.
type stub struct {
	tfprotov5.ProviderServer // the rest is never called

	schema *Schema
}

func (s *stub) GetMetadata(context.Context, *tfprotov5.GetMetadataRequest) (*tfprotov5.GetMetadataResponse, error) {
	return nil, errors.New("not implemented: ask for the schema")
}

func (s *stub) GetProviderSchema(context.Context, *tfprotov5.GetProviderSchemaRequest) (
	*tfprotov5.GetProviderSchemaResponse, error) {
	r := &tfprotov5.GetProviderSchemaResponse{
		Provider: &tfprotov5.Schema{Block: protocol(s.schema.Provider)}, ResourceSchemas: map[string]*tfprotov5.Schema{},
		ServerCapabilities: &tfprotov5.ServerCapabilities{GetProviderSchemaOptional: true},
	}
	for name, t := range s.schema.Resources {
		r.ResourceSchemas[name] = &tfprotov5.Schema{Block: protocol(&t.Block)}
	}
	return r, nil
}

func (s *stub) GetResourceIdentitySchemas(context.Context, *tfprotov5.GetResourceIdentitySchemasRequest) (
	*tfprotov5.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov5.GetResourceIdentitySchemasResponse{}, nil
}

func (s *stub) PrepareProviderConfig(_ context.Context, r *tfprotov5.PrepareProviderConfigRequest) (
	*tfprotov5.PrepareProviderConfigResponse, error) {
	return &tfprotov5.PrepareProviderConfigResponse{PreparedConfig: r.Config}, nil
}

func (s *stub) ConfigureProvider(context.Context, *tfprotov5.ConfigureProviderRequest) (
	*tfprotov5.ConfigureProviderResponse, error) {
	return &tfprotov5.ConfigureProviderResponse{}, nil
}

func (s *stub) StopProvider(context.Context, *tfprotov5.StopProviderRequest) (*tfprotov5.StopProviderResponse, error) {
	return &tfprotov5.StopProviderResponse{}, nil
}

// ValidateResourceTypeConfig checks what Terraform does not check itself: the values of enumerations.
func (s *stub) ValidateResourceTypeConfig(_ context.Context, r *tfprotov5.ValidateResourceTypeConfigRequest) (
	*tfprotov5.ValidateResourceTypeConfigResponse, error) {
	t := s.schema.Resources[r.TypeName]
	v, err := r.Config.Unmarshal(protocol(&t.Block).ValueType())
	if err != nil {
		return nil, err
	}
	resp := &tfprotov5.ValidateResourceTypeConfigResponse{}
	checkEnums(&t.Block, v, tftypes.NewAttributePath(), func(at *tftypes.AttributePath, detail string) {
		resp.Diagnostics = append(resp.Diagnostics, &tfprotov5.Diagnostic{
			Severity: tfprotov5.DiagnosticSeverityError, Summary: "not a possible value", Detail: detail, Attribute: at,
		})
	})
	return resp, nil
}

func (s *stub) UpgradeResourceState(_ context.Context, r *tfprotov5.UpgradeResourceStateRequest) (
	*tfprotov5.UpgradeResourceStateResponse, error) {
	v, err := r.RawState.Unmarshal(protocol(&s.schema.Resources[r.TypeName].Block).ValueType())
	if err != nil {
		return nil, err
	}
	state, err := tfprotov5.NewDynamicValue(v.Type(), v)
	return &tfprotov5.UpgradeResourceStateResponse{UpgradedState: &state}, err
}

func (s *stub) ReadResource(_ context.Context, r *tfprotov5.ReadResourceRequest) (*tfprotov5.ReadResourceResponse,
	error) {
	return &tfprotov5.ReadResourceResponse{NewState: r.CurrentState}, nil
}

// PlanResourceChange says that the provider will set what is computed and not given.
func (s *stub) PlanResourceChange(_ context.Context, r *tfprotov5.PlanResourceChangeRequest) (
	*tfprotov5.PlanResourceChangeResponse, error) {
	t := s.schema.Resources[r.TypeName]
	v, err := r.ProposedNewState.Unmarshal(protocol(&t.Block).ValueType())
	if err != nil {
		return nil, err
	}
	if v.IsNull() { // to be destroyed
		return &tfprotov5.PlanResourceChangeResponse{PlannedState: r.ProposedNewState}, nil
	}
	if v, err = planned(&t.Block, v); err != nil {
		return nil, err
	}
	if os.Getenv(predictVariable) != "" {
		if v, err = predict(r.TypeName, v); err != nil {
			return nil, err
		}
	}
	state, err := tfprotov5.NewDynamicValue(v.Type(), v)
	return &tfprotov5.PlanResourceChangeResponse{PlannedState: &state}, err
}

func (s *stub) ApplyResourceChange(context.Context, *tfprotov5.ApplyResourceChangeRequest) (
	*tfprotov5.ApplyResourceChangeResponse, error) {
	return nil, errors.New("this is a stand-in for the provider google, which plans and creates nothing")
}

// protocol is a block as Terraform is told of it.
func protocol(b *Block) *tfprotov5.SchemaBlock {
	out := &tfprotov5.SchemaBlock{}
	for name, a := range b.Attributes {
		t, err := tftypes.ParseJSONType(a.Type) //nolint:staticcheck // there is no other way from JSON to a type
		if err != nil {
			panic(fmt.Sprintf("the schema's type of %s: %v", name, err)) // the schema is part of the program
		}
		out.Attributes = append(out.Attributes, &tfprotov5.SchemaAttribute{Name: name, Type: t, Required: a.Required,
			Optional: a.Optional, Computed: a.Computed})
	}
	for name, n := range b.Blocks {
		nested := &tfprotov5.SchemaNestedBlock{TypeName: name, Block: protocol(&n.Block), MinItems: n.Min, MaxItems: n.Max,
			Nesting: nesting(n.Nesting)}
		if n.Nesting == "single" {
			nested.MinItems, nested.MaxItems = 0, 0
		}
		out.BlockTypes = append(out.BlockTypes, nested)
	}
	slices.SortFunc(out.Attributes, func(a, b *tfprotov5.SchemaAttribute) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(out.BlockTypes, func(a, b *tfprotov5.SchemaNestedBlock) int {
		return strings.Compare(a.TypeName, b.TypeName)
	})
	return out
}

func nesting(name string) tfprotov5.SchemaNestedBlockNestingMode {
	switch name {
	case "set":
		return tfprotov5.SchemaNestedBlockNestingModeSet
	case "single":
		return tfprotov5.SchemaNestedBlockNestingModeSingle
	default:
		return tfprotov5.SchemaNestedBlockNestingModeList
	}
}

// planned replaces what is computed and null by unknown values.
func planned(b *Block, v tftypes.Value) (tftypes.Value, error) {
	members := map[string]tftypes.Value{}
	if err := v.As(&members); err != nil {
		return v, err
	}
	for name, a := range b.Attributes {
		if m := members[name]; a.Computed && m.IsNull() {
			members[name] = tftypes.NewValue(m.Type(), tftypes.UnknownValue)
		}
	}
	for name, n := range b.Blocks {
		m := members[name]
		switch {
		case m.IsNull() || !m.IsKnown():
		case n.Nesting == "single":
			inner, err := planned(&n.Block, m)
			if err != nil {
				return v, err
			}
			members[name] = inner
		default:
			var items []tftypes.Value
			if err := m.As(&items); err != nil {
				return v, err
			}
			for i := range items {
				var err error
				if items[i], err = planned(&n.Block, items[i]); err != nil {
					return v, err
				}
			}
			members[name] = tftypes.NewValue(m.Type(), items)
		}
	}
	return tftypes.NewValue(v.Type(), members), nil
}

// checkEnums calls say for each value that is none of its enumeration.
func checkEnums(b *Block, v tftypes.Value, at *tftypes.AttributePath,
	say func(at *tftypes.AttributePath, detail string)) {
	members := map[string]tftypes.Value{}
	if v.IsNull() || !v.IsKnown() || v.As(&members) != nil {
		return
	}
	for name, a := range b.Attributes {
		var s string
		if m := members[name]; a.Enum != nil && m.IsKnown() && !m.IsNull() && m.As(&s) == nil && !slices.Contains(a.Enum, s) {
			say(at.WithAttributeName(name), fmt.Sprintf("%s is %q and must be one of %s", name, s, strings.Join(a.Enum, ", ")))
		}
	}
	for name, n := range b.Blocks {
		m := members[name]
		switch {
		case m.IsNull() || !m.IsKnown():
		case n.Nesting == "single":
			checkEnums(&n.Block, m, at.WithAttributeName(name), say)
		default:
			var items []tftypes.Value
			if m.As(&items) != nil {
				continue
			}
			for _, item := range items {
				checkEnums(&n.Block, item, at.WithAttributeName(name), say)
			}
		}
	}
}
