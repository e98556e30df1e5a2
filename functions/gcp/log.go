package gcp

import (
	"io"
	"log/slog"
)

// NewLog returns a log in the form that Cloud Logging understands: one JSON object for each line, with the members
// severity and message (https://cloud.google.com/logging/docs/structured-logging).
func NewLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) > 0 {
			return a
		}
		switch a.Key {
		case slog.MessageKey:
			a.Key = "message"
		case slog.LevelKey:
			a.Key = "severity"
			if a.Value.Any() == slog.LevelWarn {
				a.Value = slog.StringValue("WARNING")
			}
		}
		return a
	}}))
}
