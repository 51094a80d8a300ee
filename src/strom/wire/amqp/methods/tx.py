"""Transactions on a channel: publishes and acknowledgements take effect at tx.commit."""

from strom.wire.amqp.schema import Method


class Select(Method, class_id=90, method_id=10):
    pass


class SelectOk(Method, class_id=90, method_id=11):
    pass


class Commit(Method, class_id=90, method_id=20):
    pass


class CommitOk(Method, class_id=90, method_id=21):
    pass


class Rollback(Method, class_id=90, method_id=30):
    pass


class RollbackOk(Method, class_id=90, method_id=31):
    pass
