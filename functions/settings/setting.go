package settings

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Entry is an entry point that reads settings, or a set of them.
type Entry uint16

// The entry points.
const (
	Serve         Entry = 1 << iota // leasehold serve
	Worker                          // leasehold worker
	FunctionAPI                     // Cloud Function API
	FunctionTasks                   // Cloud Function Tasks
	FunctionSweep                   // Cloud Function Sweep
	LambdaAPI                       // Lambda function api
	LambdaWorker                    // Lambda function worker
	LambdaSweep                     // Lambda function sweep
	Maintain                        // leasehold store
	Directly                        // leasehold lock run and once, without a server

	commands  = Serve | Worker | Maintain | Directly
	functions = FunctionAPI | FunctionTasks | FunctionSweep
	lambdas   = LambdaAPI | LambdaWorker | LambdaSweep
	apis      = Serve | FunctionAPI | LambdaAPI
)

// Entries lists the entry points with their names, in the order of the documentation.
var Entries = []struct {
	Entry Entry
	Name  string
}{
	{Serve, "leasehold serve"},
	{Worker, "leasehold worker"},
	{FunctionAPI, "Cloud Function API"},
	{FunctionTasks, "Cloud Function Tasks"},
	{FunctionSweep, "Cloud Function Sweep"},
	{LambdaAPI, "Lambda api"},
	{LambdaWorker, "Lambda worker"},
	{LambdaSweep, "Lambda sweep"},
	{Maintain, "leasehold store"},
	{Directly, "leasehold lock run, once"},
}

// Has reports whether the set has all entry points of another one.
func (e Entry) Has(other Entry) bool { return e&other == other }

// Names are the names of the entry points in the set.
func (e Entry) Names() []string {
	var names []string
	for _, p := range Entries {
		if e.Has(p.Entry) {
			names = append(names, p.Name)
		}
	}
	return names
}

// command reports whether the entry point has flags.
func (e Entry) command() bool { return e&commands != 0 }

// Type says how a value is written.
type Type string

// The types.
const (
	Text     Type = "text"
	List     Type = "list"     // items separated by commas
	Duration Type = "duration" // such as 500ms, 30s, 5m, 2h
	Number   Type = "number"   // a whole number
	Switch   Type = "switch"   // true or false, 1 or 0
	File     Type = "file"     // the path of a file or a folder
	JSON     Type = "json"     // JSON, or the path of a file with it
)

// Setting is one row of the table.
type Setting struct {
	Env         string // environment variable
	Group       string
	Type        Type
	Default     string   // as it is written; empty: none, or as Help says
	Choices     []string // allowed values of a text; nil: any
	Min, Max    string   // bounds of a duration or a number, inclusive; empty: above 0 for a duration, none for a number
	Step        string   // a duration is a multiple of it; empty: any
	Placeholder string   // of the value in help
	Help        string   // one or more sentences; {AUTH_ISSUER} is the setting LEASEHOLD_AUTH_ISSUER
	More        string   // further sentences for the documentation
	Also        string   // variable that is read if this one is not set
	Entries     Entry    // that take it
	Required    Entry    // that cannot start without it
	Secret      bool     // never shown, and without a flag: others can read command lines
	Guarded     bool     // a file that grants rights or holds a secret: others must not change it, nor read it
	Off         bool     // a duration may also be "off", which is Forever
	NotEmpty    bool     // an empty value is an error: counted as not set, it would turn a check of callers off
	Variants    []Variant

	field func(*Config) any // where the value goes
}

// Variant is what differs in some entry points.
type Variant struct {
	Entries      Entry
	Default, Max string
	Help         string // empty: that of the setting
}

const prefix = "LEASEHOLD_"

// Flag is the name of the setting's flag, without dashes in front: that of the variable without LEASEHOLD_, in lower
// case. It is empty for secrets.
func (s Setting) Flag() string {
	if s.Secret {
		return ""
	}
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(s.Env, prefix)), "_", "-")
}

// Store is the store that the setting is for; empty if it is for all.
func (s Setting) Store() string {
	store, _ := strings.CutPrefix(s.Group, groupStore+" ")
	if store == s.Group {
		return ""
	}
	return store
}

// For is the setting as one entry point has it.
func (s Setting) For(e Entry) Setting {
	for _, v := range s.Variants {
		if v.Entries.Has(e) {
			s.Default, s.Max, s.Help = v.Default, v.Max, cmp.Or(v.Help, s.Help)
		}
	}
	return s
}

// FlagHelp is the help of the setting's flag in an entry point: what it does, the variable and the default.
func (s Setting) FlagHelp(e Entry) string {
	s = s.For(e)
	end := " (" + s.Env
	if s.Default != "" {
		end += "; default " + s.Default
	}
	return expand(s.Help, func(env string) string {
		if other, ok := Find(env); ok && other.Flag() != "" {
			return "--" + other.Flag()
		}
		return env
	}) + end + ")"
}

var reference = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{[A-Z_]+\}`)
})

// expand replaces the names of settings in a text.
func expand(text string, name func(env string) string) string {
	return reference().ReplaceAllStringFunc(text, func(r string) string { return name(prefix + strings.Trim(r, "{}")) })
}

// Find returns the setting of an environment variable.
func Find(env string) (Setting, bool) {
	i := slices.IndexFunc(Table, func(s Setting) bool { return s.Env == env })
	if i < 0 {
		return Setting{}, false
	}
	return Table[i], true
}

// Of returns the settings that an entry point takes.
func Of(e Entry) []Setting {
	all := make([]Setting, 0, len(Table))
	for _, s := range Table {
		if s.Entries.Has(e) {
			all = append(all, s.For(e))
		}
	}
	return all
}

// Variable is an environment variable that is not a setting of an entry point.
type Variable struct {
	Name, Help string
	Instead    string // setting of a server that is easily confused with it
	Secret     bool
}

// WithoutSecrets returns the environment without the values of settings that are secret, or may contain a secret, for
// programs that a command starts. environ is like that of [os.Environ].
func WithoutSecrets(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		s, _ := Find(name)
		v, _ := clientVariable(name)
		address := s.Env == "LEASEHOLD_REDIS_ADDR" || v.Name == "LEASEHOLD_SERVER"
		return s.Secret || v.Secret || address && strings.Contains(value, "@") // a URL may have a password
	})
}
