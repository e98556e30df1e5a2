package tests

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/oidc"
	"github.com/leasehold-dev/leasehold/functions/settings"
)

// TestSettingsInDocuments: every variable that a page names exists.
func TestSettingsInDocuments(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, s := range settings.Table {
		known[s.Env] = true
	}
	for _, v := range settings.ClientVariables {
		known[v.Name] = true
	}
	name := regexp.MustCompile(`\bLEASEHOLD_[A-Z][A-Z0-9_]*[A-Z0-9]\b`)
	named := 0
	sources(t, func(path string, line int, text string) {
		// The changelog has the names of its time, the page for contributors those for tests.
		if !strings.HasSuffix(path, ".md") || path == "CHANGELOG.md" {
			return
		}
		for _, found := range name.FindAllString(text, -1) {
			if named++; !known[found] && !strings.HasPrefix(found, "LEASEHOLD_TEST_") {
				t.Errorf("%s:%d: there is no setting %s", path, line, found)
			}
		}
	})
	if named < 100 {
		t.Errorf("only %d names were found", named)
	}
}

// TestSettingsOfIssuers: a server starts with the settings that docs/guides/authentication.md shows for each issuer.
func TestSettingsOfIssuers(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/guides/authentication.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, m := range regexp.MustCompile("(?s)```sh\n(LEASEHOLD_.*?)```").FindAllStringSubmatch(string(page), -1) {
		environ := strings.Fields(m[1])
		entry := settings.FunctionAPI
		if strings.Contains(m[1], "LEASEHOLD_FRONT_DOOR") {
			entry, environ = settings.LambdaAPI, append(environ, "LEASEHOLD_TABLE=x")
		}
		c, err := settings.Load(entry, environ, nil)
		if err != nil {
			t.Errorf("%s\n%v", m[1], err)
			continue
		}
		if _, err := oidc.New(t.Context(), oidc.Config{Issuer: c.AuthIssuer, Audience: c.AuthAudience,
			RequiredScope: c.AuthRequiredScope}); err != nil && entry != settings.LambdaAPI {
			t.Errorf("%s\n%v", m[1], err)
		}
		blocks++
	}
	if blocks != 9 {
		t.Errorf("%d examples", blocks)
	}
}
