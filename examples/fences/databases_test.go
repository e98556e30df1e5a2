package fences

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/leasehold-dev/leasehold/fence"
	"github.com/leasehold-dev/leasehold/proof/fencesuite"
)

// TestOnPostgreSQL runs the suite of package fence on a server.
func TestOnPostgreSQL(t *testing.T) {
	base := server(t, "LEASEHOLD_TEST_POSTGRESQL", "postgres://postgres@127.0.0.1:5432/postgres")
	name := database(t, "pgx", base)
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = name
	fencesuite.Run(t, fence.PostgreSQL, open(t, "pgx", u.String()))
}

// TestOnMySQL does on MySQL or MariaDB. With FoundRows the driver counts rows that an UPDATE leaves as they are, too.
func TestOnMySQL(t *testing.T) {
	for _, found := range []bool{false, true} {
		t.Run(fmt.Sprint("found rows ", found), func(t *testing.T) {
			base := server(t, "LEASEHOLD_TEST_MYSQL", "root@tcp(127.0.0.1:3306)/")
			c, err := mysql.ParseDSN(base)
			if err != nil {
				t.Fatal(err)
			}
			c.DBName, c.ClientFoundRows = database(t, "mysql", base), found
			fencesuite.Run(t, fence.MySQL, open(t, "mysql", c.FormatDSN()))
		})
	}
}

// server is what the variable says.
func server(t *testing.T, variable, example string) string {
	t.Helper()
	source := os.Getenv(variable)
	if source == "" {
		t.Skipf("no server: set %s, as in %s=%q", variable, variable, example)
	}
	return source
}

func open(t *testing.T, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// database creates a database for the test.
func database(t *testing.T, driver, source string) string {
	t.Helper()
	db := open(t, driver, source)
	name := fmt.Sprint("leasehold_fences_", rand.Uint32())
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := db.ExecContext(context.Background(), "DROP DATABASE "+name); err != nil {
			t.Error(err)
		}
	})
	return name
}

// TestIDsOnPostgreSQL runs the statements of docs/tutorials/ids.md: the time of an ID, and the IDs since a time.
func TestIDsOnPostgreSQL(t *testing.T) {
	base := server(t, "LEASEHOLD_TEST_POSTGRESQL", "postgres://postgres@127.0.0.1:5432/postgres")
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = database(t, "pgx", base)
	db := open(t, "pgx", u.String())
	page, err := os.ReadFile("../../docs/tutorials/ids.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for statement := range strings.SplitSeq(strings.TrimSpace(block[1]), ";\n") {
			got = append(got, found(t, db, statement)...)
		}
	}
	const want = "7301444403200005 2026-01-21T03:33:20Z 7664332800000000 2026-01-22T03:35:19Z a lamp"
	if strings.Join(got, " ") != want {
		t.Errorf("the statements find %q, want %q", got, want)
	}
}

// found is what the rows of a statement have, as text.
func found(t *testing.T, db *sql.DB, statement string) (got []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	for rows.Next() && err == nil {
		values := make([]any, len(columns))
		targets := make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		err = rows.Scan(targets...)
		for _, v := range values {
			if made, ok := v.(time.Time); ok {
				v = made.UTC().Format(time.RFC3339)
			}
			got = append(got, fmt.Sprint(v))
		}
	}
	if err = errors.Join(err, rows.Err()); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return got
}
