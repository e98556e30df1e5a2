// Package fencesuite shows on a database that package fence lets no stale token write: statements by themselves and in
// transactions agree with an oracle, transactions of many writers at once keep the tokens in order, and both notice
// mutations of the statements.
package fencesuite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/fence"
)

// Run tests a dialect on an empty database.
func Run(t *testing.T, d fence.Dialect, db *sql.DB) {
	t.Helper()
	s := &subject{dialect: d, db: db, wrap: func(c fence.Conn) fence.Conn { return c }}
	if err := s.create(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("one row", func(t *testing.T) { s.rows(t) })
	t.Run("names", func(t *testing.T) { s.names(t) })
	t.Run("programs agree with the oracle", func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			if err := s.run(t.Context(), programs.Draw(r, "program")); err != nil {
				r.Fatal(err)
			}
		})
	})
	t.Run("writers at once", func(t *testing.T) {
		if err := s.race(t.Context(), 1); err != nil {
			t.Error(err)
		}
	})
	t.Run("mutations are noticed", func(t *testing.T) {
		for name, m := range mutations {
			if !slices.Contains(m.dialects, d) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				var rewritten atomic.Int64
				mutant := *s
				mutant.wrap = func(c fence.Conn) fence.Conn { return rewriting{c, m.old, m.new, &rewritten} }
				if strings.Contains(name, "no condition") && !mutant.racesNotice(t.Context()) {
					t.Error("writers at once did not notice")
				}
				for seed := range 2000 {
					if mutant.run(t.Context(), programs.Example(seed)) != nil {
						return
					}
				}
				t.Errorf("2000 programs did not notice; %d statements were changed", rewritten.Load())
			})
		}
	})
}

var all = []fence.Dialect{fence.SQLite, fence.PostgreSQL, fence.MySQL}

// mutations of the statements: a text, and what it becomes.
var mutations = map[string]struct {
	dialects []fence.Dialect
	old, new string
}{
	"update: an equal token is rejected": {all, "fence <= ", "fence < "},
	"update: the comparison is reversed": {all, "fence <= ", "fence >= "},
	"update: no condition":               {all, "(fence IS NULL OR ", "(1 = 1 OR "},
	"update: the token is not kept":      {all, ", fence = ", ", fence = fence + 0 * "},
	"update: the first writer cannot":    {all, "(fence IS NULL OR ", "("},
	"check: an equal token is rejected":  {all[:2], "f.token <= ", "f.token < "},
	"check: no condition":                {all[:2], " WHERE f.token <= excluded.token", ""},
	"check: the highest is not kept":     {all[:2], "SET token = excluded.token", "SET token = f.token"},
	"check: the latest token is kept":    {all[2:], "GREATEST(token, ?)", "0 * token + ?"},
	"check: the highest is not updated":  {all[2:], "GREATEST(token, ?)", "token + 0 * ?"},
	"check: the statement says the token": {all[2:], "token = LAST_INSERT_ID(GREATEST(token, ?))",
		"token = GREATEST(token, LAST_INSERT_ID(?))"},
}

// rewriting changes the statements on their way.
type rewriting struct {
	fence.Conn
	old, new  string
	rewritten *atomic.Int64
}

// ExecContext implements [fence.Conn].
func (r rewriting) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	changed := strings.ReplaceAll(query, r.old, r.new)
	if changed != query {
		r.rewritten.Add(1)
	}
	return r.Conn.ExecContext(ctx, changed, args...)
}

// subject is a database with the tables of the suite.
type subject struct {
	dialect fence.Dialect
	db      *sql.DB
	wrap    func(fence.Conn) fence.Conn
}

func (s *subject) fences(o *fence.SQLOptions) *fence.SQL {
	f, err := fence.NewSQL(s.dialect, o)
	if err != nil {
		panic(err)
	}
	return f
}

