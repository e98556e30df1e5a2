package conformance

import (
	"maps"
	"slices"
)

// Templates are the names of all templates of answers.
func Templates() []string { return slices.Sorted(maps.Keys(templates)) }

// Body is what a template answers to a request.
func Body(like, method, path, body string) ([]byte, error) {
	r := request{method: method, path: path}
	v, err := decode([]byte(body))
	if err != nil {
		return nil, err
	}
	r.body, _ = v.(map[string]any)
	w, err := (&Answer{Like: like}).response(r, "")
	return w.body, err
}

// Match compares a value with a pattern, both in JSON; known is what was remembered.
func Match(known map[string]string, strict bool, pattern, value string) ([]string, error) {
	p, err := decode([]byte(pattern))
	if err != nil {
		return nil, err
	}
	v, err := decode([]byte(value))
	if err != nil {
		return nil, err
	}
	return matcher{known: known, strict: strict}.match("it", p, v, true), nil
}

// CoreScripts is how many scripts the level Core names.
var CoreScripts = len(core)
