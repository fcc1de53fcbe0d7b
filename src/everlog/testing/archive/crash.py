"""The death of an archive in the middle of an operation of its storage."""

from __future__ import annotations

from everlog.testing.storage.crashing import CrashingStorage


class PowerCut(BaseException):
    """The archive dies in the middle of what it does. Nothing catches this but the simulation."""


class Crash:
    """Lets a storage be cut off after some operations: ``left`` is what remains of it then."""

    def __init__(self, storage: CrashingStorage, operations: int, seed: int | None) -> None:
        self.left: CrashingStorage | None = None
        self._storage = storage
        self._operations = operations
        self._seed = seed
        storage.after_each = self._count

    def _count(self, what: str) -> None:
        self._operations -= 1
        if self._operations == 0:
            self.now()
            raise PowerCut(what)

    def now(self) -> CrashingStorage:
        """Crash at once."""
        self._storage.after_each = None
        self._storage.before_remove = lambda name: None
        self.left = self._storage.kill() if self._seed is None else self._storage.crash(self._seed)
        self.left.root = self._storage.root
        return self.left
