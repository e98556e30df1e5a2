package main

import (
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// settingFlags are the flags of an entry point, made from the table of settings: a field for each, without defaults, so
// that [settings.Load] alone reads values.
type settingFlags struct {
	entry  settings.Entry
	rows   []settings.Setting
	fields reflect.Value // a struct with a *string or *bool for each row; nil: the flag was not given
}

// newSettingFlags makes the flags of an entry point.
func newSettingFlags(e settings.Entry) settingFlags {
	f := settingFlags{entry: e}
	var fields []reflect.StructField
	for _, s := range settings.Of(e) {
		if s.Flag() == "" {
			continue
		}
		tag := "name:" + strconv.Quote(s.Flag()) + " group:" + strconv.Quote(s.Group) + " help:" +
			strconv.Quote(s.FlagHelp(e))
		if p := placeholder(s); p != "" {
			tag += " placeholder:" + strconv.Quote(p)
		}
		kind := reflect.TypeFor[*string]()
		if s.Type == settings.Switch {
			kind = reflect.TypeFor[*bool]()
			if s.Default == "true" {
				tag += ` negatable:""`
			}
		}
		f.rows = append(f.rows, s)
		fields = append(fields, reflect.StructField{Name: "F" + strconv.Itoa(len(fields)), Type: kind,
			Tag: reflect.StructTag(tag)})
	}
	f.fields = reflect.New(reflect.StructOf(fields))
	return f
}

func placeholder(s settings.Setting) string {
	switch {
	case s.Placeholder != "":
		return s.Placeholder
	case s.Choices != nil:
		return strings.Join(s.Choices, "|")
	default:
		return strings.ToUpper(string(s.Type))
	}
}

// plugin is how kong takes the flags.
func (f settingFlags) plugin() kong.Plugins { return kong.Plugins{f.fields.Interface()} }

// given are the values of the flags that were given, by their names without dashes.
func (f settingFlags) given() map[string]string {
	given := map[string]string{}
	for i, s := range f.rows {
		switch value := f.fields.Elem().Field(i).Interface().(type) {
		case *string:
			if value != nil {
				given[s.Flag()] = *value
			}
			if value != nil && s.Type == settings.File {
				given[s.Flag()] = kong.ExpandPath(*value)
			}
		case *bool:
			if value != nil {
				given[s.Flag()] = strconv.FormatBool(*value)
			}
		}
	}
	return given
}

// load reads the settings from the flags that were given and from the environment. Its errors are those of the user.
func (f settingFlags) load() (*settings.Config, error) {
	c, err := settings.Load(f.entry, os.Environ(), f.given())
	if err != nil {
		return nil, usage("%w", err)
	}
	return c, nil
}

// direct opens the store that the flags name, for a command that calls a server without them: then the store is nil.
// done closes it. A server and a store cannot both be meant.
func (f settingFlags) direct(ctx context.Context, k *kong.Context, s *streams) (store docstore.Store, done func(),
	err error) {
	given := f.given()
	if given["store"] == "" {
		for name := range given {
			return nil, nil, usage("--%s is a setting of a store: name the store with --store, such as --store sqlite", name)
		}
		return nil, func() {}, nil
	}
	for _, p := range k.Path {
		if p.Flag != nil && slices.Contains([]string{"server", "auth-token-file"}, p.Flag.Name) {
			return nil, nil, usage("--%s and --store cannot both be given: a store is opened without a server", p.Flag.Name)
		}
	}
	config, err := f.load()
	if err != nil {
		return nil, nil, err
	}
	log := newLog("text", s)
	store, _, err = openStore(ctx, config, log, use{})
	if err != nil {
		if _, own := errors.AsType[*exitError](err); !own && ctx.Err() == nil {
			err = &exitError{exitUnavailable, err}
		}
		return nil, nil, err
	}
	return store, func() { closeLogged(log, "close the store", store.Close) }, nil
}
