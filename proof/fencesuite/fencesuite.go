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
	s := &subject{dialect: d, db: db, wrap: func(tx fence.Tx) fence.Tx { return tx }}
	if err := s.create(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("one row", func(t *testing.T) { s.rows(t) })
	t.Run("transactions", func(t *testing.T) { s.do(t) })
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
				mutant.wrap = func(tx fence.Tx) fence.Tx { return rewriting{tx, m.old, m.new, &rewritten} }
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
	"update: no condition":               {all, "(fence_subject IS NULL OR ", "(1 = 1 OR "},
	"update: any subject":                {all, "OR fence_subject = ", "OR fence_subject >= '' OR fence_subject = "},
	"update: the token is not kept":      {all, ", fence = ", ", fence = fence + 0 * "},
	"update: the first writer cannot":    {all, "(fence_subject IS NULL OR ", "("},
	"check: an equal token is rejected":  {all[:2], "f.token <= ", "f.token < "},
	"check: no condition":                {all[:2], " WHERE f.subject = excluded.subject AND f.token <= excluded.token", ""},
	"check: any subject":                 {all[:2], "f.subject = excluded.subject AND ", ""},
	"check: the highest is not kept":     {all[:2], "SET token = excluded.token", "SET token = f.token"},
	"check: the latest token is kept":    {all[2:], "GREATEST(token, VALUES(token))", "VALUES(token)"},
	"check: the highest is not updated":  {all[2:], "GREATEST(token, VALUES(token))", "token"},
	"check: of another subject is kept":  {all[2:], "token = IF(subject = VALUES(subject), ", "token = IF(1 = 1, "},
}

// rewriting changes the statements on their way.
type rewriting struct {
	fence.Tx
	old, new  string
	rewritten *atomic.Int64
}

// ExecContext implements [fence.Tx].
func (r rewriting) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	changed := strings.ReplaceAll(query, r.old, r.new)
	if changed != query {
		r.rewritten.Add(1)
	}
	return r.Tx.ExecContext(ctx, changed, args...)
}

// subject is a database with the tables of the suite.
type subject struct {
	dialect fence.Dialect
	db      *sql.DB
	wrap    func(fence.Tx) fence.Tx
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
		"CREATE TABLE orders (id INTEGER PRIMARY KEY, value VARCHAR(64), fence BIGINT, fence_subject VARCHAR(320))",
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
		"INSERT INTO orders (id, value) VALUES (1, ''), (2, '')",
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
	fence.Lease
}

func (o op) String() string {
	if o.Resource != "" {
		return fmt.Sprintf("check %s %v", o.Resource, o.Lease)
	}
	return fmt.Sprintf("update %d to %s %v", o.ID, o.Value, o.Lease)
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
		o := op{Lease: fence.Lease{Token: rapid.Int64Range(1, 3).Draw(r, "token"),
			Subject: rapid.SampledFrom([]string{"lock/a", "lock/a", "lock/a", "run/a"}).Draw(r, "subject")}}
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
	fence.Lease
}

// oracle is what must be in the database.
type oracle struct {
	rows   map[int]written
	leases map[string]fence.Lease // of resources
}

func (m oracle) clone() oracle { return oracle{maps.Clone(m.rows), maps.Clone(m.leases)} }

// answer is how an op ends: with the highest token before, or another subject.
type answer struct {
	missing, other bool
	highest        int64 // not 0: the token is stale
}

// step carries an op out.
func (m oracle) step(o op) answer {
	before, found := m.leases[o.Resource], true
	if o.Resource == "" {
		var row written
		row, found = m.rows[o.ID]
		before = row.Lease
	}
	switch {
	case !found && o.Resource == "":
		return answer{missing: true}
	case before.Subject != "" && before.Subject != o.Subject:
		return answer{other: true}
	case before.Token > o.Token:
		return answer{highest: before.Token}
	case o.Resource != "":
		m.leases[o.Resource] = o.Lease
	default:
		m.rows[o.ID] = written{o.Value, o.Lease}
	}
	return answer{}
}

