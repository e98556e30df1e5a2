package httpapi

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/page"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

func identityOf(r *http.Request) placement.Identity {
	return placement.Identity{Kind: r.PathValue("kind"), ID: r.PathValue("id")}
}

func (a *api) claimActivation(c call, b *contracts.ActivationClaimRequest) (outcome contracts.ActivationOutcome,
	err error) {
	if b.LockTTLSeconds != 0 {
		if err := checkSeconds("lock_ttl_seconds", b.LockTTLSeconds); err != nil {
			return outcome, err
		}
	}
	switch {
	case b.Member == "":
		return outcome, field.Errorf("member", "is empty: name the member that claims for itself, or leave it out")
	case b.Member != notGiven:
		if err := c.asMember(&b.Member); err != nil {
			return outcome, err
		}
	case b.Incarnation != 0:
		return outcome, field.Errorf("incarnation", "is one of a member: name it in member, or leave both out")
	default:
		b.Member = ""
	}
	command, err := direct.Claim(clusterOf(c.Request), identityOf(c.Request), *b)
	if err != nil {
		return outcome, err
	}
	o, err := a.placement.Claim(c.Context(), command)
	if err == nil && o.Code == placement.OK && o.TakenFrom.Member != "" {
		c.note.action = actionTakeover
		c.note.facts.Takeover = metrics.KindActivation
		c.event().Takeover = true
	}
	defer c.note.begins()
	return a.activation(c, o, err)
}

func (a *api) transferActivation(c call, b *contracts.ActivationTransferRequest) (outcome contracts.ActivationOutcome,
	err error) {
	hold, err := c.hold(b.Member, b.Incarnation, b.FencingToken)
	if err != nil {
		return outcome, err
	}
	switch b.To {
	case notGiven:
		b.To = ""
	case "":
		return outcome, field.Errorf("to", "is empty: name a member, or leave it out")
	}
	if err := checkSeconds("lock_ttl_seconds", b.LockTTLSeconds); err != nil {
		return outcome, err
	}
	command, err := direct.Transfer(hold, *b)
	if err != nil {
		return outcome, err
	}
	o, err := a.placement.Transfer(c.Context(), command)
	c.event().TakenFrom = hold.Owner.Member
	defer c.note.begins()
	return a.activation(c, o, err)
}

// hold is what the owner of the path's activation names it by.
func (c call) hold(member string, incarnation, token int64) (placement.Hold, error) {
	err := c.asMember(&member)
	return placement.Hold{
		Cluster: clusterOf(c.Request), Identity: identityOf(c.Request),
		Owner: placement.Incarnation{Member: member, Number: incarnation}, Token: token,
	}, err
}

func (a *api) activated(c call, b *contracts.ActivationHoldRequest) (outcome contracts.ActivationOutcome, err error) {
	hold, err := c.hold(b.Member, b.Incarnation, b.FencingToken)
	if err != nil {
		return outcome, err
	}
	o, err := a.placement.Activated(c.Context(), placement.Activated{Hold: hold})
	return a.activation(c, o, err)
}

func (a *api) activationFailed(c call, b *contracts.ActivationFailedRequest) (outcome contracts.ActivationOutcome,
	err error) {
	hold, err := c.hold(b.Member, b.Incarnation, b.FencingToken)
	if err != nil {
		return outcome, err
	}
	o, err := a.placement.Fail(c.Context(), placement.Fail{Hold: hold, Reason: b.Reason})
	defer c.note.ends()
	return a.activation(c, o, err)
}

func (a *api) deactivate(c call, b *contracts.ActivationEndRequest) (outcome contracts.ActivationOutcome, err error) {
	hold, err := c.hold(b.Member, b.Incarnation, b.FencingToken)
	if err != nil {
		return outcome, err
	}
	o, err := a.placement.Deactivate(c.Context(), placement.Deactivate{Hold: hold, Reason: b.Reason})
	defer c.note.ends()
	return a.activation(c, o, err)
}

func (a *api) writeState(c call, b *contracts.ActivationStateRequest) (outcome contracts.ActivationOutcome, err error) {
	if b.State == nil {
		return outcome, field.Errorf("state", "is required: base64, which may be empty")
	}
	hold, err := c.hold(b.Member, b.Incarnation, b.FencingToken)
	if err != nil {
		return outcome, err
	}
	command, err := direct.WriteState(hold, *b)
	if err != nil {
		return outcome, err
	}
	o, err := a.placement.WriteState(c.Context(), command)
	o.Activation.State = nil // the caller has it
	return a.activation(c, o, err)
}

func (a *api) setAlarm(c call, b *contracts.ActivationAlarmRequest) (outcome contracts.ActivationOutcome, err error) {
	hold, err := c.hold(b.Member, b.Incarnation, b.FencingToken)
	if err != nil {
		return outcome, err
	}
	switch b.Failed {
	case notGiven:
		b.Failed = ""
	case "":
		return outcome, field.Errorf("failed", "is empty: say why the call for the alarm failed, or leave it out")
	}
	o, err := direct.Alarm(c.Context(), a.placement, hold, *b)
	o.Activation.State = nil // it is not about it
	return a.activation(c, o, err)
}

