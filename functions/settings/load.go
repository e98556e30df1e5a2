package settings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// Load reads and checks the settings of one entry point. environ is like that of [os.Environ]. flags are the flags that
// the user gave, by their names without dashes; they count before the environment, and functions have none.
func Load(e Entry, environ []string, flags map[string]string) (*Config, error) {
	env := variables(environ)
	if err := checkNames(e, env); err != nil {
		return nil, err
	}
	c := &Config{Entry: e, origins: map[string]string{}}
	all := Of(e)
	for _, s := range all {
		if err := c.read(s, env, flags); err != nil {
			return nil, err
		}
	}
	for _, s := range all {
		if s.Required.Has(e) && !c.Given(s.Env) {
			return nil, fmt.Errorf("%s is required: %s", c.Name(s.Env), lowerFirst(expand(firstSentence(s.Help), c.Name)))
		}
	}
	if err := c.checkRules(); err != nil {
		return nil, err
	}
	return c, c.check(env)
}

// read finds the value of one setting and writes it into its field.
func (c *Config) read(s Setting, env, flags map[string]string) error {
	value, origin, flag := s.Default, "", ""
	if len(flags) > 0 {
		flag = s.Flag()
	}
	for _, from := range []struct {
		name, origin string
		values       map[string]string
	}{{flag, "--" + flag, flags}, {s.Env, s.Env, env}, {s.Also, s.Also, env}} {
		text, ok := from.values[from.name]
		if ok && text == "" && s.NotEmpty {
			return fmt.Errorf("%s is empty, which would turn a check of callers off: set it, or remove it", from.origin)
		}
		if text != "" && from.name != "" {
			value, origin = text, from.origin
			break
		}
	}
	if origin != "" {
		c.origins[s.Env] = origin
	}
	if value == "" {
		return nil
	}
	if err := c.parse(s, value); err != nil {
		return fmt.Errorf("%s%w", c.Name(s.Env), err)
	}
	return nil
}

// parse writes a value into its field. The error continues a sentence that begins with the setting's name.
func (c *Config) parse(s Setting, value string) error {
	var ok bool
	switch field := s.field(c).(type) {
	case *string:
		*field, ok = value, s.Choices == nil || slices.Contains(s.Choices, value)
	case *[]string:
		for item := range strings.SplitSeq(value, ",") {
			*field = append(*field, strings.TrimSpace(item))
		}
		ok = !slices.ContainsFunc(*field, func(item string) bool {
			return item == "" || s.Choices != nil && !slices.Contains(s.Choices, item)
		})
	case *time.Duration:
		if s.Off && value == "off" {
			*field = Forever
			return nil
		}
		var err error
		*field, err = time.ParseDuration(value)
		ok = err == nil && s.durationFits(*field)
	case *int64:
		var err error
		*field, err = strconv.ParseInt(value, 10, 64)
		ok = err == nil && s.numberFits(*field)
	case *bool:
		*field = value == "true" || value == "1"
		ok = *field || value == "false" || value == "0"
	case *[]machineid.ServiceConfig:
		var err error
		*field, err = services(value)
		switch {
		case err != nil && inline(value) && !json.Valid([]byte(value)):
			return fmt.Errorf(" is %q: it must be %s: %w", value, s.allowed(), err)
		case err != nil:
			return fmt.Errorf(": %w", err)
		}
		return nil
	default:
		return fmt.Errorf(" has a field of an unknown type %T", field)
	}
	switch {
	case ok:
		return nil
	case s.Secret:
		return fmt.Errorf(" has a value that is not allowed: it must be %s", s.allowed())
	default:
		return fmt.Errorf(" is %q: it must be %s", value, s.allowed())
	}
}

func (s Setting) durationFits(d time.Duration) bool {
	least, most, step := bound(s.Min), bound(s.Max), bound(s.Step)
	return d >= least && (d > 0 || s.Min != "") && (most == 0 || d <= most) && (step == 0 || d%step == 0)
}

// bound is a bound of the table; 0 if there is none.
func bound(text string) time.Duration {
	d, _ := time.ParseDuration(text) // the table's test parses all bounds
	return d
}

func (s Setting) numberFits(n int64) bool {
	least, errLeast := strconv.ParseInt(s.Min, 10, 64)
	most, errMost := strconv.ParseInt(s.Max, 10, 64)
	return (errLeast != nil || n >= least) && (errMost != nil || n <= most)
}

// allowed says in words which values a setting takes.
func (s Setting) allowed() string {
	var text string
	switch s.Type {
	case List:
		text = "a list separated by commas, without empty items"
		if s.Choices != nil {
			text += ", of " + strings.Join(s.Choices, ", ")
		}
		return text
	case Switch:
		return "true or false"
	case JSON:
		return "JSON"
	case Duration:
		text = "a duration"
		if s.Min == "" {
			text += " above 0"
		}
	case Number:
		text = "a whole number"
	default:
		last := len(s.Choices) - 1
		return strings.Join(s.Choices[:last], ", ") + " or " + s.Choices[last]
	}
	switch {
	case s.Min != "" && s.Max != "":
		text += " from " + s.Min + " to " + s.Max
	case s.Min != "":
		text += " of at least " + s.Min
	case s.Max != "":
		text += " up to " + s.Max
	}
	if s.Step == "1s" {
		text += " in whole seconds"
	}
	switch {
	case s.Off:
		text += ", or off"
	case s.Type == Duration && (s.Min == "" || s.Max == ""): // otherwise the bounds show how it is written
		text += ", such as 30s or 5m"
	}
	return text
}

