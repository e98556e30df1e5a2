// Package console opens the console in headless Chromium and looks at what a person would see. It is a module of its
// own, so that the browser's protocol is no dependency of Leasehold.
//
//	go test -C tests/console ./...
//
// Without Chromium its tests are skipped. LEASEHOLD_SCREENSHOTS=1 writes docs/pictures/console/*.png anew.
package console
