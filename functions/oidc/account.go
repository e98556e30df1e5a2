package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// GoogleIssuer is the issuer of the ID tokens of Google's accounts, with which Cloud Tasks and Cloud Scheduler call.
const GoogleIssuer = "https://accounts.google.com"

// Account lets one account of an issuer in, by the email address that its tokens name, and nobody else: the service
// account of a task queue or of a scheduler. It is no [httpapi.Identity], because such tokens know no tenant.
type Account struct {
	tokens

	email string
}

// NewAccount returns the door for one account. Of the [Config], TenantClaim and AdminScope are not used. ctx is the
// lifetime, as for [New].
func NewAccount(ctx context.Context, c Config, email string) (*Account, error) {
	if email == "" {
		return nil, errors.New("oidc: the email address of the account is required: with some issuers, " +
			"everybody can get a token for any audience")
	}
	t, err := newTokens(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Account{t, email}, nil
}

// Verify lets a request in whose bearer token names the account, with an address that the issuer has verified. The error
// is [httpapi.ErrUnauthenticated] if there is no believable token, [httpapi.ErrForbidden] if it is another account's, and
// another one if the issuer's keys could not be read.
func (a *Account) Verify(r *http.Request) error {
	return a.read(r, func(payload []byte) error {
		token, err := a.config.believed(payload)
		if err != nil {
			return err
		}
		email, _ := token.text("email")
		switch {
		case email == "":
			return refuse("the token has no claim email with a text: Google's ID tokens of service accounts have it if asked for")
		case !token.isTrue("email_verified"):
			return refuse("the token's claim email_verified is not true: nobody vouches for its address")
		case email != a.email:
			return fmt.Errorf("%w: the token is of the account %s, this door is for another", httpapi.ErrForbidden, quote(email))
		}
		return nil
	})
}
