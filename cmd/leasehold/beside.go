package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/leasehold-dev/leasehold/functions/settings"
)

// errServed is that another process has the file of servers.
var errServed = errors.New("another server runs")

// serversFile is beside the database, and has the process that was the first to serve it; each server has a lock on it,
// until it ends, however it does.
const serversFile = ".servers"

// besideNone makes sure that no other server runs on the same database, unless the settings say that it may: two may
// share it, but one that was started by mistake can have other settings, such as no authentication. What it returns
// ends it.
func besideNone(c *settings.Config, log *slog.Logger) (end func() error, err error) {
	none := func() error { return nil }
	path, err := sqlitePath(c)
	if c.Store != "sqlite" || err != nil {
		return none, err
	}
	f, err := os.OpenFile(path+serversFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return none, fmt.Errorf("cannot open the file by which servers on one database know of each other: %w", err)
	}
	switch err := lockServers(f, c.Beside); {
	case errors.Is(err, errServed):
		text, _ := io.ReadAll(io.LimitReader(f, 32)) // it is for people
		who := strings.TrimSpace(string(text))
		if who != "" {
			who = " (process " + who + " was the first)"
		}
		return none, errors.Join(fmt.Errorf("another server runs on %s%s: with other settings it would let others in; "+
			"stop it, choose another folder with %s, or set %s if both are to share it", path, who,
			c.Name("LEASEHOLD_DATA"), c.Name("LEASEHOLD_BESIDE")), f.Close())
	case errors.Is(err, errBeside):
		log.Warn("another server runs on the same database, as the settings allow", "file", path)
	case err != nil:
		log.Warn("it is not known whether another server runs on the same database", "file", path, "err", err)
	default:
		if err := f.Truncate(0); err == nil {
			_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0) // it is for people
		}
	}
	return f.Close, nil
}

// errBeside is that another process has the file, and this one, too.
var errBeside = errors.New("another server runs, too")
