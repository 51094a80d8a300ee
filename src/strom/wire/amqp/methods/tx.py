"""Transactions on a channel."""

from strom.wire.amqp.schema import Method


class Select(Method, class_id=90, method_id=10):
    """From now on, what is published and acknowledged waits for a commit."""


class SelectOk(Method, class_id=90, method_id=11):
    """It will wait."""


class Commit(Method, class_id=90, method_id=20):
    """Do all of it."""


class CommitOk(Method, class_id=90, method_id=21):
    """It is done."""


class Rollback(Method, class_id=90, method_id=30):
    """Forget all of it."""


class RollbackOk(Method, class_id=90, method_id=31):
    """It is forgotten."""


METHODS: tuple[type[Method], ...] = (Select, SelectOk, Commit, CommitOk, Rollback, RollbackOk)
