package httpapi

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/wire"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/page"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

func identityOf(r *http.Request) placement.Identity {
	return placement.Identity{Kind: r.PathValue("kind"), ID: r.PathValue("id")}
}

func (a *api) claimActivation(w http.ResponseWriter, r *http.Request, c Caller) error {
	body := contracts.ActivationClaimRequest{Member: notGiven}
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	command := placement.Claim{
		Cluster: clusterOf(r), Identity: identityOf(r), Need: placement.Need{Labels: body.Labels, Prefer: body.Prefer},
		RequestID: body.RequestID, Epoch: body.Epoch,
	}
	var err error
	if body.LockTTLSeconds != 0 {
		if command.LockTTL, err = seconds("lock_ttl_seconds", body.LockTTLSeconds); err != nil {
			return err
		}
	}
	switch {
	case body.Member == "":
		return field.Errorf("member", "is empty: name the member that claims for itself, or leave it out")
	case body.Member != notGiven:
		if command.By, err = c.incarnation(body.Member, body.Incarnation); err != nil {
			return err
		}
	case body.Incarnation != 0:
		return field.Errorf("incarnation", "is one of a member: name it in member, or leave both out")
	}
	o, err := a.placement.Claim(r.Context(), command)
	if err == nil && o.Code == placement.OK && o.TakenFrom.Member != "" {
		noteOf(r).action = "placement.takeover"
		factsOf(r).Takeover = metrics.KindActivation
		auditNote(r, slog.String("owner", o.Activation.Owner.Member), slog.String("taken_from", o.TakenFrom.Member))
	}
	return a.sendActivation(w, r, command.Cluster, o, err)
}

func (a *api) transferActivation(w http.ResponseWriter, r *http.Request, c Caller) error {
	body := contracts.ActivationTransferRequest{To: notGiven, LockTTLSeconds: defaultSeconds}
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	hold, err := holdOf(r, c, body.Member, body.Incarnation, body.FencingToken)
	if err != nil {
		return err
	}
	command := placement.Transfer{
		Hold: hold, Need: placement.Need{Labels: body.Labels, Prefer: body.Prefer}, RequestID: body.RequestID, To: body.To,
	}
	switch command.To {
	case notGiven:
		command.To = ""
	case "":
		return field.Errorf("to", "is empty: name a member, or leave it out")
	}
	if command.LockTTL, err = seconds("lock_ttl_seconds", body.LockTTLSeconds); err != nil {
		return err
	}
	o, err := a.placement.Transfer(r.Context(), command)
	auditNote(r, slog.String("owner", o.Activation.Owner.Member), slog.String("taken_from", hold.Owner.Member))
	return a.sendActivation(w, r, hold.Cluster, o, err)
}

// holdOf is what the owner of the path's activation names it by.
func holdOf(r *http.Request, c Caller, member string, incarnation, token int64) (placement.Hold, error) {
	owner, err := c.incarnation(member, incarnation)
	return placement.Hold{Cluster: clusterOf(r), Identity: identityOf(r), Owner: owner, Token: token}, err
}

// ofOwner handles a command of an owner that names its activation and nothing else.
func (a *api) ofOwner(do func(context.Context, placement.Hold) (placement.Outcome, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, c Caller) error {
		var body contracts.ActivationHoldRequest
		if err := decode(w, r, MaxBodyBytes, &body); err != nil {
			return err
		}
		hold, err := holdOf(r, c, body.Member, body.Incarnation, body.FencingToken)
		if err != nil {
			return err
		}
		o, err := do(r.Context(), hold)
		return a.sendActivation(w, r, hold.Cluster, o, err)
	}
}

func (a *api) activated(ctx context.Context, h placement.Hold) (placement.Outcome, error) {
	return a.placement.Activated(ctx, placement.Activated{Hold: h})
}

func (a *api) drainActivation(ctx context.Context, h placement.Hold) (placement.Outcome, error) {
	return a.placement.Drain(ctx, placement.Drain{Hold: h})
}

