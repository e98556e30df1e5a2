package machineid_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// A service leases straight from a store, without a server. Any adapter takes the place of the store in memory.
func ExampleService() {
	ctx := context.Background()
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return noon }})
	ids := machineid.NewDefault(store, nil)

	r, err := ids.Acquire(ctx, kazahana.AcquireOptions{ThroughputPerMs: 1000})
	if err != nil {
		fmt.Println(err)
		return
	}
	l := r.Leases[0]
	fmt.Println(len(r.Leases), "leases of", time.UnixMilli(l.Expired).Sub(time.UnixMilli(l.Created)))

	at := noon.UnixMilli()
	err = ids.Release(ctx, kazahana.ReleaseOptions{ID: l.ID, Timestamp: at, Signature: kazahana.Sign(l.Secret, l.ID, at)})
	fmt.Println("released:", err == nil)

	// A service that is not configured leases as the default one does, and is counted by its own name.
	_, err = ids.Acquire(ctx, kazahana.AcquireOptions{ServiceID: "payments"})
	o, _, _ := ids.Occupancy(ctx, machineid.DefaultSpace)
	fmt.Println(o.Services, err)
	// Output:
	// 4 leases of 10m0s
	// released: true
	// map[default:3 payments:1] <nil>
}
