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
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// asProcess is the variable by which a process learns what it is: its name, the server and the folder of the
// configuration.
const asProcess = "CONFIG_PROCESS"

// versions is how often the writer changes the configuration.
const versions = 4

func main() {
	ctx := context.Background()
	var err error
	if p := strings.SplitN(os.Getenv(asProcess), " ", 3); len(p) == 3 {
		err = process(ctx, p[0], p[1], config(p[2]))
	} else {
		err = show(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "config:", err)
		os.Exit(1)
	}
}

// config is a folder with the files routes and keys, which must be of the same version.
type config string

// write writes both files, one after the other.
func (c config) write(version string) error {
	for _, file := range []string{"routes", "keys"} {
		//nolint:gosec // a folder of this program
		if err := os.WriteFile(filepath.Join(string(c), file), []byte(version), 0o600); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond) // now they differ
	}
	return nil
}

// read reads both files, one after the other.
func (c config) read() (routes, keys string, err error) {
	first, err := os.ReadFile(filepath.Join(string(c), "routes")) //nolint:gosec // a folder of this program
	if err != nil {
		return "", "", err
	}
	time.Sleep(50 * time.Millisecond)
	second, err := os.ReadFile(filepath.Join(string(c), "keys")) //nolint:gosec // a folder of this program
	return string(first), string(second), err
}

// process is a reader or the writer.
func process(ctx context.Context, name, server string, files config) error {
	holder, err := client.NewLocks(server, "default", &client.LocksOptions{Locks: locks.Options{Owner: name}})
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
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil),
		ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	defer server.Close() //nolint:errcheck // the example is over

	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx) // no one waits for one that has failed
	defer cancel()
	names := []string{"web-1", "web-2", "web-3", "editor"}
	errs := make([]error, len(names))
	var wait sync.WaitGroup
	for i, name := range names {
		p := exec.CommandContext(ctx, self) //nolint:gosec // this program
		p.Env = append(os.Environ(), asProcess+"="+name+" http://"+listener.Addr().String()+" "+folder)
		p.Stdout, p.Stderr = os.Stdout, os.Stderr
		wait.Go(func() {
			if errs[i] = p.Run(); errs[i] != nil {
				cancel()
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}