// run carries a program out and compares every result, and what is stored at the end, with the oracle.
func (s *subject) run(ctx context.Context, program []transaction) error {
	if err := s.clear(ctx); err != nil {
		return err
	}
	f := s.fences(nil)
	model := oracle{map[int]written{1: {}, 2: {}}, map[string]fence.Lease{}}
	for _, t := range program {
		together := [][]op{t.Ops}
		if !t.Together {
			together = nil
			for _, o := range t.Ops {
				together = append(together, []op{o})
			}
		}
		for _, ops := range together {
			before := model.clone()
			tx, err := s.db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			err = s.ops(ctx, f, s.wrap(tx), model, ops)
			if err != nil || t.RolledBack {
				if err = errors.Join(err, tx.Rollback()); err != nil {
					return err
				}
				model = before
			} else if err := tx.Commit(); err != nil {
				return err
			}
		}
	}
	for id, want := range model.rows {
		var got written
		var token sql.NullInt64
		var subject sql.NullString
		if err := s.db.QueryRowContext(ctx, s.bind("SELECT value, fence, fence_subject FROM orders WHERE id = ?"),
			id).Scan(&got.value, &token, &subject); err != nil {
			return err
		}
		if got.Lease = (fence.Lease{Subject: subject.String, Token: token.Int64}); got != want {
			return fmt.Errorf("row %d: %+v, want %+v", id, got, want)
		}
	}
	for resource, want := range model.leases {
		var got fence.Lease
		if err := s.db.QueryRowContext(ctx, s.bind("SELECT token, subject FROM fences WHERE resource = ?"),
			resource).Scan(&got.Token, &got.Subject); err != nil || got != want {
			return fmt.Errorf("fence %s: %v, %w, want %v", resource, got, err, want)
		}
	}
	return nil
}

func (s *subject) ops(ctx context.Context, f *fence.SQL, tx fence.Tx, model oracle, ops []op) error {
	for _, o := range ops {
		var err error
		if o.Resource != "" {
			err = f.Check(ctx, tx, o.Resource, o.Lease)
		} else {
			err = f.Update(ctx, tx, s.row(o.ID), o.Lease, s.set(), o.Value)
		}
		got := answer{missing: errors.Is(err, sql.ErrNoRows), other: errors.Is(err, contracts.CodeOtherSubject)}
		if e, ok := errors.AsType[*contracts.Error](err); ok && e.Code == contracts.CodeStaleToken {
			got.highest = e.HighestToken
		}
		if want := model.step(o); got != want || (err == nil) != (want == answer{}) {
			return fmt.Errorf("%s: %w, want %+v", o, err, want)
		}
	}
	return nil
}

// in runs a function in a transaction of its own.
func (s *subject) in(ctx context.Context, work func(fence.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := work(s.wrap(tx)); err != nil {
		_ = tx.Rollback() // Update may have done it
		return err
	}
	return tx.Commit()
}

// rows: what the programs do not reach.
func (s *subject) rows(t *testing.T) {
	if err := s.clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, strict, lenient := t.Context(), s.fences(nil), s.fences(&fence.SQLOptions{AllowNone: true})
	far := time.Now().Add(fence.MaxAhead + time.Minute).UnixMicro()
	of := func(token int64) fence.Lease { return fence.Lease{Subject: "lock/a", Token: token} }
	update := func(f *fence.SQL, row fence.Row, l fence.Lease, set string, args ...any) error {
		return s.in(ctx, func(tx fence.Tx) error { return f.Update(ctx, tx, row, l, set, args...) })
	}
	check := func(resource string, l fence.Lease) error {
		return s.in(ctx, func(tx fence.Tx) error { return strict.Check(ctx, tx, resource, l) })
	}
	for i, err := range []error{
		update(strict, s.row(1), of(0), s.set(), "no token"), update(strict, s.row(1), of(-1), s.set(), "negative"),
		update(strict, s.row(1), of(far), s.set(), "of the future"), update(lenient, s.row(1), of(far), s.set(), "x"),
		update(strict, s.row(1), fence.Lease{Token: 1}, s.set(), "of nothing"),
		update(strict, s.row(1), fence.Lease{Token: 1, Subject: strings.Repeat("x", fence.MaxSubjectBytes+1)}, s.set(), "x"),
		check("r", of(0)), check("r", of(far)), check("", of(1)), check("a\x00b", of(1)), check("r", fence.Lease{Token: 1}),
	} {
		if !errors.Is(err, contracts.CodeInvalidArgument) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if err := update(strict, s.row(1), of(0), s.set(), ""); !errors.Is(err, fence.ErrNoToken) {
		t.Errorf("%v", err)
	}
	now := time.Now().UnixMicro()
	for _, step := range []struct {
		f     *fence.SQL
		token int64
		value string
	}{{strict, now, "first"}, {strict, now, "first"}, {lenient, 0, "without"}, {lenient, 0, "without"},
		{strict, now + 1, "second"}} {
		if err := update(step.f, s.row(1), of(step.token), s.set(), step.value); err != nil {
			t.Errorf("%+v: %v", step, err)
		}
	}
	if err := s.in(ctx, func(tx fence.Tx) error { return lenient.Check(ctx, tx, "r", fence.Lease{}) }); err != nil {
		t.Error(err)
	}
	if err := update(strict, s.row(1), of(now), s.set(), "stale"); !errors.Is(err, contracts.CodeStaleToken) {
		t.Error(err)
	}
	// two keys, one account: each is honest, and neither has lost a lock
	other := update(strict, s.row(1), fence.Lease{Subject: "run/key-2", Token: now - 1}, s.set(), "other")
	if !errors.Is(other, contracts.CodeOtherSubject) || errors.Is(other, contracts.CodeStaleToken) ||
		!strings.Contains(other.Error(), `"run/key-2" cannot be compared with those of "lock/a"`) {
		t.Error(other)
	}
	many := fence.Row{Table: "orders", Where: "id > 0"}
	set := strings.Replace(s.set(), "$2", "$1", 1)
	err := update(strict, many, of(now+2), set, "many")
	if err == nil || !strings.Contains(err.Error(), "picks 2 rows of orders: nothing is changed") {
		t.Errorf("two rows: %v", err)
	}
	var left int
	if err := s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM orders WHERE value = 'many'").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows were changed: %v", left, err)
	}
	for _, r := range []fence.Row{{}, {Table: "orders"}, {Where: "1 = 1"}} {
		if err := update(strict, r, of(now), set, "x"); err == nil {
			t.Errorf("%+v", r)
		}
	}
	if err := update(strict, s.row(1), of(now), ""); err == nil {
		t.Error("nothing to set")
	}
	broken := fence.Row{Table: "nowhere", Where: "id = 1"}
	if err := update(strict, broken, of(now), "value = 1"); err == nil ||
		errors.Is(err, contracts.CodeStaleToken) || errors.Is(err, sql.ErrNoRows) {
		t.Errorf("no such table: %v", err)
	}
}

