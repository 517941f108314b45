"""Shares of kernels on the workers of a Dask cluster: placed, asked, and made anew where a worker is lost."""

import time

from omkl._cluster import alive_workers, running_workers, workers_of
from omkl.exceptions import DistributionError, InputError, OmklError
from omkl.kernels.share import Share

#: Seconds to wait, where a worker was lost, for one that has no share yet before another one gets a second.
GRACE = 5.0
#: Seconds after which an answer that has not come makes one ask whether its worker is still there.
INTERVAL = 1.0
#: How often a share may be lost before that is no accident.
MOST_LOSSES = 3


class WorkerShares:
    """Shares of kernels, each on a worker.

    A worker that is lost loses its share: the share is made anew from its recipe on another worker, and asked again.

    Parameters
    ----------
    client : dask.distributed.Client
    recipes : sequence
        One a share: a function without arguments whose iterator gives calls ``(method, *arguments)`` of a
        :class:`~omkl.kernels.share.Share` that make it what it is, one after the other.

    Raises
    ------
    omkl.exceptions.DistributionError
        If there are no workers, or workers are lost again and again.
    omkl.exceptions.InputError
        If a worker cannot make its share.
    """

    def __init__(self, client, recipes):
        self.client, self._recipes = client, recipes
        addresses = workers_of(client)
        self._homes = [addresses[s % len(addresses)] for s in range(len(recipes))]
        self._losses, self._lost_with = [0] * len(recipes), set()
        self._futures = [self._start(home) for home in self._homes]
        self._actors = [None] * len(recipes)
        makings = [recipe() for recipe in recipes]
        # calls of different shares side by side, those of one share one after the other
        while calls := {s: call for s, making in enumerate(makings) if (call := next(making, None)) is not None}:
            self.ask(calls)

    @property
    def homes(self):
        """The address of each share's worker."""
        return list(self._homes)

    def ask(self, calls):
        """Call methods of shares, all at once.

        Parameters
        ----------
        calls : dict of int to tuple
            For some shares the name of a method, and its arguments.

        Returns
        -------
        list
            Answers in the order of ``calls``, whichever worker is the first.
        """
        sent = {s: self._send(s, call) for s, call in calls.items()}
        return [self._answer(s, call, sent[s]) for s, call in calls.items()]

    def _answer(self, s, call, pending):
        while True:
            try:
                return self._result(s, pending)
            except _ShareLostError:
                self._make_anew(s)
                pending = self._send(s, call)

    def _start(self, address):
        """The future of an empty share on a worker."""
        return self.client.submit(Share, actor=True, workers=[address], allow_other_workers=False, pure=False)

    def _send(self, s, call):
        """The future of a method's answer; None where the share is known to be lost."""
        method, *arguments = call
        if self._actors[s] is None:
            try:
                self._actors[s] = self._result(s, self._futures[s])
            except _ShareLostError:
                return None
        try:
            return getattr(self._actors[s], method)(*arguments)
        except RuntimeError:
            # Dask has seen the worker go
            return None

    def _result(self, s, pending):
        """The result of a future of share ``s``, unless its worker is lost."""
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        while pending is not None:
            try:
                return pending.result(timeout=INTERVAL)
            except TimeoutError:
                # a paused worker answers for the share it has, but would never begin to make one
                able = running_workers if pending is self._futures[s] else alive_workers
                if self._futures[s].status not in ("finished", "pending") or self._homes[s] not in able(self.client):
                    break
            except (CancelledError, KilledWorker, CommClosedError):
                break
            except OSError as error:
                # what Dask raises where it cannot reach a worker; any other is the user's kernel's own
                if type(error) is OSError:
                    break
                raise
            except OmklError as error:
                raise InputError(f"The worker {self._homes[s]} cannot do its part. {error}") from None
            except ImportError as error:
                raise DistributionError(
                    f"The worker {self._homes[s]} has no omkl like this one ({error}): install the same version."
                ) from error
        raise _ShareLostError

    def _make_anew(self, s):
        """A lost share, from its recipe on another worker."""
        while self._losses[s] < MOST_LOSSES:
            self._losses[s] += 1
            self._lost_with.add(self._homes[s])
            self._homes[s] = self._successor()
            self._futures[s], self._actors[s] = self._start(self._homes[s]), None
            try:
                for call in self._recipes[s]():
                    self._result(s, self._send(s, call))
            except _ShareLostError:
                continue
            return
        raise DistributionError(
            f"A share of the kernels was lost with its worker {MOST_LOSSES + 1} times, the last "
            f"{self._homes[s]}: look at the workers' logs, they may lack memory."
        )

    def _successor(self):
        """A worker for a share that has lost its own: one without a share, if it comes soon, else one with few."""
        begin = time.monotonic()
        while True:
            patient = time.monotonic() - begin < GRACE
            alive = [address for address in workers_of(self.client) if not (patient and address in self._lost_with)]
            loads = {address: self._homes.count(address) for address in alive}
            if loads and (min(loads.values()) == 0 or not patient):
                return min(loads, key=loads.get)
            time.sleep(0.1)


class _ShareLostError(Exception):
    """A share is no longer there."""
