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

// Account accepts one account of an issuer, by the email address in its tokens: the service account of a task queue or
// of a scheduler. It is not an [httpapi.Identity], because such tokens have no tenant.
type Account struct {
	tokens

	email string
}

// NewAccount returns the check for one account. TenantClaim and the scopes of the [Config] are not used. ctx is the
// lifetime, as for [New].
func NewAccount(ctx context.Context, c Config, email string) (*Account, error) {
	if email == "" {
		return nil, errors.New("oidc: the email address of the account is required: with some issuers, " +
			"every account can get a token for any audience")
	}
	t, err := newTokens(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Account{t, email}, nil
}

// Verify accepts a request whose bearer token names the account, with an address that the issuer has verified, and
// returns this address, also if it is that of another account. The error is [httpapi.ErrUnauthenticated] if there is no
// valid token, [httpapi.ErrForbidden] if it is another account's, and another one if the issuer's keys could not be
// read.
func (a *Account) Verify(r *http.Request) (subject string, err error) {
	err = a.read(r, func(payload []byte) error {
		token, err := a.config.verified(payload)
		if err != nil {
			return err
		}
		email, _ := token.text("email")
		switch {
		case email == "":
			return httpapi.Unauthenticated(
				"the token has no claim email with a text: Google's ID tokens of service accounts have it if asked for")
		case !token.isTrue("email_verified"):
			return httpapi.Unauthenticated(
				"the token's claim email_verified is not true: its issuer has not verified the address")
		}
		subject = email
		if email != a.email {
			return fmt.Errorf("%w: the token is of the account %s, this endpoint is for another", httpapi.ErrForbidden,
				quote(email))
		}
		return nil
	})
	if errors.Is(err, httpapi.ErrUnauthenticated) {
		return "", err // what was read does not count
	}
	return subject, err
}
