package firestoretest

import (
	"slices"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
)

// A filter decides whether a document matches. A document without the field matches no condition on it, not even
// "not equal".
type filter func(*pb.Document) bool

// Most values that "in", "array-contains-any" and "not-in" take.
const (
	maxIn    = 30
	maxNotIn = 10
)

// parseWhere reads the filter of a query and returns the fields of its inequalities with it. It rejects what the
// service rejects: more than 30 disjunctions (of the filter written as an OR of ANDs), two array conditions in one, two
// negations, and not-in together with another disjunction.
func parseWhere(in *pb.StructuredQuery_Filter) (filter, []fieldPath, error) {
	var inequalities []fieldPath
	f, err := parseFilter(in, &inequalities)
	if err != nil {
		return nil, nil, err
	}
	shape := shapeOf(in)
	switch {
	case shape.disjunctions > maxIn:
		return nil, nil, invalid("a query has %d disjunctions: at most %d", shape.disjunctions, maxIn)
	case shape.arrays > 1:
		return nil, nil, invalid("A maximum of 1 'ARRAY_CONTAINS' filter is allowed per disjunction.")
	case shape.negations > 1:
		return nil, nil, invalid("a query has at most one of NOT_EQUAL, NOT_IN, IS_NOT_NULL and IS_NOT_NAN")
	case shape.notIn && shape.either:
		return nil, nil, invalid("NOT_IN cannot be combined with OR, IN or ARRAY_CONTAINS_ANY")
	}
	return f, inequalities, nil
}

// filterFields returns the fields that a filter names, other than the document's name.
func filterFields(in *pb.StructuredQuery_Filter) []string {
	var out []string
	switch f := in.GetFilterType().(type) {
	case *pb.StructuredQuery_Filter_CompositeFilter:
		for _, part := range f.CompositeFilter.GetFilters() {
			out = append(out, filterFields(part)...)
		}
	case *pb.StructuredQuery_Filter_FieldFilter:
		out = append(out, f.FieldFilter.GetField().GetFieldPath())
	case *pb.StructuredQuery_Filter_UnaryFilter:
		out = append(out, f.UnaryFilter.GetField().GetFieldPath())
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == nameField })
}

// A shape is what the service limits about a filter.
type shape struct {
	disjunctions int  // of the filter written as an OR of ANDs
	arrays       int  // conditions on elements, in the disjunction that has the most
	negations    int  // in the whole filter
	notIn        bool // one of them
	either       bool // something that makes several disjunctions
}

func shapeOf(in *pb.StructuredQuery_Filter) shape {
	switch f := in.GetFilterType().(type) {
	case *pb.StructuredQuery_Filter_UnaryFilter:
		switch f.UnaryFilter.GetOp() {
		case pb.StructuredQuery_UnaryFilter_IS_NOT_NULL, pb.StructuredQuery_UnaryFilter_IS_NOT_NAN:
			return shape{disjunctions: 1, negations: 1}
		default:
			return shape{disjunctions: 1}
		}
	case *pb.StructuredQuery_Filter_FieldFilter:
		n := len(f.FieldFilter.GetValue().GetArrayValue().GetValues())
		switch f.FieldFilter.GetOp() {
		case pb.StructuredQuery_FieldFilter_NOT_EQUAL:
			return shape{disjunctions: 1, negations: 1}
		case pb.StructuredQuery_FieldFilter_NOT_IN:
			return shape{disjunctions: 1, negations: 1, notIn: true}
		case pb.StructuredQuery_FieldFilter_IN:
			return shape{disjunctions: n, either: true}
		case pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS:
			return shape{disjunctions: 1, arrays: 1}
		case pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS_ANY:
			return shape{disjunctions: n, arrays: 1, either: true}
		default:
			return shape{disjunctions: 1}
		}
	case *pb.StructuredQuery_Filter_CompositeFilter:
		either := f.CompositeFilter.GetOp() == pb.StructuredQuery_CompositeFilter_OR
		total := shape{disjunctions: 1}
		if either {
			total = shape{either: true}
		}
		for _, part := range f.CompositeFilter.GetFilters() {
			s := shapeOf(part)
			if either {
				total.disjunctions += s.disjunctions
				total.arrays = max(total.arrays, s.arrays)
			} else {
				total.disjunctions = min(total.disjunctions*s.disjunctions, 1<<20) // no overflow
				total.arrays += s.arrays
			}
			total.negations += s.negations
			total.notIn = total.notIn || s.notIn
			total.either = total.either || s.either
		}
		return total
	}
	return shape{disjunctions: 1}
}

// parseFilter reads a filter and adds the fields of its inequalities to the list.
func parseFilter(in *pb.StructuredQuery_Filter, inequalities *[]fieldPath) (filter, error) {
	switch f := in.GetFilterType().(type) {
	case *pb.StructuredQuery_Filter_CompositeFilter:
		return parseComposite(f.CompositeFilter, inequalities)
	case *pb.StructuredQuery_Filter_FieldFilter:
		return parseFieldFilter(f.FieldFilter, inequalities)
	case *pb.StructuredQuery_Filter_UnaryFilter:
		return parseUnary(f.UnaryFilter, inequalities)
	default:
		return nil, invalid("a filter has no type")
	}
}

func parseComposite(in *pb.StructuredQuery_CompositeFilter, inequalities *[]fieldPath) (filter, error) {
	parts := make([]filter, len(in.GetFilters()))
	for i, f := range in.GetFilters() {
		var err error
		if parts[i], err = parseFilter(f, inequalities); err != nil {
			return nil, err
		}
	}
	switch in.GetOp() {
	case pb.StructuredQuery_CompositeFilter_AND:
		return func(d *pb.Document) bool {
			return !slices.ContainsFunc(parts, func(f filter) bool { return !f(d) })
		}, nil
	case pb.StructuredQuery_CompositeFilter_OR:
		return func(d *pb.Document) bool {
			return slices.ContainsFunc(parts, func(f filter) bool { return f(d) })
		}, nil
	default:
		return nil, invalid("a composite filter has no operator")
	}
}

