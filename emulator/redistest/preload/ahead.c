// Shows the process in which it is loaded (LD_PRELOAD) a time that is CLOCK_AHEAD_SECONDS ahead of the machine's. Timers
// are not touched. It asks the kernel by itself: what other libraries do while they start would call it again.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) {
	const char *seconds = getenv("CLOCK_AHEAD_SECONDS");
	return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *t) {
	int failed = syscall(SYS_clock_gettime, clock, t);
	if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		t->tv_sec += ahead();
	return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	struct timespec now;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &now))
		return -1;
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t) {
	struct timespec now;
	if (clock_gettime(CLOCK_REALTIME, &now))
		return -1;
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}
