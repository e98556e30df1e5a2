package main

import (
	"fmt"
	"strconv"

	"github.com/leasehold-dev/leasehold/repo/placement"
)

// placementVectors are for those who place identities in another language, by a topology that they got.
type placementVectors struct {
	Comment     string            `json:"comment"`
	HashVersion int               `json:"hashVersion"`
	Hashes      []identityHash    `json:"hashes"`
	Topologies  []vectorTopology  `json:"topologies"`
	Placements  []vectorPlacement `json:"placements"`
}

type identityHash struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Hash string `json:"hash"` // 16 hexadecimal digits
}

type vectorTopology struct {
	Name    string             `json:"name"`
	Members []placement.Member `json:"members"`
	Table   []int              `json:"table"`
}

type vectorPlacement struct {
	Topology  string            `json:"topology"`
	Kind      string            `json:"kind"`
	ID        string            `json:"id"`
	Labels    map[string]string `json:"labels,omitempty"`
	Prefer    map[string]string `json:"prefer,omitempty"`
	Partition int               `json:"partition"`
	Member    string            `json:"member"` // empty: no member is eligible
}

func placements() placementVectors {
	v := placementVectors{
		Comment:     "Test vectors of placement. README.md beside this file explains them. Generated: make generate.",
		HashVersion: placement.HashVersion,
	}
	for _, i := range []placement.Identity{
		{Kind: "a", ID: "b"}, {Kind: "ab", ID: "c"}, {Kind: "a", ID: "bc"}, {Kind: "room", ID: "lobby"},
		{Kind: "room", ID: "会議室"},
		{Kind: "device", ID: "0123456789abcdef0123456789abcdef0123456789abcdef"},
	} {
		v.Hashes = append(v.Hashes, identityHash{i.Kind, i.ID, fmt.Sprintf("%016x", i.Hash())})
	}
	member := func(name, zone string, change func(*placement.Member), kinds ...string) placement.Member {
		m := placement.Member{
			Incarnation: placement.Incarnation{Member: name, Number: 1}, Status: placement.MemberActive, Since: 1,
			Offer: placement.Offer{Kinds: kinds, Labels: map[string]string{"zone": zone}},
		}
		if change != nil {
			change(&m)
		}
		return m
	}
	three := []placement.Member{
		member("ann", "a", nil, "room", "device"), member("bob", "b", nil, "room"),
		member("cleo", "b", nil, "room", "device"),
	}
	mixed := []placement.Member{
		three[0], member("bob", "b", func(m *placement.Member) { m.Full = true }, "room"),
		member("cleo", "b", func(m *placement.Member) { m.Status = placement.MemberDraining }, "room", "device"),
		member("dora", "c", func(m *placement.Member) { m.Weight = 3 }, "room"),
	}
	first, _ := placement.NewTopology(placement.MinPartitions).Next(three, nil, "three members")
	second, _ := first.Next(mixed, nil, "one is full, one drains, one joins")
	for _, t := range []struct {
		name string
		*placement.Topology
	}{{"three", first}, {"mixed", second}} {
		v.Topologies = append(v.Topologies, vectorTopology{t.name, t.Members, t.Table()})
		for n := range 12 {
			i := placement.Identity{Kind: []string{"room", "device"}[n%2], ID: "id-" + strconv.Itoa(n)}
			for _, need := range []placement.Need{
				{}, {Labels: map[string]string{"zone": "b"}}, {Prefer: map[string]string{"zone": "b"}},
				{Labels: map[string]string{"disk": "ssd"}},
			} {
				p := vectorPlacement{
					Topology: t.name, Kind: i.Kind, ID: i.ID, Labels: need.Labels, Prefer: need.Prefer, Partition: t.Partition(i),
				}
				if m := t.Place(i, need); m != nil {
					p.Member = m.Member
				}
				v.Placements = append(v.Placements, p)
			}
		}
	}
	return v
}
