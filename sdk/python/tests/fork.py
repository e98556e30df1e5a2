"""What a child of a fork does."""

from __future__ import annotations

import json
import os
import signal
import warnings
from collections.abc import Callable

STUCK = 300
"""Seconds of true time after which a child is ended that does not end by itself."""


def in_child(do: Callable[[], list[str]]) -> list[str]:
    """What a function returns in a child of this process, or its error. Nothing of the child reaches the test runner."""
    r, w = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the threads of this process are at rest
        pid = os.fork()
    if pid == 0:
        signal.alarm(STUCK)
        said: list[str] = []
        try:
            said = do()
        except BaseException as err:
            said = [repr(err)]
        finally:
            os.write(w, json.dumps(said).encode())
            os._exit(0)
    os.close(w)
    with os.fdopen(r) as pipe:
        said = json.loads(pipe.read() or '["the child did not end"]')
    os.waitpid(pid, 0)
    return said
