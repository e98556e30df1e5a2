// Package stage is what the demonstrations in the terminal (package demo) and in the browser (package playground) are
// played on: servers on this machine, and workers that are processes of this program.
//
//	demonstration ─── Start ───▶ worker, a process in a group of its own
//	               ─── Tell ───▶ its standard input, a line each; Input in the worker
//	               ◀── told ──── its standard output, a line each
//	     Server    ◀── Post ──── its requests
//
// The end of its input is what a worker knows of the demonstration's end, so that none stays when that is killed. One
// that is frozen cannot notice it: package process says what the systems do with it then.
//
// What is shown, and in which words, is the demonstrations' own: one plays acts and checks them, the other waits for
// buttons.
package stage
