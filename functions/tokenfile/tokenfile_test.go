package tokenfile_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/tokenfile"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// add makes a token in a file and returns it.
func add(t *testing.T, path string, token tokenfile.Token) (secret, id string) {
	t.Helper()
	secret, token, err := tokenfile.New(token, time.Now())
	if err == nil {
		err = tokenfile.Change(path, func(all []tokenfile.Token) ([]tokenfile.Token, error) {
			return append(all, token), nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return secret, token.ID
}

// revoke removes a token from a file.
func revoke(t *testing.T, path, id string) {
	t.Helper()
	err := tokenfile.Change(path, func(all []tokenfile.Token) (left []tokenfile.Token, _ error) {
		for _, one := range all {
			if one.ID != id {
				left = append(left, one)
			}
		}
		return left, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ask identifies the caller with a token.
func ask(t *testing.T, i httpapi.Identity, secret string) (httpapi.Caller, error) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	return i.Identify(r)
}

// TestIdentify: a token says whose it is, and every other text is refused without saying what is known.
func TestIdentify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	ann, annID := add(t, path, tokenfile.Token{Subject: "ann", Tenant: "acme", Rights: []string{"admin"}})
	job, jobID := add(t, path, tokenfile.Token{Subject: "job", Tenant: "beta",
		Rights: []string{"worker", "ids", "operate"}})
	old, oldID := add(t, path, tokenfile.Token{Subject: "old", Tenant: "acme", Expires: time.Now().Add(-time.Second)})
	i, err := tokenfile.Open(path, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]httpapi.Caller{
		ann: {Subject: "ann", TokenID: annID, Tenant: "acme", Rights: httpapi.Admin},
		job: {Subject: "job", TokenID: jobID, Tenant: "beta",
			Rights: httpapi.Worker | httpapi.MachineIDs | httpapi.Operate},
	} {
		if got, err := ask(t, i, secret); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	for secret, says := range map[string]string{
		"":                      "no Authorization header",
		old:                     "the token " + oldID + " expired at ",
		ann[:len(ann)-1]:        "not known, or was revoked",
		ann + "x":               "not known, or was revoked",
		strings.ToUpper(ann):    "none of this server's",
		"eyJhbGciOiJub25lIn0.e": "none of this server's",
	} {
		got, err := ask(t, i, secret)
		want := httpapi.Caller{}
		if secret == old {
			want.TokenID = oldID // for the audit event
		}
		if !errors.Is(err, httpapi.ErrUnauthenticated) || !strings.Contains(err.Error(), says) || got != want {
			t.Errorf("%q: %+v, %v, want %q", secret, got, err, says)
		}
		if secret != "" && strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows the token: %v", err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || bytes.Contains(text, []byte(ann)) || bytes.Contains(text, []byte(strings.TrimPrefix(ann, "lh_"))) {
		t.Errorf("the file has a token, %v", err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if i.Unverified() || i.Challenge() == "" {
		t.Error("callers are not asked for a token")
	}
}

// TestAuditNamesTheToken: events say which token was sent, also of one that has expired, so that after a leak it can be
// said what that one token did; neither the token nor its hash is in the log.
func TestAuditNamesTheToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	one, oneID := add(t, path, tokenfile.Token{Subject: "ann", Tenant: "acme"})
	two, twoID := add(t, path, tokenfile.Token{Subject: "ann", Tenant: "acme"})
	old, oldID := add(t, path, tokenfile.Token{Subject: "ann", Tenant: "acme", Expires: time.Now().Add(-time.Second)})
	i, err := tokenfile.Open(path, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	api := httpapi.New(docstore.NewMemory(nil), i, &httpapi.Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
	for _, c := range []struct{ secret, tenant, id, outcome string }{
		{one, "acme", oneID, "ok"}, {two, "acme", twoID, "ok"}, {two, "other", twoID, "PERMISSION_DENIED"},
		{old, "acme", oldID, "UNAUTHENTICATED"}, {one + "x", "acme", "", "UNAUTHENTICATED"},
	} {
		log.Reset()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/tenants/"+c.tenant+"/locks/"+c.id+"x/acquire",
			strings.NewReader(`{"request_id":"r","ttl_seconds":30}`))
		r.Header.Set("Authorization", "Bearer "+c.secret)
		api.ServeHTTP(httptest.NewRecorder(), r)
		events := contracttest.AuditEvents(t, log.String())
		if len(events) != 1 || events[0].TokenID != c.id || events[0].Outcome != c.outcome {
			t.Errorf("of token %q in tenant %s: %+v", c.id, c.tenant, events)
		}
		sum := sha256.Sum256([]byte(c.secret))
		if strings.Contains(log.String(), c.secret[3:]) || strings.Contains(log.String(), hex.EncodeToString(sum[:4])) {
			t.Errorf("the log has a token or its hash: %s", &log)
		}
	}
}

// TestHeadersClaimNothing: no header but Authorization says who a caller is, a token that is not spelled as it is is
// refused, and headers beside a good one make no other caller of who sent it.
func TestHeadersClaimNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	ann, annID := add(t, path, tokenfile.Token{Subject: "ann", Tenant: "acme"})
	bob, _ := add(t, path, tokenfile.Token{Subject: "bob", Tenant: "acme", Rights: []string{"admin"}})
	i, err := tokenfile.Open(path, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	api := httpapi.New(docstore.NewMemory(nil), i, &httpapi.Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
	send := func(key string, headers http.Header) (status int, caller contracts.AuditEvent) {
		log.Reset()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/tenants/acme/locks/"+key+"/acquire",
			strings.NewReader(`{"request_id":"r","ttl_seconds":30}`))
		r.Header = headers
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if events := contracttest.AuditEvents(t, log.String()); len(events) > 0 {
			caller = events[len(events)-1]
		}
		return w.Code, caller
	}
	for j, claims := range []http.Header{
		{"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"localhost"}, "X-Forwarded-Proto": {"https"}},
		{"X-Goog-Authenticated-User-Email": {"accounts.google.com:bob"}}, {"X-Amzn-Oidc-Identity": {"bob"}},
		{"X-Serverless-Authorization": {"Bearer " + bob}}, {"Proxy-Authorization": {"Bearer " + bob}},
		{"Cookie": {"token=" + bob}}, {"X-Remote-User": {"bob"}}, {"X-Cloudtasks-Queuename": {"q"}},
		{"Forwarded": {"for=127.0.0.1;host=localhost"}}, {"X-Apigateway-Event": {"{}"}},
	} {
		if status, e := send("anonymous", claims); status != http.StatusUnauthorized || e.Subject != "" {
			t.Errorf("%v without a token: %d, %+v", claims, status, e)
		}
		claims = claims.Clone()
		claims.Set("Authorization", "Bearer "+ann)
		if status, e := send(fmt.Sprint("k", j), claims); status != http.StatusOK || e.Subject != "ann" ||
			e.TokenID != annID || e.Owner != "ann" {
			t.Errorf("%v with ann's token: %d, %+v", claims, status, e)
		}
	}
	for _, value := range []string{
		"", "Bearer", "Bearer ", "Basic " + ann, "Bearer\t" + ann, "Bearer " + ann + " " + bob, "Bearer " + ann + "," + bob,
		"Bearer " + strings.ToUpper(ann), "Bearer " + ann + "\x00", "Bearer lh_\xff\xfe", "Bearer lh_",
		"Bearer " + strings.Repeat("lh_", 5000), "Bearer " + ann[:len(ann)-1] + "\u0430",
	} {
		if status, e := send("anonymous", http.Header{"Authorization": {value}}); status != http.StatusUnauthorized ||
			e.Subject != "" {
			t.Errorf("%.40q: %d, %+v", value, status, e)
		}
	}
	two := http.Header{"Authorization": {"Bearer " + ann, "Bearer " + bob}}
	if status, e := send("anonymous", two); status != http.StatusUnauthorized || e.Subject != "" {
		t.Errorf("two tokens: %d, %+v", status, e)
	}
}

// other is an identity beside the file.
type other struct{ httpapi.Development }

// Identify implements [httpapi.Identity].
func (other) Identify(*http.Request) (httpapi.Caller, error) {
	return httpapi.Caller{Subject: "other"}, nil
}

// TestBeside: tokens of the file's form are the file's, and all others another identity's.
func TestBeside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	ann, id := add(t, path, tokenfile.Token{Subject: "ann", Tenant: "acme"})
	revoke(t, path, id)
	i, err := tokenfile.Open(path, other{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ask(t, i, "a.b.c"); err != nil || got.Subject != "other" {
		t.Errorf("a token of the issuer: %+v, %v", got, err)
	}
	if got, err := ask(t, i, ann); !errors.Is(err, httpapi.ErrUnauthenticated) {
		t.Errorf("a token that was revoked: %+v, %v", got, err)
	}
}

// TestChanges: within a second, what was added is accepted and what was revoked is not. A file that is damaged or gone
// changes nothing, and is said once each.
func TestChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	ann, annID := add(t, path, tokenfile.Token{Subject: "ann", Tenant: "acme"})
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		i, err := tokenfile.Open(path, nil, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		valid := func(secret string, want bool, when string) {
			t.Helper()
			if _, err := ask(t, i, secret); (err == nil) != want {
				t.Errorf("%s: %v", when, err)
			}
		}
		bob, bobID := add(t, path, tokenfile.Token{Subject: "bob", Tenant: "acme"})
		revoke(t, path, annID)
		time.Sleep(tokenfile.LookEvery - time.Nanosecond)
		valid(bob, false, "just before the file is looked at")
		valid(ann, true, "just before the file is looked at")
		time.Sleep(time.Nanosecond)
		valid(bob, true, "added")
		valid(ann, false, "revoked")
		if want := " tokens=1 new=[" + bobID + "] revoked=[" + annID + "]\n"; !strings.HasSuffix(log.String(), want) {
			t.Errorf("the log does not end with %q:\n%s", want, &log)
		}

		if err := os.WriteFile(path, []byte(`{"tokens": [`), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(tokenfile.LookEvery)
			valid(bob, true, "while the file is damaged")
		}
		if n := strings.Count(log.String(), "cannot be read"); n != 1 {
			t.Errorf("the damage is said %d times:\n%s", n, &log)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(tokenfile.LookEvery)
			valid(bob, true, "while the file is gone")
		}
		if n := strings.Count(log.String(), "cannot be read"); n != 2 {
			t.Errorf("damage and absence are said %d times:\n%s", n, &log)
		}
		eve, _ := add(t, path, tokenfile.Token{Subject: "eve", Tenant: "acme"})
		time.Sleep(tokenfile.LookEvery)
		valid(bob, false, "when the file is there again, without it")
		valid(eve, true, "when the file is there again")
	})
}

// TestFileSystemThatHangs: a file system that does not answer holds up those who ask when the file is looked at, for as
// long as a look may take, and no one afterwards. When it answers, what was revoked is not accepted any more.
func TestFileSystemThatHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	ann, annID := add(t, path, tokenfile.Token{Subject: "ann", Tenant: "acme"})
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		i, err := tokenfile.Open(path, nil, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan struct{})
		i.Hang(answers)
		revoke(t, path, annID)
		time.Sleep(tokenfile.LookEvery)
		began := time.Now()
		for n := range 5 {
			if _, err := ask(t, i, ann); err != nil {
				t.Errorf("try %d: %v", n+1, err)
			}
			if took := time.Since(began); took != tokenfile.LookEvery {
				t.Errorf("after try %d: %v have passed, not %v", n+1, took, tokenfile.LookEvery)
			}
		}
		if n := strings.Count(log.String(), "does not answer"); n != 1 {
			t.Errorf("it is said %d times:\n%s", n, &log)
		}
		close(answers)
		synctest.Wait()
		if _, err := ask(t, i, ann); err == nil {
			t.Error("what was revoked is accepted although the file was read")
		}
	})
}

// TestRead: what is wrong with a file is said, with the token and its member, and nothing of it is accepted.
func TestRead(t *testing.T) {
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	one := func(more ...string) string { // members that replace the usual ones
		member := map[string]string{"id": `"a"`, "sha256": `"` + sum + `"`, "subject": `"ann"`, "tenant": `"acme"`}
		for i := 0; i < len(more); i += 2 {
			member[more[i]] = more[i+1]
		}
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(member)) {
			fmt.Fprintf(&b, `,%q:%s`, name, member[name])
		}
		return "{" + b.String()[1:] + "}"
	}
	file := func(tokens ...string) string { return `{"tokens":[` + strings.Join(tokens, ",") + `]}` }
	upper := `"` + strings.ToUpper(sum) + `"`
	mends := regexp.MustCompile("; mend it, put back a copy, or .+$|: remove it, and leasehold token new makes it anew$")
	for text, says := range map[string]string{
		file(one()):                              "",
		`{}`:                                     "",
		``:                                       "is empty: remove it",
		`[]`:                                     "file must be a JSON object, not a list",
		`null`:                                   "file must be a JSON object, not null",
		`{"tokens":"a"}`:                         "tokens must be a list, not text",
		`{"tokens":[]} {}`:                       "file is not JSON: line 1, column 15: ",
		"{\n\"tokens\": [{\"id\"":                "file is not JSON: line 2, column 17: it ends too early",
		`{"token":[]}`:                           "token is not a member of this file",
		`{"tokens":[` + one() + `],"tokens":[]}`: "tokens is given twice",
		file(`{"id":"a","sha256":"x"}`):          `token 1 ("a"): sha256 must be`,
		file(`{"sha256":"` + sum + `"}`):         `token 1 (""): id is missing`,
		file(`7`):                                `token 1 (""): token must be a JSON object, not a number`,
		file(one("rights", `["root"]`)):          `there is no right "root"`,
		file(one("subject", `""`)):               "subject",
		file(one("subject", `"s`)):               "file is not JSON: line 1, column ",
		file(one("subject", `5`)):                "subject must be text, not a number",
		file(one("Subject", `"s"`)):              `Subject is not a member of this token`,
		file(one("x", `5`)):                      `token 1 ("a"): x is not a member of this token`,
		file(`{"id":"b",` + one()[1:]):           "id is given twice",
		file(one("subject", `"`+strings.Repeat("s", 513)+`"`)): "subject",
		file(one("note", `"`+strings.Repeat("n", 1001)+`"`)):   "note",
		file(one("id", `"`+strings.Repeat("i", 64)+`"`)):       "",
		file(one("id", `"`+strings.Repeat("i", 65)+`"`)):       "id must be 1 to 64 letters",
		file(one("id", `"a b"`)):                               "id must be 1 to 64 letters",
		file(one("id", `"a\n"`)):                               "id must be 1 to 64 letters",
		file(one("tenant", `""`)):                              "tenant",
		file(one("expires_at", `"tomorrow"`)):                  "expires_at must be a time in RFC 3339, not text",
		file(one(), one()):                                     `token 2 ("a"): another token has this id`,
		file(one(), one("id", `"b"`)):                          `token 2 ("b"): it is there twice`,
		file(one(), one("id", `"b"`, "sha256", upper)):         "it is there twice",
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := tokenfile.Read(path)
		if (err == nil) != (says == "") || err != nil && (!strings.Contains(err.Error(), says) ||
			!strings.HasPrefix(err.Error(), path) || !mends.MatchString(err.Error()) ||
			strings.Contains(strings.ToLower(err.Error()), sum)) {
			t.Errorf("%s\ngot  %v\nwant %q", text, err, says)
		}
		if _, err := tokenfile.Open(path, nil, nil); (err == nil) != (says == "") {
			t.Errorf("%s: a server opens it: %v", text, err)
		}
		if says == "" {
			continue
		}
		err = tokenfile.Change(path, func([]tokenfile.Token) ([]tokenfile.Token, error) { return nil, nil })
		after, _ := os.ReadFile(path)
		if _, left := os.Stat(path + ".new"); err == nil || string(after) != text || !errors.Is(left, fs.ErrNotExist) {
			t.Errorf("%s: a damaged file is changed to %s, %v; %v", text, after, err, left)
		}
	}
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			sum := sha256.Sum256([]byte(strconv.Itoa(i)))
			fmt.Fprintf(&b, `,{"id":"%d","sha256":"%x","subject":"ann","tenant":"acme"}`, i, sum)
		}
		return `{"tokens":[` + strings.TrimPrefix(b.String(), ",") + `]}`
	}
	small := one()
	padded := func(bytes int) string {
		const before, after = `{"tokens":[`, `]}`
		return before + strings.Repeat(" ", bytes-len(before+small+after)) + small + after
	}
	for name, c := range map[string]struct {
		text string
		ok   bool
	}{
		"as many as may be": {many(tokenfile.MaxTokens), true}, "one more": {many(tokenfile.MaxTokens + 1), false},
		"as large as may be": {padded(tokenfile.MaxFileBytes), true},
		"one byte more":      {padded(tokenfile.MaxFileBytes + 1), false},
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := tokenfile.Read(path); (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "at most") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReadNothing: a file that is not there, is none, or cannot be read says what to do.
func TestReadNothing(t *testing.T) {
	dir := t.TempDir()
	locked := filepath.Join(dir, "locked")
	if err := os.WriteFile(locked, []byte("{}"), 0); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		filepath.Join(dir, "none"): "no such file or directory; make it with: leasehold token new --file FILE",
		dir:                        dir + " is not a file: name the one",
		os.DevNull:                 os.DevNull + " is not a file: name the one",
		locked:                     "permission denied; let the group of who reads it do so: chgrp GROUP FILE && chmod 0640 FILE",
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			if runtime.GOOS == "windows" || path == locked && os.Geteuid() == 0 {
				t.Skip("the administrator may read every file, and Windows says it in other words")
			}
			if _, err := tokenfile.Read(path); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("got  %v\nwant %q", err, says)
			}
		})
	}
	err := tokenfile.Change(filepath.Join(dir, "no", "tokens"), nil)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "its folder must be there, and writable") {
		t.Errorf("a folder that is missing: %v", err)
	}
}

