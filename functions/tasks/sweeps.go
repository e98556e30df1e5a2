package tasks

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/census"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// Sweeps are the kinds of work that one call of a scheduler does, on every platform. They share its time: each gets an
// equal part of what is left, and what one does not use goes to the others. One that was cut off goes on in the rest,
// and in the next call, where it stopped.
type Sweeps struct {
	Analyses *analysis.Analyses // nil leaves analyses alone
	Sweep    analysis.Sweep     // its Queue is required with Analyses

	// Clusters are swept, too, and alarms in them that are due are fired; nil leaves them alone.
	Clusters *placement.Service

	// Prune removes documents whose end has passed and returns how many; nil where the store does that by itself.
	Prune func(context.Context) (removed int, err error)

	// Tallies is the store whose tallies of documents are corrected, see [census.Correct]; nil leaves them alone.
	Tallies docstore.Store

	Log     *slog.Logger     // required; one line for each kind
	Metrics *metrics.Metrics // counts what sweeps do; nil counts nothing
	Damage  *metrics.Damage  // counts what they cannot read; nil counts nothing
}

// Swept is what [Sweeps.Run] did. A kind of work that fails does not keep the others from theirs. Documents that
// cannot be read are no failure.
type Swept struct {
	Analyses    analysis.Swept
	AnalysesErr error // what failed, as of [analysis.Analyses.Sweep]

	Clusters    placement.Swept
	ClustersErr error // what failed, as of [placement.Service.Sweep]

	Alarms    placement.Alarms
	AlarmsErr error // what failed, as of [placement.Service.FireAlarms]

	Tallies    census.Corrected
	TalliesErr error // what failed, as of [census.Correct]

	Pruned    int
	PruneErr  error
	PruneMore bool // it was cut off

	Unreadable docstore.Unreadable // documents that cannot be read, of all kinds of work
}

// leastRest is the part of a call's time that is worth another round.
const leastRest = 20

// Run does all of it, within the deadline of ctx, and logs and counts it.
func (s Sweeps) Run(ctx context.Context) Swept {
	var done Swept
	var passes []pass
	if s.Analyses != nil {
		if s.Metrics != nil {
			s.Sweep.Behind = s.Metrics.Behind
		}
		passes = append(passes, func(ctx context.Context) {
			some, err := s.Analyses.Sweep(ctx, s.Sweep)
			done.Analyses, done.AnalysesErr = done.Analyses.Plus(some), errors.Join(done.AnalysesErr, err)
		})
	}
	if s.Clusters != nil {
		passes = append(passes, func(ctx context.Context) {
			s.fireAlarms(ctx, &done)
			some, err := s.Clusters.Sweep(ctx, 0)
			done.Clusters, done.ClustersErr = done.Clusters.Plus(some), errors.Join(done.ClustersErr, err)
		})
	}
	if s.Tallies != nil {
		passes = append(passes, func(ctx context.Context) {
			some, err := census.Correct(ctx, s.Tallies, 0)
			done.Tallies, done.TalliesErr = done.Tallies.Plus(some), errors.Join(done.TalliesErr, err)
		})
	}
	if s.Prune != nil {
		passes = append(passes, func(ctx context.Context) {
			n, err := s.Prune(ctx)
			done.Pruned += n
			if done.PruneMore = err != nil && ctx.Err() != nil; done.PruneMore && n > 0 {
				return // its time was over at work
			}
			done.PruneErr = errors.Join(done.PruneErr, err)
		})
	}
	share(ctx, passes)
	s.report(ctx, done)
	for _, of := range []struct {
		what string
		err  *error
	}{
		{metrics.OfAnalyses, &done.AnalysesErr}, {metrics.OfClusters, &done.ClustersErr},
		{metrics.OfAlarms, &done.AlarmsErr}, {metrics.OfTallies, &done.TalliesErr}, {metrics.OfEnded, &done.PruneErr},
	} {
		s.Damage.Swept(of.what, *of.err)
		passed, failed := docstore.Failure(*of.err)
		*of.err = failed
		done.Unreadable.Add(passed)
	}
	return done
}

// fireAlarms fires the alarms that are due, in half the time that there is.
func (s Sweeps) fireAlarms(ctx context.Context, done *Swept) {
	if deadline, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	for more := true; more && ctx.Err() == nil; more = done.Alarms.More && done.AlarmsErr == nil {
		some, err := s.Clusters.FireAlarms(ctx)
		if ctx.Err() != nil && some.Fired > 0 { // its time was over at work
			some.More, err = true, nil
		}
		some.Fired, some.Waiting = some.Fired+done.Alarms.Fired, some.Waiting+done.Alarms.Waiting
		some.Removed, some.Late = some.Removed+done.Alarms.Removed, append(done.Alarms.Late, some.Late...)
		done.Alarms, done.AlarmsErr = some, err
	}
}

