package tests

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// What the plans of the tests are for.
const (
	region  = "eu-north-1"
	account = "123456789012"
)

// accountless is the environment of plans without an account. The one request that a plan sends is the question whose
// credentials it has.
const accountless = "LEASEHOLD_TEST_ACCOUNTLESS=1"

// The provider of AWS takes seconds of a processor to start, and to be compared with the checksum of its 700 MB, for
// each command of Terraform. Those that run already are lent to one command at a time, which configures its own anew.
var (
	lending sync.Mutex
	idle    []string // what Terraform must know of each
	started []*exec.Cmd
	unasked []string // requests that no plan may send
)

// attached lends a provider with the environment of accountless. The caller gives it back.
func attached(t testing.TB) (reattach string, giveBack func()) {
	t.Helper()
	lending.Lock()
	if n := len(idle); n > 0 {
		reattach, idle = idle[n-1], idle[:n-1]
	}
	lending.Unlock()
	if reattach == "" {
		reattach = startProvider(t)
	}
	return reattach, func() {
		lending.Lock()
		defer lending.Unlock()
		idle = append(idle, reattach)
	}
}

// startProvider starts a provider, which ends with this process.
func startProvider(t testing.TB) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(mirror(t, awsProvider), "*", awsProvider, "*", "*", "terraform-provider-*"))
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	cmd := exec.Command("sh", "-c", `"$0" -debug & cat; kill $!`, found[len(found)-1])
	cmd.Env = []string{"HOME=" + mirrored, "TMPDIR=" + os.TempDir(), "PATH=" + os.Getenv("PATH"),
		"AWS_ENDPOINT_URL=" + tokenService(), "AWS_REGION=" + region, "AWS_ACCESS_KEY_ID=test",
		"AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true"}
	if _, err := cmd.StdinPipe(); err != nil { // open for as long as this process runs and remembers it
		t.Fatal(err)
	}
	lending.Lock()
	started = append(started, cmd)
	lending.Unlock()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`TF_REATTACH_PROVIDERS='(.+)'`)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if m := said.FindStringSubmatch(lines.Text()); m != nil {
			of := ofTerraform
			if filepath.Base(program(t)) == "tofu" {
				of = ofOpenTofu
			}
			return "TF_REATTACH_PROVIDERS=" + strings.ReplaceAll(m[1], ofTerraform, of)
		}
	}
	t.Fatal("the provider does not say how it is called: ", cmd.Wait())
	return ""
}

// tokenService says whose credentials those of a plan are. Whoever asks it for something else fails the tests.
var tokenService = sync.OnceValue(func() string {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if action := r.FormValue("Action"); action != "GetCallerIdentity" {
			lending.Lock()
			defer lending.Unlock()
			unasked = append(unasked, fmt.Sprintf("a plan sends %s %s %s", r.Method, r.URL, action))
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "text/xml")
		_, _ = fmt.Fprintf(
			w, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>arn:aws:iam::%[1]s:user/test</Arn>`+
				`<UserId>AIDATEST</UserId><Account>%[1]s</Account></GetCallerIdentityResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></GetCallerIdentityResponse>`, account)
	})).URL
})
