package direct

import (
	"cmp"
	"context"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// Time is a time as the contract has it, empty for none.
func Time(t time.Time) contracts.Time {
	if t.IsZero() {
		return ""
	}
	return string(docstore.FormatTime(t))
}

// remaining is how long something lasts, in milliseconds; 0, which the contract leaves out, for no time.
func remaining(end, now time.Time) int64 {
	if end.IsZero() {
		return 0
	}
	return max(0, end.Sub(now).Milliseconds())
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// Join is a join of the contract. The error is a [field.Error].
func Join(c placement.Cluster, member string, r contracts.MemberJoinRequest) (placement.Join, error) {
	end, err := endOf(notAfter, r.NotAfter)
	return placement.Join{
		Cluster: c, End: end, Member: member, RequestID: r.RequestID, Address: r.Address, TTL: seconds(r.TTLSeconds),
		Partitions: int(r.Partitions),
		Offer:      placement.Offer{Kinds: r.Kinds, Labels: r.Labels, Weight: int(r.Weight), Full: r.Full},
	}, err
}

// Replace is the join of a member of the contract that replaces another. The error is a [field.Error].
func Replace(c placement.Cluster, member string, r contracts.MemberReplaceRequest) (placement.Join, error) {
	end, err := endOf(notAfter, r.NotAfter)
	return placement.Join{
		Cluster: c, End: end, Member: member, RequestID: r.RequestID, Address: r.Address, TTL: seconds(r.TTLSeconds),
		Offer:    placement.Offer{Kinds: r.Kinds, Labels: r.Labels, Weight: int(r.Weight), Full: r.Full},
		Replaces: placement.Incarnation{Member: r.Replaces.Member, Number: r.Replaces.Incarnation},
	}, err
}

// Heartbeat is a heartbeat of the contract.
func Heartbeat(c placement.Cluster, member string, r contracts.MemberHeartbeatRequest) placement.Heartbeat {
	return placement.Heartbeat{
		Cluster: c, Incarnation: placement.Incarnation{Member: member, Number: r.Incarnation}, Seq: r.Seq,
		TTL: seconds(r.TTLSeconds),
	}
}

// ChangeOffer is a change of the contract to what a member offers.
func ChangeOffer(c placement.Cluster, member string, r contracts.MemberOfferRequest) placement.ChangeOffer {
	return placement.ChangeOffer{
		Cluster: c, Incarnation: placement.Incarnation{Member: member, Number: r.Incarnation}, RequestID: r.RequestID,
		Address: r.Address,
		Offer:   placement.Offer{Kinds: r.Kinds, Labels: r.Labels, Weight: int(r.Weight), Full: r.Full},
	}
}

// Claim is a claim of the contract. The error is a [field.Error].
func Claim(c placement.Cluster, i placement.Identity, r contracts.ActivationClaimRequest) (placement.Claim, error) {
	end, err := endOf(notAfter, r.NotAfter)
	return placement.Claim{
		Cluster: c, Identity: i, End: end, Need: placement.Need{Labels: r.Labels, Prefer: r.Prefer}, RequestID: r.RequestID,
		LockTTL: seconds(r.LockTTLSeconds), By: placement.Incarnation{Member: r.Member, Number: r.Incarnation},
		Epoch: r.Epoch,
	}, err
}

// WriteState is a write of the contract to the state of an activation, by its owner. The error is a [field.Error].
func WriteState(h placement.Hold, r contracts.ActivationStateRequest) (placement.WriteState, error) {
	c := placement.WriteState{Hold: h, RequestID: r.RequestID, Version: r.StateVersion, Data: r.State}
	if r.Alarm == nil {
		return c, nil
	}
	alarm, err := alarmChange(r.Alarm.AlarmVersion, r.Alarm.AlarmAt, r.Alarm.AlarmNextAt)
	c.Alarm = &alarm
	return c, err
}

// Alarm carries out what the contract has for the alarm of an activation, by its owner: it is set or cleared, or the
// call for it failed. The error can be a [field.Error].
func Alarm(ctx context.Context, s *placement.Service, h placement.Hold,
	r contracts.ActivationAlarmRequest) (placement.Outcome, error) {
	alarm, err := alarmChange(r.AlarmVersion, r.AlarmAt, r.AlarmNextAt)
	switch {
	case err != nil:
		return placement.Outcome{}, err
	case r.Failed == "":
		return s.SetAlarm(ctx, placement.SetAlarm{Hold: h, AlarmChange: alarm})
	}
	report := placement.ReportAlarm{Hold: h, Version: r.AlarmVersion, Reason: r.Failed}
	if r.AlarmAt != "" && report.Validate() == nil {
		return placement.Outcome{}, field.Errorf("alarm_at", "must be left out with failed, which changes no alarm")
	}
	return s.ReportAlarm(ctx, report)
}

func alarmChange(version int64, at, nextAt contracts.RequestTime) (placement.AlarmChange, error) {
	due, err := endOf("alarm_at", at)
	next, err2 := endOf("alarm_next_at", nextAt)
	return placement.AlarmChange{Version: version, At: due.NotAfter, Next: next.NotAfter}, cmp.Or(err, err2)
}

// Transfer is a transfer of the contract, by the owner of the activation. The error is a [field.Error].
func Transfer(h placement.Hold, r contracts.ActivationTransferRequest) (placement.Transfer, error) {
	end, err := endOf(notAfter, r.NotAfter)
	return placement.Transfer{
		Hold: h, End: end, Need: placement.Need{Labels: r.Labels, Prefer: r.Prefer}, RequestID: r.RequestID,
		LockTTL: seconds(r.LockTTLSeconds), To: r.To,
	}, err
}

// MemberState is the outcome of a command on a member, or its rejection as a [contracts.Error].
func MemberState(o placement.MemberOutcome) (contracts.MemberState, error) {
	if o.Code == placement.OK {
		return contracts.MemberState{
			Member: o.Incarnation.Member, Incarnation: o.Incarnation.Number, Status: contracts.MemberStatus(o.Status),
			Epoch: o.Epoch,
			Moved: int64(o.Moved), ExpiresAt: Time(o.ExpiresAt), RemainingMs: remaining(o.ExpiresAt, o.At), Replayed: o.Replayed,
		}, nil
	}
	if e := endRejection(o.Code, notAfter, o.Detail, o.At); e != nil {
		return contracts.MemberState{}, e
	}
	e := contracts.Errorf(contracts.Code(o.Code), "%s", o.Detail)
	e.Epoch = o.Epoch
	if o.Code == placement.MemberExists || o.Code == placement.StaleIncarnation {
		e.Incarnation = o.Incarnation.Number
	}
	if e.RetryAfter = o.RetryAfter; o.Code == placement.MemberExists {
		e.ExpiresAt = o.ExpiresAt
	}
	return contracts.MemberState{}, e
}

// Member is a member of an epoch.
func Member(m placement.Member) contracts.ClusterMember {
	kinds := m.Kinds
	if kinds == nil {
		kinds = []string{} // the contract promises a list
	}
	return contracts.ClusterMember{
		Member: m.Member, Incarnation: m.Number, Status: contracts.MemberStatus(m.Status), Kinds: kinds, Labels: m.Labels,
		Weight: int64(m.Weight),
		Full:   m.Full, Address: m.Address, Since: m.Since, At: Time(m.At),
	}
}

// ClusterStatus says whether an epoch places identities.
func ClusterStatus(t *placement.Topology) contracts.ClusterStatus {
	if t.Ready() {
		return contracts.ClusterReady
	}
	return contracts.ClusterUndetermined
}

// detailOf says what to do after a rejection for which the rules have no sentence; empty for others.
func detailOf(code placement.Code) string {
	switch code {
	case placement.Undetermined:
		return "the cluster has no active member: try again when one has joined"
	case placement.MemberIneligible:
		return "the member may not host the identity"
	case placement.StaleEpoch:
		return "get the topology, and place the identity again"
	case placement.Exists:
		return "the identity is active: go to its owner"
	case placement.Locking:
		return "another claim is being carried out"
	default:
		return ""
	}
}

// ActivationOutcome is the outcome of a command on an activation, or its rejection as a [contracts.Error]. latest is as
// for [Activation].
func ActivationOutcome(latest *placement.Topology, o placement.Outcome) (contracts.ActivationOutcome, error) {
	if o.Code != placement.OK {
		return contracts.ActivationOutcome{}, rejected(latest, o)
	}
	body := contracts.ActivationOutcome{Activation: Activation(latest, o.Activation), Epoch: o.Epoch, Replayed: o.Replayed}
	if o.Activation.Phase == placement.Locked {
		body.RemainingMs = remaining(o.Activation.LockUntil, o.At)
	}
	return body, nil
}

func rejected(latest *placement.Topology, o placement.Outcome) error {
	if e := endRejection(o.Code, notAfter, o.Detail, o.At); e != nil {
		return e
	}
	detail := o.Detail
	switch {
	case detail != "":
	case o.Code == placement.ActivationFailed:
		detail = o.Activation.Reason
	default:
		detail = detailOf(o.Code)
	}
	e := contracts.Errorf(contracts.Code(o.Code), "%s", detail)
	e.Epoch, e.Ineligible, e.RetryAfter = o.Epoch, contracts.Ineligible(o.Ineligible), o.RetryAfter
	if o.Code == placement.StaleToken {
		e.HighestToken = o.Activation.Token
	}
	if o.Activation.Token != 0 {
		seen := Activation(latest, o.Activation)
		seen.State = nil
		e.Activation = &seen
	}
	return e
}

// Placement is the result of a lookup, or its rejection as a [contracts.Error]. latest is as for [Activation].
func Placement(latest *placement.Topology, i placement.Identity, p placement.Placement) (contracts.Placement, error) {
	if p.Code != placement.OK {
		return contracts.Placement{}, rejected(latest, p.Outcome)
	}
	body := contracts.Placement{Kind: i.Kind, ID: i.ID, Epoch: p.Epoch, Partition: int64(p.Partition)}
	if p.Placed != nil {
		m := Member(*p.Placed)
		body.Placed = &m
	}
	if p.Owner != nil {
		m := Member(*p.Owner)
		body.Owner = &m
	}
	if p.Activation.Token != 0 {
		s := Activation(latest, p.Activation)
		body.Activation = &s
	}
	return body, nil
}

// Activation is an activation. The address of its owner is known if latest, the latest epoch that was seen here, has
// that incarnation; nil has none.
func Activation(latest *placement.Topology, a placement.Activation) contracts.Activation {
	b := contracts.Activation{
		Kind: a.Kind, ID: a.ID, Phase: contracts.Phase(a.Phase), FencingToken: a.Token, Member: a.Owner.Member,
		Incarnation: a.Owner.Number,
		Epoch:       a.Epoch, LockUntil: Time(a.LockUntil), ClaimedAt: Time(a.ClaimedAt), ActivatedAt: Time(a.ActivatedAt),
		ChangedAt: Time(a.ChangedAt),
		Failed:    a.Failed, Reason: a.Reason, StateVersion: a.StateVersion, State: a.State,
		AlarmAt: Time(a.AlarmAt), AlarmTries: a.AlarmTries, AlarmVersion: a.AlarmVersion,
		AlarmNextAt: Time(a.AlarmNext),
	}
	if latest != nil && a.Phase != placement.Free && latest.Live(a.Owner) {
		b.Address = latest.Find(a.Owner.Member).Address
	}
	return b
}

// Recorded is an activation that was looked up, NOT_FOUND if nothing is known of it. latest is as for [Activation].
func Recorded(latest *placement.Topology, a placement.Activation) (contracts.Activation, error) {
	if a.Token == 0 {
		return contracts.Activation{}, contracts.Errorf(contracts.CodeNotFound,
			"the identity was never claimed, or has been free for long")
	}
	return Activation(latest, a), nil
}

// Event is a change of a member or of an activation.
func Event(e placement.Event) contracts.PlacementEvent {
	return contracts.PlacementEvent{
		EventID: e.ID, At: Time(e.At), Member: e.Member.Member, Incarnation: e.Member.Number, Kind: e.Identity.Kind,
		ID:   e.Identity.ID,
		From: e.From, To: e.To, Epoch: e.Epoch, FencingToken: e.Token, Moved: int64(e.Moved), Reason: e.Reason,
	}
}