// TestChange: programs that change a file at once lose nothing of each other, and one that fails leaves the file as it
// was, and its mode too.
func TestChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	add(t, path, tokenfile.Token{Subject: "ann", Tenant: "acme"})
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				err := tokenfile.Change(path, func(all []tokenfile.Token) ([]tokenfile.Token, error) {
					_, one, err := tokenfile.New(tokenfile.Token{Subject: "bob", Tenant: "acme"}, time.Now())
					return append(all, one), err
				})
				if err == nil {
					return
				}
				if !strings.Contains(err.Error(), "another program changes the tokens") {
					t.Error(err)
					return
				}
				runtime.Gosched()
			}
		})
	}
	all.Wait()
	fails := errors.New("no")
	if err := tokenfile.Change(path, func([]tokenfile.Token) ([]tokenfile.Token, error) { return nil, fails }); !errors.Is(
		err, fails) {
		t.Errorf("a change that fails: %v", err)
	}
	tokens, err := tokenfile.Read(path)
	if err != nil || len(tokens) != 9 {
		t.Errorf("%d tokens, %v", len(tokens), err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o640 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is left behind: %v", err)
	}
}

// TestChangeOfALink: a file that is linked to is changed where it is, and the link stays one.
func TestChangeOfALink(t *testing.T) {
	path, link := filepath.Join(t.TempDir(), "tokens"), filepath.Join(t.TempDir(), "link")
	add(t, path, tokenfile.Token{Subject: "ann", Tenant: "acme"})
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err) // Windows lets few users make one
	}
	add(t, link, tokenfile.Token{Subject: "bob", Tenant: "acme"})
	tokens, err := tokenfile.Read(path)
	if err != nil || len(tokens) != 2 {
		t.Errorf("%d tokens, %v", len(tokens), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
}

// TestWaitOfARevokedToken: what waits in the name of a token that is removed from the file, or that expires, ends within
// a second. What waits for the same lock in the name of another has it when it is free.
func TestWaitOfARevokedToken(t *testing.T) {
	for name, ends := range map[string]time.Duration{"removed": 2200 * time.Millisecond, "expired": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			expires := name == "expired"
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "tokens")
				token := tokenfile.Token{Subject: "ann", Tenant: "acme"}
				if expires {
					token.Expires = time.Now().Add(ends)
				}
				ann, annID := add(t, path, token)
				bob, _ := add(t, path, tokenfile.Token{Subject: "bob", Tenant: "acme"})
				i, err := tokenfile.Open(path, nil, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				h := httpapi.New(docstore.NewMemory(nil), i, nil)
				send := func(secret, body string) (int, string) {
					r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/tenants/acme/locks/k/acquire", strings.NewReader(body))
					r.Header.Set("Authorization", "Bearer "+secret)
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					return w.Code, w.Body.String()
				}
				if status, body := send(bob, `{"request_id":"b1","ttl_seconds":5}`); status != 200 {
					t.Fatal(body)
				}
				if !expires {
					time.AfterFunc(ends, func() { revoke(t, path, annID) })
				}
				begun := time.Now()
				var waiting sync.WaitGroup
				waiting.Go(func() {
					status, body := send(ann, `{"request_id":"a","ttl_seconds":60,"wait_seconds":20,"fair":true}`)
					if took := time.Since(begun); status != 401 || took < ends || took > ends+time.Second {
						t.Errorf("%d %s after %v", status, body, took)
					}
				})
				time.Sleep(100 * time.Millisecond)
				if status, body := send(bob, `{"request_id":"b2","ttl_seconds":60,"wait_seconds":20,"fair":true}`); status != 200 ||
					time.Since(begun) > 6*time.Second {
					t.Errorf("the other: %d %s after %v", status, body, time.Since(begun))
				}
				waiting.Wait()
			})
		})
	}
}