// services reads services for machine IDs: JSON, or the path of a file with it.
func services(value string) ([]machineid.ServiceConfig, error) {
	text := []byte(value)
	if !inline(value) {
		var err error
		if text, err = os.ReadFile(value); err != nil {
			return nil, err
		}
	}
	return machineid.ParseServices(text)
}

// inline reports whether a value is JSON itself, and not the path of a file with it.
func inline(value string) bool {
	trimmed := strings.TrimSpace(value)
	return strings.HasPrefix(trimmed, "[") || strings.HasPrefix(trimmed, "{")
}

// kubernetes matches the variables that Kubernetes sets for a service whose name begins with "leasehold".
var kubernetes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^LEASEHOLD(_.+)?_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
})

// CheckClient rejects variables that begin with LEASEHOLD_ and are not known, for commands that call a server. environ
// is like that of [os.Environ].
func CheckClient(environ []string) error { return checkNames(0, variables(environ)) }

func variables(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	return env
}

// checkNames rejects LEASEHOLD_ variables that no entry point and no command knows, and in functions those of the
// client. The entry 0 is a command that calls a server.
func checkNames(e Entry, env map[string]string) error {
	var errs []error
	for name := range env {
		if !strings.HasPrefix(name, prefix) {
			if meant := strings.ToUpper(name); strings.HasPrefix(meant, prefix) {
				errs = append(errs, otherwiseSpelt(env, name, meant))
			}
			continue
		}
		if _, ok := Find(name); ok || kubernetes().MatchString(name) {
			continue
		}
		if v, ok := clientVariable(name); !ok {
			errs = append(errs, fmt.Errorf("%s is not a setting%s", name, suggestion(e, name)))
		} else if v.Instead != "" && e != 0 && !e.command() {
			errs = append(errs,
				fmt.Errorf("%s is a setting of the commands that call a server, and has no effect here: did you mean %s?",
					name, v.Instead))
		}
	}
	// the order of a map is random
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// otherwiseSpelt rejects a variable with the name of a setting in other letters than capitals, which nothing reads:
// beside that setting, it would be its second value.
func otherwiseSpelt(env map[string]string, name, meant string) error {
	_, known := Find(meant)
	_, twice := env[meant]
	switch {
	case known && twice:
		return fmt.Errorf("%s is set twice: as %s, too", meant, name)
	case known:
		return fmt.Errorf("%s is not a setting: did you mean %s?", name, meant)
	}
	return nil
}

// numbered matches the variables of the second to the last of several locks.
var numbered = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(LEASEHOLD_(KEY|FENCING_TOKEN|FENCING_SUBJECT)_)([2-9]|1[0-9]|20)$`)
})

// WithoutLock is an environment without what "leasehold lock run" and "once" say to their command of a lock and of when
// a run is due, so that a command of an inner one does not take what belongs to the outer one for its own.
func WithoutLock(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return name == "LEASEHOLD_KEY" || name == "LEASEHOLD_FENCING_TOKEN" || name == "LEASEHOLD_FENCING_SUBJECT" ||
			name == "LEASEHOLD_PERMIT" || name == "LEASEHOLD_DUE_AT" || numbered().MatchString(name)
	})
}

func clientVariable(name string) (Variable, bool) {
	name = numbered().ReplaceAllString(name, "${1}2")
	i := slices.IndexFunc(ClientVariables, func(v Variable) bool { return v.Name == name })
	if i < 0 {
		return Variable{}, false
	}
	return ClientVariables[i], true
}

// suggestion ends the sentence about an unknown variable: with the name that is most like it, if one is like it.
func suggestion(e Entry, name string) string {
	var known []string
	for _, s := range Table {
		known = append(known, s.Env)
	}
	for _, v := range ClientVariables {
		if e == 0 || e.command() {
			known = append(known, v.Name)
		}
	}
	if best, ok := nearest(name, known); ok {
		return ": did you mean " + best + "?"
	}
	return ", and no setting has a similar name: docs/reference/settings.md lists all"
}

// nearest returns the name that is most like another: the first by the alphabet of those that share most letters, and
// pairs of letters, with it. The modules of Terraform find the same one.
func nearest(name string, known []string) (string, bool) {
	likeness := func(other string) int {
		a, b, both := letters(name), letters(other), 0
		for pair := range a {
			if b[pair] {
				both++
			}
		}
		return 2000 * both / (len(a) + len(b))
	}
	best := slices.MinFunc(known, func(a, b string) int {
		return cmp.Or(likeness(b)-likeness(a), strings.Compare(a, b))
	})
	return best, likeness(best) >= 650
}

// letters are the letters of a name, and the pairs that follow each other in it, without what all names begin with. A
// pair is lost where two letters have changed places, the letters are not.
func letters(name string) map[string]bool {
	name = "_" + strings.TrimPrefix(name, prefix) + "_"
	all := make(map[string]bool, 2*len(name))
	for i := range len(name) - 1 {
		all[name[i:i+1]], all[name[i:i+2]] = true, true
	}
	return all
}

func firstSentence(text string) string {
	first, _, _ := strings.Cut(text, ". ")
	return strings.TrimSuffix(first, ".")
}

// lowerFirst makes a sentence the second half of another, unless it begins with an abbreviation.
func lowerFirst(text string) string {
	if len(text) > 1 && text[1] >= 'a' && text[1] <= 'z' {
		return strings.ToLower(text[:1]) + text[1:]
	}
	return text
}
