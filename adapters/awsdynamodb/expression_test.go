package awsdynamodb

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// at writes expressions at a time that is known exactly.
func at(now time.Time) *expressions { return newExpressions(instants{now: now}) }

func TestConditionExpressions(t *testing.T) {
	has := func(field string) docstore.Cond { return docstore.Has{Field: field} }
	eq := func(field string, v docstore.Value) docstore.Cond { return docstore.Eq{Field: field, Value: v} }
	le := func(field string, v docstore.Value) docstore.Cond { return docstore.LE{Field: field, Value: v} }
	not := func(c docstore.Cond) docstore.Cond { return docstore.Not{Cond: c} }
	one := docstore.Int(1)
	for name, c := range map[string]struct {
		cond docstore.Cond
		add  map[string]int64
		want string
	}{
		"nothing to ask":   {nil, nil, ""},
		"empty all":        {docstore.All{}, nil, ""},
		"empty any":        {docstore.Any{}, nil, "(attribute_exists(#f0) AND attribute_not_exists(#f0))"},
		"empty all inside": {not(docstore.All{}), nil, "(NOT (attribute_exists(#f0) OR attribute_not_exists(#f0)))"},
		"absent":           {docstore.Absent{}, nil, "attribute_not_exists(#f0)"},
		"has":              {has("status"), nil, "attribute_exists(#f0)"},
		"eq":               {eq("status", one), nil, "#f0 = :v0"},
		"le":               {le("status", one), nil, "#f0 <= :v0"},
		"no reserved word": {eq("lock_key", one), nil, "lock_key = :v0"},
		"a function":       {eq("begins_with", one), nil, "#f0 = :v0"},
		"a part alone":     {docstore.Any{docstore.All{docstore.Any{has("a")}}}, nil, "attribute_exists(#f0)"},
		"not not":          {not(not(has("a"))), nil, "(NOT (NOT attribute_exists(#f0)))"},
		"names and values": {docstore.All{eq("a", one), le("b", one), not(le("a", docstore.Int(2)))}, nil,
			"(#f0 = :v0 AND #f1 <= :v1 AND (NOT #f0 <= :v2))"},
		"text is no number": {docstore.Any{eq("a", one), eq("a", docstore.String("1"))}, nil, "(#f0 = :v0 OR #f0 = :v1)"},
		"maps": {docstore.Any{eq("a", docstore.Map{}), eq("a", docstore.Map{})}, nil,
			"(#f0 = :v0 OR #f0 = :v1)"},
		"guard": {has("a"), map[string]int64{"n": 1},
			"attribute_exists(#f0) AND (attribute_not_exists(#f1) OR #f1 BETWEEN :v0 AND :v1)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(at(noon).conditions(docstore.Write{If: c.cond, Add: c.add}).text); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestGuardBounds(t *testing.T) {
	for add, want := range map[int64][2]string{
		0:                {"-9007199254740992", "9007199254740992"},
		1:                {"-9007199254740992", "9007199254740991"},
		-1:               {"-9007199254740991", "9007199254740992"},
		docstore.MaxInt:  {"-9007199254740992", "0"},
		-docstore.MaxInt: {"0", "9007199254740992"},
	} {
		e := at(noon)
		e.guard("n", 0, add)
		values := e.attributeValues()
		var got [2]string
		for i, name := range []string{":v0", ":v1"} {
			got[i] = values[name].(*types.AttributeValueMemberN).Value
		}
		if got != want {
			t.Errorf("adding %d: between %v, want %v", add, got, want)
		}
	}
}

// TestTimesOfConditions: what has passed must have passed by the margin; what has not passed yet is asked for now.
func TestTimesOfConditions(t *testing.T) {
	m := instants{now: noon, margin: time.Second}
	passed := docstore.LE{Field: "t", Value: docstore.Now}
	at := func(d time.Duration) docstore.Doc { return docstore.Doc{"t": docstore.FormatTime(noon.Add(d))} }
	for name, c := range map[string]struct {
		cond   docstore.Cond
		doc    docstore.Doc
		want   bool
		margin time.Duration
	}{
		"passed, just now":             {passed, at(0), false, time.Second},
		"passed, within the margin":    {passed, at(-999 * time.Millisecond), false, time.Second},
		"passed, by the margin":        {passed, at(-time.Second), true, time.Second},
		"not passed, just now":         {docstore.Not{Cond: passed}, at(0), false, 0},
		"not passed, still to come":    {docstore.Not{Cond: passed}, at(time.Millisecond), true, 0},
		"twice negated is not negated": {docstore.Not{Cond: docstore.Not{Cond: passed}}, at(0), false, time.Second},
		"inside any":                   {docstore.Any{docstore.Absent{}, passed}, at(-time.Second), true, time.Second},
		"inside all":                   {docstore.All{docstore.Has{Field: "t"}, passed}, at(0), false, time.Second},
		"with an offset": {docstore.LE{Field: "t", Value: docstore.Now.Add(time.Second)}, at(0),
			true, time.Second},
		"equality has no margin": {docstore.Eq{Field: "t", Value: docstore.Now}, at(0), true, 0},
		"text has no margin":     {docstore.LE{Field: "t", Value: docstore.FormatTime(noon)}, at(0), true, 0},
	} {
		if got, margin := m.holds(c.cond, c.doc), m.distance(c.cond); got != c.want || margin != c.margin {
			t.Errorf("%s: %v with margin %v, want %v with %v", name, got, margin, c.want, c.margin)
		}
	}
}

// TestWritesOfLocksRefuseThemselves: every command on locks may be left to the SDK to send again.
func TestWritesOfLocksRefuseThemselves(t *testing.T) {
	id := lock.ID{Tenant: "acme", Key: "k"}
	for name, c := range map[string]struct {
		write docstore.Write
		want  bool
	}{
		"acquire":       {lock.Acquire{ID: id, Owner: "ann", RequestID: "r", TTLSeconds: 1}.Write(), true},
		"renew":         {lock.Renew{ID: id, Owner: "ann", RequestID: "r", TTLSeconds: 1, Token: 1}.Write(), true},
		"release":       {lock.Release{ID: id, Owner: "ann", RequestID: "r", Token: 1}.Write(), true},
		"force-release": {lock.ForceRelease{ID: id, By: "root", RequestID: "r"}.Write(), true},
		"create":        {docstore.Write{If: docstore.Absent{}}, true},
		"set once": {docstore.Write{If: docstore.Not{Cond: docstore.Has{Field: "a"}},
			Set: docstore.Doc{"a": docstore.Int(1)}}, true},
		"unset": {docstore.Write{If: docstore.Has{Field: "a"}, Unset: []string{"a"}}, true},
		"first count": {docstore.Write{If: docstore.Not{Cond: docstore.Has{Field: "n"}}, Add: map[string]int64{"n": 1}},
			true},
		"fence": {lock.Fence{Tenant: "acme", Resource: "r", Lease: fencing.OfLock("db", 0, 1)}.Write(), false},
		"count": {docstore.Write{Add: map[string]int64{"n": 1}}, false},
		"count up to ten": {docstore.Write{If: docstore.LE{Field: "n", Value: docstore.Int(9)},
			Add: map[string]int64{"n": 1}}, false},
		"another's field": {docstore.Write{If: docstore.Eq{Field: "b", Value: docstore.Int(1)},
			Add: map[string]int64{"n": 1}}, false},
		"never":            {docstore.Write{If: docstore.Any{}}, true},
		"delete":           {docstore.Write{If: docstore.Has{Field: "a"}, Delete: true}, true},
		"delete any state": {docstore.Write{If: docstore.Not{Cond: docstore.Absent{}}, Delete: true}, true},
		"keep":             {docstore.Write{If: docstore.Not{Cond: docstore.Absent{}}, Keep: time.Hour}, false},
		"count from now":   {docstore.Write{Add: map[string]int64{"n": 1}, StartAtNow: []string{"n"}}, false},
		"start from now": {docstore.Write{If: docstore.Absent{}, Add: map[string]int64{"n": 1}, StartAtNow: []string{"n"}},
			true},
		"shift": {docstore.Write{Set: docstore.Doc{"a2": docstore.Before("a1"), "a1": docstore.String("x")}},
			false},
		"shift once": {docstore.Write{If: docstore.Not{Cond: docstore.Eq{Field: "a1", Value: docstore.String("x")}},
			Set: docstore.Doc{"a2": docstore.Before("a1"), "a1": docstore.String("x")}}, true},
		"what was shifted": {docstore.Write{If: docstore.Not{Cond: docstore.Eq{Field: "a2", Value: docstore.String("x")}},
			Set: docstore.Doc{"a2": docstore.Before("a1")}}, false},
		"shift into none": {docstore.Write{If: docstore.Not{Cond: docstore.Has{Field: "a2"}},
			Set: docstore.Doc{"a2": docstore.Before("a1")}}, true},
		"one part unknown": {docstore.Write{If: docstore.Any{docstore.Absent{}, docstore.Has{Field: "b"}},
			Set: docstore.Doc{"a": docstore.Int(1)}}, false},
	} {
		if got := rejectsRepeat(c.write, instants{now: noon, margin: time.Second}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestRefusesItselfIsTrue: whatever the document was, a write that is said to reject itself does.
func TestRefusesItselfIsTrue(t *testing.T) {
	fields := []string{"a", "b"}
	value := rapid.SampledFrom([]docstore.Value{docstore.Int(0), docstore.Int(1), docstore.Int(2), docstore.String("x")})
	fieldOf := rapid.SampledFrom(fields)
	var cond func(t *rapid.T, depth int) docstore.Cond
	cond = func(t *rapid.T, depth int) docstore.Cond {
		kinds := 6
		if depth == 0 {
			kinds = 3
		}
		parts := func() []docstore.Cond { return []docstore.Cond{cond(t, depth-1), cond(t, depth-1)} }
		switch rapid.IntRange(0, kinds).Draw(t, "kind") {
		case 0:
			return docstore.Absent{}
		case 1:
			return docstore.Has{Field: fieldOf.Draw(t, "field")}
		case 2:
			return docstore.Eq{Field: fieldOf.Draw(t, "field"), Value: value.Draw(t, "value")}
		case 3:
			return docstore.LE{Field: fieldOf.Draw(t, "field"), Value: value.Draw(t, "value")}
		case 4:
			return docstore.Any(parts())
		case 5:
			return docstore.All(parts())
		default:
			return docstore.Not{Cond: cond(t, depth-1)}
		}
	}
	claims := 0
	check := func(t *rapid.T) {
		w := docstore.Write{If: cond(t, 3), Set: docstore.Doc{}, Add: map[string]int64{}}
		for _, f := range fields {
			switch rapid.IntRange(0, 5).Draw(t, "change") {
			case 3:
				w.Set[f] = docstore.Before(fieldOf.Draw(t, "copied"))
			case 4:
				w.Add[f], w.StartAtNow = 1, append(w.StartAtNow, f)
			case 0:
				w.Set[f] = value.Draw(t, "value")
			case 1:
				w.Add[f] = 1
			case 2:
				w.Unset = append(w.Unset, f)
			}
		}
		if !rejectsRepeat(w, instants{now: noon}) {
			return
		}
		claims++
		found := docstore.Doc(rapid.MapOf(fieldOf, value).Draw(t, "found"))
		if rapid.Bool().Draw(t, "absent") {
			found = nil
		}
		after, err := w.Apply(found, noon)
		if err == nil && w.If.Holds(after, noon) {
			t.Fatalf("%#v on %#v leaves %#v, on which it holds again", w, found, after)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 20 { // however few checks there are, some writes reject themselves
			check(t)
		}
	})
	if claims == 0 {
		t.Error("no write was said to refuse itself")
	}
}

// TestNewForms: a register that shifts, a counter that starts at the store's time and a time until which the document
// is kept, in one request, each behind a guard.
func TestNewForms(t *testing.T) {
	w := docstore.Write{
		Set: docstore.Doc{"a1": docstore.String("new"), "a2": docstore.Before("a1"), "a3": docstore.Before("a2")},
		Add: map[string]int64{"token": 1}, StartAtNow: []string{"token"}, Keep: 90*time.Second + time.Millisecond,
		Unset: []string{"z"},
	}
	w.If = docstore.Has{Field: "b"}
	e := at(noon)
	condition := string(e.conditions(w).text)
	update := string(e.update(w, beside{}).text[len(condition):])
	for _, c := range []struct{ name, got, want string }{
		{"condition", condition, "attribute_exists(#f0) AND (attribute_not_exists(#f1) OR #f1 BETWEEN :v0 AND :v1) AND " +
			"(attribute_not_exists(a1) OR attribute_type(a1, :v2)) AND (attribute_not_exists(a2) OR attribute_type(a2, :v2))"},
		{"update", update, "SET a1 = :v3, a2 = if_not_exists(a1, :v4), a3 = if_not_exists(a2, :v4), #f2 = :v5, " +
			"#f1 = if_not_exists(#f1, :v6) + :v7 REMOVE #f3"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
	want := map[string]string{"#f0": "b", "#f1": "token", "#f2": "_keep_until", "#f3": "z"}
	if !maps.Equal(e.attributeNames(), want) {
		t.Errorf("names %v, want %v", e.attributeNames(), want)
	}
	values := decode(e.attributeValues())
	if got, want := values[":v5"], docstore.Int(noon.Unix()+91); got != want {
		t.Errorf("kept until %v, want %v: whole seconds, rounded up", got, want)
	}
	if got, want := values[":v6"], docstore.Int(noon.UnixMicro()); got != want {
		t.Errorf("starts at %v, want %v", got, want)
	}
	// A counter that would pass the bound at its start may not be missing.
	far := time.UnixMicro(docstore.MaxInt)
	if got, want := string(at(far).conditions(docstore.Write{If: docstore.All{}, Add: w.Add,
		StartAtNow: w.StartAtNow}).text), "#f0 BETWEEN :v0 AND :v1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestUpdateExpression(t *testing.T) {
	e := at(noon)
	got := string(e.update(docstore.Write{
		Set: docstore.Doc{"b": docstore.Int(1), "a": docstore.String("x")}, Add: map[string]int64{"n": 1},
		Unset: []string{"z", "y"},
	}, beside{}).text)
	if want := "SET #f0 = :v0, #f1 = :v1 ADD #f2 :v2 REMOVE #f3, #f4"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if want := map[string]string{"#f0": "a", "#f1": "b", "#f2": "n", "#f3": "y",
		"#f4": "z"}; !maps.Equal(e.attributeNames(), want) {
		t.Errorf("names %v, want %v", e.attributeNames(), want)
	}
}

func TestDecode(t *testing.T) {
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	num := func(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }
	for name, c := range map[string]struct {
		attr types.AttributeValue
		want docstore.Value // nil: opaque
	}{
		"text":           {text(""), docstore.String("")},
		"boolean":        {&types.AttributeValueMemberBOOL{Value: true}, docstore.Bool(true)},
		"whole":          {num("-7"), docstore.Int(-7)},
		"2^53":           {num("9007199254740992"), docstore.Int(docstore.MaxInt)},
		"beyond 2^53":    {num("9007199254740993"), nil},
		"beyond 64 bits": {num("99999999999999999999"), nil},
		"exponent":       {num("1E2"), docstore.Int(100)},
		"zero decimals":  {num("5.0"), docstore.Int(5)},
		"fraction":       {num("1.5"), nil},
		"huge":           {num("1E125"), nil},
		"table": {&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"a": text("1")}},
			docstore.Map{"a": "1"}},
		"empty table":      {&types.AttributeValueMemberM{}, docstore.Map{}},
		"table of numbers": {&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"a": num("1")}}, nil},
		"bytes":            {&types.AttributeValueMemberB{Value: []byte{0, 255}}, docstore.Bytes("\x00\xff")},
		"no bytes":         {&types.AttributeValueMemberB{}, docstore.Bytes("")},
		"most bytes": {&types.AttributeValueMemberB{Value: make([]byte, docstore.MaxBytes)},
			docstore.Bytes(make([]byte, docstore.MaxBytes))},
		"too many bytes": {&types.AttributeValueMemberB{Value: make([]byte, docstore.MaxBytes+1)}, nil},
		"set of bytes":   {&types.AttributeValueMemberBS{Value: [][]byte{{0}}}, nil},
		"list":           {&types.AttributeValueMemberL{}, nil},
		"null":           {&types.AttributeValueMemberNULL{Value: true}, nil},
	} {
		got := decode(map[string]types.AttributeValue{
			attrPartition: text("k/t"), attrSort: text("id"), attrMark: &types.AttributeValueMemberBOOL{Value: true},
			"f": c.attr,
		})
		want := docstore.Doc{"f": c.want}
		if c.want == nil {
			want["f"] = docstore.Opaque{Raw: c.attr}
		}
		if _, opaque := got["f"].(docstore.Opaque); !got.Equal(want) || opaque != (c.want == nil) {
			t.Errorf("%s: %#v, want %#v", name, got, want)
		}
		if o, ok := got["f"].(docstore.Opaque); ok && o.Null != (name == "null") {
			t.Errorf("%s: null is %v", name, o.Null)
		}
	}
	if decode(nil) != nil {
		t.Error("no item is a document")
	}
}

// TestShapes: writes that differ in keys and values only have one shape, and what is remembered is bounded.
func TestShapes(t *testing.T) {
	var s shapes
	m := instants{now: noon}
	write := func(i int) docstore.Write {
		return docstore.Write{
			If:  docstore.Any{docstore.Absent{}, docstore.Eq{Field: "owner", Value: docstore.String(fmt.Sprint("o", i))}},
			Set: docstore.Doc{"owner": docstore.String(fmt.Sprint("o", i%7)), "until": docstore.Now},
			Add: map[string]int64{"n": 1}, Unset: []string{"y", "x"},
		}
	}
	first, _ := s.compile(write(0), beside{}, m)
	for i := range 100 {
		again, values := s.compile(write(i), beside{}, instants{now: m.now.Add(1e9)})
		if again != first {
			t.Fatalf("%+v and %+v", first, again)
		}
		if got := decode(values)[":v0"]; got != docstore.String(fmt.Sprint("o", i)) {
			t.Errorf("%d: the owner is %v", i, got)
		}
	}
	different := map[*shape]bool{first: true}
	writes := []docstore.Write{
		{If: docstore.Has{Field: "a"}, Unset: []string{"b"}},
		{If: docstore.Has{Field: "b"}, Unset: []string{"a"}},
		{If: docstore.Has{Field: "b"}},
		{If: docstore.Has{Field: "b"}, Unset: []string{"a", "c"}},
		{If: docstore.Has{Field: "b"}, Add: map[string]int64{"a": docstore.MaxInt}},
		{If: docstore.Not{Cond: docstore.Has{Field: "b"}}},
	}
	for _, w := range writes {
		shape, _ := s.compile(w, beside{}, m)
		different[shape] = true
	}
	if len(different) != 1+len(writes) {
		t.Errorf("%d shapes of %d writes", len(different), 1+len(writes))
	}
	for i := range 3 * maxShapes {
		s.compile(docstore.Write{Set: docstore.Doc{fmt.Sprint("f", i): docstore.Int(1)}}, beside{}, m)
		if len(s.known) > maxShapes {
			t.Fatalf("%d shapes are remembered", len(s.known))
		}
	}
}
