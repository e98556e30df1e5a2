package placement

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Status says what a member does in its cluster.
type Status string

// The statuses of a member. Left and Dead are for ever: a process that comes back gets a new incarnation.
const (
	MemberActive   Status = "ACTIVE"   // has partitions, and is given new activations
	MemberDraining Status = "DRAINING" // keeps the activations that it has, and is given no others
	MemberLeft     Status = "LEFT"     // went by itself
	MemberDead     Status = "DEAD"     // its lease expired, and it was evicted
)

// Offer is what a member offers to host. It changes only with a new epoch, so that all who place by one epoch agree.
type Offer struct {
	Kinds  []string          `json:"kinds"`            // of identities; empty is none
	Labels map[string]string `json:"labels,omitempty"` // for placements that require or prefer some
	Weight int               `json:"weight,omitempty"` // share of the partitions, relative to the other members; 0 means 1

	// Full: the member hosts what it has and is given no new activations, because it is at its capacity or not well. Its
	// partitions stay its own, so that nothing moves back and forth.
	Full bool `json:"full,omitempty"`
}

// Incarnation is one life of a member: from when it joins until it leaves or is evicted. Activations belong to
// incarnations, not to names or addresses, so a process that comes back under its old name inherits nothing.
type Incarnation struct {
	Member string `json:"member"`      // name of the member
	Number int64  `json:"incarnation"` // only ever increases for one name
}

// Member is a member as an epoch has it.
type Member struct {
	Incarnation
	Offer

	Status  Status `json:"status"`            // MemberActive or MemberDraining
	Address string `json:"address,omitempty"` // where the member is reached: for its clients, without meaning here

	// Since is the epoch of the latest change of the member, and At its time.
	Since int64     `json:"since"`
	At    time.Time `json:"at,omitzero"`
}

// Need is what a placement asks of a member beside the kind of the identity.
type Need struct {
	Labels map[string]string `json:"labels,omitempty"` // the member must have all of them
	Prefer map[string]string `json:"prefer,omitempty"` // members that have more of them come first
}

func (n Need) none() bool { return len(n.Labels)+len(n.Prefer) == 0 }

// text is the need in one form, empty for none.
func (n Need) text() string {
	if n.none() {
		return ""
	}
	b, _ := json.Marshal(n) //nolint:errchkjson // texts can always be encoded; maps in the order of their keys
	return string(b)
}

// Ineligible says why a member may not host an identity; empty if it may.
type Ineligible string

// The reasons why a member is not eligible.
const (
	Eligible      Ineligible = ""
	NotAMember    Ineligible = "NOT_A_MEMBER"    // not in the epoch, or under another incarnation
	IsDraining    Ineligible = "DRAINING"        // it gives its activations away
	IsFull        Ineligible = "FULL"            // it takes no more activations
	LacksKind     Ineligible = "LACKS_KIND"      // it does not offer the kind of the identity
	LacksLabels   Ineligible = "LACKS_LABELS"    // it lacks a label that the placement requires
	PlacedOnOther Ineligible = "PLACED_ON_OTHER" // it could, and the epoch places the identity on another member
)

// Eligible says whether the member may be given an identity of a kind.
func (m *Member) Eligible(kind string, need Need) Ineligible {
	switch {
	case m.Status != MemberActive:
		return IsDraining
	case m.Full:
		return IsFull
	case !slices.Contains(m.Kinds, kind):
		return LacksKind
	}
	for k, v := range need.Labels {
		if has, ok := m.Labels[k]; !ok || has != v {
			return LacksLabels
		}
	}
	return Eligible
}

// preferred is how many of the labels that a placement prefers the member has.
func (m *Member) preferred(need Need) (n int) {
	for k, v := range need.Prefer {
		if has, ok := m.Labels[k]; ok && has == v {
			n++
		}
	}
	return n
}

// Topology is a cluster as one epoch has it: who its members are, and which partition is whose. It never changes; a
// change of the cluster makes a new one, with the next epoch. Everything that is placed is a function of it, so all who
// have the same epoch place alike.
type Topology struct {
	Epoch   int64
	At      time.Time // the store's time at which the epoch began
	Cause   string    // what began it, for people
	Members []Member  // by ascending name

	table []uint16 // of each partition, the index of its member; noMember without one
	seeds []uint64 // of each member

	slots []uint16 // of each member: see placed
	first int64    // epoch of the cluster: see epochChanges.From
	drawn string   // by chance, to tell epochs apart: see head.names

	steps []step // epochs before it, the oldest first: see Since
}

// noMember marks a partition without a member: no member is active.
const noMember = 1<<16 - 1

// Partitions is how many partitions the cluster has.
func (t *Topology) Partitions() int { return len(t.table) }

