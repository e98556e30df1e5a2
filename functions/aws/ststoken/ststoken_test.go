package ststoken

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/internal/bearer"
)

// TestToken: one request to STS serves many runs until shortly before the token's expiry, and an error is not kept.
func TestToken(t *testing.T) {
	requests, status, lives := 0, http.StatusForbidden, lifetime
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		if err := r.ParseForm(); err != nil || r.Form.Get("Action") != "GetWebIdentityToken" ||
			r.Form.Get("Audience.member.1") != "https://worker.example" {
			t.Errorf("%v, %v", r.Form, err)
		}
		w.Header().Set("Content-Type", "text/xml")
		w.WriteHeader(status)
		if status != http.StatusOK {
			_, _ = fmt.Fprint(
				w, `<ErrorResponse><Error><Code>OutboundWebIdentityFederationDisabled</Code><Message>off</Message></Error></ErrorResponse>`)
			return
		}
		_, _ = fmt.Fprintf(
			w, `<GetWebIdentityTokenResponse><GetWebIdentityTokenResult><WebIdentityToken>token-%d</WebIdentityToken><Expiration>%s</Expiration></GetWebIdentityTokenResult></GetWebIdentityTokenResponse>`,
			requests, time.Now().Add(lives).UTC().Format(time.RFC3339))
	}))
	defer sts.Close()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_STS": sts.URL, "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKIAFAKE",
		"AWS_SECRET_ACCESS_KEY": "fake",
		"AWS_CONFIG_FILE":       "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
	token := New("https://worker.example")
	if _, err := token(t.Context()); err == nil || !strings.Contains(err.Error(),
		"OutboundWebIdentityFederationDisabled") {
		t.Errorf("an error of STS: %v", err)
	}
	status, requests = http.StatusOK, 0
	for range 3 {
		if got, err := token(t.Context()); err != nil || got != "token-1" {
			t.Errorf("%s, %v", got, err)
		}
	}
	got := ""
	err := bearer.New(token).Send(t.Context(), func(token string) (bool, error) {
		got += " " + token
		return token == "token-1", nil
	})
	if err != nil || got != " token-1 token-2" {
		t.Errorf("the target rejects a token:%s, %v", got, err)
	}
	requests = 1
	lives = early - time.Second // the next token is replaced at once
	s := &source{audience: "https://worker.example"}
	for i := range 2 {
		if got, err := s.token(t.Context()); err != nil || got != fmt.Sprintf("token-%d", i+2) {
			t.Errorf("%s, %v", got, err)
		}
	}
}
