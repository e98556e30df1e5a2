package firestoretest

import (
	"slices"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A query is a parsed and checked StructuredQuery.
type query struct {
	parent      string // path of a document, "" for the root
	collection  string // ID; "" for every collection
	descendants bool   // collections at any depth below the parent, not only its own
	where       filter // nil: all
	orders      []order
	start, end  *cursor
	offset      int
	limit       int         // −1: none
	mask        []fieldPath // nil: whole documents
}

type order struct {
	field      fieldPath
	descending bool
}

type cursor struct {
	values []*pb.Value
	before bool
}

func parseQuery(parent string, in *pb.StructuredQuery) (*query, error) {
	if in == nil {
		return nil, invalid("structured_query is missing")
	}
	if in.GetFindNearest() != nil {
		return nil, unimplemented("structured_query.find_nearest")
	}
	switch len(in.GetFrom()) {
	case 0:
		return nil, unimplemented("structured_query.from left empty")
	case 1:
	default:
		return nil, invalid("StructuredQuery.from cannot have more than one collection selector.")
	}
	q := &query{
		parent:      parent,
		collection:  in.GetFrom()[0].GetCollectionId(),
		descendants: in.GetFrom()[0].GetAllDescendants(),
		offset:      int(in.GetOffset()),
		limit:       -1,
	}
	if q.collection == "" && !q.descendants {
		return nil, unimplemented("structured_query.from without collection_id and all_descendants")
	}
	if q.collection != "" {
		if err := checkCollectionID(q.collection); err != nil {
			return nil, err
		}
	}
	if q.offset < 0 {
		return nil, invalid("structured_query.offset is negative")
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
	if err := q.checkDescendants(in); err != nil {
		return nil, err
	}
	var err error
	if q.start, err = q.parseCursor("start_at", in.GetStartAt(), len(in.GetOrderBy())); err != nil {
		return nil, err
	}
	if q.end, err = q.parseCursor("end_at", in.GetEndAt(), len(in.GetOrderBy())); err != nil {
		return nil, err
	}
	return q, q.parseSelect(in.GetSelect())
}

// parseOrders makes the order complete, as the service does: fields with inequalities that are not named follow in the
// order of their names, the document's name comes last, all in the direction of the last one named.
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
		case pb.StructuredQuery_DIRECTION_UNSPECIFIED, pb.StructuredQuery_ASCENDING, pb.StructuredQuery_DESCENDING:
		default:
			return unimplemented("structured_query.order_by.direction " + o.GetDirection().String())
		}
		q.orders = append(q.orders, order{p, o.GetDirection() == pb.StructuredQuery_DESCENDING})
	}
	descending := len(q.orders) > 0 && q.orders[len(q.orders)-1].descending
	slices.SortFunc(inequalities, slices.Compare)
	inequalities = slices.DeleteFunc(inequalities, fieldPath.isName)
	for _, p := range append(inequalities, fieldPath{nameField}) {
		if !q.ordersBy(p) {
			q.orders = append(q.orders, order{p, descending})
		}
	}
	if !q.orders[len(q.orders)-1].field.isName() {
		return invalid("order by clause cannot contain more fields after the key %s", nameField)
	}
	return nil
}

// checkDescendants rejects what the service has no index for: below a document, or in collections of every ID, documents
// are found by their names alone, in ascending order.
func (q *query) checkDescendants(in *pb.StructuredQuery) error {
	if !q.descendants || q.parent == "" && q.collection != "" {
		return nil
	}
	filters, ordered := filterFields(in.GetWhere()), false
	for _, o := range in.GetOrderBy() {
		ordered = ordered || o.GetField().GetFieldPath() != nameField
	}
	switch {
	case q.parent != "" && (len(filters) > 0 || ordered):
		return invalid("collection group queries are only allowed at the root parent")
	case q.collection == "" && (ordered || q.orders[0].descending):
		return invalid("kind is required for all orders except __key__ ascending")
	case q.collection == "" && len(filters) > 0:
		return invalid("kind is required for filter: %s", filters[0])
	case q.orders[0].descending:
		return status.Error(codes.FailedPrecondition,
			"collection group queries are only allowed if they're at the root or they're an ascending primary key scan")
	default:
		return nil
	}
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
	return slices.ContainsFunc(q.orders, func(o order) bool { return o.field.equal(p) })
}

func (q *query) parseCursor(what string, in *pb.Cursor, most int) (*cursor, error) {
	if in == nil {
		return nil, nil //nolint:nilnil // a query may have no cursor
	}
	if len(in.GetValues()) > most {
		return nil, invalid("Cursor has too many values: structured_query.%s has %d, order_by %d", what, len(in.GetValues()), most)
	}
	for i, v := range in.GetValues() {
		if _, err := stored(v, 1); err != nil {
			return nil, err
		}
		if q.orders[i].field.isName() && rank(v) != rankReference {
			return nil, invalid("structured_query.%s: the value for __name__ must be a reference", what)
		}
	}
	return &cursor{in.GetValues(), in.GetBefore()}, nil
}

func (q *query) parseSelect(in *pb.StructuredQuery_Projection) error {
	if in == nil {
		return nil
	}
	paths := make([]string, len(in.GetFields()))
	for i, f := range in.GetFields() {
		paths[i] = f.GetFieldPath()
	}
	var err error
	q.mask, err = parseFieldPaths(paths, true)
	return err
}

// covers reports whether the query looks at the document with this path.
func (q *query) covers(path string) bool {
	collection, _ := splitPath(path)
	if !q.descendants {
		return collection == join(q.parent, q.collection)
	}
	if q.parent != "" && !strings.HasPrefix(collection, q.parent+"/") {
		return false
	}
	return q.collection == "" || collection[strings.LastIndexByte(collection, '/')+1:] == q.collection
}

// matches reports whether the filter holds for the document and it has all fields that the order needs.
func (q *query) matches(doc *pb.Document) bool {
	for _, o := range q.orders {
		if field(doc, o.field) == nil {
			return false
		}
	}
	return q.where == nil || q.where(doc)
}

// run returns what the query finds, whole documents in order, and how many documents it skipped for its offset.
func (q *query) run(v view) (docs []*pb.Document, skipped int, err error) {
	collect := func(_ string, doc *pb.Document) {
		if q.matches(doc) && q.within(doc) {
			docs = append(docs, doc)
		}
	}
	if q.descendants {
		for _, path := range v.collectionPaths(q.parent) {
			if q.covers(join(path, "x")) {
				if err := v.each(path, collect); err != nil {
					return nil, 0, err
				}
			}
		}
	} else if err := v.each(join(q.parent, q.collection), collect); err != nil {
		return nil, 0, err
	}
	slices.SortFunc(docs, q.compare)
	skipped = min(q.offset, len(docs))
	docs = docs[skipped:]
	if q.limit >= 0 && len(docs) > q.limit {
		docs = docs[:q.limit]
	}
	return docs, skipped, nil
}

func (q *query) compare(a, b *pb.Document) int {
	for _, o := range q.orders {
		if c := o.compare(field(a, o.field), field(b, o.field)); c != 0 {
			return c
		}
	}
	return 0
}

func (o order) compare(a, b *pb.Value) int {
	if o.descending {
		return -compare(a, b)
	}
	return compare(a, b)
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
		o := q.orders[i]
		if c := o.compare(field(doc, o.field), v); c != 0 {
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

// shown returns the document as the query's response shows it.
func (q *query) shown(doc *pb.Document) *pb.Document {
	if q.mask == nil {
		return doc
	}
	return project(doc, q.mask)
}
