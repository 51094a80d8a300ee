"""One Spark session and one broker for all tests that need them; without Java or jars they skip."""

import pytest

from strom.model.errors import UserError
from strom.pipelines.spark.jars import cache_folder, connector_jars
from strom.pipelines.spark.java import java_home

SMALL = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def spark():
    from strom.pipelines.spark import session as sessions

    try:
        connector_jars(java_home(cache_folder()))
    except UserError as reason:
        pytest.skip(str(reason))
    with pytest.MonkeyPatch.context() as patched:
        # At a lower priority than the other tests, Spark would get no core for minutes.
        patched.setattr(sessions, "_NICE_INCREMENT", 0)
        session = sessions.start_session("local[2]", SMALL)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka_servers():
    from strom.testing import BrokerProcess

    with BrokerProcess() as broker:
        yield broker.bootstrap_servers
