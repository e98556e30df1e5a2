package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/leasehold-dev/leasehold/once"
)

// TestShow: the demonstration prints what docs/guides/durable.md shows.
func TestShow(t *testing.T) {
	var out bytes.Buffer
	if err := show(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	page, err := os.ReadFile("../../docs/guides/durable.md")
	if err != nil || !strings.Contains(string(page), "```text\n"+out.String()+"```\n") {
		t.Errorf("docs/guides/durable.md shows another output, %v:\n%s", err, &out)
	}
}

// TestCodeOfThePage: the code that docs/guides/durable.md shows is in the example.
func TestCodeOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/guides/durable.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("dispatch.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(page)
	if shown == nil || !bytes.Contains(code, shown[1]) {
		t.Errorf("dispatch.go does not have\n%s", shown)
	}
}

func TestExecutionName(t *testing.T) {
	for id, want := range map[string]string{
		"order-1": "order-1", "A_z-09": "A_z-09", strings.Repeat("x", 64): strings.Repeat("x", 64),
		strings.Repeat("a", 65): "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0", "acme:order 7": "",
	} {
		got := executionName(id)
		if want != "" && got != want || !plain.MatchString(got) {
			t.Errorf("%q: %q", id, got)
		}
	}
	hash := executionName("acme:7")
	if hash == executionName("acme/7") || hash == executionName(hash) {
		t.Error("two analyses have one name")
	}
}

// invoked is a function that has no durable executions, or cannot be reached.
type invoked struct{ err error }

func (i invoked) Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	return &lambda.InvokeOutput{StatusCode: 202}, i.err
}

// TestNotDurable: a function that is not durable would run again with each message. The analysis ends FAILED, which an
// operator sees.
func TestNotDurable(t *testing.T) {
	_, err := dispatcher{invoked{}, "orders"}.start(t.Context(), once.Lock{RunID: "order-1"})
	if err == nil || !strings.Contains(err.Error(), "orders is no durable function") {
		t.Errorf("%v", err)
	}
	down := errors.New("throttled")
	if _, err := (dispatcher{invoked{down}, "orders"}).start(t.Context(),
		once.Lock{RunID: "order-1"}); !errors.Is(err, down) {
		t.Errorf("%v", err)
	}
}
