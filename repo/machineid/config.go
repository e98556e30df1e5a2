package machineid

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// ServiceConfig says what leases of a service look like.
type ServiceConfig struct {
	ServiceID string `json:"serviceId"` // as callers name it: 1 to MaxServiceIDBytes bytes

	// Space is the set of machine IDs that the service leases from. IDs of services that share one never collide. Empty
	// means DefaultSpace.
	Space string `json:"space"`

	kazahana.Layout // its first three members must be the same for all services of a space

	LeaseDuration int64 `json:"leaseDuration"` // milliseconds, MinLeaseDuration to MaxLeaseDuration
}

// Names and bounds of a configuration.
const (
	DefaultServiceID  = "default" // of callers who name no service
	DefaultSpace      = "default"
	MaxServiceIDBytes = 128
	MaxSpaceBytes     = 128

	MinLeaseDuration     = 1_000      // milliseconds
	MaxLeaseDuration     = 86_400_000 // milliseconds, a day
	DefaultLeaseDuration = 600_000    // milliseconds, ten minutes

	maxUnits = 1 << maxUnitBits // of a space: 256 pages
)

// DefaultService is what is served without a configuration: the service "default" with [kazahana.DefaultLayout] and
// leases of ten minutes.
func DefaultService() ServiceConfig {
	return ServiceConfig{
		ServiceID: DefaultServiceID, Space: DefaultSpace, Layout: kazahana.DefaultLayout(),
		LeaseDuration: DefaultLeaseDuration,
	}
}

// ParseServices reads a JSON list of services. What an entry leaves out is as in [DefaultService], but for serviceId,
// which is required. The error names the entry and the member at fault.
func ParseServices(text []byte) ([]ServiceConfig, error) {
	var entries []json.RawMessage
	if err := strictly(text, &entries); err != nil {
		return nil, fmt.Errorf("the ID services must be a JSON list of objects such as [{\"serviceId\":\"payments\"}]: %w",
			err)
	}
	if len(entries) == 0 {
		return nil, errors.New(
			"the list of ID services is empty: name at least one, or leave the setting out for the default")
	}
	services := make([]ServiceConfig, len(entries))
	for i, e := range entries {
		services[i] = DefaultService()
		services[i].ServiceID = ""
		if err := strictly(e, &services[i]); err != nil {
			return nil, fmt.Errorf("ID service %d: %w", i+1, err)
		}
	}
	_, err := plan(services)
	return services, err
}

// strictly decodes one JSON value and rejects unknown members. Its errors are in terms of JSON.
func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return inWords(err, len(text))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows after the end of the JSON value")
	}
	return nil
}

// service is a service and the space that it leases from.
type service struct {
	ServiceConfig
	space *space
}

// space is what the services of one space have in common.
type space struct {
	name     string
	layout   kazahana.Layout // with the sequence of the first service; only what all share is looked at
	services []string        // IDs of its services
	geometry geometry        // as the configuration has it; the stored one counts
	minSeq   int             // smallest bitSeq of its services
	maxSeq   int             // largest
}

// plan checks services and assigns them to their spaces. No services mean the default one.
func plan(configs []ServiceConfig) (map[string]*service, error) {
	if len(configs) == 0 {
		configs = []ServiceConfig{DefaultService()}
	}
	services := make(map[string]*service, len(configs))
	spaces := make(map[string]*space)
	for i, c := range configs {
		if c.Space == "" {
			c.Space = DefaultSpace
		}
		if err := c.Validate(); err != nil {
			return nil, fmt.Errorf("ID service %d (%q): %w", i+1, c.ServiceID, err)
		}
		if services[c.ServiceID] != nil {
			return nil, fmt.Errorf("ID service %d: serviceId %q is given twice", i+1, c.ServiceID)
		}
		sp := spaces[c.Space]
		if sp == nil {
			sp = &space{name: c.Space, layout: c.Layout, minSeq: c.BitSeq, maxSeq: c.BitSeq}
			spaces[c.Space] = sp
		} else if err := sp.agree(c); err != nil {
			return nil, err
		}
		sp.services = append(sp.services, c.ServiceID)
		sp.minSeq, sp.maxSeq = min(sp.minSeq, c.BitSeq), max(sp.maxSeq, c.BitSeq)
		services[c.ServiceID] = &service{ServiceConfig: c, space: sp}
	}
	for _, sp := range spaces {
		var err error
		if sp.geometry, err = sp.divide(); err != nil {
			return nil, err
		}
	}
	return services, nil
}