func parseUnary(in *pb.StructuredQuery_UnaryFilter, inequalities *[]fieldPath) (filter, error) {
	p, err := parseQueryField(in.GetField())
	if err != nil {
		return nil, err
	}
	on := func(test func(*pb.Value) bool) filter {
		return func(d *pb.Document) bool {
			v := field(d, p)
			return v != nil && test(v)
		}
	}
	isNull := func(v *pb.Value) bool { return rank(v) == rankNull }
	switch in.GetOp() {
	case pb.StructuredQuery_UnaryFilter_IS_NULL:
		return on(isNull), nil
	case pb.StructuredQuery_UnaryFilter_IS_NAN:
		return on(isNaN), nil
	case pb.StructuredQuery_UnaryFilter_IS_NOT_NULL:
		*inequalities = append(*inequalities, p)
		return on(func(v *pb.Value) bool { return !isNull(v) }), nil
	case pb.StructuredQuery_UnaryFilter_IS_NOT_NAN:
		*inequalities = append(*inequalities, p)
		return on(func(v *pb.Value) bool { return !isNull(v) && !isNaN(v) }), nil
	default:
		return nil, invalid("a unary filter has no operator")
	}
}

func parseFieldFilter(in *pb.StructuredQuery_FieldFilter, inequalities *[]fieldPath) (filter, error) {
	p, err := parseQueryField(in.GetField())
	if err != nil {
		return nil, err
	}
	var operands []*pb.Value
	switch in.GetOp() {
	case pb.StructuredQuery_FieldFilter_IN, pb.StructuredQuery_FieldFilter_NOT_IN,
		pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS_ANY:
		operands = in.GetValue().GetArrayValue().GetValues()
	default:
		operands = []*pb.Value{in.GetValue()}
	}
	for _, v := range operands {
		if _, err := stored(v, 1); err != nil {
			return nil, err
		}
		if p.isName() && rank(v) != rankReference {
			return nil, invalid("__name__ can only be compared with references")
		}
	}
	test, inequality, err := parseOperator(in.GetOp(), in.GetValue())
	if err != nil {
		return nil, err
	}
	if inequality {
		*inequalities = append(*inequalities, p)
	}
	return func(d *pb.Document) bool {
		v := field(d, p)
		return v != nil && test(v)
	}, nil
}

// parseOperator returns the test of a field's value, and whether it counts as an inequality for the order.
func parseOperator(
	op pb.StructuredQuery_FieldFilter_Operator, operand *pb.Value,
) (test func(*pb.Value) bool, inequality bool, err error) {
	values := operand.GetArrayValue().GetValues()
	// Among others null and NaN find nothing: only the comparison with them alone does.
	finds := func(v *pb.Value) bool { return rank(v) != rankNull && !isNaN(v) && contains(values, v) }
	switch op {
	case pb.StructuredQuery_FieldFilter_EQUAL:
		return func(v *pb.Value) bool { return compare(v, operand) == 0 }, false, nil
	case pb.StructuredQuery_FieldFilter_NOT_EQUAL:
		return func(v *pb.Value) bool {
			return rank(v) != rankNull && rank(operand) != rankNull && compare(v, operand) != 0
		}, true, nil
	case pb.StructuredQuery_FieldFilter_LESS_THAN:
		return ranged(operand, func(c int) bool { return c < 0 }), true, nil
	case pb.StructuredQuery_FieldFilter_LESS_THAN_OR_EQUAL:
		return ranged(operand, func(c int) bool { return c <= 0 }), true, nil
	case pb.StructuredQuery_FieldFilter_GREATER_THAN:
		return ranged(operand, func(c int) bool { return c > 0 }), true, nil
	case pb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL:
		return ranged(operand, func(c int) bool { return c >= 0 }), true, nil
	case pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS:
		return func(v *pb.Value) bool { return contains(v.GetArrayValue().GetValues(), operand) }, false, nil
	case pb.StructuredQuery_FieldFilter_IN:
		if err := checkList("IN", operand, maxIn); err != nil {
			return nil, false, err
		}
		return finds, false, nil
	case pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS_ANY:
		if err := checkList("ARRAY_CONTAINS_ANY", operand, maxIn); err != nil {
			return nil, false, err
		}
		return func(v *pb.Value) bool { return slices.ContainsFunc(v.GetArrayValue().GetValues(), finds) }, false, nil
	case pb.StructuredQuery_FieldFilter_NOT_IN:
		if err := checkList("NOT_IN", operand, maxNotIn); err != nil {
			return nil, false, err
		}
		return func(v *pb.Value) bool {
			return rank(v) != rankNull && !contains(values, null) && !finds(v)
		}, true, nil
	default:
		return nil, false, invalid("a field filter has no operator")
	}
}

// ranged tests by order, among values of the operand's type only. NaN has a place in the order of results, but it is
// neither less nor greater than a number.
func ranged(operand *pb.Value, holds func(int) bool) func(*pb.Value) bool {
	return func(v *pb.Value) bool {
		return rank(v) == rank(operand) && !isNaN(v) && !isNaN(operand) && holds(compare(v, operand))
	}
}

func checkList(op string, operand *pb.Value, most int) error {
	if n := len(operand.GetArrayValue().GetValues()); n == 0 || n > most {
		return invalid("'%s' requires an array with 1 to %d values, not %d", op, most, n)
	}
	return nil
}
