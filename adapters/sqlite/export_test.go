package sqlite

var (
	ParseDoc  = parseDoc
	AppendDoc = appendDoc
	PathError = pathError
)

// Queued is the number of calls of Write that wait for the writer.
func (s *Store) Queued() int { return s.writer.queue.size() }

// Exec runs a statement on the writing connection. No write may be under way.
func (s *Store) Exec(sql string) error { return s.writer.conn.exec(sql) }
