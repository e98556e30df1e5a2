package awssqs

import (
	"strings"
	"testing"
)

// TestURLs: a queue's URL says where it is.
func TestURLs(t *testing.T) {
	for _, c := range []struct {
		url  string
		in   Options
		want Options
	}{
		{url: "https://sqs.eu-north-1.amazonaws.com/123456789012/q", want: Options{Region: "eu-north-1"}},
		{url: "https://eu-north-1.queue.amazonaws.com/123456789012/q", want: Options{Region: "eu-north-1"}},
		{url: "https://sqs-fips.us-gov-west-1.amazonaws.com/123456789012/q", want: Options{Region: "us-gov-west-1"}},
		{url: "https://sqs.cn-north-1.amazonaws.com.cn/123456789012/q", want: Options{Region: "cn-north-1"}},
		{url: "https://sqs.eu-north-1.api.aws/123456789012/q", want: Options{Region: "eu-north-1"}},
		{url: "https://queue.amazonaws.com/123456789012/q"},
		{
			url:  "https://vpce-1-2.sqs.eu-north-1.vpce.amazonaws.com/123456789012/q",
			want: Options{Region: "eu-north-1", Endpoint: "https://vpce-1-2.sqs.eu-north-1.vpce.amazonaws.com"},
		},
		{url: "http://127.0.0.1:9324/000000000000/q", want: Options{Endpoint: "http://127.0.0.1:9324"}},
		{
			url: "http://127.0.0.1:9324/000000000000/q", in: Options{Region: "us-east-1", Endpoint: "http://127.0.0.1:1"},
			want: Options{Region: "us-east-1", Endpoint: "http://127.0.0.1:1"},
		},
	} {
		if got, err := c.in.at(c.url); err != nil || got.Region != c.want.Region || got.Endpoint != c.want.Endpoint {
			t.Errorf("%s: %+v, %v; want %+v", c.url, got, err, c.want)
		}
	}
	for _, url := range []string{"", "analyses", "arn:aws:sqs:eu-north-1:1:q", "https://sqs.eu-north-1.amazonaws.com/",
		"ftp://x/y"} {
		if _, err := (Options{}).at(url); err == nil || !strings.Contains(err.Error(), "must be its URL") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// TestOpenSaysWhatIsMissing: settings that cannot work are rejected before anything is sent.
func TestOpenSaysWhatIsMissing(t *testing.T) {
	for _, v := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID",
		"AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(v, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/nonexistent")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for url, says := range map[string]string{
		"analyses": "must be its URL",
		"https://queue.amazonaws.com/123456789012/q":          "no region",
		"https://sqs.eu-north-1.amazonaws.com/123456789012/q": "no credentials",
	} {
		if q, err := Open(t.Context(), url, nil); q != nil || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", url, err, says)
		}
	}
	if h, err := OpenHider(t.Context(), &Options{Endpoint: "127.0.0.1:1"}); h != nil || err == nil ||
		!strings.Contains(err.Error(), "endpoint") {
		t.Errorf("%v", err)
	}
}

// TestNamesAreToldApart: what SQS does not take is replaced by a hash, and no other name is that hash.
func TestNamesAreToldApart(t *testing.T) {
	taken := map[string]string{}
	names := []string{"a", "a b", "a\tb", "sha256:", "sha256:x", strings.Repeat("x", 128), strings.Repeat("x", 129)}
	for i := 0; i < len(names) && i < 100; i++ {
		name := fifoName(names[i])
		if other, known := taken[name]; known {
			t.Errorf("%q is taken for %q", names[i], other)
		}
		taken[name] = names[i]
		if name != names[i] {
			names = append(names, name) // the hash itself is a name that an analysis may have
		}
	}
	if fifoName("a") != "a" || len(names) < 100 {
		t.Errorf("%d names", len(names))
	}
}
