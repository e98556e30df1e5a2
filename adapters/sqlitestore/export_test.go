package sqlitestore

var (
	ParseDoc  = parseDoc
	AppendDoc = appendDoc
	PathError = pathError
)

// Queued is the number of calls of Write that wait for the writer.
func (s *Store) Queued() int { return s.writer.queue.size() }

// Exec runs a statement on the writing connection. No write may be under way.
func (s *Store) Exec(sql string) error { return s.writer.conn.exec(sql) }

// DueQuery and DueIndex are the statements that find documents by a text field, and that make the index for it.
func DueQuery(kind, field string) string { return dueIndex{kind, field}.query() }

// DueIndex is the statement that makes the index.
func DueIndex(kind, field string) string { return dueIndex{kind, field}.create() }

// What tests look at: the statement that removes what is due, the steps of the schema, and how far the floor is set above a
// counter that passes it.
const (
	PruneSQL = pruneSQL
	Headroom = headroom
)

// Migrations are the steps of the schema.
var Migrations = migrations
