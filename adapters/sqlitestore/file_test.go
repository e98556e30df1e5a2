package sqlitestore_test

import (
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "leasehold")
	path := filepath.Join(dir, "leases #1?100%.db") // characters that mean something in the URI that SQLite is given
	s := open(t, path, nil)
	if _, err := s.Write(t.Context(), increment(key("a"))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{
		dir: fs.ModeDir | 0o700, filepath.Dir(dir): fs.ModeDir | 0o700, path: 0o600, path + "-wal": 0o600,
		path + "-shm": 0o600,
	} {
		info, err := os.Stat(name)
		if err != nil {
			t.Error(err)
		} else if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("after Close the folder holds %v, error %v, want the file alone", left, err)
	}
	if got := count(t, open(t, path, nil), key("a")); got != 1 {
		t.Errorf("the counter is %d after reopening, want 1", got)
	}
}

// TestExposedFiles: a file or folder that other users can change is said, and nothing else is.
func TestExposedFiles(t *testing.T) {
	for name, c := range map[string]struct {
		dir, file os.FileMode
		want      []string
	}{
		"private":             {0o700, 0o600, nil},
		"readable by a group": {0o750, 0o640, nil},
		"a list of names":     {0o755, 0o600, nil},
		"readable by all":     {0o700, 0o644, []string{"leasehold.db has mode 0644"}},
		"writable by all":     {0o700, 0o666, []string{"leasehold.db has mode 0666"}},
		"folder":              {0o777, 0o600, []string{"data has mode 0777"}},
		"both":                {0o777, 0o666, []string{"leasehold.db has mode 0666", "data has mode 0777"}},
		"folder, as /tmp is":  {0o777 | fs.ModeSticky, 0o600, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			path := filepath.Join(dir, "leasehold.db")
			if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(path, nil, 0o600), os.Chmod(path, c.file),
				os.Chmod(dir, c.dir)); err != nil {
				t.Fatal(err)
			}
			got := open(t, path, nil).Warnings()
			if len(got) != len(c.want) {
				t.Fatalf("%q, want %q", got, c.want)
			}
			for i := range got {
				if !strings.Contains(got[i], c.want[i]) || !strings.Contains(got[i], "chmod") {
					t.Errorf("%q, want %q", got[i], c.want[i])
				}
			}
		})
	}
}

func TestDocumentsAreReadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	w := docstore.Write{Key: key("deploy/prod"), Set: docstore.Doc{
		"owner": docstore.String(`ci "42"`), "token": docstore.Int(7), "held": docstore.Bool(true),
		"labels": docstore.Map{"b": "2", "a": "1"},
	}}
	if _, err := s.Write(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	c := dial(t, path)
	var doc string
	if err := c.QueryRowContext(t.Context(),
		"SELECT doc FROM docs WHERE kind = 'locks' AND tenant = 'acme' AND id = 'deploy/prod'").Scan(&doc); err != nil {
		t.Fatal(err)
	}
	if want := `{"held":true,"labels":{"a":"1","b":"2"},"owner":"ci \"42\"","token":7}`; doc != want {
		t.Errorf("stored %s, want %s", doc, want)
	}
}

func TestRefusedPaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	for name, text := range map[string]string{"file": "", "text.db": strings.Repeat("no database\n", 100)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, statements := range map[string][]string{
		"other.db":   {"PRAGMA application_id = 1196444487", "CREATE TABLE t (a)"},
		"tables.db":  {"CREATE TABLE docs (a)"},
		"newer.db":   {"PRAGMA application_id = 0x4c536864", "PRAGMA user_version = 99", "CREATE TABLE docs (a)"},
		"version.db": {"PRAGMA user_version = 3"},
		"zero.db":    {"PRAGMA application_id = 0x4c536864"},
	} {
		run(t, dial(t, filepath.Join(dir, name)), statements...)
	}
	for _, c := range []struct{ name, path, want string }{
		{"empty", "", "the path is empty"},
		{"memory", ":memory:", "docstore.NewMemory"},
		{"folder", dir, "is a folder: name a file in it"},
		{"below a file", filepath.Join(file, "x", "leasehold.db"), "a part of the path is a file, not a folder"},
		{"device", os.DevNull, "is not a regular file"},
		{"no database", filepath.Join(dir, "text.db"), "the file is corrupt or not a database"},
		{"other application", filepath.Join(dir, "other.db"),
			"the database of another application (application_id 0x47504b47, 1 tables"},
		{"other application without an ID", filepath.Join(dir, "tables.db"), "the database of another application"},
		{"other application without tables", filepath.Join(dir, "version.db"), "the database of another application"},
		{"newer version", filepath.Join(dir, "newer.db"),
			"written by a newer leasehold with schema version 99; this one reads up to version 1: upgrade"},
		{"no version", filepath.Join(dir, "zero.db"), "schema version 0, which no version of leasehold wrote"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, _ := os.ReadFile(c.path) // folders have no content to compare
			s, err := sqlitestore.Open(t.Context(), c.path, nil)
			if err == nil {
				t.Fatalf("opened; Close: %v", s.Close())
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
				t.Errorf("error is %q, want the path and %q", err, c.want)
			}
			if after, _ := os.ReadFile(c.path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
	if _, err := sqlitestore.Open(t.Context(), filepath.Join(dir, "x.db"),
		&sqlitestore.Options{BusyTimeout: -time.Second}); err == nil {
		t.Error("a negative BusyTimeout was accepted")
	}
}

func TestUnwritablePaths(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EROFS:  "the file system is read-only",
		syscall.EACCES: "this user may not write there",
		syscall.EPERM:  "this user may not write there",
		syscall.ENOSPC: "the disk is full",
		syscall.EMFILE: "the file cannot be opened",
	} {
		got := sqlitestore.PathError("/srv/leasehold.db", &fs.PathError{Op: "open", Path: "/srv/leasehold.db", Err: err})
		if !strings.Contains(got.Error(), want) || !strings.Contains(got.Error(), "/srv/leasehold.db") ||
			!errors.Is(got, err) {
			t.Errorf("%v is explained as %q, want %q", err, got, want)
		}
	}
	if os.Geteuid() == 0 {
		t.Skip("the rest needs a user to whom modes apply, and root is none")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "file.db")
	if err := os.WriteFile(file, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	sealed := filepath.Join(dir, "sealed")
	if err := os.Mkdir(sealed, 0o500); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(sealed, "leasehold.db"),
		filepath.Join(sealed, "sub", "leasehold.db")} {
		if _, err := sqlitestore.Open(t.Context(), path, nil); err == nil ||
			!strings.Contains(err.Error(), "may not write there") {
			t.Errorf("%s: error is %v", path, err)
		}
	}
}

func TestFileTakenAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	if _, err := s.Write(t.Context(), increment(key("a"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := s.Write(t.Context(), increment(key("a")))
		if !errors.Is(err, docstore.ErrUnavailable) || !strings.Contains(err.Error(), "moved, deleted or replaced") {
			t.Errorf("error is %v", err)
		}
	}
	if err := os.Rename(path+".moved", path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), increment(key("a"))); err != nil {
		t.Errorf("after the file was put back: %v", err)
	}
	if got := count(t, s, key("a")); got != 2 {
		t.Errorf("the counter is %d, want 2", got)
	}
}

func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	if err := s.Exec("PRAGMA max_page_count = 20"); err != nil {
		t.Fatal(err)
	}
	large := docstore.Doc{"text": docstore.String(strings.Repeat("x", 10_000))}
	var stored []docstore.Key
	for i := range 100 {
		k := key(string(rune('a' + i)))
		r, err := s.Write(t.Context(), docstore.Write{Key: k, Set: large})
		if err != nil {
			if !errors.Is(err, docstore.ErrUnavailable) || !strings.Contains(err.Error(), "the disk is full") || r.Applied {
				t.Fatalf("applied %v, error %v", r.Applied, err)
			}
			break
		}
		stored = append(stored, k)
	}
	if len(stored) < 2 || len(stored) == 100 {
		t.Fatalf("%d documents fit in 20 pages", len(stored))
	}

	// A large call that does not fit takes no small one of its group with it.
	release := hold(t, path)
	small, big := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.Write(t.Context(), docstore.Write{Key: key("big"), Set: large})
		big <- err
	}()
	until(t, "the large call waits", func() bool { return s.Queued() == 1 })
	go func() {
		_, err := s.Write(t.Context(), docstore.Write{Key: stored[0], Set: docstore.Doc{"n": docstore.Int(1)},
			Unset: []string{"text"}})
		small <- err
	}()
	until(t, "both calls wait", func() bool { return s.Queued() == 2 })
	release()
	if err := <-big; !errors.Is(err, docstore.ErrUnavailable) {
		t.Errorf("large call: error is %v", err)
	}
	if err := <-small; err != nil {
		t.Errorf("small call: %v", err)
	}
	if got := count(t, s, stored[0]); got != 1 {
		t.Errorf("the small call left %d, want 1", got)
	}
	for _, k := range stored[1:] {
		if snap, err := s.Get(t.Context(), k); err != nil || !snap.Docs[0].Equal(large) {
			t.Errorf("%s: %d fields, error %v", k, len(snap.Docs[0]), err)
		}
	}
	if snap, err := s.Get(t.Context(), key("big")); err != nil || snap.Docs[0] != nil {
		t.Errorf("a call that failed left %v, error %v", snap.Docs[0], err)
	}
	if err := s.Exec("PRAGMA max_page_count = 1000000"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), docstore.Write{Key: key("big"), Set: large}); err != nil {
		t.Errorf("after space was freed: %v", err)
	}
}

