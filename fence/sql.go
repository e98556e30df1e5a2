package fence

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Dialect is the SQL of a database.
type Dialect string

// The dialects. They differ in the placeholders ($1 in PostgreSQL, ? in the others), in the statement that inserts or
// updates, and in how many rows an UPDATE counts that leaves a row as it is.
const (
	SQLite     Dialect = "sqlite"
	PostgreSQL Dialect = "postgresql"
	MySQL      Dialect = "mysql" // and MariaDB
)

// Conn runs statements: a *sql.Tx, a *sql.DB or a *sql.Conn. In a transaction a check is part of it: no other token
// passes between the check and the commit, and a rollback takes the check back.
type Conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// SQL compares tokens in a database, in the statement that writes. With isolation levels above READ COMMITTED,
// PostgreSQL and MySQL can end a transaction that met another one with an error of theirs (a serialization failure or a
// deadlock): roll back, and run it again.
type SQL struct {
	dialect Dialect
	table   string
	rule    rule
}

// SQLOptions are the settings of [NewSQL]. The zero value works.
type SQLOptions struct {
	// the table of [SQL.Check] as SQL writes it; "" is fences. It becomes part of statements: never make it from input
	Table     string
	AllowNone bool             // lets writes of leases without a token pass, unchecked
	Now       func() time.Time // the time, for [MaxAhead]; nil means time.Now
}

// NewSQL returns the fences of a database. Options may be nil. The error says that there is no such dialect.
func NewSQL(d Dialect, o *SQLOptions) (*SQL, error) {
	switch d {
	case SQLite, PostgreSQL, MySQL:
	default:
		return nil, fmt.Errorf("fence: no dialect %q: take %s, %s or %s", d, SQLite, PostgreSQL, MySQL)
	}
	s := &SQL{dialect: d, table: "fences"}
	if o != nil {
		s.table = cmp.Or(o.Table, s.table)
		s.rule = rule{o.AllowNone, o.Now}
	}
	return s, nil
}

// Row picks a row of a table of one's own that keeps the token of its last writer in a column: a BIGINT that is NULL or
// 0 before the first. The texts become part of statements: never make them from input.
type Row struct {
	Table  string // as SQL writes it
	Where  string // picks one row, by a key: "id = $1", "tenant = ? AND id = ?"
	Args   []any  // of the placeholders in Where
	Column string // of the token; "" is fence
}

// Update runs
//
//	UPDATE table SET set, fence = token WHERE (where) AND (fence IS NULL OR fence <= token)
//
// so that the row is changed only if no higher token has written to it. In PostgreSQL the placeholders of set are
// numbered after those of [Row].Where:
//
//	row := fence.Row{Table: "orders", Where: "id = $1", Args: []any{7}}
//	err := db.Update(ctx, tx, row, lock.Token(), "status = $2", "paid")
//
// The error STALE_TOKEN means that a higher token has, and [sql.ErrNoRows] that there is no such row. Any other error
// but those of the arguments is one of the database, and the outcome is that of the transaction; running it again is
// harmless if set does not depend on the row. A row that is deleted takes its token along: mark rows as deleted, or use
// [SQL.Check].
func (s *SQL) Update(ctx context.Context, c Conn, r Row, token int64, set string, args ...any) error {
	if r.Table == "" || r.Where == "" || set == "" {
		return errors.New("fence: Row.Table, Row.Where and set must not be empty")
	}
	compare, err := s.rule.check(token)
	if err != nil {
		return err
	}
	column := cmp.Or(r.Column, "fence")
	var q statement
	if s.dialect == PostgreSQL {
		q.args = append(q.args, r.Args...) // the numbers say which is which
	}
	q.add("UPDATE "+r.Table+" SET "+set, args...)
	if compare {
		q.add(", "+column+" = "+s.placeholder(len(q.args)+1), token)
	}
	q.add(" WHERE (" + r.Where + ")")
	if s.dialect != PostgreSQL {
		q.args = append(q.args, r.Args...)
	}
	if compare {
		q.add(" AND (" + column + " IS NULL OR " + column + " <= ")
		if s.dialect == PostgreSQL {
			q.add(s.placeholder(len(q.args)) + ")") // the token, once more
		} else {
			q.add("?)", token)
		}
	}
	find := statement{"SELECT " + column + " FROM " + r.Table + " WHERE (" + r.Where + ")" + s.current(), r.Args}
	for try := range tries {
		changed, err := q.exec(ctx, c)
		switch {
		case err != nil:
			return err
		case changed == 1:
			return nil
		case changed > 1:
			return fmt.Errorf("fence: %d rows of %s were changed: roll back, and let Row.Where pick one, by a key",
				changed, r.Table)
		}
		highest, err := find.token(ctx, c)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("fence: no such row in %s: %w", r.Table, err)
		case err != nil:
			return err
		case compare && highest > token:
			return stale(token, highest)
		case s.dialect == MySQL && try > 0 && (!compare || highest == token):
			return nil // the row has these values already, which MySQL counts as no change
		}
	}
	return fmt.Errorf("fence: the row of %s came and went while it was written; nothing was changed", r.Table)
}