// Partition is the partition of an identity.
func (t *Topology) Partition(i Identity) int {
	return int(i.Hash() & uint64(len(t.table)-1)) //nolint:gosec // there are 65536 partitions at most
}

// Primary is the member that has a partition, nil if no member is active.
func (t *Topology) Primary(partition int) *Member {
	if m := t.table[partition]; m != noMember {
		return &t.Members[m]
	}
	return nil
}

// Place is the member on which an identity is placed by this epoch: the one that has its partition, or, if that is not
// eligible or another has more of the preferred labels, the eligible member with the highest score for the identity.
// nil if no member is eligible.
//
// It allocates nothing, and takes the same time however many members there are, unless it must look for another member.
func (t *Topology) Place(i Identity, need Need) *Member {
	h := i.Hash()
	primary := t.Primary(int(h & uint64(len(t.table)-1))) //nolint:gosec // there are 65536 partitions at most
	if primary == nil {
		return nil
	}
	best, most := (*Member)(nil), -1
	if primary.Eligible(i.Kind, need) == Eligible {
		best, most = primary, primary.preferred(need)
		if most == len(need.Prefer) {
			return best
		}
	}
	var highest uint64
	for n := range t.Members {
		m := &t.Members[n]
		if m.Eligible(i.Kind, need) != Eligible {
			continue
		}
		p, s := m.preferred(need), score(h, t.seeds[n])
		if p > most || p == most && best != primary && s > highest {
			best, most, highest = m, p, s
		}
	}
	return best
}

// Find returns a member by its name, nil if the epoch has none of it.
func (t *Topology) Find(member string) *Member {
	n, ok := t.search(member)
	if !ok {
		return nil
	}
	return &t.Members[n]
}

// Live reports whether an incarnation is in the epoch.
func (t *Topology) Live(i Incarnation) bool {
	if t == nil {
		return false
	}
	m := t.Find(i.Member)
	return m != nil && m.Number == i.Number
}

func (t *Topology) search(member string) (int, bool) {
	return slices.BinarySearchFunc(t.Members, member,
		func(m Member, name string) int { return strings.Compare(m.Member, name) })
}

// Ready reports whether the epoch places anything: it has an active member.
func (t *Topology) Ready() bool { return t != nil && t.table[0] != noMember }

// Table is, for each partition, the index of its member in Members, -1 if no member is active.
func (t *Topology) Table() []int {
	table := make([]int, len(t.table))
	for p, m := range t.table {
		table[p] = int(m)
		if m == noMember {
			table[p] = -1
		}
	}
	return table
}

// NewTopology is a topology without members, before the first epoch. partitions is a power of two, at most
// [MaxPartitions].
func NewTopology(partitions int) *Topology {
	t := &Topology{table: make([]uint16, partitions)}
	for p := range t.table {
		t.table[p] = noMember
	}
	return t
}

// seal computes what follows from the members.
func (t *Topology) seal() *Topology {
	t.seeds = make([]uint64, len(t.Members))
	for i, m := range t.Members {
		t.seeds[i] = seed(m.Member)
	}
	return t
}

// Next is the topology of the next epoch, with these members. Where a member takes the place of another, heir names it
// by the name of the other. moved is how many partitions change hands. It is a pure function, and does not change t.
func (t *Topology) Next(members []Member, heir map[string]string, cause string) (after *Topology, moved int) {
	after = &Topology{Epoch: t.Epoch + 1, Cause: cause, Members: slices.Clone(members)}
	slices.SortFunc(after.Members, func(a, b Member) int { return strings.Compare(a.Member, b.Member) })
	after.seal()
	index := make([]uint16, len(t.Members)) // of the members before, in the members after
	for i, m := range t.Members {
		name := m.Member
		if h := heir[name]; h != "" {
			name = h
		}
		index[i] = noMember
		if n, ok := after.search(name); ok {
			index[i] = uint16(n) //nolint:gosec // there are MaxMembers at most
		}
	}
	owners := make([]uint16, len(t.table))
	for p, m := range t.table {
		owners[p] = noMember
		if m != noMember {
			owners[p] = index[m]
		}
	}
	after.table = balance(owners, after.weights(), after.seeds)
	after.settle(t)
	for p, m := range t.table {
		if (m == noMember) != (after.table[p] == noMember) || m != noMember &&
			t.Members[m].Member != after.Members[after.table[p]].Member {
			moved++
		}
	}
	return after, moved
}

// weights are the members' shares of the partitions.
func (t *Topology) weights() []int {
	w := make([]int, len(t.Members))
	for i, m := range t.Members {
		if m.Status == MemberActive {
			w[i] = max(1, m.Weight)
		}
	}
	return w
}
