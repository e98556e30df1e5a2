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
	ctx, db := context.Background(), exampleDB("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, fence BIGINT)",
		"INSERT INTO orders (id, status) VALUES (7, 'new')")
	defer db.Close()
	fences, err := fence.NewSQL(fence.SQLite, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	set := func(id int, token int64, status string) {
		row := fence.Row{Table: "orders", Where: "id = ?", Args: []any{id}}
		switch err := fences.Update(ctx, db, row, token, "status = ?", status); {
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
func ExampleSQL_Check() {
	fences, err := fence.NewSQL(fence.SQLite, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, db := context.Background(), exampleDB(fences.Schema(), "CREATE TABLE ledger (entry TEXT)")
	defer db.Close()
	book := func(token int64, entries ...string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // after a commit it does nothing
		if err := fences.Check(ctx, tx, "ledger", token); err != nil {
			return err
		}
		for _, e := range entries {
			if _, err := tx.ExecContext(ctx, "INSERT INTO ledger (entry) VALUES (?)", e); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
	fmt.Println(book(41, "rent", "wages"))
	fmt.Println(book(42, "interest"))
	fmt.Println(book(41, "rent", "wages"))
	// Output:
	// <nil>
	// <nil>
	// STALE_TOKEN: token 41, after 42: its holder has lost the lock and must stop
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
	pay(fence.With(ctx, 41))
	pay(fence.With(ctx, 42)) // by the next holder of the lock
	pay(fence.With(ctx, 41))
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
	for _, s := range []string{"CREATE TABLE orders (id INTEGER PRIMARY KEY, n BIGINT, fence BIGINT)",
		"INSERT INTO orders VALUES (1, 0, 0)"} {
		if _, err := db.ExecContext(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
	fences, err := fence.NewSQL(fence.SQLite, nil)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	b.Run("with a token", func(b *testing.B) {
		for b.Loop() {
			n++
			if err := fences.Update(b.Context(), db, fence.Row{Table: "orders", Where: "id = ?", Args: []any{1}}, 7,
				"n = ?", n); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("without", func(b *testing.B) {
		for b.Loop() {
			n++
			if _, err := db.ExecContext(b.Context(), "UPDATE orders SET n = ? WHERE id = ?", n, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
}
