package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/functions/settings"
)

const header = "# Generated from functions/settings, the table of settings. To write it again: make generate\n"

// variables are the settings of the module's entry points as Terraform variables, and the environment of each entry
// point.
func (m module) variables() string {
	var b strings.Builder
	b.WriteString(header)
	var all settings.Entry
	for _, v := range m.settings {
		all |= v.entry
	}
	for _, s := range settings.Table {
		if m.has(s) {
			b.WriteString(m.variable(s, all))
		}
	}
	b.WriteString(
		"\n# The environment of each function. A variable that is null is not set: the program's default applies.\nlocals {\n")
	for i, v := range m.settings {
		if i > 0 {
			b.WriteString("\n")
		}
		m.local(&b, v)
	}
	b.WriteString("}\n")
	return b.String()
}

// has reports whether a setting is a variable of the module.
func (m module) has(s settings.Setting) bool {
	return !slices.Contains(m.given, s.Env) && slices.ContainsFunc(m.settings,
		func(v values) bool { return s.Entries.Has(v.entry) })
}

// name is the variable of a setting.
func name(env string) string { return strings.ToLower(strings.TrimPrefix(env, "LEASEHOLD_")) }

func (m module) variable(s settings.Setting, all settings.Entry) string {
	for _, v := range m.settings {
		if s.Entries.Has(v.entry) {
			s = s.For(v.entry)
			break
		}
	}
	var b strings.Builder
	v := "var." + name(s.Env)
	fmt.Fprintf(&b, "\nvariable %q {\n  description = %s\n  type        = %s\n  default     = null\n", name(s.Env),
		quote(m.describe(s)), hclType(s))
	if s.Secret {
		b.WriteString("  sensitive   = true\n")
	}
	for _, c := range conditions(s) {
		fmt.Fprintf(&b, "\n  validation {\n    condition     = %s == null ? true : %s\n    error_message = %s\n  }\n", v,
			c.condition, quote(name(s.Env)+" "+c.must))
	}
	for _, c := range m.between(s, all) {
		fmt.Fprintf(&b, "\n  validation {\n    condition     = %s\n    error_message = %s\n  }\n", c.condition, quote(c.must))
	}
	b.WriteString("}\n")
	return b.String()
}

// between are the rules between this setting and earlier ones of the table. A rule is checked at the later one of its
// two, whichever it is about: variables that look at each other would be a cycle.
func (m module) between(s settings.Setting, all settings.Entry) (found []condition) {
	place := func(env string) int {
		return slices.IndexFunc(settings.Table, func(s settings.Setting) bool { return s.Env == env })
	}
	for _, r := range settings.Rules {
		other := r.Needs + r.NotWith
		if r.Entries&all == 0 || slices.Contains(m.given, other) {
			continue
		}
		for _, env := range r.If {
			if set, _ := settings.Find(env); !m.has(set) || place(s.Env) != max(place(env), place(other)) ||
				s.Env != env && s.Env != other {
				continue
			}
			relation, must := "!=", fmt.Sprintf("%s needs %s: %s.", name(env), name(other), plain(r.Why))
			if r.NotWith != "" {
				relation, must = "==", fmt.Sprintf("%s and %s cannot both be set: %s.", name(env), name(other), plain(r.Why))
			}
			found = append(found, condition{fmt.Sprintf("var.%s == null || var.%s %s null", name(env), name(other), relation),
				must})
		}
	}
	return found
}

// describe says what the setting does, which function takes it, and what holds if it is null.
func (m module) describe(s settings.Setting) string {
	text := plain(s.Help)
	if s.More != "" {
		text += " " + plain(s.More)
	}
	var takers []string
	for _, v := range m.settings {
		if s.Entries.Has(v.entry) {
			takers = append(takers, v.entry.Names()...)
		}
	}
	text += " " + s.Env + " of " + strings.Join(takers, ", ")
	if s.Default != "" {
		text += "; null is " + s.Default
	}
	return text + "."
}

func hclType(s settings.Setting) string {
	switch s.Type {
	case settings.List:
		return "list(string)"
	case settings.Number:
		return "number"
	case settings.Switch:
		return "bool"
	default:
		return "string"
	}
}

// condition is what a value that is not null must fulfil.
type condition struct{ condition, must string }