// do: the check and the write are one step, and what is checked no more can be forgotten.
func (s *subject) do(t *testing.T) {
	if err := s.clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, at := t.Context(), time.Now()
	f := s.fences(&fence.SQLOptions{Now: func() time.Time { return at }})
	lease := func(token int64) fence.Lease { return fence.Lease{Subject: "lock/ledger", Token: token} }
	write := func(resource string, token int64, then error) error {
		return f.Do(ctx, s.db, resource, lease(token), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, s.bind("INSERT INTO journal (n, resource, token) VALUES (1, ?, ?)"), resource, token)
			return errors.Join(err, then)
		})
	}
	errWork := errors.New("no money")
	if err := errors.Join(write("a", 41, nil), write("b", 41, nil)); err != nil {
		t.Fatal(err)
	}
	at = at.Add(time.Hour)
	for _, c := range []struct {
		token int64
		then  error
		want  error
	}{{43, errWork, errWork}, {42, nil, nil}, {41, nil, contracts.CodeStaleToken}} {
		if err := write("a", c.token, c.then); !errors.Is(err, c.want) {
			t.Errorf("%d: %v, want %v", c.token, err, c.want)
		}
	}
	var notes int
	if err := s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM journal").Scan(&notes); err != nil || notes != 3 {
		t.Errorf("%d notes, want those of 41, 41 and 42: %v", notes, err)
	}
	if err := s.in(ctx, func(tx fence.Tx) error {
		n, err := f.Prune(ctx, tx, at.Add(-time.Minute))
		if n != 1 {
			err = errors.Join(err, fmt.Errorf("%d are forgotten, want b", n))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := write("a", 41, nil); !errors.Is(err, contracts.CodeStaleToken) {
		t.Errorf("a is not forgotten: %v", err)
	}
	if err := write("b", 1, nil); err != nil {
		t.Errorf("b is: %v", err)
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
		l := fence.Lease{Subject: "lock/a", Token: int64(100 - i)} // lower than those before
		if err := errors.Join(store.Check(t.Context(), name, l), store.Check(t.Context(), name, l)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := store.Check(t.Context(), strings.Repeat("x", fence.MaxResourceBytes+1),
		fence.Lease{Subject: "lock/a", Token: 1}); !errors.Is(err,
		contracts.CodeInvalidArgument) {
		t.Error(err)
	}
}
