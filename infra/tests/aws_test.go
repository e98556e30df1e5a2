package tests

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// What the plans of the tests are for.
const (
	region  = "eu-north-1"
	account = "123456789012"
)

// accountless is the environment of plans without an account. The one request that a plan sends is the question whose
// credentials it has.
func accountless(t *testing.T) []string {
	t.Helper()
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if action := r.FormValue("Action"); action != "GetCallerIdentity" {
			t.Errorf("the plan sends %s %s %s", r.Method, r.URL, action)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "text/xml")
		_, _ = fmt.Fprintf(
			w, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>arn:aws:iam::%[1]s:user/test</Arn>`+
				`<UserId>AIDATEST</UserId><Account>%[1]s</Account></GetCallerIdentityResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></GetCallerIdentityResponse>`, account)
	}))
	t.Cleanup(sts.Close)
	return []string{"AWS_ENDPOINT_URL=" + sts.URL, "AWS_REGION=" + region, "AWS_ACCESS_KEY_ID=test",
		"AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true"}
}
