"""Where strom differs from Kafka on purpose: test → why.

A test named here must fail on strom and pass on Kafka; when strom comes round, it says so.
"""

DIFFERENCES: dict[str, str] = {}
