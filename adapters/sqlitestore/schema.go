package sqlitestore

import (
	"errors"
	"fmt"
	"strings"
)

// applicationID marks a file as ours ("LShd" in ASCII), so that a database of another caller is never written to, and
// so that file(1) can tell what it is.
const applicationID = 0x4c536864

// schemaVersion is what PRAGMA user_version says of a file with the schema.
const schemaVersion = 1

// schema makes the tables of an empty file.
//
// The document is JSON text, so that the sqlite3 command shows it and json_extract reads it. Without a rowid the
// document lies in the key's own tree: one search finds it, and the IDs of one kind and tenant are neighbors. Text is
// compared by bytes (BINARY), as the port wants it.
//
// keep_until is the time from which on the document may be removed, in milliseconds since 1970. Without one it is kept.
// The index holds the documents that have one, the first to go in front. facts are numbers about the file as a whole.
const schema = `CREATE TABLE docs (
		kind       TEXT NOT NULL,
		tenant     TEXT NOT NULL,
		id         TEXT NOT NULL,
		doc        TEXT NOT NULL,
		keep_until INTEGER,
		PRIMARY KEY (kind, tenant, id)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX docs_by_end ON docs (keep_until) WHERE keep_until IS NOT NULL;
	CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID`

// setUp prepares the writing connection and the file. It can be repeated, and is when another process is in the way.
func setUp(path string, c *conn) error {
	// The owner is checked first: nothing of a foreign database is changed, not even its journal mode.
	v, err := look(path, c)
	if err != nil {
		return err
	}
	if v == 0 { // only an empty file takes it
		if err := c.exec(fmt.Sprintf("PRAGMA auto_vacuum = %d", incremental)); err != nil {
			return err
		}
	}
	if err := setDurable(path, c); err != nil {
		return err
	}
	return create(path, c)
}

// look reads the file's version in one read transaction: another process may be setting it up at this moment, and its
// tables must not be seen without its application_id.
func look(path string, c *conn) (int, error) {
	if err := c.exec("BEGIN"); err != nil {
		return 0, err
	}
	v, err := version(path, c)
	return v, errors.Join(err, c.exec("ROLLBACK"))
}

// version returns the file's schema version, 0 for an empty file, or an error if the file is not for us.
func version(path string, c *conn) (int, error) {
	app, err := c.number("PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	v, err := c.number("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	tables, err := c.number("SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, err
	}
	switch {
	case app == 0 && v == 0 && tables == 0:
		return 0, nil
	case app != applicationID:
		return 0, fmt.Errorf(
			"sqlite: %s is the database of another application (application_id %#x, %d tables and indexes): "+
				"name another path", path, app, tables)
	case v < 1:
		return 0, fmt.Errorf("sqlite: %s has schema version %d, which no version of leasehold wrote: restore a backup", path,
			v)
	case v > schemaVersion:
		return 0, fmt.Errorf("sqlite: %s was written by a newer leasehold with schema version %d; this one reads up to "+
			"version %d: upgrade this program, or name another path", path, v, schemaVersion)
	}
	return int(v), nil
}

// setDurable makes commits survive a power cut, and makes sure that the settings took effect: SQLite ignores a PRAGMA
// that it cannot follow.
func setDurable(path string, c *conn) error {
	mode, err := c.value("PRAGMA journal_mode = WAL")
	if err != nil {
		return err
	}
	if m, ok := mode.(string); !ok || !strings.EqualFold(m, "wal") {
		return fmt.Errorf("sqlite: %s: the journal mode stays %q instead of \"wal\": the file system cannot share memory "+
			"between processes; put the file on a local disk", path, mode)
	}
	// FULL syncs the log at each commit. NORMAL, the usual advice for WAL, syncs at checkpoints only: a power cut would
	// take back the last commits, and a fencing token that is already in use would be issued again.
	// fullfsync is for macOS, whose fsync does not reach through the drive's own cache.
	// The log is brought into the file from 1 MB on, not from 4 MB: every write needs room in it, also on a small disk.
	for name, want := range map[string]int64{"synchronous": 2, "fullfsync": 1, "checkpoint_fullfsync": 1,
		"wal_autocheckpoint": 256, "journal_size_limit": logKept} {
		if err := c.exec(fmt.Sprintf("PRAGMA %s = %d", name, want)); err != nil {
			return err
		}
		got, err := c.number("PRAGMA " + name)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("sqlite: %s: PRAGMA %s is %d instead of %d: commits would not survive a power cut",
				path, name, got, want)
		}
	}
	return nil
}

// create gives an empty file the schema in one transaction. Of several processes that open a new file at once, one
// does it and the others find it done.
func create(path string, c *conn) (err error) {
	if err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.exec("ROLLBACK"))
		}
	}()
	v, err := version(path, c)
	if err != nil {
		return err
	}
	if v == 0 {
		for _, sql := range []string{schema, fmt.Sprintf("PRAGMA application_id = %d", applicationID),
			fmt.Sprintf("PRAGMA user_version = %d", schemaVersion)} {
			if err := c.exec(sql); err != nil {
				return err
			}
		}
	}
	return c.exec("COMMIT")
}
