package aws

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// verified is what a front end says about the caller that it verified. Empty: nothing.
type verified struct {
	claims     claims
	authorizer bool // the claims are the context of a Lambda authorizer, and not those of a token
	iam        bool
	arn        string // by IAM
	identity   string // by IAM: of a Cognito pool
}

// claims are the claims of a token, or the context of a Lambda authorizer: values of any JSON type.
type claims map[string]json.RawMessage

// principal is what a Lambda authorizer of a REST API always says.
const principal = "principalId"

// verified reads what the front end itself writes into an event: only those members that its authorizers have.
func (p *payload) verified(front FrontDoor) (v verified, err error) {
	switch raw := p.RequestContext.Authorizer; front {
	case FunctionURL, HTTPAPI:
		return byFormatTwo(raw, front)
	case RESTAPI:
		if who := p.RequestContext.Identity; who.UserARN != "" {
			return verified{iam: true, arn: who.UserARN, identity: who.CognitoIdentityID}, nil
		}
		return byRESTAPI(raw)
	default:
		return v, nil
	}
}

func byFormatTwo(raw json.RawMessage, front FrontDoor) (v verified, err error) {
	var a struct {
		JWT *struct {
			Claims claims `json:"claims"`
		} `json:"jwt"`
		IAM *struct {
			UserARN         string `json:"userArn"`
			CognitoIdentity struct {
				IdentityID string `json:"identityId"`
			} `json:"cognitoIdentity"`
		} `json:"iam"`
		Lambda claims `json:"lambda"`
	}
	if err := read(raw, &a); err != nil {
		return v, err
	}
	switch {
	case a.IAM != nil:
		v = verified{iam: true, arn: a.IAM.UserARN, identity: a.IAM.CognitoIdentity.IdentityID}
	case front == FunctionURL: // its callers are verified by IAM or not at all
	case a.JWT != nil:
		v.claims = a.JWT.Claims
		if v.claims == nil {
			v.claims = claims{}
		}
	case a.Lambda != nil:
		v = byContext(a.Lambda)
	}
	return v, nil
}

func byRESTAPI(raw json.RawMessage) (v verified, err error) {
	var a claims
	if err := read(raw, &a); err != nil {
		return v, err
	}
	delete(a, "integrationLatency") // of the authorizer, also of one that said nothing
	if bytes.HasPrefix(a["claims"], []byte("{")) {
		return v, read(a["claims"], &v.claims)
	}
	if len(a) > 0 {
		v = byContext(a)
	}
	return v, nil
}

// byContext is the context of a Lambda authorizer, whose caller is its sub, or else its principal.
func byContext(c claims) verified {
	if _, ok := c["sub"]; !ok && c[principal] != nil {
		c["sub"] = c[principal]
	}
	return verified{claims: c, authorizer: true}
}

// read decodes a member of an event that may not be there.
func read(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, into)
}

// text is a claim as text: what an HTTP API makes of it, which passes on text only. A list becomes [a b]. A claim that
// is missing or null is empty.
func (c claims) text(name string) string {
	raw := c[name]
	var s string
	var list []json.RawMessage
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return ""
	case json.Unmarshal(raw, &s) == nil:
		return s
	case json.Unmarshal(raw, &list) == nil:
		items := make([]string, len(list))
		for i, item := range list {
			items[i] = claims{"": item}.text("")
		}
		return "[" + strings.Join(items, " ") + "]"
	}
	return string(raw)
}

// expiry is when the token of the claims expires; zero if they do not say it as a number, as those of a Cognito
// authorizer of a REST API.
func (c claims) expiry() time.Time {
	seconds, err := strconv.ParseInt(c.text("exp"), 10, 64)
	if err != nil || seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// hasScope reads the claims only: the event's own list of scopes belongs to the route. Scopes are separated by one
// space, as functions/oidc reads them; authorizers flatten lists to "[a b]".
func (c claims) hasScope(want string) bool {
	for _, name := range []string{"scope", "scp"} {
		text := c.text(name)
		if list, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(list, "]") {
			text = strings.TrimSuffix(list, "]")
		}
		if slices.Contains(strings.Split(text, " "), want) {
			return true
		}
	}
	return false
}
