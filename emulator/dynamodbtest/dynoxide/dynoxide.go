// Package dynoxide finds dynoxide for tests that compare with it: a DynamoDB server in Rust that others wrote
// (npm package @dynoxide/linux-x64).
package dynoxide

import (
	"os"
	"testing"
)

// Endpoint returns the URL that DYNAMODB_ENDPOINT names. Without one it skips the test and says how to start a server.
func Endpoint(t testing.TB) string {
	t.Helper()
	url := os.Getenv("DYNAMODB_ENDPOINT")
	if url == "" {
		t.Skip("no other DynamoDB server: start one with `npm install @dynoxide/linux-x64@1.2.1`, " +
			"`node_modules/@dynoxide/linux-x64/dynoxide --host 127.0.0.1 --port 8000` and set DYNAMODB_ENDPOINT=http://127.0.0.1:8000")
	}
	return url
}