func (s *subject) create(ctx context.Context) error {
	for _, statement := range []string{
		s.fences(nil).Schema(), s.fences(nil).Schema(), // it exists
		"CREATE TABLE orders (id INTEGER PRIMARY KEY, value VARCHAR(64), fence BIGINT)",
		"CREATE TABLE journal (n INTEGER, resource VARCHAR(64), token BIGINT)",
	} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// bind gives a statement with ? the placeholders of the dialect.
func (s *subject) bind(query string) string {
	for n := 1; s.dialect == fence.PostgreSQL && strings.Contains(query, "?"); n++ {
		query = strings.Replace(query, "?", fmt.Sprint("$", n), 1)
	}
	return query
}

func (s *subject) row(id int) fence.Row {
	return fence.Row{Table: "orders", Where: s.bind("id = ?"), Args: []any{id}}
}

// set is the placeholder after that of row.
func (s *subject) set() string {
	if s.dialect == fence.PostgreSQL {
		return "value = $2"
	}
	return "value = ?"
}

// clear makes the rows 1 and 2, the first without a token.
func (s *subject) clear(ctx context.Context) error {
	for _, statement := range []string{
		"DELETE FROM fences", "DELETE FROM journal", "DELETE FROM orders",
		"INSERT INTO orders (id, value, fence) VALUES (1, '', NULL), (2, '', 0)",
	} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// op is a check, or an update of a row.
type op struct {
	Resource string // of a check; "" is an update
	ID       int    // of an update; 3 does not exist
	Value    string
	Token    int64
}

func (o op) String() string {
	if o.Resource != "" {
		return fmt.Sprintf("check %s %d", o.Resource, o.Token)
	}
	return fmt.Sprintf("update %d to %s %d", o.ID, o.Value, o.Token)
}

// transaction is some ops, by themselves or together.
type transaction struct {
	Together, RolledBack bool
	Ops                  []op
}

var programs = rapid.SliceOfN(rapid.Custom(func(r *rapid.T) transaction {
	t := transaction{Together: rapid.Bool().Draw(r, "together")}
	t.RolledBack = t.Together && rapid.IntRange(0, 3).Draw(r, "rolled back") == 0
	for range rapid.IntRange(1, 3).Draw(r, "ops") {
		o := op{Token: rapid.Int64Range(1, 3).Draw(r, "token")}
		if rapid.Bool().Draw(r, "check") {
			o.Resource = rapid.SampledFrom([]string{"orders", "Orders"}).Draw(r, "resource")
		} else {
			o.ID, o.Value = rapid.IntRange(1, 3).Draw(r, "id"), rapid.SampledFrom([]string{"a", "b"}).Draw(r, "value")
		}
		t.Ops = append(t.Ops, o)
	}
	return t
}), 1, 12)

// written is what the oracle knows of a row.
type written struct {
	value string
	token int64
}

// oracle is what must be in the database.
type oracle struct {
	rows    map[int]written
	highest map[string]int64
}

func (m oracle) clone() oracle { return oracle{maps.Clone(m.rows), maps.Clone(m.highest)} }

// step is the code and the highest token that an op is answered with.
func (m oracle) step(o op) (code contracts.Code, highest int64, found bool) {
	if o.Resource != "" {
		if highest = m.highest[o.Resource]; o.Token < highest {
			return contracts.CodeStaleToken, highest, true
		}
		m.highest[o.Resource] = o.Token
		return "", 0, true
	}
	row, ok := m.rows[o.ID]
	if !ok {
		return "", 0, false
	}
	if o.Token < row.token {
		return contracts.CodeStaleToken, row.token, true
	}
	m.rows[o.ID] = written{o.Value, o.Token}
	return "", 0, true
}

// run carries a program out and compares every result, and what is stored at the end, with the oracle.
func (s *subject) run(ctx context.Context, program []transaction) error {
	if err := s.clear(ctx); err != nil {
		return err
	}
	f := s.fences(nil)
	model := oracle{map[int]written{1: {}, 2: {}}, map[string]int64{}}
	for _, t := range program {
		before := model.clone()
		conn := fence.Conn(s.db)
		var tx *sql.Tx
		if t.Together {
			var err error
			if tx, err = s.db.BeginTx(ctx, nil); err != nil {
				return err
			}
			conn = tx
		}
		err := s.ops(ctx, f, s.wrap(conn), model, t.Ops)
		switch {
		case tx == nil:
		case err != nil || t.RolledBack:
			if rollback := tx.Rollback(); rollback != nil {
				return errors.Join(err, rollback)
			}
			model = before
		default:
			err = tx.Commit()
		}
		if err != nil {
			return err
		}
	}
	for id, want := range model.rows {
		var got written
		var token sql.NullInt64
		if err := s.db.QueryRowContext(ctx, s.bind("SELECT value, fence FROM orders WHERE id = ?"), id).Scan(&got.value,
			&token); err != nil {
			return err
		}
		if got.token = token.Int64; got != want {
			return fmt.Errorf("row %d: %+v, want %+v", id, got, want)
		}
	}
	for resource, want := range model.highest {
		var got int64
		if err := s.db.QueryRowContext(ctx, s.bind("SELECT token FROM fences WHERE resource = ?"),
			resource).Scan(&got); err != nil || got != want {
			return fmt.Errorf("fence %s: %d, %w, want %d", resource, got, err, want)
		}
	}
	return nil
}

func (s *subject) ops(ctx context.Context, f *fence.SQL, c fence.Conn, model oracle, ops []op) error {
	for _, o := range ops {
		var err error
		if o.Resource != "" {
			err = f.Check(ctx, c, o.Resource, o.Token)
		} else {
			err = f.Update(ctx, c, s.row(o.ID), o.Token, s.set(), o.Value)
		}
		code, highest, found := model.step(o)
		e, _ := errors.AsType[*contracts.Error](err)
		switch {
		case !found:
			if !errors.Is(err, sql.ErrNoRows) {
				return fmt.Errorf("%s: %w, want no such row", o, err)
			}
		case code == "":
			if err != nil {
				return fmt.Errorf("%s: %w", o, err)
			}
		case e == nil || e.Code != code || e.HighestToken != highest:
			return fmt.Errorf("%s: %w, want %w of %d", o, err, code, highest)
		}
	}
	return nil
}

// rows: what the programs do not reach.
func (s *subject) rows(t *testing.T) {
	if err := s.clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	strict, lenient := s.fences(nil), s.fences(&fence.SQLOptions{AllowNone: true})
	far := time.Now().Add(fence.MaxAhead + time.Minute).UnixMicro()
	update := func(f *fence.SQL, token int64, value string) error {
		return f.Update(t.Context(), s.wrap(s.db), s.row(1), token, s.set(), value)
	}
	for i, c := range []struct {
		err   error
		code  contracts.Code
		value string // afterwards
	}{
		{update(strict, 0, "no token"), contracts.CodeInvalidArgument, ""},
		{update(strict, -1, "negative"), contracts.CodeInvalidArgument, ""},
		{update(strict, far, "of the future"), contracts.CodeInvalidArgument, ""},
		{update(lenient, far, "of the future"), contracts.CodeInvalidArgument, ""},
		{strict.Check(t.Context(), s.db, "r", 0), contracts.CodeInvalidArgument, ""},
		{strict.Check(t.Context(), s.db, "r", far), contracts.CodeInvalidArgument, ""},
		{strict.Check(t.Context(), s.db, "", 1), contracts.CodeInvalidArgument, ""},
		{strict.Check(t.Context(), s.db, "a\x00b", 1), contracts.CodeInvalidArgument, ""},
	} {
		if !errors.Is(c.err, c.code) {
			t.Errorf("%d: %v, want %s", i, c.err, c.code)
		}
	}
	if err := update(strict, 0, ""); !errors.Is(err, fence.ErrNoToken) {
		t.Errorf("%v", err)
	}
	now := time.Now().UnixMicro()
	for _, step := range []struct {
		f     *fence.SQL
		token int64
		value string
	}{{strict, now, "first"}, {strict, now, "first"}, {lenient, 0, "without"}, {lenient, 0, "without"},
		{strict, now + 1, "second"}} {
		if err := update(step.f, step.token, step.value); err != nil {
			t.Errorf("%+v: %v", step, err)
		}
	}
	if err := lenient.Check(t.Context(), s.db, "r", 0); err != nil {
		t.Error(err)
	}
	if err := update(strict, now, "stale"); !errors.Is(err, contracts.CodeStaleToken) {
		t.Error(err)
	}
	many := fence.Row{Table: "orders", Where: "id > 0"}
	set := strings.Replace(s.set(), "$2", "$1", 1)
	if err := strict.Update(t.Context(), s.db, many, now+2, set, "many"); err == nil ||
		!strings.Contains(err.Error(), "2 rows") {
		t.Errorf("two rows: %v", err)
	}
	for _, r := range []fence.Row{{}, {Table: "orders"}, {Where: "1 = 1"}} {
		if err := strict.Update(t.Context(), s.db, r, now, set, "x"); err == nil {
			t.Errorf("%+v", r)
		}
	}
	if err := strict.Update(t.Context(), s.db, s.row(1), now, ""); err == nil {
		t.Error("nothing to set")
	}
	broken := fence.Row{Table: "nowhere", Where: "id = 1"}
	if err := strict.Update(t.Context(), s.db, broken, now, "value = 1"); err == nil ||
		errors.Is(err, contracts.CodeStaleToken) || errors.Is(err, sql.ErrNoRows) {
		t.Errorf("no such table: %v", err)
	}
}

// names: what differs is another resource, whatever collations say.
func (s *subject) names(t *testing.T) {
	if err := s.clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	store := s.fences(nil).Store(s.db)
	for i, name := range []string{"a", "A", "a ", "ä", "a\u0308", "%", "日本", strings.Repeat("x", fence.MaxResourceBytes),
		"'; DROP TABLE fences; --"} {
		token := int64(100 - i) // lower than those before
		if err := errors.Join(store.Check(t.Context(), name, token), store.Check(t.Context(), name, token)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := store.Check(t.Context(), strings.Repeat("x", fence.MaxResourceBytes+1), 1); !errors.Is(err,
		contracts.CodeInvalidArgument) {
		t.Error(err)
	}
}