// TestDamagedDocument stores documents that no version of leasehold wrote.
func TestDamagedDocument(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	c := dial(t, path)
	for id, doc := range map[string]string{"cut": `{"n":1`, "list": `[]`, "twice": `{"n":1,"n":2}`} {
		if _, err := c.ExecContext(t.Context(), "INSERT INTO docs (kind, tenant, id, doc) VALUES ('locks', 'acme', ?, ?)", id,
			doc); err != nil {
			t.Fatal(err)
		}
		release := hold(t, path)
		damaged, sound := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := s.Write(t.Context(), increment(key("beside "+id)), increment(key(id)))
			damaged <- err
		}()
		go func() {
			_, err := s.Write(t.Context(), increment(key("sound "+id)))
			sound <- err
		}()
		until(t, "both calls wait", func() bool { return s.Queued() == 2 })
		release()
		if err := <-damaged; !errors.Is(err, docstore.ErrDamaged) || !strings.Contains(err.Error(), key(id).String()) {
			t.Errorf("%s: error is %v, want ErrDamaged and the key", id, err)
		}
		if err := <-sound; err != nil {
			t.Errorf("%s: the other call of the group: %v", id, err)
		}
		if got := count(t, s, key("sound "+id)); got != 1 {
			t.Errorf("%s: the other call left %d", id, got)
		}
		if got := count(t, s, key("beside "+id)); got != -1 {
			t.Errorf("%s: half of the damaged call was applied: %d", id, got)
		}
		if _, err := s.Get(t.Context(), key(id)); !errors.Is(err, docstore.ErrDamaged) {
			t.Errorf("%s: Get: error is %v", id, err)
		}
		list, err := s.List(t.Context(), docstore.Query{Kind: "locks", Tenant: "acme", Prefix: id})
		if err != nil || len(list.Damaged) != 1 || !errors.Is(list.Damaged[0].Err, docstore.ErrDamaged) ||
			list.Damaged[0].Key != key(id) {
			t.Errorf("%s: List: %+v, %v", id, list, err)
		}
		var kept string
		if err := c.QueryRowContext(t.Context(), "SELECT doc FROM docs WHERE id = ?", id).Scan(&kept); err != nil ||
			kept != doc {
			t.Errorf("%s: the document is %q now, error %v", id, kept, err)
		}
	}
}

// TestForeignFields patches a document in which another caller keeps what the port cannot express.
func TestForeignFields(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	c := dial(t, path)
	const foreign = `{"z": 1.50, "list":[1, {"a":null}],"deep":{"a":{"b":"c"}},"big":9007199254740993,"half":"\ud800","none":null,"n":1}`
	if _, err := c.ExecContext(t.Context(), "INSERT INTO docs (kind, tenant, id, doc) VALUES ('locks', 'acme', 'x', ?)",
		foreign); err != nil {
		t.Fatal(err)
	}
	r, err := s.Write(t.Context(), docstore.Write{Key: key("x"), If: docstore.Has{Field: "none"},
		Add: map[string]int64{"n": 1}})
	if err != nil || !r.Applied {
		t.Fatalf("applied %v, error %v", r.Applied, err)
	}
	var got string
	if err := c.QueryRowContext(t.Context(), "SELECT doc FROM docs").Scan(&got); err != nil {
		t.Fatal(err)
	}
	const want = `{"big":9007199254740993,"deep":{"a":{"b":"c"}},"half":"\ud800","list":[1, {"a":null}],"n":2,"none":null,"z":1.50}`
	if got != want {
		t.Errorf("stored %s\nwant   %s", got, want)
	}
	for _, field := range []string{"z", "list", "deep", "big", "half", "none"} {
		if _, err := s.Write(t.Context(), docstore.Write{Key: key("x"), Add: map[string]int64{field: 1}}); !errors.Is(err,
			docstore.ErrDamaged) {
			t.Errorf("adding to %s: error is %v, want ErrDamaged", field, err)
		}
	}
}

// TestCorruptFile overwrites the root of the tree of documents, the file's third page: the second says where pages are
// used.
func TestCorruptFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	for i := range 50 {
		w := docstore.Write{Key: key(string(rune('a' + i))),
			Set: docstore.Doc{"text": docstore.String(strings.Repeat("x", 1000))}}
		if _, err := s.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(strings.Repeat("\xaa", 4096)), 2*4096); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path, nil)
	_, getErr := s.List(t.Context(), docstore.Query{Kind: "locks", Tenant: "acme"})
	_, writeErr := s.Write(t.Context(), increment(key("a")))
	for name, err := range map[string]error{"List": getErr, "Write": writeErr} {
		if err == nil || errors.Is(err, docstore.ErrUnavailable) || !strings.Contains(err.Error(), "the file is corrupt") ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

// TestSettings looks at the file as another program sees it.
func TestSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	open(t, path, nil)
	c := dial(t, path)
	for pragma, want := range map[string]string{"journal_mode": "wal", "application_id": "1280534628", "user_version": "1",
		"encoding": "UTF-8"} {
		var got sql.NullString
		if err := c.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got.String != want {
			t.Errorf("%s is %q, error %v, want %q", pragma, got.String, err, want)
		}
	}
}
