package firestoretest

import (
	"slices"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
)

// A query is a parsed and checked StructuredQuery.
type query struct {
	parent      string // path of a document, "" for the root
	collection  string // ID
	descendants bool   // collections at any depth below the parent, not only its own
	where       filter // nil: all
	orders      []fieldPath
	start, end  *cursor
	limit       int // −1: none
}

type cursor struct {
	values []*pb.Value
	before bool
}

func parseQuery(parent string, in *pb.StructuredQuery) (*query, error) {
	if in == nil {
		return nil, invalid("structured_query is missing")
	}
	if len(in.GetFrom()) > 1 {
		return nil, invalid("StructuredQuery.from cannot have more than one collection selector.")
	}
	for what, asked := range map[string]bool{
		"find_nearest": in.GetFindNearest() != nil, "select": in.GetSelect() != nil, "offset": in.GetOffset() != 0,
		"from without collection_id": len(in.GetFrom()) == 0 || in.GetFrom()[0].GetCollectionId() == "",
	} {
		if asked {
			return nil, unimplemented("structured_query." + what)
		}
	}
	from := in.GetFrom()[0]
	q := &query{parent: parent, collection: from.GetCollectionId(), descendants: from.GetAllDescendants(), limit: -1}
	if err := checkID("Collection", q.collection); err != nil {
		return nil, err
	}
	if l := in.GetLimit(); l != nil {
		if q.limit = int(l.GetValue()); q.limit < 0 {
			return nil, invalid("structured_query.limit is negative")
		}
	}
	var inequalities []fieldPath
	if in.GetWhere() != nil {
		var err error
		if q.where, inequalities, err = parseWhere(in.GetWhere()); err != nil {
			return nil, err
		}
	}
	if err := q.parseOrders(in.GetOrderBy(), inequalities); err != nil {
		return nil, err
	}
	if q.descendants && q.parent != "" && (q.where != nil || len(q.orders) > 1) {
		return nil, unimplemented("structured_query.from.all_descendants below a document with a filter or order")
	}
	var err error
	if q.start, err = q.parseCursor("start_at", in.GetStartAt(), len(in.GetOrderBy())); err != nil {
		return nil, err
	}
	if q.end, err = q.parseCursor("end_at", in.GetEndAt(), len(in.GetOrderBy())); err != nil {
		return nil, err
	}
	return q, nil
}

// parseOrders makes the order complete, as the service does: fields with inequalities that are not named follow in the
// order of their names, the document's name comes last.
func (q *query) parseOrders(in []*pb.StructuredQuery_Order, inequalities []fieldPath) error {
	for _, o := range in {
		p, err := parseQueryField(o.GetField())
		if err != nil {
			return err
		}
		if q.ordersBy(p) {
			return invalid("order by specified twice for %q", o.GetField().GetFieldPath())
		}
		switch o.GetDirection() {
		case pb.StructuredQuery_DIRECTION_UNSPECIFIED, pb.StructuredQuery_ASCENDING:
		default:
			return unimplemented("structured_query.order_by.direction " + o.GetDirection().String())
		}
		q.orders = append(q.orders, p)
	}
	slices.SortFunc(inequalities, slices.Compare)
	inequalities = slices.DeleteFunc(inequalities, fieldPath.isName)
	for _, p := range append(inequalities, fieldPath{nameField}) {
		if !q.ordersBy(p) {
			q.orders = append(q.orders, p)
		}
	}
	if !q.orders[len(q.orders)-1].isName() {
		return invalid("order by clause cannot contain more fields after the key %s", nameField)
	}
	return nil
}

// parseQueryField reads the name of a field in a filter or order, __name__ among them.
func parseQueryField(in *pb.StructuredQuery_FieldReference) (fieldPath, error) {
	p, err := parseFieldPaths([]string{in.GetFieldPath()}, true)
	if err != nil {
		return nil, err
	}
	return p[0], nil
}

func (q *query) ordersBy(p fieldPath) bool {
	return slices.ContainsFunc(q.orders, p.equal)
}

func (q *query) parseCursor(what string, in *pb.Cursor, most int) (*cursor, error) {
	if in == nil {
		return nil, nil //nolint:nilnil // a query may have no cursor
	}
	if len(in.GetValues()) > most {
		return nil, invalid("Cursor has too many values: structured_query.%s has %d, order_by %d", what,
			len(in.GetValues()), most)
	}
	for i, v := range in.GetValues() {
		if _, err := stored(v, 1); err != nil {
			return nil, err
		}
		if q.orders[i].isName() && rank(v) != rankReference {
			return nil, invalid("structured_query.%s: the value for __name__ must be a reference", what)
		}
	}
	return &cursor{in.GetValues(), in.GetBefore()}, nil
}

// matches reports whether the filter holds for the document and it has all fields that the order needs.
func (q *query) matches(doc *pb.Document) bool {
	for _, p := range q.orders {
		if field(doc, p) == nil {
			return false
		}
	}
	return q.where == nil || q.where(doc)
}

// run returns what the query finds, in order.
func (q *query) run(v view) (docs []*pb.Document, err error) {
	collect := func(_ string, doc *pb.Document) {
		if q.matches(doc) && q.within(doc) {
			docs = append(docs, doc)
		}
	}
	if q.descendants {
		for path := range v.db.collections {
			below := q.parent == "" || strings.HasPrefix(path, q.parent+"/")
			if below && path[strings.LastIndexByte(path, '/')+1:] == q.collection {
				if err := v.each(path, collect); err != nil {
					return nil, err
				}
			}
		}
	} else if err := v.each(join(q.parent, q.collection), collect); err != nil {
		return nil, err
	}
	slices.SortFunc(docs, q.compare)
	if q.limit >= 0 && len(docs) > q.limit {
		docs = docs[:q.limit]
	}
	return docs, nil
}

func (q *query) compare(a, b *pb.Document) int {
	for _, p := range q.orders {
		if c := compare(field(a, p), field(b, p)); c != 0 {
			return c
		}
	}
	return 0
}

// within reports whether the document lies between the cursors.
func (q *query) within(doc *pb.Document) bool {
	if q.start != nil {
		if c := q.position(doc, q.start); c < 0 || c == 0 && !q.start.before {
			return false
		}
	}
	if q.end != nil {
		if c := q.position(doc, q.end); c > 0 || c == 0 && q.end.before {
			return false
		}
	}
	return true
}

// position compares a document with a cursor, by as many fields as the cursor has.
func (q *query) position(doc *pb.Document, c *cursor) int {
	for i, v := range c.values {
		if c := compare(field(doc, q.orders[i]), v); c != 0 {
			return c
		}
	}
	return 0
}

// field returns a field of a document for a query: nil if there is none.
func field(doc *pb.Document, p fieldPath) *pb.Value {
	if p.isName() {
		return &pb.Value{ValueType: &pb.Value_ReferenceValue{ReferenceValue: doc.GetName()}}
	}
	return lookup(doc.GetFields(), p)
}
