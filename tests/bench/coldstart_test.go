//go:build linux

package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
)

// program is one of those whose start is compared.
type program struct {
	name string
	path string
	env  []string

	cpu, memory, first []float64 // milliseconds, MiB, milliseconds until the first response
}

// building builds a program as it is deployed, and writes the file again, as one is written that was unpacked: in
// pieces of 64 KiB. How a file was written decides how Linux keeps it in memory, and so how much of it is mapped when
// one byte is wanted: of what the linker leaves single pages, which took up to a quarter of the processor time of a
// start, and of what is written at once up to 2 MiB.
func building(b *testing.B, dir, pkg string, flags ...string) string {
	b.Helper()
	dirs := b.TempDir()
	linked, out := filepath.Join(dirs, "linked"), filepath.Join(dirs, "program")
	c := exec.Command("go", slices.Concat([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", linked},
		flags, []string{pkg})...)
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := c.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, text)
	}
	content, err := os.ReadFile(linked)
	if err != nil {
		b.Fatal(err)
	}
	f, err := os.OpenFile(out, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		b.Fatal(err)
	}
	for piece := range slices.Chunk(content, 64<<10) {
		if _, err := f.Write(piece); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	return out
}

// bare is the environment of the programs, without what this machine says about clouds.
func bare(more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "AWS_") || strings.HasPrefix(kv, "LEASEHOLD_") || strings.HasPrefix(kv, "GOOGLE_")
	})
	return append(env, more...)
}

// start starts a program, waits until it has sent its first response, and notes what that took.
func (p *program) start(b *testing.B, env []string, responded func() error) {
	b.Helper()
	c := exec.Command(p.path)
	c.Env = slices.Concat(env, p.env)
	var log bytes.Buffer
	c.Stdout, c.Stderr = &log, &log
	begin := time.Now()
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	err := responded()
	took := time.Since(begin)
	// What it has taken is read here: an instance goes on, while getrusage counts the end of the process, too, and in the
	// peak the process that it was forked from.
	cpu, clockErr := processorTime(c.Process.Pid)
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
	_ = c.Process.Kill()
	_ = c.Wait()
	if err != nil {
		b.Fatalf("%s: %v\n%s", p.name, err, log.Bytes())
	}
	p.first = append(p.first, took.Seconds()*1000)
	if clockErr != nil {
		b.Fatal(clockErr)
	}
	p.cpu = append(p.cpu, cpu.Seconds()*1000)
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kB, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			p.memory = append(p.memory, kB/1024)
		}
	}
}

// processorTime is what all threads of a process have taken until now, of user and system.
func processorTime(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED, of the whole process, as clock_getcpuclockid(3) makes it
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0, fmt.Errorf("the processor clock of a process: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

// quantile is the value below which a share of the values lies.
func quantile(xs []float64, share float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(xs))[int(share*float64(len(xs)-1))]
}

func median(xs []float64) float64 { return quantile(xs, 0.5) }

// report reports the medians, the quartiles of processor times, and the medians as multiples of those of the last
// program, which is the hello.
func report(b *testing.B, programs []*program) {
	b.Helper()
	hello := programs[len(programs)-1]
	for _, p := range programs {
		info, err := os.Stat(p.path)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(median(p.cpu), p.name+"-cpu-ms")
		b.ReportMetric(quantile(p.cpu, 0.25), p.name+"-cpu-q1-ms")
		b.ReportMetric(quantile(p.cpu, 0.75), p.name+"-cpu-q3-ms")
		b.ReportMetric(median(p.memory), p.name+"-MiB")
		b.ReportMetric(median(p.first), p.name+"-first-ms")
		b.ReportMetric(float64(info.Size())/1e6, p.name+"-binary-MB")
		if p != hello {
			b.ReportMetric(median(p.cpu)/median(hello.cpu), p.name+"/hello-cpu")
			b.ReportMetric(median(p.memory)/median(hello.memory), p.name+"/hello-memory")
		}
	}
	b.ReportMetric(0, "ns/op")
}

// runtimeAPI is Lambda's side of the runtime API, for one event.
func runtimeAPI(b testing.TB, event []byte) (addr string, responded chan string) {
	b.Helper()
	responded = make(chan string, 1)
	var asked atomic.Bool
	const prefix = "/2018-06-01/runtime/"
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+prefix+"invocation/next", func(w http.ResponseWriter, r *http.Request) {
		if asked.Swap(true) { // only one is wanted: the instance waits for the next one until it is killed
			<-r.Context().Done()
			return
		}
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", "1")
		w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10))
		_, _ = w.Write(event)
	})
	mux.HandleFunc("POST "+prefix+"{rest...}", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		if strings.HasSuffix(r.URL.Path, "/response") {
			responded <- string(body)
		} else {
			responded <- "failed: " + string(body)
		}
	})
	s := httptest.NewServer(mux)
	b.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), responded
}

