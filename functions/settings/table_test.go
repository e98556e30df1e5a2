package settings

import (
	"reflect"
	"strings"
	"testing"
)

// TestFields: each setting is stored in the field that is named like it, and in no other.
func TestFields(t *testing.T) {
	c := reflect.New(reflect.TypeFor[Config]()).Elem()
	fields := map[any]string{}
	for i := range c.NumField() {
		if f := c.Type().Field(i); f.IsExported() {
			fields[c.Field(i).Addr().Interface()] = f.Name
		}
	}
	for _, s := range Table {
		name := fields[s.field(c.Addr().Interface().(*Config))]
		if want := strings.ReplaceAll(strings.TrimPrefix(s.Env, "LEASEHOLD_"), "_", ""); strings.ToUpper(name) != want {
			t.Errorf("%s is stored in the field %q", s.Env, name)
		}
	}
}
