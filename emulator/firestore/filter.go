package firestore

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
	if len(in.GetFilters()) == 0 {
		return nil, invalid("a composite filter has no filters")
	}
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
	operands := []*pb.Value{in.GetValue()}
	switch in.GetOp() {
	case pb.StructuredQuery_FieldFilter_IN, pb.StructuredQuery_FieldFilter_NOT_IN,
		pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS_ANY:
		operands = in.GetValue().GetArrayValue().GetValues()
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
func parseOperator(op pb.StructuredQuery_FieldFilter_Operator, operand *pb.Value) (test func(*pb.Value) bool, inequality bool, err error) {
	values := operand.GetArrayValue().GetValues()
	switch op {
	case pb.StructuredQuery_FieldFilter_EQUAL:
		return func(v *pb.Value) bool { return compare(v, operand) == 0 }, false, nil
	case pb.StructuredQuery_FieldFilter_NOT_EQUAL:
		return func(v *pb.Value) bool { return rank(v) != rankNull && compare(v, operand) != 0 }, true, nil
	case pb.StructuredQuery_FieldFilter_LESS_THAN:
		return ranged(operand, func(c int) bool { return c < 0 })
	case pb.StructuredQuery_FieldFilter_LESS_THAN_OR_EQUAL:
		return ranged(operand, func(c int) bool { return c <= 0 })
	case pb.StructuredQuery_FieldFilter_GREATER_THAN:
		return ranged(operand, func(c int) bool { return c > 0 })
	case pb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL:
		return ranged(operand, func(c int) bool { return c >= 0 })
	case pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS:
		return func(v *pb.Value) bool { return contains(v.GetArrayValue().GetValues(), operand) }, false, nil
	case pb.StructuredQuery_FieldFilter_IN:
		if err := checkList("IN", operand, maxIn); err != nil {
			return nil, false, err
		}
		return func(v *pb.Value) bool { return contains(values, v) }, false, nil
	case pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS_ANY:
		if err := checkList("ARRAY_CONTAINS_ANY", operand, maxIn); err != nil {
			return nil, false, err
		}
		return func(v *pb.Value) bool {
			return slices.ContainsFunc(v.GetArrayValue().GetValues(), func(e *pb.Value) bool { return contains(values, e) })
		}, false, nil
	case pb.StructuredQuery_FieldFilter_NOT_IN:
		if err := checkList("NOT_IN", operand, maxNotIn); err != nil {
			return nil, false, err
		}
		return func(v *pb.Value) bool {
			return rank(v) != rankNull && !contains(values, null) && !contains(values, v)
		}, true, nil
	default:
		return nil, false, invalid("a field filter has no operator")
	}
}

// ranged tests by order, among values of the operand's type only.
func ranged(operand *pb.Value, holds func(int) bool) (func(*pb.Value) bool, bool, error) {
	if rank(operand) == rankNull || isNaN(operand) {
		return nil, false, invalid("null and NaN cannot be compared by order, only by equality")
	}
	return func(v *pb.Value) bool { return rank(v) == rank(operand) && holds(compare(v, operand)) }, true, nil
}

func checkList(op string, operand *pb.Value, most int) error {
	if n := len(operand.GetArrayValue().GetValues()); n == 0 || n > most {
		return invalid("'%s' requires an array with 1 to %d values, not %d", op, most, n)
	}
	return nil
}
