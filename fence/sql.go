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

// Tx is a transaction: a *sql.Tx. A *sql.DB is none, and does not compile: between a check by itself and the write
// another token can pass. In a transaction no other one does before the commit, and a rollback takes the check back.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	Commit() error
	Rollback() error
}

// SQL compares tokens in a database, in the transaction that writes: [SQL.Do] is the way to use it. With isolation
// levels above READ COMMITTED, PostgreSQL and MySQL can end a transaction that met another one with an error of theirs
// (a serialization failure or a deadlock): roll back, and run it again.
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

// Do runs a function in a transaction in which the lease has passed for the resource, see [SQL.Check], and commits it.
// With an error of the function, or a panic, it is rolled back, and nothing is changed.
//
//	err := fences.Do(ctx, db, "ledger", l.Lease(), func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "INSERT INTO ledger …")
//		return err
//	})
func (s *SQL) Do(ctx context.Context, db *sql.DB, resource string, l Lease, write func(*sql.Tx) error) (err error) {
	return within(ctx, db, func(tx *sql.Tx) error {
		if err := s.Check(ctx, tx, resource, l); err != nil {
			return err
		}
		return write(tx)
	})
}

// within runs a function in a transaction.
func within(ctx context.Context, db *sql.DB, work func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Row picks a row of a table of one's own that keeps the lease of its last writer in two columns, which are NULL before
// the first: the token, a BIGINT, and its subject, a text (in MySQL VARBINARY(320)). The texts become part of
// statements: never make them from input.
type Row struct {
	Table  string // as SQL writes it
	Where  string // picks one row, by a key: "id = $1", "tenant = ? AND id = ?"
	Args   []any  // of the placeholders in Where
	Column string // of the token; "" is fence. That of the subject has "_subject" behind it
}

// Update runs
//
//	UPDATE table SET set, fence = token, fence_subject = subject
//	WHERE (where) AND (fence_subject IS NULL OR fence_subject = subject AND fence <= token)
//
// so that the row is changed only if no higher token has written to it, and no lease of another subject. In PostgreSQL
// the placeholders of set are numbered after those of [Row].Where:
//
//	row := fence.Row{Table: "orders", Where: "id = $1", Args: []any{7}}
//	err := db.Update(ctx, tx, row, lock.Lease(), "status = $2", "paid")
//
// The error STALE_TOKEN means that a higher token has, OTHER_SUBJECT that it was written under another lock or run,
// and [sql.ErrNoRows] that there is no such row. If Where picks several rows, the transaction is rolled back. Any other
// error but those of the arguments is one of the database, and the outcome is that of the transaction; running it again
// is harmless if set does not depend on the row. A row that is deleted takes its token along: mark rows as deleted, or
// use [SQL.Check]. To write under another lock from now on, set fence_subject to NULL while no one writes.
func (s *SQL) Update(ctx context.Context, tx Tx, r Row, l Lease, set string, args ...any) error {
	if r.Table == "" || r.Where == "" || set == "" {
		return errors.New("fence: Row.Table, Row.Where and set must not be empty")
	}
	compare, err := s.rule.check(l)
	if err != nil {
		return err
	}
	column := cmp.Or(r.Column, "fence")
	subject := column + "_subject"
	var q statement
	if s.dialect == PostgreSQL {
		q.args = append(q.args, r.Args...) // the numbers say which is which
	}
	q.add("UPDATE "+r.Table+" SET "+set, args...)
	n := len(q.args)
	if compare {
		q.add(", "+column+" = "+s.placeholder(n+1)+", "+subject+" = "+s.placeholder(n+2), l.Token, l.Subject)
	}
	q.add(" WHERE (" + r.Where + ")")
	if s.dialect != PostgreSQL {
		q.args = append(q.args, r.Args...)
	}
	if compare {
		q.add(" AND (" + subject + " IS NULL OR " + subject + " = " + s.placeholder(n+2) + " AND " + column + " <= " +
			s.placeholder(n+1) + ")")
		if s.dialect != PostgreSQL {
			q.args = append(q.args, l.Subject, l.Token)
		}
	}
	find := statement{"SELECT " + column + ", " + subject + " FROM " + r.Table + " WHERE (" + r.Where + ")" + s.current(),
		r.Args}
	for try := range tries {
		changed, err := q.exec(ctx, tx)
		switch {
		case err != nil:
			return err
		case changed == 1:
			return nil
		case changed > 1:
			return errors.Join(fmt.Errorf("fence: Row.Where picks %d rows of %s: nothing is changed, and the transaction "+
				"is rolled back; let it pick one, by a key", changed, r.Table), tx.Rollback())
		}
		found, err := find.lease(ctx, tx)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("fence: no such row in %s: %w", r.Table, err)
		case err != nil:
			return err
		}
		if err := refused(l, found); compare && err != nil {
			return err
		}
		if s.dialect == MySQL && try > 0 && (!compare || found == l) {
			return nil // the row has these values already, which MySQL counts as no change
		}
	}
	return fmt.Errorf("fence: the row of %s came and went while it was written; nothing was changed", r.Table)
}

