package firestoretest

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Bounds on names and documents, as the service's page on quotas and limits gives them.
const (
	maxIDBytes       = 1500    // of a collection ID, document ID or field name
	maxNameBytes     = 6 << 10 // of a whole document name
	maxDepth         = 100     // levels of collections
	maxValueDepth    = 20      // levels of maps and arrays in a document
	maxDocumentBytes = 1 << 20
	maxValueBytes    = maxDocumentBytes - 89 // of a text or bytes value
	maxRequestBytes  = 10 << 20
	maxWrites        = 500 // in one Commit
)

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// unimplemented rejects a field of a request, by the name that it has in the protocol. Nothing that a request asks for
// is ever ignored.
func unimplemented(field string) error {
	return status.Errorf(codes.Unimplemented, "field %s is not supported by this emulator", field)
}

// A path is a name below "projects/P/databases/D/documents", without its leading slash: "locks/a" is a document,
// "locks" a collection, "" the root of the database.

// splitName cuts a resource name into its database and its path.
func splitName(name string) (database, path string, err error) {
	const form = "projects/{project}/databases/{database}/documents"
	parts := strings.SplitN(name, "/", 6)
	if len(parts) < 5 || parts[0] != "projects" || parts[1] == "" || parts[2] != "databases" || parts[3] == "" ||
		parts[4] != "documents" {
		return "", "", invalid("name %q does not begin with %s", name, form)
	}
	if len(parts) == 6 {
		path = parts[5]
		if path == "" {
			return "", "", invalid("name %q ends with a slash", name)
		}
	}
	return strings.Join(parts[:4], "/"), path, nil
}

// checkDatabase rejects what is not the name of a database.
func checkDatabase(name string) error {
	parts := strings.Split(name, "/")
	if len(parts) != 4 || parts[0] != "projects" || parts[1] == "" || parts[2] != "databases" || parts[3] == "" {
		return invalid("database %q is not of the form projects/{project}/databases/{database}", name)
	}
	return nil
}

// checkID rejects what cannot be the ID of a collection or document.
func checkID(kind, id string) error {
	switch {
	case id == "":
		return invalid("a resource id is empty")
	case id == "." || id == "..":
		return invalid("%s id %q is invalid because it is %q.", kind, id, id)
	case reserved(id):
		return invalid("%s id %q is invalid because it is reserved.", kind, id)
	case len(id) > maxIDBytes:
		return invalid("The key path element name is longer than %d bytes.", maxIDBytes)
	case !utf8.ValidString(id):
		return invalid("Resource id %q is not valid UTF-8", id)
	}
	return nil
}

// reserved reports whether the name is of the form __.*__ that the service keeps for itself.
func reserved(name string) bool {
	return len(name) > 4 && strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__")
}

// checkPath rejects what is not the path of a document, in a database whose name has prefix bytes.
func checkPath(path string, prefix int) error {
	ids := strings.Split(path, "/")
	switch {
	case path == "" || len(ids)%2 != 0:
		return invalid("Document name %q has %d segments below /documents: an even number names a document", path, len(ids))
	case len(ids) > 2*maxDepth:
		return invalid("Document name %q is nested deeper than %d collections", path, maxDepth)
	case prefix+len("/documents/")+len(path) > maxNameBytes:
		return invalid("a document name has more than %d bytes", maxNameBytes)
	}
	for i, id := range ids {
		if err := checkID([]string{"Collection", "Resource"}[i%2], id); err != nil {
			return err
		}
	}
	return nil
}

// documentPath returns the path of a document's name, which must lie in the database.
func documentPath(database, name string) (string, error) {
	db, path, err := splitName(name)
	if err != nil {
		return "", err
	}
	if db != database {
		return "", invalid("Document name %q is not in the database %q of the request", name, database)
	}
	return path, checkPath(path, len(database))
}

// parentPath returns the database and path of a parent: the root of a database or a document.
func parentPath(name string) (database, path string, err error) {
	database, path, err = splitName(name)
	if err == nil && path != "" {
		err = checkPath(path, len(database))
	}
	return database, path, err
}

// splitPath cuts a document's path into its collection and its ID.
func splitPath(path string) (collection, id string) {
	i := strings.LastIndexByte(path, '/')
	return path[:i], path[i+1:]
}

// join appends an ID to a path.
func join(path, id string) string {
	if path == "" {
		return id
	}
	return path + "/" + id
}

// comparePaths orders names and paths segment by segment, as references are ordered. A slash sorts before every other
// byte that way.
func comparePaths(a, b string) int {
	for {
		x, restA, moreA := strings.Cut(a, "/")
		y, restB, moreB := strings.Cut(b, "/")
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
		switch {
		case !moreA && !moreB:
			return 0
		case !moreA:
			return -1
		case !moreB:
			return 1
		}
		a, b = restA, restB
	}
}
