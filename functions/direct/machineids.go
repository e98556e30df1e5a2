package direct

import (
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// leaseEnd is the name of the end of a request for machine IDs, whose JSON is another one than that of the rest.
const leaseEnd = "notAfter"

// LeaseEnd reads the end of a request for machine IDs, the zero time for none. The error is a [field.Error].
func LeaseEnd(r contracts.MachineIDLeaseRequest) (time.Time, error) {
	end, err := endOf(leaseEnd, r.NotAfter)
	return end.NotAfter, err
}

// LeaseEnded is the rejection of a request for machine IDs that came after its end, or whose end is too far away.
func LeaseEnded(e *machineid.EndError) *contracts.Error {
	return endRejection(e.Code, leaseEnd, e.Error(), e.At)
}
