"""The end of a request: the server's time after which it has no effect any more, and how it is given up before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial

from . import _outcome
from ._call import on_fork
from ._steps import Send, Steps, Wires, pause
from ._time import Clock, Moment, Signal, try_time
from .codes import RequestIdReusedError
from .errors import ApiError, InvalidResponseError, NoResponseError, format_time

AFTER = 2.0
"""Seconds by which a request ends after its caller stopped to wait for it: one that is answered in time is not too
late."""

MOST_AHEAD = 3000.0
"""Seconds that an end lies ahead at most. Servers accept an hour."""

LAST_SECOND = 253_402_300_799.0
"""Of what can be written as a time, in Unix seconds: a clock can show anything."""

DOUBT = 2.0
"""Seconds by which the Date of a response may differ from what is known of the server's time: its clock may be another
than the store's."""

class ServerTime:
    """The server's time, as far as it is known: the wall clock, until responses say that it is wrong.

    A response says the time of some moment between its request and its arrival: no more is taken from it than that. It
    may be used by several threads at once.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ahead = 0.0  # of the wall clock
        self._exact = False  # the store has said its time
        on_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def end(self, seconds: float) -> str:
        """The end of a request whose caller waits for its response for so many seconds from now on."""
        at = self._clock.wall() + self._ahead + min(max(seconds, 0.0) + AFTER, MOST_AHEAD)
        return format_time(datetime.fromtimestamp(min(max(at, 0.0), LAST_SECOND), timezone.utc))

    def correct(self, store_time: datetime, took: float) -> None:
        """Learn the store's time, by which ends are judged, from a response that has just arrived and that took so many
        seconds."""
        with self._lock:
            least = store_time.timestamp() - self._clock.wall()
            self._ahead, self._exact = min(max(self._ahead, least), least + took), True

    def compare(self, date: str, took: float) -> None:
        """Learn from the Date of a response that has just arrived and that took so many seconds, unless the store has
        told its time."""
        if not date:
            return
        from email.utils import parsedate_to_datetime  # which takes long to import

        try:
            at = parsedate_to_datetime(date)
        except (ValueError, TypeError, IndexError, OverflowError):
            return
        with self._lock:
            least = (at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)).timestamp() - self._clock.wall()
            most = least + 1 + took  # it was cut to whole seconds
            if not self._exact and not least - DOUBT <= self._ahead <= most + DOUBT:
                self._ahead = min(max(self._ahead, least), most)


def give_up(
    clock: Clock, end: Moment, each: float, send: Callable[[float, Signal], Wires[None]],
) -> Steps[BaseException | None]:
    """Give up a request that may have had its effect, or may still have it. The result is why it may not be given up.

    send tells the server once, in so many seconds, each at most. That goes on until the server says that nothing is held under the
    request_id and nothing will be, or that it was used for something else, or rejects for good what it is told; end is
    when there is nothing left to be given up. No other response settles it.
    """
    retry = 0
    while True:
        seconds = min(try_time(retry, each), max(0.01, clock.now().until(end)))
        try:
            yield Send(seconds, partial(send, seconds))
            return None
        except RequestIdReusedError:
            return None
        except (ApiError, NoResponseError, InvalidResponseError) as err:
            left = clock.now().until(end)
            # When a lock may be free does not matter.
            wait = _outcome.pause(retry, None if _outcome.settles(err) else err, left)
            if _outcome.final(err) or wait >= left:
                return err
        except Exception as err:  # a mistake in the program
            return err
        yield pause(clock, wait)
        retry += 1
