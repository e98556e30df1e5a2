package rule

import "context"

// Observer is for a store that is told which commands its requests belong to: one that is around another store and
// counts or traces what it is asked. Rules know nothing of it.
type Observer interface {
	// Observe is told that a command begins, by [Run], [RunJoint] or [RunSet]. The command's requests have the context
	// that it returns. end is called once, with the outcome, which is the zero value with an error.
	Observe(ctx context.Context, command any) (_ context.Context, end func(outcome any, err error))
}

// Wrapper is a command that is another one with something beside it. An [Observer] is told of that one.
type Wrapper interface {
	// Unwrap returns the other command.
	Unwrap() any
}

// unwrap returns the command that an observer is told of.
func unwrap(command any) any {
	for {
		w, ok := command.(Wrapper)
		if !ok {
			return command
		}
		command = w.Unwrap()
	}
}
