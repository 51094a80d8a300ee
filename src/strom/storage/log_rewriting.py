"""Compaction and pruning of a log, one at a time."""

from strom.model.topic_settings import TopicSettings
from strom.storage.disk import Disk
from strom.storage.log_compaction import Compaction, gather_work, swap_in
from strom.storage.log_pruning import GoneOffsets, Pruning, gather_garbage
from strom.storage.log_state import LogState


class Rewriting:
    """The rewrite that has begun, if any, and what former ones have left."""

    def __init__(self, disk: Disk, folder: str, state: LogState) -> None:
        self._disk = disk
        self._folder = folder
        self._state = state
        self._begun: Compaction | None = None
        self._pruned: dict[int, int] = {}
        """The number of records that segments had after pruning, by base offset."""

    @property
    def is_reading(self) -> bool:
        """Whether a rewrite reads closed segments, or is about to replace them."""
        return self._begun is not None and not self._begun.failed

    @property
    def is_swapping(self) -> bool:
        """Whether a shortage has interrupted a swap."""
        return self._begun is not None and self._begun.swapping

    def is_running(self) -> bool:
        """Whether a rewrite is running; a finished one is applied first."""
        begun = self._begun
        if begun is None or begun.failed:
            return False
        if begun.finished:
            self.apply(begun)
        return not begun.finished

    def plan_compaction(
        self, settings: TopicSettings, now_ms: int, decided: int
    ) -> Compaction | None:
        """The compaction that is due up to an offset whose transactions have ended."""
        work = gather_work(self._disk, self._state, settings, now_ms, decided)
        if work is None:
            return None
        self._begun = Compaction(self._disk, self._folder, self._state, work)
        return self._begun

    def plan_pruning(
        self, settings: TopicSettings, gone: GoneOffsets, now_ms: int
    ) -> Compaction | None:
        """The pruning that is worthwhile."""
        groups = gather_garbage(self._disk, self._state, settings, gone, self._pruned)
        if not groups:
            return None
        self._begun = Pruning(self._disk, self._folder, self._state, groups, gone, settings, now_ms)
        return self._begun

    def apply(self, compaction: Compaction) -> None:
        """Replace the old segments by the new ones; does nothing if the run failed."""
        if compaction is self._begun:
            if not compaction.failed:
                self._swap_in(compaction)
            self._begun = None

    def apply_begun(self) -> None:
        if self._begun is not None:
            self.apply(self._begun)

    def continue_swap(self) -> None:
        """Swap in what a shortage has interrupted; ApiError while it lasts."""
        if self._begun is not None:
            self._swap_in(self._begun)
            self._begun = None

    def _swap_in(self, compaction: Compaction) -> None:
        swap_in(self._disk, self._folder, self._state, compaction)
        if isinstance(compaction, Pruning):
            self._pruned |= compaction.written
            bases = {each.base_offset for each in self._state.segments}
            self._pruned = {at: n for at, n in self._pruned.items() if at in bases}
