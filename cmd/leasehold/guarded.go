package main

import (
	"errors"
	"log/slog"

	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/internal/guarded"
)

// lookAtFiles hands what is wrong with files that grant rights or hold secrets to tell.
func lookAtFiles(files []settings.GuardedFile, tell func(settings.GuardedFile, guarded.Finding)) error {
	var errs []error
	for _, file := range files {
		found, err := guarded.Check(file.Path)
		for _, f := range found {
			tell(file, f)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// guardFiles refuses to start with a file that everyone can change, and logs what else is wrong.
func guardFiles(c *settings.Config, log *slog.Logger) error {
	var refused error
	err := lookAtFiles(c.GuardedFiles(), func(file settings.GuardedFile, f guarded.Finding) {
		if !f.Refuse {
			log.Warn("a file that grants rights or holds a secret is not guarded", "setting", file.Name, "file", file.Path,
				"why", f.Text, "fix", f.Fix)
		} else if refused == nil {
			refused = usage("%s: %s: %s\n%s", file.Name, file.Path, f.Text, f.Fix)
		}
	})
	return errors.Join(refused, err)
}

// files tells who can change and read the files that grant rights or hold secrets.
func (e *examination) files(files []settings.GuardedFile) error {
	var errs []error
	clean := true
	err := lookAtFiles(files, func(file settings.GuardedFile, f guarded.Finding) {
		clean = false
		status := map[bool]string{true: "fail", false: "warn"}[f.Refuse]
		errs = append(errs, e.tell("files", status, file.Name+": "+file.Path+": "+f.Text, f.Fix))
	})
	if len(files) > 0 && (clean || err != nil) {
		errs = append(errs, e.result("files", err, "those that grant rights or hold secrets are guarded from others", ""))
	}
	return errors.Join(errs...)
}