// tries is how often a statement is run that changed no row, although a look at the row afterwards found no reason.
const tries = 5

// Schema is the statement that creates the table of [SQL.Check], unless it exists.
func (s *SQL) Schema() string {
	text := func(most int) string {
		if s.dialect == MySQL { // collations for text take other names for the same
			return "VARBINARY(" + strconv.Itoa(most) + ")"
		}
		return "TEXT"
	}
	return "CREATE TABLE IF NOT EXISTS " + s.table + " (resource " + text(MaxResourceBytes) +
		" NOT NULL PRIMARY KEY, subject " +
		text(MaxSubjectBytes) + " NOT NULL, token BIGINT NOT NULL, checked_at BIGINT NOT NULL)"
}

// Check lets a lease pass and remembers it in the table of [SQL.Schema], for a resource without columns of its own. In
// the transaction of the effect the two are one step: others that check the same resource wait until the transaction
// ends. One statement, in MySQL two, and for a rejection another one. For errors see [SQL.Update] and [Store].
func (s *SQL) Check(ctx context.Context, tx Tx, resource string, l Lease) error {
	if err := checkResource(resource); err != nil {
		return err
	}
	if compare, err := s.rule.check(l); !compare || err != nil {
		return err
	}
	return s.remember(ctx, tx, resource, l)
}

// remember compares a lease, and keeps it.
func (s *SQL) remember(ctx context.Context, tx Tx, resource string, l Lease) error {
	now := time.Now
	if s.rule.now != nil {
		now = s.rule.now
	}
	insert := "INSERT INTO " + s.table
	q := statement{args: []any{resource, l.Subject, l.Token, now().UnixMicro()}}
	if s.dialect == MySQL {
		q.text = insert + " (resource, subject, token, checked_at) VALUES (?, ?, ?, ?) ON DUPLICATE KEY UPDATE" +
			" checked_at = IF(subject = VALUES(subject) AND token <= VALUES(token), VALUES(checked_at), checked_at)," +
			" token = IF(subject = VALUES(subject), GREATEST(token, VALUES(token)), token)"
	} else {
		q.text = insert + " AS f (resource, subject, token, checked_at) VALUES (" + s.placeholder(1) + ", " +
			s.placeholder(2) + ", " + s.placeholder(3) + ", " + s.placeholder(4) + ") ON CONFLICT (resource) DO UPDATE SET" +
			" token = excluded.token, checked_at = excluded.checked_at WHERE f.subject = excluded.subject AND f.token <= excluded.token"
	}
	find := statement{"SELECT token, subject FROM " + s.table + " WHERE resource = " + s.placeholder(1) + s.current(),
		[]any{resource}}
	for range tries {
		changed, err := q.exec(ctx, tx)
		if err != nil || changed > 0 && s.dialect != MySQL {
			return err
		}
		// in MySQL the count of rows does not tell a token that equals the highest from a lower one
		found, err := find.lease(ctx, tx)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err := refused(l, found); err != nil {
			return err
		}
		if err == nil && s.dialect == MySQL {
			return nil
		}
	}
	return fmt.Errorf("fence: the token of %q in %s came and went while it was checked", resource, s.table)
}

// Prune forgets the resources that no lease was checked for since a time, and returns how many they were. A lower token
// passes then: let the time be longer ago than any holder can still be at work.
func (s *SQL) Prune(ctx context.Context, tx Tx, before time.Time) (removed int64, err error) {
	q := statement{"DELETE FROM " + s.table + " WHERE checked_at < " + s.placeholder(1), []any{before.UnixMicro()}}
	return q.exec(ctx, tx)
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

// Store returns a [Store] that keeps the leases in the table of [SQL.Schema], for [NewHandler]: each check is a
// transaction by itself.
func (s *SQL) Store(db *sql.DB) Store { return table{s, db} }

type table struct {
	sql *SQL
	db  *sql.DB
}

// Check implements [Store].
func (t table) Check(ctx context.Context, resource string, l Lease) error {
	return within(ctx, t.db, func(tx *sql.Tx) error { return t.sql.Check(ctx, tx, resource, l) })
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
func (q *statement) exec(ctx context.Context, tx Tx) (changed int64, err error) {
	result, err := tx.ExecContext(ctx, q.text, q.args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// lease runs a query for one lease; what is NULL is empty.
func (q statement) lease(ctx context.Context, tx Tx) (Lease, error) {
	var (
		token   sql.NullInt64
		subject sql.NullString
	)
	err := tx.QueryRowContext(ctx, q.text, q.args...).Scan(&token, &subject)
	return Lease{Subject: subject.String, Token: token.Int64}, err
}

var _ Tx = (*sql.Tx)(nil)
