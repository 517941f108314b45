"""Reading ahead in a thread."""

from collections.abc import Iterator
from contextvars import copy_context
from queue import SimpleQueue
from threading import Event, Semaphore, Thread

from omkl.data.rows import Block

#: How long the caller waits for the thread when it stops early: a thread that waits for a pipe may never end.
SECONDS_TO_END = 2.0


def prefetched(blocks: Iterator[Block], depth: int) -> Iterator[Block]:
    """Yield the same blocks, while a thread reads up to ``depth`` of them ahead.

    Parameters
    ----------
    blocks : iterator of Block
        Used by the thread alone.
    depth : int
    """
    ready: SimpleQueue = SimpleQueue()
    free, stopped = Semaphore(depth), Event()

    def read():
        try:
            for block in blocks:
                free.acquire()
                if stopped.is_set():
                    return
                ready.put((block, None))
                block = None  # the caller alone decides how long it lives
            ready.put((None, None))
        except BaseException as error:
            ready.put((None, error))
        finally:
            if hasattr(blocks, "close"):
                blocks.close()

    thread = Thread(target=copy_context().run, args=[read], name="omkl-prefetch", daemon=True)
    thread.start()
    try:
        while True:
            block, error = ready.get()
            if error is not None:
                raise error
            if block is None:
                return
            free.release()
            yield block
            block = None
    finally:
        stopped.set()
        free.release()
        thread.join(SECONDS_TO_END)
