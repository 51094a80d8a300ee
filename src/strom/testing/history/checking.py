"""The check of a history, with all of its parts."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from strom.testing.history.contents import check_contents
from strom.testing.history.dependencies import check_dependencies
from strom.testing.history.facts import Facts
from strom.testing.history.findings import KAFKA_ALLOWS, Anomaly, Verdict
from strom.testing.history.group_work import check_groups
from strom.testing.history.operations import Operation
from strom.testing.history.orderliness import check_orderliness


def check_history(
    history: Iterable[Operation], *, allowed: AbstractSet[Anomaly] = KAFKA_ALLOWS
) -> Verdict:
    """Find all anomalies of a history, in time linear in its length.

    All consumers must be read_committed, and together read each key from its beginning. Let the history
    end with a read of everything: otherwise a lost record and a late one look the same (`unseen`).
    """
    facts = Facts(history)
    verdict = Verdict(len(facts.operations), allowed)
    check_contents(facts, verdict)
    check_orderliness(facts, verdict)
    check_dependencies(facts, verdict)
    check_groups(facts, verdict)
    return verdict