// tries is how often a statement is run that changed no row, although a look at the row afterwards found no reason.
const tries = 5

// Schema is the statement that creates the table of [SQL.Check], unless it exists.
func (s *SQL) Schema() string {
	text := "TEXT"
	if s.dialect == MySQL {
		text = "VARBINARY(" + strconv.Itoa(MaxResourceBytes) + ")" // collations for text take other names for the same
	}
	return "CREATE TABLE IF NOT EXISTS " + s.table + " (resource " + text + " NOT NULL PRIMARY KEY, token BIGINT NOT NULL)"
}

// Check lets a token pass and remembers it in the table of [SQL.Schema], for a resource without a column of its own. In
// the transaction of the effect the two are one step: others that check the same resource wait until the transaction
// ends. One statement, and for a rejection another one. For errors see [Store].
func (s *SQL) Check(ctx context.Context, c Conn, resource string, token int64) error {
	if err := checkResource(resource); err != nil {
		return err
	}
	if compare, err := s.rule.check(token); !compare {
		return err
	}
	if s.dialect == MySQL {
		return s.checkMySQL(ctx, c, resource, token)
	}
	q := statement{
		"INSERT INTO " + s.table + " AS f (resource, token) VALUES (" + s.placeholder(1) + ", " + s.placeholder(2) + ")" +
			" ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token",
		[]any{resource, token},
	}
	for range tries {
		if changed, err := q.exec(ctx, c); err != nil || changed > 0 {
			return err
		}
		highest, err := s.remembered(resource).token(ctx, c)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if highest > token {
			return stale(token, highest)
		}
	}
	return fmt.Errorf("fence: the token of %q in %s came and went while it was checked", resource, s.table)
}

// checkMySQL asks for the highest token with the write: the count of rows does not tell a token that equals the highest
// from a lower one.
func (s *SQL) checkMySQL(ctx context.Context, c Conn, resource string, token int64) error {
	result, err := c.ExecContext(ctx, "INSERT INTO "+s.table+" (resource, token) VALUES (?, LAST_INSERT_ID(?))"+
		" ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(GREATEST(token, ?))", resource, token, token)
	if err != nil {
		return err
	}
	highest, err := result.LastInsertId()
	if err != nil || highest == 0 { // behind a proxy that does not pass it on
		if highest, err = s.remembered(resource).token(ctx, c); err != nil {
			return err
		}
	}
	if highest > token {
		return stale(token, highest)
	}
	return nil
}

func (s *SQL) remembered(resource string) statement {
	return statement{"SELECT token FROM " + s.table + " WHERE resource = " + s.placeholder(1) + s.current(),
		[]any{resource}}
}

// current makes a read see what the writes of its transaction see, and not what was there when the transaction began.
func (s *SQL) current() string {
	if s.dialect == MySQL {
		return " FOR UPDATE"
	}
	return "" // in PostgreSQL a write that met a newer row has failed by itself
}

func (s *SQL) placeholder(n int) string {
	if s.dialect == PostgreSQL {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// Store returns a [Store] that keeps the tokens in the table of [SQL.Schema]. Each check is a statement by itself, or
// part of c if that is a transaction.
func (s *SQL) Store(c Conn) Store { return table{s, c} }

type table struct {
	sql  *SQL
	conn Conn
}

// Check implements [Store].
func (t table) Check(ctx context.Context, resource string, token int64) error {
	return t.sql.Check(ctx, t.conn, resource, token)
}

// statement is a statement with its arguments.
type statement struct {
	text string
	args []any
}

func (q *statement) add(text string, args ...any) {
	q.text += text
	q.args = append(q.args, args...)
}

// exec runs the statement and returns how many rows it changed.
func (q *statement) exec(ctx context.Context, c Conn) (changed int64, err error) {
	result, err := c.ExecContext(ctx, q.text, q.args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// token runs a query for one token; one that is NULL is 0.
func (q statement) token(ctx context.Context, c Conn) (int64, error) {
	var found sql.NullInt64
	err := c.QueryRowContext(ctx, q.text, q.args...).Scan(&found)
	return found.Int64, err
}

var _ Conn = (*sql.Tx)(nil)
