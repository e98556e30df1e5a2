package projectlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/locks/projectlock"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// newFolder is a project that exists.
func newFolder() string {
	folder, err := os.MkdirTemp("", "project-")
	if err != nil {
		panic(err)
	}
	return folder
}

// A save runs with the folder for itself. The lock is renewed while it runs, and its context ends if the lock is lost.
func ExampleProject_With() {
	folder := newFolder()
	defer os.RemoveAll(folder)
	project, err := projectlock.New(folder, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = project.With(context.Background(), nil, func(ctx context.Context, _ projectlock.Lease) error {
		if err := projectlock.Check(ctx); err != nil { // before each step that matters
			return err
		}
		return os.WriteFile(filepath.Join(folder, "story.json"), []byte("{}"), 0o600)
	})
	fmt.Println(err)
	// Output: <nil>
}

// A program that cannot have the lock goes on read-only. Here another process has it.
func ExampleProject_Acquire() {
	folder := newFolder()
	defer os.RemoveAll(folder)
	other, err := projectlock.New(folder, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := other.Acquire(context.Background(), nil); err != nil {
		fmt.Println(err)
		return
	}

	project, err := projectlock.New(folder, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = project.Acquire(context.Background(), &projectlock.AcquireOptions{
		Scope: projectlock.History,
		Retry: projectlock.RetryPolicy{MaxAttempts: 1}, // the rest is as by default
	})
	if e, ok := errors.AsType[*projectlock.LockError](err); ok && !e.Retryable {
		fmt.Println("read-only:", e.Code, errors.Is(err, contracts.CodeLockHeld))
	}
	// Output: read-only: lock-unavailable true
}

// A status line and telemetry listen at the same time.
func ExampleProject_Subscribe() {
	folder := newFolder()
	defer os.RemoveAll(folder)
	project, err := projectlock.New(folder, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	project.Subscribe(func(e projectlock.Event) { fmt.Println("status:", e.Type) })
	stop := project.Subscribe(func(e projectlock.Event) { fmt.Println("telemetry:", e.Type, e.Scope) })

	lease, err := project.Acquire(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if lease, err = project.Renew(context.Background(), lease); err != nil { // 20 s later
		fmt.Println(err)
		return
	}
	stop()
	if err := project.Release(context.Background(), lease); err != nil {
		fmt.Println(err)
		return
	}
	// Output:
	// status: lock:acquired
	// telemetry: lock:acquired autosave
	// status: lock:renewed
	// telemetry: lock:renewed autosave
	// status: lock:released
}

// With the service the lock excludes other machines, too, and has a fencing token. With the file there is none.
func ExampleLease_Token() {
	service := direct.Locks(lock.New(docstore.NewMemory(nil), nil), "acme") // over HTTP: client.LockAPI().For("acme")
	remote, err := projectlock.New("", &projectlock.Options{Service: service, Name: "project:4711"})
	if err != nil {
		fmt.Println(err)
		return
	}
	folder := newFolder()
	defer os.RemoveAll(folder)
	local, err := projectlock.New(folder, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, project := range []*projectlock.Project{remote, local} {
		err := project.With(context.Background(), nil, func(_ context.Context, l projectlock.Lease) error {
			token, err := l.Token()
			fmt.Println(l.Reach(), token > 0, errors.Is(err, projectlock.ErrNoToken))
			return nil
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// service true false
	// file false true
}
