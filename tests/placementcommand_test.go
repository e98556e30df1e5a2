package tests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
)

// numbers are what differs from run to run in the outputs of placement.
var numbers = regexp.MustCompile(`\d{16}`)

// TestPlacementCommand walks through `leasehold placement` with its exit codes.
func TestPlacementCommand(t *testing.T) {
	t.Parallel()
	p, _ := ordered(t)
	server, err := client.New(p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	chat, ctx := server.Placements("default", "chat"), unhurried(t)
	env := []string{"LEASEHOLD_SERVER=" + p.url}
	step := func(args string, code int, stdout, stderr string) {
		t.Helper()
		gotCode, out, errs := run(t, env, strings.Split("placement_"+args, "_")...)
		out = strings.Join(strings.Fields(numbers.ReplaceAllString(times.ReplaceAllString(out, "TIME"), "N")), " ")
		if gotCode != code || out != stdout || !strings.HasPrefix(errs, stderr) || stderr == "" && errs != "" {
			t.Errorf("%s\ngot  %d\n%s\n%s\nwant %d\n%s\n%s", args, gotCode, out, errs, code, stdout, stderr)
		}
	}
	step("members_chat", 0, "", "no members of the cluster chat of tenant default\n")
	step("where_chat_room_lobby", 5, "", "leasehold: TOPOLOGY_UNDETERMINED: ")
	step("drain_chat_w1", 5, "", "leasehold: MEMBER_UNKNOWN: the cluster chat has no member \"w1\"")
	step("members_c/d", 2, "", "leasehold: INVALID_ARGUMENT: ")

	joined, err := chat.Join(ctx, "w1", contracts.MemberJoinRequest{Kinds: []string{"room"}, Partitions: 16,
		Address: "w1:1", TTLSeconds: 600})
	if err != nil {
		t.Fatal(err)
	}
	const members = "chat: READY, epoch 1 since TIME MEMBER STATUS INCARNATION SINCE ADDRESS KINDS LABELS w1 ACTIVE N TIME w1:1 room"
	step("members_chat", 0, members, "")
	step("where_chat_room_lobby", 0, "room/lobby is not active; a claim places it on w1 at w1:1", "")
	step("where_chat_device_1", 5, "", "leasehold: NO_ELIGIBLE_MEMBER: ")
	if _, err := chat.Claim(ctx, "room", "lobby", contracts.ActivationClaimRequest{
		Member: "w1", Incarnation: joined.Incarnation}); err != nil {
		t.Fatal(err)
	}
	step("where_chat_room_lobby", 0, "room/lobby is ACTIVE on w1 at w1:1, fencing token N", "")
	step("events_chat", 0,
		"TIME member w1 - → ACTIVE epoch 1, 16 partitions moved TIME room/lobby on w1 FREE → ACTIVE token N", "")
	anHourAgo := time.Now().Add(-time.Hour).In(time.FixedZone("", 14*60*60)).Format(time.RFC3339)
	step("events_chat_--after_2000-01-01T00:00:00+14:00", 1, "",
		"leasehold: CURSOR_EXPIRED: events after that place were removed: they are kept for 24h0m0s (tenant default)")
	step("events_chat_--after_"+anHourAgo, 0,
		"TIME member w1 - → ACTIVE epoch 1, 16 partitions moved TIME room/lobby on w1 FREE → ACTIVE token N", "")
	step("events_chat_--after_YESTERDAY", 2, "",
		"leasehold: --after \"YESTERDAY\": must be a time such as 2026-01-01T00:00:00.000Z")
	step("drain_chat_w1_--incarnation_7", 4, "", "leasehold: STALE_INCARNATION: ")
	step("drain_chat_w1", 0, "w1 drains: 16 partitions left it, epoch 2; it keeps what it hosts until it hands that over",
		"")

	for args, has := range map[string]string{
		"members_chat": `"status":"DRAINING"`, "events_chat": `"kind":"room"`, "drain_chat_w1": `"replayed":true`,
		"drain_chat_w2": `"exit_code":5`,
	} {
		_, out, errs := run(t, env, strings.Split("placement_"+args+"_--json", "_")...)
		for l := range strings.Lines(out + errs) {
			if !json.Valid([]byte(l)) {
				t.Errorf("%s: %s is not JSON", args, l)
			}
		}
		if !strings.Contains(out+errs, has) {
			t.Errorf("%s: %s%s, want %s", args, out, errs, has)
		}
	}
}

// TestFollowEvents: `leasehold placement events --follow` prints what there is, then each new event once, and Ctrl-C
// ends it with the shell's exit code and one plain line.
func TestFollowEvents(t *testing.T) {
	t.Parallel()
	p := start(t, "--store", "memory")
	server, err := client.New(p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	chat := server.Placements("default", "chat")
	join := func(member string) {
		t.Helper()
		if _, err := chat.Join(unhurried(t), member, contracts.MemberJoinRequest{Kinds: []string{"room"}, Partitions: 16,
			TTLSeconds: 600}); err != nil {
			t.Fatal(err)
		}
	}
	join("w1")
	cmd := exec.CommandContext(unhurried(t), binary(t), "placement", "events", "chat", "--follow")
	cmd.Env = append(environment(), "LEASEHOLD_SERVER="+p.url)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for _, member := range []string{"w1", "w2", "w3"} { // each joins once the one before was printed
		if member != "w1" {
			join(member)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), "  member "+member+"  - → ACTIVE") {
			t.Fatalf("%q, want the join of %s; %s", lines.Text(), member, &stderr)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if lines.Scan() {
		t.Errorf("and then %q", lines.Text())
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 130 || stderr.String() != "leasehold: interrupted\n" {
		t.Errorf("%v, %s", cmd.ProcessState, &stderr)
	}
}