// Validate reports whether the service can work by itself; [New] and [ParseServices] also look at the others in its
// space. The error names the member at fault.
func (c ServiceConfig) Validate() error {
	if err := field.Text("serviceId", c.ServiceID, MaxServiceIDBytes); err != nil {
		return err
	}
	if err := field.Text("space", c.Space, MaxSpaceBytes); err != nil {
		return err
	}
	if err := c.Layout.Validate(); err != nil {
		return err
	}
	return field.Range("leaseDuration", c.LeaseDuration, MinLeaseDuration, MaxLeaseDuration)
}

// agree reports whether another service may join the space. Timestamps that count from different instants, or that
// stand elsewhere in the ID, would make equal IDs from different machine IDs.
func (sp *space) agree(c ServiceConfig) error {
	for _, f := range []struct {
		name         string
		first, other int64
	}{
		{"customEpoch", sp.layout.CustomEpoch, c.CustomEpoch},
		{"bitReserve", int64(sp.layout.BitReserve), int64(c.BitReserve)},
		{"bitTs", int64(sp.layout.BitTs), int64(c.BitTs)},
	} {
		if f.first != f.other {
			return fmt.Errorf(
				"ID service %q: %s is %d, but %q in the same space %q has %d: make them equal, or give the service a space of its own",
				c.ServiceID, f.name, f.other, sp.services[0], sp.name, f.first)
		}
	}
	return nil
}

// divide chooses the units of the space: of 256 sequence numbers, unless a service needs them smaller or the space
// would become too large.
func (sp *space) divide() (geometry, error) {
	// A lease is at most a whole page.
	unit := max(min(unitBits, sp.minSeq), sp.maxSeq-slotBits, sp.layout.BitNode()-1-maxUnitBits)
	if unit > sp.minSeq {
		if sp.maxSeq-sp.minSeq > slotBits {
			return geometry{}, fmt.Errorf(
				"space %q: bitSeq of its services goes from %d to %d: at most %d apart, or give them different spaces",
				sp.name, sp.minSeq, sp.maxSeq, slotBits)
		}
		return geometry{},
			fmt.Errorf("space %q: bitSeq %d makes %d machine IDs, %d at most: choose a larger bitSeq and a smaller bitId",
				sp.name, sp.minSeq, int64(1)<<(sp.layout.BitNode()-1-sp.minSeq), maxUnits)
	}
	return newGeometry(sp.layout, unit), nil
}

// fits reports whether the services of the space can lease from units of so many bits of sequence.
func (sp *space) fits(unit int) bool {
	return unit-splitBits <= sp.minSeq && unit >= sp.maxSeq-slotBits
}

// size is the size of a lease of the service.
func (s *service) size(g geometry) int { return s.BitSeq - g.unit }

// leases is how many machine IDs the throughput needs, bound at most; 0 is no bound. The error is a [field.Error].
func (s *service) leases(throughput int64, bound int) (int, error) {
	if throughput == 0 {
		throughput = 1
	}
	most := min(s.MaxMachineID()+1, s.perWrite())
	if err := field.Range("throughputPerMs", throughput, 1, most*s.Throughput()); err != nil {
		return 0, err
	}
	if bound := int64(bound); bound > 0 && throughput > bound*s.Throughput() {
		return 0, field.Errorf("throughputPerMs",
			"is %d: this server grants %d leases to a request at most, which are %d IDs per millisecond",
			throughput, bound, bound*s.Throughput())
	}
	return int((throughput + s.Throughput() - 1) / s.Throughput()), nil
}

// perWrite is how many leases one write of the store can grant at most.
func (s *service) perWrite() int64 {
	g := s.space.geometry
	return docstore.MaxWrites * int64(g.slots) << g.unit >> s.BitSeq
}

// interval is the interval of a lease that is granted at now, in Unix milliseconds.
func (s *service) interval(now int64) (created, expired int64, err error) {
	end := s.End().UnixMilli()
	if now < s.CustomEpoch || now >= end {
		return 0, 0, fmt.Errorf(
			"ID service %q: now, %s, is not among its timestamps, which are from %s to %s: change customEpoch or bitTs",
			s.ServiceID, moment(now), moment(s.CustomEpoch), moment(end))
	}
	return now, min(now+s.LeaseDuration, end), nil
}

func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
