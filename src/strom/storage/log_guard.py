"""The condition for every use of a log: it is intact, online, and not between two sets of segments.

A damaged batch of a user's topic is reported to the clients that read it, and the rest is served. Where
the log is the state of a coordinator or a queue, skipping a batch would falsify that state: such
a log is quarantined.
"""

import logging
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from strom.model.errors import ApiError, CorruptData, ErrorCode
from strom.model.topics import TopicPartition, holds_state
from strom.storage.damage import WHAT_TO_DO
from strom.storage.damage_search import learn_damage
from strom.storage.disk import Disk
from strom.storage.files import is_temporary
from strom.storage.log_rewriting import Rewriting
from strom.storage.log_state import LogState
from strom.storage.segment import DamagedSegment

logger = logging.getLogger(__name__)

T = TypeVar("T")


class LogGuard:
    """As a context manager, it turns errors of reading into ApiError; damage may quarantine the log."""

    def __init__(
        self,
        disk: Disk,
        partition: TopicPartition,
        rewriting: Rewriting,
        state: LogState,
        quarantined: str | None,
    ) -> None:
        self.quarantined = quarantined
        """The damage that was found, None while the log is in use."""
        self._disk = disk
        self._partition = partition
        self._rewriting = rewriting
        self._state = state
        self._tolerates_damage = not holds_state(partition.topic)

    def run(self, reading: Callable[[], T]) -> T:
        """The result of reading, which is repeated when it met damage that it can skip from now on.

        ApiError if it cannot: CORRUPT_MESSAGE for an offset in a damaged batch.
        """
        while True:
            with self:
                try:
                    return reading()
                except DamagedSegment as damage:
                    if not self._learn(damage):
                        raise

    def check(self) -> None:
        """KAFKA_STORAGE_ERROR if the log cannot be used; an interrupted swap is continued first."""
        if self.quarantined is not None:
            raise self._damaged()
        self._disk.check_online()
        if self._rewriting.is_swapping:
            self._rewriting.continue_swap()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if not isinstance(error, CorruptData | OSError):
            return
        if isinstance(error, DamagedSegment) and self._tolerates_damage:
            self._learn(error)
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self._partition}: {error}.") from error
        if isinstance(error, OSError) and is_temporary(error):
            message = f"Cannot read: {error.strerror}."
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, message) from error
        self.quarantined = str(error)
        logger.error("%s is quarantined: %s. %s", self._partition, error, WHAT_TO_DO)
        raise self._damaged() from error

    def _learn(self, damage: DamagedSegment) -> bool:
        """Have readers skip damage, if that is allowed and it is new."""
        segment = damage.segment
        if not self._tolerates_damage or not learn_damage(
            segment,
            damage.position,
            self._state.epochs,
            has_gaps=self._state.may_have_gaps(segment.base_offset),
        ):
            return False
        logger.error(
            "%s: %s. Reads of that batch fail, the others go on. %s",
            self._partition,
            damage,
            WHAT_TO_DO,
        )
        return True

    def _damaged(self) -> ApiError:
        message = f"{self._partition} is damaged: {self.quarantined}."
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, message)
