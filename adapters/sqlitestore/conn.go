package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	sqlite3 "modernc.org/sqlite"
)

// conn is one connection, used by one goroutine at a time. It speaks to the driver without database/sql in between: the
// pool, the locks and the conversions of that package cost more than the statements that a write consists of.
type conn struct {
	raw   driver.Conn
	stmts []*stmt
}

// openConn opens a connection that fails at once where it would have to wait for a lock: SQLite's own waiting cannot be
// interrupted by a context, so that [Store.retry] does it.
func openConn(path string) (*conn, error) {
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p // a drive letter
	}
	u := url.URL{Scheme: "file", Path: p, RawQuery: "mode=rw&_error_rc=1&_busy_timeout=0"}
	raw, err := new(sqlite3.Driver).Open(u.String())
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw}, nil
}

// close finalizes the statements first: SQLite would keep the file open for as long as one of them is there.
func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.raw.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

// exec runs a statement whose rows, if any, do not matter.
func (c *conn) exec(sql string) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(context.Background(), sql, nil)
	return err
}

// value runs a statement and returns the first column of its first row.
func (c *conn) value(sql string) (v driver.Value, err error) {
	raw, err := c.raw.Prepare(sql)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, raw.Close()) }()
	err = (&stmt{raw: raw}).each(func(row []driver.Value) error {
		v = row[0]
		return io.EOF
	})
	return v, err
}

// number is value for statements that return a number.
func (c *conn) number(sql string) (int64, error) {
	v, err := c.value(sql)
	if err != nil {
		return 0, err
	}
	n, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("%s returned %v, not a number", sql, v)
	}
	return n, nil
}

// stmt is a prepared statement. Its buffers are used again by each call. Its connection finalizes it.
type stmt struct {
	raw  driver.Stmt
	args []driver.NamedValue
	row  []driver.Value
}

func (c *conn) prepare(sql string) (*stmt, error) {
	raw, err := c.raw.Prepare(sql)
	if err != nil {
		return nil, err
	}
	s := &stmt{raw: raw}
	c.stmts = append(c.stmts, s)
	return s, nil
}

func (s *stmt) bind(args []driver.Value) {
	s.args = s.args[:0]
	for i, a := range args {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
}

func (s *stmt) exec(args ...driver.Value) error {
	_, err := s.change(args...)
	return err
}

// change is exec, and returns how many rows were changed.
func (s *stmt) change(args ...driver.Value) (int64, error) {
	s.bind(args)
	r, err := s.raw.(driver.StmtExecContext).ExecContext(context.Background(), s.args)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// each calls do for every row until do returns an error. io.EOF ends the walk without being one.
func (s *stmt) each(do func(row []driver.Value) error, args ...driver.Value) (err error) {
	s.bind(args)
	rows, err := s.raw.(driver.StmtQueryContext).QueryContext(context.Background(), s.args)
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	if s.row == nil {
		s.row = make([]driver.Value, len(rows.Columns()))
	}
	for err == nil {
		if err = rows.Next(s.row); err == nil {
			err = do(s.row)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