// report logs and counts what was done.
func (s Sweeps) report(ctx context.Context, done Swept) {
	if s.Analyses != nil {
		s.Metrics.SweptAnalyses(ctx, done.Analyses, done.AnalysesErr)
		logAnalyses(ctx, s.Log, done.Analyses, done.AnalysesErr)
	}
	if s.Clusters != nil {
		s.Metrics.SweptClusters(ctx, done.Clusters, done.ClustersErr)
		LogClusters(ctx, s.Log, done.Clusters, done.ClustersErr)
		s.Metrics.FiredAlarms(ctx, done.Alarms, done.AlarmsErr)
		LogAlarms(ctx, s.Log, done.Alarms, done.AlarmsErr)
	}
	if s.Tallies != nil {
		s.Metrics.Corrected(ctx, done.TalliesErr)
		LogTallies(ctx, s.Log, done.Tallies, done.TalliesErr)
	}
	if s.Prune != nil {
		s.Metrics.Pruned(ctx, done.PruneErr)
		LogPrune(ctx, s.Log, done.Pruned, done.PruneErr)
	}
}

// LogPrune writes what went wrong when documents were removed.
func LogPrune(ctx context.Context, log *slog.Logger, removed int, err error) {
	passed, failed := docstore.Failure(err)
	if failed != nil {
		log.LogAttrs(ctx, slog.LevelWarn, "cannot remove ended locks; the next attempt goes on", slog.Int("removed", removed),
			slog.String("err", failed.Error()))
	}
	if passed.Count > 0 {
		log.LogAttrs(ctx, slog.LevelWarn, "documents that are to be removed cannot be read: they are left alone",
			slog.Int("damaged", passed.Count), slog.String("unreadable", passed.Error()))
	}
}

// outcome is how a sweep is logged: one that failed as an error, one that went past documents which cannot be read as
// a warning.
func outcome(line []slog.Attr, err error) (slog.Level, []slog.Attr) {
	level := slog.LevelInfo
	passed, failed := docstore.Failure(err)
	if passed.Count > 0 {
		level, line = slog.LevelWarn, append(line, slog.String("unreadable", passed.Error()))
	}
	if failed != nil {
		level, line = slog.LevelError, append(line, slog.String("err", failed.Error()))
	}
	return level, line
}

// pass is a kind of work that keeps how far it came, so that it can be cut off and called again.
type pass func(ctx context.Context)

// share calls passes one after the other, each with its part of the time that is left, and those that were cut off
// again while there is some. Without a deadline each has as long as it takes.
func share(ctx context.Context, passes []pass) {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		for _, p := range passes {
			p(ctx)
		}
		return
	}
	least := time.Until(deadline) / leastRest
	for first := true; first || ctx.Err() == nil && time.Until(deadline) > least; first = false {
		var cut []pass
		for i, p := range passes {
			part, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(passes)-i))
			if p(part); part.Err() != nil {
				cut = append(cut, p)
			}
			cancel()
		}
		if passes = cut; len(passes) == 0 {
			return
		}
	}
}

// logAnalyses writes what a sweep of analyses did.
func logAnalyses(ctx context.Context, log *slog.Logger, s analysis.Swept, err error) {
	level, line := outcome([]slog.Attr{
		slog.Int("stale", s.Stale), slog.Int("requeued", s.Requeued), slog.Int("failed", s.Failed),
		slog.Int("skipped", s.Skipped),
		slog.Int("errors", s.Errors), slog.Int("damaged", s.Damaged), slog.Bool("more", s.More),
	}, err)
	log.LogAttrs(ctx, level, "sweep", line...)
}

// LogClusters writes what a sweep of clusters did.
func LogClusters(ctx context.Context, log *slog.Logger, s placement.Swept, err error) {
	level, line := outcome([]slog.Attr{
		slog.Int("clusters", s.Clusters), slog.Int("evicted", s.Evicted), slog.Int("freed", s.Freed),
		slog.Int("removed", s.Removed),
		slog.Int("retired", s.Retired),
		slog.Int("errors", s.Errors), slog.Int("damaged", s.Damaged), slog.Bool("more", s.More),
	}, err)
	log.LogAttrs(ctx, level, "sweep of clusters", line...)
}

// LogAlarms writes what a look for alarms did, if there were any that were due.
func LogAlarms(ctx context.Context, log *slog.Logger, a placement.Alarms, err error) {
	if err == nil && a.Fired+a.Waiting+a.Removed == 0 {
		return
	}
	level, line := outcome([]slog.Attr{
		slog.Int("fired", a.Fired), slog.Int("waiting", a.Waiting), slog.Int("removed", a.Removed),
		slog.Int("errors", a.Errors), slog.Int("damaged", a.Damaged), slog.Bool("more", a.More),
	}, err)
	log.LogAttrs(ctx, level, "alarms of identities", line...)
}

// LogTallies writes what was counted of the documents of tenants, if anything was.
func LogTallies(ctx context.Context, log *slog.Logger, c census.Corrected, err error) {
	if err == nil && c.Documents+c.Tallies == 0 {
		return
	}
	level, line := outcome([]slog.Attr{
		slog.Int("tallies", c.Tallies), slog.Int("documents", c.Documents), slog.Int("errors", c.Errors),
		slog.Bool("more", c.More),
	}, err)
	log.LogAttrs(ctx, level, "count of the documents of tenants", line...)
}
