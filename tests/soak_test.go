package tests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/once"
)

// soaked is what is sampled, in the order of the table, and by how much the middle of its samples of the last third may
// be above that of the second: by a part, and by an amount, which is what comes and goes.
var soaked = []struct {
	what  string
	part  float64
	above float64
	unit  float64
}{
	{"memory of the process, MiB", 0.15, 16 << 20, 1 << 20},
	{"goroutines", 0.15, 20, 1},
	{"file descriptors", 0.15, 10, 1},
	{"database, MiB", 0.15, 4 << 20, 1 << 20},
}

// TestSoak keeps one server busy for LEASEHOLD_SOAK_MINUTES, with locks of all modes, runs, callers that give up, and
// processes that are killed while they hold a lock; nothing of the server grows. LEASEHOLD_SOAK_REDIS is the address of
// a Redis to use in place of a file.
func TestSoak(t *testing.T) {
	minutes, err := strconv.ParseFloat(os.Getenv("LEASEHOLD_SOAK_MINUTES"), 64)
	if err != nil {
		t.Skip("it takes minutes: make soak MINUTES=3")
	}
	folder, page := t.TempDir(), fmt.Sprint("127.0.0.1:", freePort(t))
	args := []string{"--data", folder, "--metrics-listen", page}
	if redis := os.Getenv("LEASEHOLD_SOAK_REDIS"); redis != "" {
		args = []string{"--store", "redis", "--redis-addr", redis, "--metrics-listen", page}
	}
	server := start(t, args...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(minutes*float64(time.Minute)))
	defer cancel()
	var load sync.WaitGroup
	defer load.Wait()
	var did, failed, killed atomic.Int64
	for worker := range 8 {
		load.Go(func() { soak(ctx, t, server.url, uint64(worker), &did, &failed) })
	}
	for i := range 2 {
		load.Go(func() {
			for ctx.Err() == nil {
				c := exec.CommandContext(ctx, binary(t), "lock", "run", fmt.Sprint("killed-", i), "--ttl", "2s", "--server",
					server.url, "--", "sleep", "5")
				if c.Start() == nil {
					time.Sleep(time.Duration(rand.Int64N(int64(3 * time.Second))))
					_ = c.Process.Kill()
					_ = c.Wait() // it was killed
					killed.Add(1)
				}
			}
		})
	}
	samples := make([][]float64, len(soaked))
	for every := time.NewTicker(time.Second); ctx.Err() == nil; <-every.C {
		for i, v := range soakSample(ctx, t, page, folder) {
			samples[i] = append(samples[i], v)
		}
	}
	load.Wait()
	t.Logf("%v minutes: %d operations, %d of them failed, %d processes killed", minutes, did.Load(), failed.Load(),
		killed.Load())
	if did.Load() == 0 || failed.Load() > did.Load()/100 {
		t.Errorf("%d of %d operations failed", failed.Load(), did.Load())
	}
	var table strings.Builder
	table.WriteString("\n| | first third | second | last | highest | may be |\n| --- | --- | --- | --- | --- | --- |\n")
	for i, s := range soaked {
		third := len(samples[i]) / 3
		if third == 0 {
			t.Fatalf("%d samples", len(samples[i]))
		}
		first, second, last := middle(samples[i][:third]), middle(samples[i][third:2*third]), middle(samples[i][2*third:])
		most := second*(1+s.part) + s.above
		fmt.Fprintf(&table, "| %s | %.1f | %.1f | %.1f | %.1f | %.1f |\n", s.what, first/s.unit, second/s.unit,
			last/s.unit, slices.Max(samples[i])/s.unit, most/s.unit)
		if last > most {
			t.Errorf("%s grew from %.1f to %.1f", s.what, second/s.unit, last/s.unit)
		}
	}
	t.Log(table.String())
}

func middle(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }

// soak is one caller, until the context ends.
func soak(ctx context.Context, t *testing.T, url string, seed uint64, did, failed *atomic.Int64) {
	r := rand.New(rand.NewPCG(seed, 1))
	server, err := client.New(url, nil)
	if err != nil {
		failed.Add(1)
		return
	}
	held, err := locks.New(server.LockAPI().For(tenantOfSoak), &locks.Options{TTL: 2 * time.Second})
	if err != nil {
		failed.Add(1)
		return
	}
	defer held.Close(context.WithoutCancel(ctx))
	modes := []locks.LockOptions{{}, {Fair: true}, {Shared: true}, {Permits: 3}, {Replace: true}}
	for ctx.Err() == nil {
		did.Add(1)
		// Some callers give up.
		each, cancel := context.WithTimeout(ctx, time.Duration(1+r.IntN(2000))*time.Millisecond)
		var err error
		if mode := r.IntN(len(modes) + 1); mode < len(modes) {
			o := modes[mode]
			err = held.Do(each, fmt.Sprint("mode-", mode, "-", r.IntN(20)), &o, func(context.Context, *locks.Lock) error {
				time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
				return nil
			})
		} else {
			_, err = once.Do(each, server.Runs(tenantOfSoak), fmt.Sprint("run-", r.IntN(200)), nil,
				func(context.Context, once.Lock) (int, error) { return 1, nil }, nil)
		}
		if err != nil && each.Err() == nil && !errors.Is(err, locks.ErrLost) && !errors.Is(err, once.ErrLocked) {
			t.Log(err)
			failed.Add(1)
		}
		cancel()
	}
}

const tenantOfSoak = "default"

var soakMetric = regexp.MustCompile(`(?m)^(process_resident_memory_bytes|go_goroutines|process_open_fds) (\S+)$`)

// soakSample is one sample of each of soaked.
func soakSample(ctx context.Context, t *testing.T, page, folder string) []float64 {
	t.Helper()
	values := map[string]float64{}
	r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, "http://"+page+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range soakMetric.FindAllStringSubmatch(string(text), -1) {
		values[m[1]], _ = strconv.ParseFloat(m[2], 64)
	}
	if len(values) != 3 {
		t.Fatalf("the page has %v", values)
	}
	var size int64
	_ = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error { // a file may go away meanwhile
		if err == nil && !d.IsDir() {
			if i, err := d.Info(); err == nil {
				size += i.Size()
			}
		}
		return nil
	})
	return []float64{values["process_resident_memory_bytes"], values["go_goroutines"], values["process_open_fds"],
		float64(size)}
}