// activation replies to a command on an activation.
func (a *api) activation(c call, o placement.Outcome, err error) (contracts.ActivationOutcome, error) {
	c.note.activation(o, err)
	return reply(c, o, o.Replayed, err, func(o placement.Outcome) (contracts.ActivationOutcome, error) {
		return direct.ActivationOutcome(a.placement.Cached(clusterOf(c.Request)), o)
	})
}

func (a *api) lookupPlacement(c call) (placed contracts.Placement, err error) {
	q, err := query(c.Request, "labels", "prefer", "epoch")
	if err != nil {
		return placed, err
	}
	lookup := placement.Lookup{Cluster: clusterOf(c.Request), Identity: identityOf(c.Request)}
	if lookup.Labels, err = labelsOf(q, "labels"); err != nil {
		return placed, err
	}
	if lookup.Prefer, err = labelsOf(q, "prefer"); err != nil {
		return placed, err
	}
	if lookup.Epoch, err = number(q, "epoch", 0, docstore.MaxInt); err != nil {
		return placed, err
	}
	p, err := a.placement.Lookup(c.Context(), lookup)
	if err != nil {
		return placed, err
	}
	return direct.Placement(a.placement.Cached(lookup.Cluster), lookup.Identity, p)
}

// labelsOf are labels of a query: a JSON object.
func labelsOf(q map[string]string, name string) (map[string]string, error) {
	labels := map[string]string{}
	text, given := q[name]
	if !given {
		return labels, nil
	}
	if strings.TrimSpace(text) == "null" || jsonv2.Unmarshal([]byte(text), &labels, noNull) != nil {
		return nil, field.Errorf(name, `must be a JSON object whose values are text, such as {"zone":"a"}`)
	}
	return labels, nil
}

// number is a whole number of a query, 0 if it has none.
func number(q map[string]string, name string, least, most int64) (int64, error) {
	text, given := q[name]
	if !given {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text || n < least || n > most {
		return 0, field.Errorf(name, "must be a whole number from %d to %d", least, most)
	}
	return n, nil
}

func (a *api) getActivation(c call) (contracts.Activation, error) {
	of := clusterOf(c.Request)
	p, err := a.placement.Lookup(c.Context(), placement.Lookup{Cluster: of, Identity: identityOf(c.Request)})
	if err != nil {
		return contracts.Activation{}, err
	}
	return direct.Recorded(a.placement.Cached(of), p.Activation)
}

// maxActivations is how many activations a page has at most: their states are read, too.
const maxActivations = 100

func (a *api) listActivations(w http.ResponseWriter, r *http.Request, _ Caller) error {
	q, err := query(r, "kind", "page_size", "page_token")
	if err != nil {
		return err
	}
	size, err := number(q, "page_size", 1, maxActivations)
	if err != nil {
		return err
	}
	after, err := base64.RawURLEncoding.Strict().DecodeString(q["page_token"])
	list := placement.Query{Kind: q["kind"], Limit: int(size)}
	if err := list.Validate(); err != nil {
		return err // without waiting
	}
	if list.After = string(after); err != nil || list.Validate() != nil {
		return field.Errorf("page_token", "must be the next_page_token of the page before")
	}
	c := clusterOf(r)
	show := func(s placement.Activation) contracts.Activation { return direct.Activation(a.placement.Cached(c), s) }
	return sendList(a, w, r, "activations", show, func(ctx context.Context) ([]placement.Activation, any,
		page.Cost, error) {
		s, err := a.placement.Snapshot(ctx, c, list)
		if err != nil {
			return nil, nil, page.Cost{}, err
		}
		var cost page.Cost
		for i := range s.Activations {
			cost.Kept += activationBytes
			cost.Read += activationBytes + len(s.Activations[i].State)
			s.Activations[i].State = nil
		}
		a.passed(r, "activations", s.Damaged)
		rest := pageOfEpoch{Status: direct.ClusterStatus(s.Topology), Epoch: s.Topology.Epoch}
		for _, d := range s.Damaged {
			kind, id, _ := strings.Cut(d.Key.ID, "/")
			rest.Unreadable = append(rest.Unreadable, contracts.UnreadableActivation{Kind: kind, ID: id,
				Code: problemOf(d.Err).Code})
		}
		if s.Next != "" {
			rest.Token = base64.RawURLEncoding.EncodeToString([]byte(s.Next))
		}
		return s.Activations, rest, cost, nil
	})
}

// activationBytes is about what an activation takes without its state.
const activationBytes = 1 << 10

// pageOfEpoch is what follows the activations of a page.
type pageOfEpoch struct {
	Status     contracts.ClusterStatus          `json:"status"`
	Epoch      int64                            `json:"epoch"`
	Unreadable []contracts.UnreadableActivation `json:"unreadable,omitempty"`
	nextPage
}