func conditions(s settings.Setting) []condition {
	v := "var." + name(s.Env)
	switch s.Type {
	case settings.List:
		c := []condition{{"length(" + v + ") > 0 && alltrue([for item in " + v +
			` : trimspace(item) != "" && !strcontains(item, ",")])`,
			"must have items, which are not empty and have no comma: leave it null instead."}}
		if s.Choices != nil {
			c = append(c, condition{fmt.Sprintf("alltrue([for item in %s : contains(%s, item)])", v, list(s.Choices)),
				"may only have " + strings.Join(s.Choices, ", ") + "."})
		}
		return c
	case settings.Number:
		low, high := s.Min, s.Max
		parts, must := []string{"floor(" + v + ") == " + v}, "must be a whole number"
		if low != "" {
			parts, must = append(parts, v+" >= "+low), must+" from "+low
		}
		if high != "" {
			parts, must = append(parts, v+" <= "+high), must+" to "+high
		}
		return []condition{{strings.Join(parts, " && "), must + "."}}
	case settings.Switch:
		return nil
	case settings.Duration:
		return durations(s, v)
	case settings.JSON:
		return []condition{{"can(jsondecode(" + v + "))", "must be JSON, such as jsonencode(…) returns."}}
	default:
		if s.Choices != nil {
			return []condition{{fmt.Sprintf("contains(%s, %s)", list(s.Choices), v),
				"must be " + strings.Join(s.Choices, " or ") + "."}}
		}
		return []condition{{"trimspace(" + v + `) != ""`, "must not be empty: leave it null instead."}}
	}
}

// durations checks the form, and bounds of whole seconds, by the function of Terraform that reads the same form.
func durations(s settings.Setting, v string) []condition {
	const zero = `"2000-01-01T00:00:00Z"`
	off := ""
	if s.Off {
		off = v + ` == "off" || `
	}
	compare := func(relation, bound string) string {
		return fmt.Sprintf(`timecmp(timeadd(%s, %s), timeadd(%s, %q)) %s 0`, zero, v, zero, bound, relation)
	}
	form := fmt.Sprintf(`can(regex("^([0-9]+([.][0-9]+)?(ms|s|m|h))+$", %s))`, v)
	must := "must be a duration such as 300ms, 30s, 5m, 2h"
	if s.Step == "1s" {
		form, must = fmt.Sprintf(`can(regex("^([0-9]+(s|m|h))+$", %s))`, v),
			"must be a duration in whole seconds such as 30s, 5m, 2h"
	}
	if s.Off {
		must += ", or off"
	}
	all := []condition{{off + form, must + "."}}
	var parts []string
	bounds := "must be"
	if d, err := time.ParseDuration(s.Min); err == nil && d >= time.Second {
		parts, bounds = append(parts, compare(">=", s.Min)), bounds+" at least "+s.Min
	}
	if s.Max != "" {
		if parts != nil {
			bounds += " and"
		}
		parts, bounds = append(parts, compare("<=", s.Max)), bounds+" at most "+s.Max
	}
	if parts != nil { // a value that is not a duration has its message already
		all = append(all, condition{off + "try(" + strings.Join(parts, " && ") + ", true)", bounds + "."})
	}
	if s.Min == "" {
		all = append(all, condition{off + fmt.Sprintf(`can(regex("[1-9]", %s))`, v), "must be above 0."})
	}
	return all
}

// local writes the environment of one entry point. Secrets stand apart: what is secret cannot decide which variables
// are set.
func (m module) local(b *strings.Builder, v values) {
	var secrets []string
	width := 0
	for _, s := range settings.Of(v.entry) {
		if m.has(s) && !s.Secret {
			width = max(width, len(s.Env))
		}
	}
	fmt.Fprintf(b, "  %s = merge({\n    for name, value in {\n", v.name)
	for _, s := range settings.Of(v.entry) {
		switch {
		case !m.has(s):
		case s.Secret:
			secrets = append(secrets, s.Env)
		default:
			value := "var." + name(s.Env)
			if kind := hclType(s); kind == "list(string)" {
				value = fmt.Sprintf(`%s == null ? null : join(",", %s)`, value, value)
			} else if kind != "string" {
				value = fmt.Sprintf("%s == null ? null : tostring(%s)", value, value)
			}
			fmt.Fprintf(b, "      %-*s = %s\n", width, s.Env, value)
		}
	}
	b.WriteString("    } : name => value if value != null\n  }")
	for _, env := range secrets {
		fmt.Fprintf(b, ", nonsensitive(var.%s == null) ? {} : { %s = var.%s }", name(env), env, name(env))
	}
	b.WriteString(")\n")
}

var (
	reference = regexp.MustCompile(`\{([A-Z_]+)\}`)
	link      = regexp.MustCompile(`\[([^\]]*)\]\(([^)]*)\)`)
)

// plain is a text of the table with the names of variables for those of settings, and names of pages for links.
func plain(text string) string {
	text = link.ReplaceAllStringFunc(text, func(found string) string { // from docs/reference, where the texts are
		return path.Join("docs/reference", link.FindStringSubmatch(found)[2])
	})
	return reference.ReplaceAllStringFunc(text, func(r string) string { return name(strings.Trim(r, "{}")) })
}

func list(items []string) string {
	quoted := make([]string, len(items))
	for i, item := range items {
		quoted[i] = quote(item)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// quote is a text as HCL writes it.
func quote(text string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(strconv.Quote(text))
}
