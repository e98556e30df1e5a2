// Command config shows processes that read a configuration of two files, and one that changes it. Run it with
//
//	go run ./examples/config
//
// It starts a server in memory, three readers and a writer. Readers read at the same time; none reads while the writer
// has changed one of the files, and the writer is not kept waiting by readers that come after it. In a shell, the same
// is
//
//	leasehold lock run config --shared --wait 1m -- reload      # the readers
//	leasehold lock run config --fair --wait 1m -- change        # the writer
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/examples/internal/start"
	"github.com/leasehold-dev/leasehold/locks"
)

// versions is how often the writer changes the configuration.
const versions = 4

func main() {
	start.Main(show, func(ctx context.Context, args []string) error {
		return process(ctx, args[0], args[1], config(args[2]))
	})
}

// config is a folder with the files routes and keys, which must be of the same version.
type config string

// write writes both files, one after the other.
func (c config) write(version string) error {
	for _, file := range []string{"routes", "keys"} {
		if err := os.WriteFile(filepath.Join(string(c), file), []byte(version), 0o600); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond) // now they differ
	}
	return nil
}

// read reads both files, one after the other.
func (c config) read() (routes, keys string, err error) {
	first, err := os.ReadFile(filepath.Join(string(c), "routes"))
	if err != nil {
		return "", "", err
	}
	time.Sleep(50 * time.Millisecond)
	second, err := os.ReadFile(filepath.Join(string(c), "keys"))
	return string(first), string(second), err
}

// process is a reader or the writer.
func process(ctx context.Context, name, server string, files config) error {
	c, err := client.New(server, nil)
	if err != nil {
		return err
	}
	holder, err := c.Locks("default", &locks.Options{Owner: name})
	if err != nil {
		return err
	}
	if name == "editor" {
		err = change(ctx, holder, files)
	} else {
		err = follow(ctx, holder, name, files)
	}
	return errors.Join(err, holder.Close(ctx))
}

// change writes all versions.
func change(ctx context.Context, holder *locks.Client, files config) error {
	for v := range versions {
		err := holder.Do(ctx, "config", &locks.LockOptions{Fair: true}, func(context.Context, *locks.Lock) error {
			fmt.Println("editor writes version", v+1)
			return files.write(strconv.Itoa(v + 1))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// follow reads until it has seen the last version.
func follow(ctx context.Context, holder *locks.Client, name string, files config) error {
	for seen := ""; seen != strconv.Itoa(versions); {
		err := holder.Do(ctx, "config", &locks.LockOptions{Shared: true}, func(context.Context, *locks.Lock) error {
			routes, keys, err := files.read()
			if err == nil && routes != keys {
				err = fmt.Errorf("%s: routes of version %s with keys of version %s", name, routes, keys)
			}
			if err == nil && routes != seen {
				fmt.Println(name, "reads version", routes)
			}
			seen = routes
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// show starts the server and the processes.
func show(ctx context.Context) error {
	folder, err := os.MkdirTemp("", "config")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // the example is over
	if err := config(folder).write("0"); err != nil {
		return err
	}
	url, server, err := start.Server(ctx, start.AnyPort, start.API())
	if err != nil {
		return err
	}
	defer server.Close() //nolint:errcheck // the example is over
	return start.All(ctx, []string{"web-1", "web-2", "web-3", "editor"}, url, folder)
}
