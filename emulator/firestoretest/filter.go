package firestoretest

import (
	"slices"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
)

// A filter decides whether a document matches. A document without the field matches no condition on it.
type filter func(*pb.Document) bool

// parseWhere reads the filter of a query, comparisons and their conjunctions, and returns the fields of its
// inequalities with it.
func parseWhere(in *pb.StructuredQuery_Filter) (filter, []fieldPath, error) {
	var inequalities []fieldPath
	f, err := parseFilter(in, &inequalities)
	return f, inequalities, err
}

// parseFilter reads a filter and adds the fields of its inequalities to the list.
func parseFilter(in *pb.StructuredQuery_Filter, inequalities *[]fieldPath) (filter, error) {
	switch f := in.GetFilterType().(type) {
	case *pb.StructuredQuery_Filter_CompositeFilter:
		return parseComposite(f.CompositeFilter, inequalities)
	case *pb.StructuredQuery_Filter_FieldFilter:
		return parseFieldFilter(f.FieldFilter, inequalities)
	case *pb.StructuredQuery_Filter_UnaryFilter:
		return nil, unimplemented("structured_query.where.unary_filter")
	default:
		return nil, invalid("a filter has no type")
	}
}

func parseComposite(in *pb.StructuredQuery_CompositeFilter, inequalities *[]fieldPath) (filter, error) {
	if in.GetOp() != pb.StructuredQuery_CompositeFilter_AND {
		return nil, unimplemented("structured_query.where.composite_filter.op other than AND")
	}
	parts := make([]filter, len(in.GetFilters()))
	for i, f := range in.GetFilters() {
		var err error
		if parts[i], err = parseFilter(f, inequalities); err != nil {
			return nil, err
		}
	}
	return func(d *pb.Document) bool {
		return !slices.ContainsFunc(parts, func(f filter) bool { return !f(d) })
	}, nil
}

func parseFieldFilter(in *pb.StructuredQuery_FieldFilter, inequalities *[]fieldPath) (filter, error) {
	p, err := parseQueryField(in.GetField())
	if err != nil {
		return nil, err
	}
	operand := in.GetValue()
	if _, err := stored(operand, 1); err != nil {
		return nil, err
	}
	if p.isName() && rank(operand) != rankReference {
		return nil, invalid("__name__ can only be compared with references")
	}
	holds, err := parseOperator(in.GetOp())
	if err != nil {
		return nil, err
	}
	if in.GetOp() == pb.StructuredQuery_FieldFilter_EQUAL {
		return func(d *pb.Document) bool {
			v := field(d, p)
			return v != nil && compare(v, operand) == 0
		}, nil
	}
	*inequalities = append(*inequalities, p)
	// By order only among values of the operand's type. NaN has a place in the order of results, but it is neither less
	// nor greater than a number.
	return func(d *pb.Document) bool {
		v := field(d, p)
		return v != nil && rank(v) == rank(operand) && !isNaN(v) && !isNaN(operand) && holds(compare(v, operand))
	}, nil
}

// parseOperator returns what a comparison has to come to.
func parseOperator(op pb.StructuredQuery_FieldFilter_Operator) (func(int) bool, error) {
	switch op {
	case pb.StructuredQuery_FieldFilter_EQUAL:
		return func(c int) bool { return c == 0 }, nil
	case pb.StructuredQuery_FieldFilter_LESS_THAN:
		return func(c int) bool { return c < 0 }, nil
	case pb.StructuredQuery_FieldFilter_LESS_THAN_OR_EQUAL:
		return func(c int) bool { return c <= 0 }, nil
	case pb.StructuredQuery_FieldFilter_GREATER_THAN:
		return func(c int) bool { return c > 0 }, nil
	case pb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL:
		return func(c int) bool { return c >= 0 }, nil
	default:
		return nil, unimplemented("structured_query.where.field_filter.op " + op.String())
	}
}