const lookAtALock = `{
  "version": "2.0", "routeKey": "$default", "rawPath": "/v1/tenants/acme/locks/deploy", "rawQueryString": "",
  "headers": {"host": "u1.lambda-url.eu-north-1.on.aws", "x-forwarded-proto": "https"},
  "requestContext": {
    "accountId": "123456789012", "apiId": "u1", "domainName": "u1.lambda-url.eu-north-1.on.aws", "domainPrefix": "u1",
    "http": {"method": "GET", "path": "/v1/tenants/acme/locks/deploy", "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1", "userAgent": "curl/8.5.0"},
    "requestId": "r1", "routeKey": "$default", "stage": "$default", "time": "12/Mar/2026:19:03:58 +0000", "timeEpoch": 1773342238390,
    "authorizer": {"iam": {"accessKey": "AKIAEXAMPLE", "accountId": "123456789012", "callerId": "AIDAEXAMPLE", "userArn": "arn:aws:iam::123456789012:user/ops/ann", "userId": "AIDAEXAMPLE"}}
  },
  "isBase64Encoded": false
}`

// BenchmarkColdStartLambda starts the program that Lambda starts, the one with clients of queues, and a hello with the
// same framework and the same client in turns, until the first response that read the table. Compare the ratios; the
// machine decides the rest.
//
//	go test -C tests/bench -run '^$' -bench ColdStart -benchtime 30x
func BenchmarkColdStartLambda(b *testing.B) {
	db := dynamodbtest.Start(b, nil)
	store, err := awsdynamodb.Open(b.Context(), "leasehold", &awsdynamodb.Options{Endpoint: db.URL, CreateTable: true})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	const tags = "lambda.norpc,leasehold.noprofiles"
	api := []string{"_HANDLER=api", "LEASEHOLD_FRONT_DOOR=url", "LEASEHOLD_AUTH_TENANT=acme"}
	programs := []*program{
		{name: "leasehold", path: building(b, "../..", "./functions/aws/lambda", "-tags", tags+",leasehold.noqueues"),
			env: api},
		{name: "queues", path: building(b, "../..", "./functions/aws/lambda", "-tags", tags), env: api},
		{name: "hello", path: building(b, ".", "./hello/lambda", "-tags", "lambda.norpc")},
	}
	b.ResetTimer()
	for range b.N {
		for _, p := range programs {
			addr, responded := runtimeAPI(b, []byte(lookAtALock))
			p.start(b, bare("AWS_LAMBDA_RUNTIME_API="+addr, "AWS_LAMBDA_FUNCTION_NAME=api", "AWS_REGION=eu-north-1",
				"AWS_ACCESS_KEY_ID=AKIAFAKE",
				"AWS_SECRET_ACCESS_KEY=fake", "AWS_SESSION_TOKEN=fake", "LEASEHOLD_TABLE=leasehold", "LEASEHOLD_ENDPOINT="+db.URL),
				func() error {
					select {
					case r := <-responded:
						if strings.HasPrefix(r, "failed") || strings.Contains(r, `"statusCode":5`) ||
							strings.Contains(r, `"statusCode":401`) {
							return fmt.Errorf("the response is %s", r)
						}
						return nil
					case <-time.After(time.Minute):
						return errors.New("no response")
					}
				})
		}
	}
	report(b, programs)
}

// BenchmarkColdStartFunction is the same for the Cloud Function.
func BenchmarkColdStartFunction(b *testing.B) {
	documents := firestoretest.Start(b, nil)
	programs := []*program{
		{name: "leasehold", path: building(b, "../..", "./functions/gcp/local")},
		{name: "hello", path: building(b, ".", "./hello/function")},
	}
	b.ResetTimer()
	for range b.N {
		for _, p := range programs {
			port := freePort(b)
			env := bare("FUNCTION_TARGET=API", "PORT="+port, "GOOGLE_CLOUD_PROJECT=demo", "FIRESTORE_EMULATOR_HOST="+
				documents.Addr(), "LEASEHOLD_DEVELOPMENT=1")
			p.start(b, env, func() error {
				for begin := time.Now(); ; time.Sleep(time.Millisecond / 2) { // until it listens
					r, err := http.Get("http://127.0.0.1:" + port + "/v1/tenants/acme/locks/deploy")
					if err != nil {
						if time.Since(begin) > time.Minute {
							return err
						}
						continue
					}
					body, _ := io.ReadAll(r.Body)
					_ = r.Body.Close()
					if r.StatusCode != http.StatusOK && r.StatusCode != http.StatusNotFound {
						return fmt.Errorf("%d: %s", r.StatusCode, body)
					}
					return nil
				}
			})
		}
	}
	report(b, programs)
}

func freePort(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
