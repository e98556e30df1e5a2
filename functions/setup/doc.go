// Package setup builds what several entry points have in common from their settings: who callers are ([Identity]), the
// endpoints for tasks and sweeps ([TaskRoute], [SweepRoute]), the work of a queue ([Work]), and a base path
// ([BasePath]). It knows no cloud: stores, queues and ID tokens come from the entry point.
package setup
