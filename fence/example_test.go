package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/fence"
)

// A row keeps the token of its last writer. A writer whose lock was taken over carries a lower token, and changes
// nothing.
func ExampleSQL_Update() {
	ctx, db := context.Background(), exampleDB("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, fence BIGINT, fence_subject TEXT)",
		"INSERT INTO orders (id, status) VALUES (7, 'new')")
	defer db.Close()
	fences, err := fence.NewSQL(fence.SQLite, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	set := func(id int, token int64, status string) {
		row := fence.Row{Table: "orders", Where: "id = ?", Args: []any{id}}
		lease := fence.Lease{Subject: "lock/orders", Token: token} // of a lock: l.Lease()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err = fences.Update(ctx, tx, row, lease, "status = ?", status); err == nil {
			err = tx.Commit()
		} else {
			_ = tx.Rollback()
		}
		switch {
		case err == nil:
			fmt.Println(status, "written")
		case errors.Is(err, contracts.CodeStaleToken):
			fmt.Println(status, "rejected: stop the work")
		case errors.Is(err, sql.ErrNoRows):
			fmt.Println("there is no order", id)
		default:
			fmt.Println(err)
		}
	}
	set(7, 41, "paid")
	set(7, 42, "shipped") // by the next holder of the lock
	set(7, 41, "refunded")
	set(8, 42, "paid")
	// Output:
	// paid written
	// shipped written
	// refunded rejected: stop the work
	// there is no order 8
}

// A resource without a column of its own has its token in a table beside it. In one transaction the check holds for all
// that the transaction writes.
func ExampleSQL_Do() {
	fences, err := fence.NewSQL(fence.SQLite, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, db := context.Background(), exampleDB(fences.Schema(), "CREATE TABLE ledger (entry TEXT)")
	defer db.Close()
	book := func(l fence.Lease, entries ...string) error {
		return fences.Do(ctx, db, "ledger", l, func(tx *sql.Tx) error {
			for _, e := range entries {
				if _, err := tx.ExecContext(ctx, "INSERT INTO ledger (entry) VALUES (?)", e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	fmt.Println(book(fence.Lease{Subject: "lock/ledger", Token: 41}, "rent", "wages")) // of a lock: l.Lease()
	fmt.Println(book(fence.Lease{Subject: "lock/ledger", Token: 42}, "interest"))
	fmt.Println(book(fence.Lease{Subject: "lock/ledger", Token: 41}, "rent", "wages"))
	fmt.Println(errors.Is(book(fence.Lease{Subject: "run/invoice-7", Token: 43}, "fee"), contracts.CodeOtherSubject))
	// Output:
	// <nil>
	// <nil>
	// STALE_TOKEN: token 41, after 42: its holder has lost the lock and must stop
	// true
}

// An effect that is made once needs no token: a row with a unique key in its own transaction says whether it was made,
// whoever carries it out, and however often.
func Example_uniqueRow() {
	ctx, db := context.Background(), exampleDB(
		"CREATE TABLE made (scope TEXT, idempotency_key TEXT, PRIMARY KEY (scope, idempotency_key))",
		"CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER)", "INSERT INTO accounts VALUES ('ann', 100)")
	defer db.Close()
	pay := func(scope, key string, amount int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // after a commit it does nothing
		made, err := tx.ExecContext(ctx, "INSERT INTO made (scope, idempotency_key) VALUES (?, ?) ON CONFLICT DO NOTHING",
			scope, key)
		if err != nil {
			return err
		}
		if n, err := made.RowsAffected(); n == 0 {
			return err // made before: its result is in the database
		}
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - ? WHERE id = 'ann'", amount); err != nil {
			return err
		}
		return tx.Commit()
	}
	// Two runs of one key, the second after the first one's process died, and one of another key.
	fmt.Println(errors.Join(pay("ann", "k1", 30), pay("ann", "k1", 30), pay("ann", "k2", 5)))
	var balance int
	fmt.Println(db.QueryRowContext(ctx, "SELECT balance FROM accounts").Scan(&balance), balance)
	// Output:
	// <nil>
	// <nil> 65
}

// A service keeps the highest token of each order, and its callers send the token of the lock that they hold. Behind a
// lock of package locks, the context of the work has the token.
func ExampleNewHandler() {
	orders := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	resource := func(r *http.Request) string { return r.URL.Path }
	server := httptest.NewServer(fence.NewHandler(orders, fence.NewMemory(nil), resource, nil))
	defer server.Close()

	web := http.Client{Transport: &fence.Transport{}}
	pay := func(ctx context.Context) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/orders/7", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		response, err := web.Do(r)
		if err != nil {
			fmt.Println(errors.Is(err, fence.ErrNoToken), "not sent")
			return
		}
		defer response.Body.Close()
		fmt.Println(response.Status)
	}
	ctx := context.Background()
	under := func(token int64) context.Context {
		return fence.With(ctx, fence.Lease{Subject: "lock/orders", Token: token})
	}
	pay(under(41))
	pay(under(42)) // by the next holder of the lock
	pay(under(41))
	pay(ctx)
	// Output:
	// 204 No Content
	// 204 No Content
	// 409 Conflict
	// true not sent
}

// exampleDB is a new database in memory.
func exampleDB(statements ...string) *sql.DB {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		panic(err)
	}
	db.SetMaxOpenConns(1) // each connection would have a memory of its own
	for _, s := range statements {
		if _, err := db.ExecContext(context.Background(), s); err != nil {
			panic(err)
		}
	}
	return db
}

// BenchmarkUpdate compares an UPDATE with the comparison and one without.
func BenchmarkUpdate(b *testing.B) {
	db := openSQLite(b)
	for _, s := range []string{"CREATE TABLE orders (id INTEGER PRIMARY KEY, n BIGINT, fence BIGINT, fence_subject TEXT)",
		"INSERT INTO orders (id, n) VALUES (1, 0)"} {
		if _, err := db.ExecContext(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
	fences, err := fence.NewSQL(fence.SQLite, nil)
	if err != nil {
		b.Fatal(err)
	}
	tx, err := db.BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer tx.Rollback()
	n := 0
	b.Run("with a token", func(b *testing.B) {
		for b.Loop() {
			n++
			if err := fences.Update(b.Context(), tx, fence.Row{Table: "orders", Where: "id = ?", Args: []any{1}},
				fence.Lease{Subject: "lock/orders", Token: 7}, "n = ?", n); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("without", func(b *testing.B) {
		for b.Loop() {
			n++
			if _, err := tx.ExecContext(b.Context(), "UPDATE orders SET n = ? WHERE id = ?", n, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
}
