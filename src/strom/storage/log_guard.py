"""The condition for every use of a log: it is intact, online, and not between two sets of segments."""

import logging
from types import TracebackType

from strom.model.errors import ApiError, CorruptData, ErrorCode
from strom.model.topics import TopicPartition
from strom.storage.disk import Disk
from strom.storage.files import is_temporary
from strom.storage.log_rewriting import Rewriting

logger = logging.getLogger(__name__)


class LogGuard:
    """As a context manager, it turns errors of reading into ApiError; damage quarantines the log."""

    def __init__(
        self, disk: Disk, partition: TopicPartition, rewriting: Rewriting, quarantined: str | None
    ) -> None:
        self.quarantined = quarantined
        """The damage that was found, None while the log is intact."""
        self._disk = disk
        self._partition = partition
        self._rewriting = rewriting

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
        if isinstance(error, OSError) and is_temporary(error):
            message = f"Cannot read: {error.strerror}."
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, message) from error
        self.quarantined = str(error)
        logger.error("%s is quarantined: %s", self._partition, error)
        raise self._damaged() from error

    def _damaged(self) -> ApiError:
        message = f"{self._partition} is damaged: {self.quarantined}."
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, message)
