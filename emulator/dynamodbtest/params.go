package dynamodbtest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/expr"
)

// placeholders are the members of a request that give #names and :values their meaning.
type placeholders struct {
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues map[string]any
}

// expression is one expression of a request.
type expression struct {
	name   string
	source *string
}

// isPlaceholder reports whether a key is a mark and then letters, digits and underscores.
func isPlaceholder(key string, mark byte) bool {
	if len(key) < 2 || key[0] != mark {
		return false
	}
	for i := 1; i < len(key); i++ {
		if c := key[i]; c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

// env checks the placeholders of a request that has the given expressions, and decodes their values.
func (p placeholders) env(expressions ...expression) (*expr.Env, *apiError) {
	var allowed []string
	anything := false
	for _, e := range expressions {
		anything = anything || e.source != nil
		allowed = append(allowed, e.name)
	}
	if p.ExpressionAttributeNames != nil && !anything {
		return nil, invalid("ExpressionAttributeNames can only be specified when using expressions")
	}
	if p.ExpressionAttributeValues != nil && !anything {
		verb := "is"
		if len(allowed) > 1 {
			verb = "are"
		}
		return nil, invalid("ExpressionAttributeValues can only be specified when using expressions: %s %s null",
			strings.Join(allowed, " and "), verb)
	}
	if err := checkPlaceholders("ExpressionAttributeNames", p.ExpressionAttributeNames, '#'); err != nil {
		return nil, err
	}
	if err := checkPlaceholders("ExpressionAttributeValues", p.ExpressionAttributeValues, ':'); err != nil {
		return nil, err
	}
	values := make(map[string]attr.Value, len(p.ExpressionAttributeValues))
	var wrong string // the first in their order
	var problem error
	for key, raw := range p.ExpressionAttributeValues {
		v, err := attr.Decode(raw)
		if err != nil && (problem == nil || key < wrong) {
			wrong, problem = key, err
		}
		values[key] = v
	}
	if problem != nil {
		e := valueError(problem)
		if e.kind == prefixValidate+"ValidationException" {
			e.msg = fmt.Sprintf("ExpressionAttributeValues contains invalid value: %s for key %s", e.msg, wrong)
		}
		return nil, e
	}
	return expr.NewEnv(p.ExpressionAttributeNames, values), nil
}

func checkPlaceholders[V any](member string, given map[string]V, mark byte) *apiError {
	if given != nil && len(given) == 0 {
		return invalid("%s must not be empty", member)
	}
	var wrong []string
	for key := range given {
		if !isPlaceholder(key, mark) {
			wrong = append(wrong, key)
		}
	}
	if len(wrong) > 0 { // the first is reported
		return invalid("%s contains invalid key: Syntax error; key: %q", member, slices.Min(wrong))
	}
	return nil
}

// condition binds a ConditionExpression or FilterExpression; nil when there is none.
func (e expression) condition(env *expr.Env) (*expr.Condition, *apiError) {
	return bind(e, env.Condition)
}

func (e expression) update(env *expr.Env) (*expr.Update, *apiError) { return bind(e, env.Update) }

func bind[T any](e expression, parse func(string) (*T, error)) (*T, *apiError) {
	if e.source == nil {
		return nil, nil
	}
	bound, err := parse(*e.source)
	if err != nil {
		return nil, invalid("Invalid %s: %v", e.name, err)
	}
	return bound, nil
}

// allUsed rejects placeholders that no expression of the request needed.
func allUsed(env *expr.Env) *apiError {
	if err := env.Unused(); err != nil {
		return invalid("%v", err)
	}
	return nil
}

// decodeItem decodes the Item or Key of a request, which has to be there.
func decodeItem(member string, raw map[string]any) (attr.Map, *apiError) {
	if raw == nil {
		return nil, missing(member)
	}
	m, err := attr.DecodeMap(raw)
	if err != nil {
		return nil, valueError(err)
	}
	return m, nil
}

// missing is the service's response to a member that has to be there.
func missing(member string) *apiError {
	return constraint("null", member, "Member must not be null")
}

// constraint is the service's response to a member that breaks a rule of its own.
func constraint(value, member, rule string) *apiError {
	if value != "null" {
		value = "'" + value + "'"
	}
	return constraints([]string{fmt.Sprintf("Value %s at '%s' failed to satisfy constraint: %s",
		value, strings.ToLower(member[:1])+member[1:], rule)})
}

func constraints(broken []string) *apiError {
	plural := ""
	if len(broken) > 1 {
		plural = "s"
	}
	e := invalid("%d validation error%s detected: %s", len(broken), plural, strings.Join(broken, "; "))
	e.broken = broken
	return e
}

// all is the response to everything that is wrong with a request, nil if nothing is. As the service does, it reports
// the members that break rules of their own together and before all else; of other errors it reports the first.
func all(errs ...*apiError) *apiError {
	var broken []string
	for _, e := range errs {
		if e != nil {
			broken = append(broken, e.broken...)
		}
	}
	if len(broken) > 0 {
		return constraints(broken)
	}
	return cmp.Or(errs...)
}

// atLeast checks a number that may be left out.
func atLeast(least int64, member string, value *int64) *apiError {
	if value == nil || *value >= least {
		return nil
	}
	return constraint(strconv.FormatInt(*value, 10), member,
		fmt.Sprintf("Member must have value greater than or equal to %d", least))
}

// length checks how many elements a list has, at least one. The service writes the list out, which this server does
// not.
func length(most int, member string, n int) *apiError {
	switch {
	case n < 1:
		return constraint("[]", member, "Member must have length greater than or equal to 1")
	case n > most:
		return constraint("[...]", member, fmt.Sprintf("Member must have length less than or equal to %d", most))
	default:
		return nil
	}
}

// oneOf checks a member that takes a few words; the empty word means its absence.
func oneOf(member, value string, words ...string) *apiError {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	return constraint(value, member, "Member must satisfy enum value set: ["+strings.Join(words, ", ")+"]")
}

var tableNamePattern = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`)

// checkName checks the name of a table or of an index.
func checkName(member, name string) *apiError {
	switch {
	case name == "":
		return missing(member)
	case strings.HasPrefix(name, "arn:"):
		return unsupported("ARNs as names: %s %s", member, name)
	case !tableNamePattern.MatchString(name):
		return constraint(name, member, "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
	case len(name) < 3 || len(name) > 255:
		last := member[strings.LastIndexByte(member, '.')+1:]
		return invalid("%s must be at least 3 characters long and at most 255 characters long",
			strings.ToUpper(last[:1])+last[1:])
	default:
		return nil
	}
}
