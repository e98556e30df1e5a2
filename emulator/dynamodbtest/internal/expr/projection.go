package expr

import (
	"maps"
	"slices"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

func parseProjection(src string) ([]*Path, error) {
	p, err := newParser(src)
	if err != nil {
		return nil, err
	}
	var paths []*Path
	for {
		path, err := p.path()
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
		if !p.accept(",") {
			return paths, p.finish()
		}
	}
}

// Projection selects parts of an item.
type Projection struct{ paths []*Path }

// Projection parses and binds a projection. The error is the service's text without the name of the parameter.
func (e *Env) Projection(src string) (*Projection, error) {
	paths, err := parseProjection(src)
	if err != nil {
		return nil, err
	}
	b := &binder{env: e}
	for i, p := range paths {
		b.path(p)
		b.apart(paths[:i], p)
	}
	if err := b.err(); err != nil {
		return nil, err
	}
	return &Projection{paths}, nil
}

// Paths are the document paths that are selected.
func (p *Projection) Paths() []*Path { return p.paths }

// Of returns the selected parts of an item.
func (p *Projection) Of(item attr.Map) attr.Map { return Select(p.paths, item) }

// Select returns what is at the paths of an item, in documents that hold nothing else. Elements of a list keep their
// order and close ranks.
func Select(paths []*Path, item attr.Map) attr.Map {
	root := &change{}
	for _, p := range paths {
		v := p.in(item)
		if v == nil {
			continue
		}
		at := root
		for _, e := range p.Elems {
			at = at.below(e)
		}
		at.result = &v
	}
	if len(root.parts) == 0 {
		return attr.Map{}
	}
	return root.build().(attr.Map)
}

// build makes a document of the results alone.
func (c *change) build() attr.Value {
	if c.result != nil {
		return *c.result
	}
	elems := slices.SortedFunc(maps.Keys(c.parts), func(a, b Elem) int { return a.Index - b.Index })
	if elems[0].Name == "" {
		out := make(attr.List, len(elems))
		for i, e := range elems {
			out[i] = c.parts[e].build()
		}
		return out
	}
	out := make(attr.Map, len(elems))
	for _, e := range elems {
		out[e.Name] = c.parts[e].build()
	}
	return out
}
