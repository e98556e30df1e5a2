package cost

import (
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/proto"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/internal/price"
)

// indexing counts the entries that the Standard edition adds to its indexes and removes from them. It makes two of each
// field by itself, one for each direction, and those of a map's fields for a map; none of a field that is exempt. Each
// request's writes are those that were applied: nothing else writes here.
type indexing struct {
	docs map[string]map[string]*pb.Value // by name
	// collections that are exempt, as adapters/gcpfirestore/firestore.indexes.json declares them
	exempt map[string]bool
	n      Entries
}

// indexesOf counts what a server does from now on.
func indexesOf(t *testing.T, server *firestoretest.Server) *indexing {
	t.Helper()
	content, err := os.ReadFile("../../adapters/gcpfirestore/firestore.indexes.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		FieldOverrides []struct {
			CollectionGroup, FieldPath string
			Indexes                    []any
		}
	}
	if err := json.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	x := &indexing{docs: map[string]map[string]*pb.Value{}, exempt: map[string]bool{}}
	for _, o := range file.FieldOverrides {
		if o.FieldPath == "*" && len(o.Indexes) == 0 {
			x.exempt[o.CollectionGroup] = true
		}
	}
	server.Inject(firestoretest.Fault{Method: "Commit", Effect: firestoretest.Delay{}, Match: func(m proto.Message) bool {
		for _, w := range m.(*pb.CommitRequest).GetWrites() { //nolint:forcetypeassert // of this method
			x.change(w)
		}
		return false // it only looks
	}})
	return x
}

// entries adds the values of a document that are indexed, by the paths of their fields.
func entries(of map[string]string, path string, fields map[string]*pb.Value) map[string]string {
	for name, v := range fields {
		if m := v.GetMapValue(); m != nil {
			entries(of, path+name+".", m.GetFields())
		} else {
			of[path+name] = v.String()
		}
	}
	return of
}

const directions = 2

func (x *indexing) change(w *pb.Write) {
	name := w.GetUpdate().GetName() + w.GetDelete() // one of them
	before := x.docs[name]
	after := map[string]*pb.Value{}
	if w.GetUpdateMask() != nil {
		maps.Copy(after, before)
		for _, f := range w.GetUpdateMask().GetFieldPaths() {
			delete(after, f) // one without a value is removed
		}
	}
	maps.Copy(after, w.GetUpdate().GetFields())
	x.docs[name] = after
	was, is := entries(map[string]string{}, "", before), entries(map[string]string{}, "", after)
	changed := 0
	for f, v := range was {
		if is[f] != v {
			changed++
		}
	}
	for f, v := range is {
		if was[f] != v {
			changed++
		}
	}
	collection := name[:strings.LastIndexByte(name, '/')]
	x.n.All += float64(directions * changed)
	if !x.exempt[collection[strings.LastIndexByte(collection, '/')+1:]] {
		x.n.Declared += float64(directions * changed)
	}
}

// TestIndexEntries: what is exempt from indexing has no entries, and what writes nothing has none either.
func TestIndexEntries(t *testing.T) {
	c := find(counted(t), price.FirestoreStandard.Name)
	for _, operation := range []string{Cycle, Renew, Expired, SharedCycle, SharedRenew, SetCycle, MachineIDs} {
		if e := c.Entries[operation]; e.Declared != 0 || e.All == 0 {
			t.Errorf("%s: %+v, want none with the exemptions, and some without", operation, e)
		}
	}
	for _, operation := range []string{Held, Look, SharedHeld, Finished, Running} {
		if e := c.Entries[operation]; e != (Entries{}) {
			t.Errorf("%s: %+v, but nothing is written", operation, e)
		}
	}
}
