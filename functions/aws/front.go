package aws

import "strings"

// FrontDoor is what hands HTTP requests to a function. Each has events, and responses, of its own shape.
type FrontDoor string

// The front ends, as the setting LEASEHOLD_FRONT_DOOR names them.
const (
	FunctionURL FrontDoor = "url" // a function URL; IAM may verify callers
	// HTTPAPI:
	// an HTTP API with payload format 2.0; a JWT or Lambda authorizer or IAM may verify callers
	HTTPAPI FrontDoor = "http-api"
	// RESTAPI:
	// a REST API with proxy integration; a Cognito or Lambda authorizer or IAM may verify callers
	RESTAPI      FrontDoor = "rest-api"
	LoadBalancer FrontDoor = "alb" // an Application Load Balancer; its events name no verified caller
)

// front says which front end sends an event of this shape; empty: none of them.
func (p *payload) front() FrontDoor {
	switch {
	case p.Version == "2.0" && strings.Contains(p.RequestContext.DomainName, ".lambda-url."):
		return FunctionURL
	case p.Version == "2.0":
		return HTTPAPI
	case p.HTTPMethod == "" || p.MethodARN != "" || p.Version != "": // an authorizer's own event has a methodArn
		return ""
	case p.RequestContext.ELB != nil:
		return LoadBalancer
	case p.RequestContext.APIID != "":
		return RESTAPI
	}
	return ""
}
