"""Waiting in asyncio for what a file descriptor announces."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from ._native import Empty, Stopped

T = TypeVar("T")


class Awaited(Generic[T]):
    """An object whose file descriptor shows that `get` would return something, awaited by any number of tasks."""

    _waiting: list[asyncio.Future[None]]

    if TYPE_CHECKING:

        def get(self, timeout: float | None = None) -> T: ...
        def fileno(self) -> int: ...
        def __exit__(
            self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
        ) -> None: ...

    async def aget(self, timeout: float | None = None) -> T:
        """As `get`, while other tasks run."""
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        while True:
            try:
                return self.get(0.0)
            except Empty:
                left = None if end is None else end - loop.time()
                if left is not None and left <= 0:
                    raise
            await self._readable(loop, left)

    async def _readable(self, loop: asyncio.AbstractEventLoop, timeout: float | None) -> None:
        """Wait until something may be available. The loop watches the descriptor once for all waiting tasks."""
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append(future)
        if len(self._waiting) == 1:
            loop.add_reader(self.fileno(), self._wake, loop)
        try:
            await asyncio.wait_for(future, timeout)
        except TimeoutError:
            pass
        finally:
            if future in self._waiting:
                self._waiting.remove(future)
                if not self._waiting:
                    loop.remove_reader(self.fileno())

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self.fileno())
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            return await self.aget()
        except Stopped:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Its threads end meanwhile, and other tasks run.
        await asyncio.to_thread(self.__exit__, kind, value, trace)
