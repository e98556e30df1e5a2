package machineid_test

import (
	"context"
	"errors"
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

	_, err = ids.Acquire(ctx, kazahana.AcquireOptions{ServiceID: "payments"})
	var unknown *machineid.UnknownServiceError
	fmt.Println(errors.As(err, &unknown), err)
	// Output:
	// 4 leases of 10m0s
	// released: true
	// true serviceId "payments" is not configured
}
