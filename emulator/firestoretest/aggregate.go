package firestoretest

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
)

const maxAggregations = 5

// parseAggregations returns the function that computes all aggregations of a query's result, by their aliases. A
// document without one of the fields that are added up counts for none of them, as if the query were ordered by those
// fields.
func parseAggregations(
	q *query, in []*pb.StructuredAggregationQuery_Aggregation,
) (func([]*pb.Document) fields, error) {
	if len(in) == 0 || len(in) > maxAggregations {
		return nil, invalid("structured_aggregation_query has %d aggregations: from 1 to %d", len(in), maxAggregations)
	}
	parts := make(map[string]func([]*pb.Document) *pb.Value)
	var needed []fieldPath
	for i, a := range in {
		alias := a.GetAlias()
		if alias == "" {
			alias = fmt.Sprintf("field_%d", i+1)
		}
		if parts[alias] != nil {
			return nil, invalid("the alias %q is used twice", alias)
		}
		var err error
		if parts[alias], err = parseAggregation(a, &needed); err != nil {
			return nil, err
		}
	}
	if q.descendants && q.parent != "" && len(needed) > 0 {
		return nil, invalid("This query requires an index that has fields [%s] after __name__ and Firestore does not currently support "+
			"such an index. Please try the query again with additional ordering on those fields.", strings.Join(needed[0], "."))
	}
	return func(docs []*pb.Document) fields {
		docs = slices.DeleteFunc(slices.Clone(docs), func(d *pb.Document) bool {
			return slices.ContainsFunc(needed, func(p fieldPath) bool { return field(d, p) == nil })
		})
		out := make(fields, len(parts))
		for alias, f := range parts {
			out[alias] = f(docs)
		}
		return out
	}, nil
}

func parseAggregation(
	in *pb.StructuredAggregationQuery_Aggregation, needed *[]fieldPath,
) (func([]*pb.Document) *pb.Value, error) {
	switch op := in.GetOperator().(type) {
	case *pb.StructuredAggregationQuery_Aggregation_Count_:
		most := int64(math.MaxInt64)
		if up := op.Count.GetUpTo(); up != nil {
			if most = up.GetValue(); most <= 0 {
				return nil, invalid("count.up_to must be greater than zero")
			}
		}
		return func(docs []*pb.Document) *pb.Value { return integerOf(min(int64(len(docs)), most)) }, nil
	case *pb.StructuredAggregationQuery_Aggregation_Sum_:
		p, err := parseQueryField(op.Sum.GetField())
		*needed = append(*needed, p)
		return func(docs []*pb.Document) *pb.Value {
			total, _ := sum(docs, p)
			return total
		}, err
	case *pb.StructuredAggregationQuery_Aggregation_Avg_:
		p, err := parseQueryField(op.Avg.GetField())
		*needed = append(*needed, p)
		return func(docs []*pb.Document) *pb.Value {
			total, n := sum(docs, p)
			if n == 0 {
				return null
			}
			return doubleOf(toDouble(total) / float64(n))
		}, err
	default:
		return nil, invalid("an aggregation has no operator")
	}
}

// sum adds the numbers among a field's values and counts them. It is an integer if all are integers and the sum fits, a
// double otherwise. Integers and doubles are added up exactly and rounded once each, so that no order of the documents shows.
func sum(docs []*pb.Document, p fieldPath) (total *pb.Value, n int) {
	whole, double := new(big.Int), new(big.Float).SetPrec(exactBits)
	special := 0.0 // the sum of the values that are not finite
	doubles := false
	for _, doc := range docs {
		v := field(doc, p)
		if rank(v) != rankNumber {
			continue
		}
		n++
		i, ok := v.GetValueType().(*pb.Value_IntegerValue)
		switch d := v.GetDoubleValue(); {
		case ok:
			whole.Add(whole, big.NewInt(i.IntegerValue))
		case math.IsNaN(d) || math.IsInf(d, 0):
			doubles = true
			special += d
		default:
			doubles = true
			double.Add(double, new(big.Float).SetFloat64(d))
		}
	}
	if !doubles && whole.IsInt64() {
		return integerOf(whole.Int64()), n
	}
	integers, _ := new(big.Float).SetInt(whole).Float64()
	finite, _ := double.Float64()
	return doubleOf(integers + finite + special), n
}

// exactBits hold every sum of doubles: their bits reach from 2^1023 down to 2^-1074, and a sum of 2^40 documents needs 40 more.
const exactBits = 1024 + 1074 + 40