func (a *api) activationFailed(w http.ResponseWriter, r *http.Request, c Caller) error {
	var body contracts.ActivationFailedRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	hold, err := holdOf(r, c, body.Member, body.Incarnation, body.FencingToken)
	if err != nil {
		return err
	}
	o, err := a.placement.Fail(r.Context(), placement.Fail{Hold: hold, Reason: body.Reason})
	return a.sendActivation(w, r, hold.Cluster, o, err)
}

func (a *api) deactivate(w http.ResponseWriter, r *http.Request, c Caller) error {
	var body contracts.ActivationEndRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	hold, err := holdOf(r, c, body.Member, body.Incarnation, body.FencingToken)
	if err != nil {
		return err
	}
	o, err := a.placement.Deactivate(r.Context(), placement.Deactivate{Hold: hold, Reason: body.Reason})
	return a.sendActivation(w, r, hold.Cluster, o, err)
}

func (a *api) writeState(w http.ResponseWriter, r *http.Request, c Caller) error {
	var body contracts.ActivationStateRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	if body.State == nil {
		return field.Errorf("state", "is required: base64, which may be empty")
	}
	hold, err := holdOf(r, c, body.Member, body.Incarnation, body.FencingToken)
	if err != nil {
		return err
	}
	o, err := a.placement.WriteState(r.Context(), placement.WriteState{Hold: hold, RequestID: body.RequestID, Version: body.StateVersion, Data: body.State})
	o.Activation.State = nil // the caller has it
	return a.sendActivation(w, r, hold.Cluster, o, err)
}

// sendActivation sends the outcome of a command on an activation.
func (a *api) sendActivation(w http.ResponseWriter, r *http.Request, c placement.Cluster, o placement.Outcome, err error) error {
	factsOf(r).Replayed = o.Replayed
	if err != nil {
		return err
	}
	body, err := wire.ActivationOutcome(a.placement.Cached(c), o)
	if err != nil {
		return err
	}
	return send(w, body)
}

func (a *api) lookupPlacement(w http.ResponseWriter, r *http.Request, _ Caller) error {
	q, err := query(r, "labels", "prefer", "epoch")
	if err != nil {
		return err
	}
	lookup := placement.Lookup{Cluster: clusterOf(r), Identity: identityOf(r)}
	if lookup.Labels, err = labelsOf(q, "labels"); err != nil {
		return err
	}
	if lookup.Prefer, err = labelsOf(q, "prefer"); err != nil {
		return err
	}
	if lookup.Epoch, err = number(q, "epoch", 0, docstore.MaxInt); err != nil {
		return err
	}
	p, err := a.placement.Lookup(r.Context(), lookup)
	if err != nil {
		return err
	}
	body, err := wire.Placement(a.placement.Cached(lookup.Cluster), lookup.Identity, p)
	if err != nil {
		return err
	}
	return send(w, body)
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

func (a *api) getActivation(w http.ResponseWriter, r *http.Request, _ Caller) error {
	c := clusterOf(r)
	p, err := a.placement.Lookup(r.Context(), placement.Lookup{Cluster: c, Identity: identityOf(r)})
	if err != nil {
		return err
	}
	body, err := wire.Recorded(a.placement.Cached(c), p.Activation)
	if err != nil {
		return err
	}
	return send(w, body)
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
	show := func(s placement.Activation) contracts.Activation { return wire.Activation(a.placement.Cached(c), s) }
	return sendList(a, w, r, "activations", show, func(ctx context.Context) ([]placement.Activation, any, page.Cost, error) {
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
		rest := pageOfEpoch{Status: wire.Status(s.Topology), Epoch: s.Topology.Epoch}
		for _, d := range s.Damaged {
			kind, id, _ := strings.Cut(d.Key.ID, "/")
			rest.Unreadable = append(rest.Unreadable, contracts.UnreadableActivation{Kind: kind, ID: id, Code: problemOf(d.Err).Code})
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
