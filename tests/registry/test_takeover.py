"""A topic that another registry has written is taken over as it is."""

import json

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from strom.registry.server import RegistryServer
from tests.registry.conftest import Asker, optional, record

CLICK = record("ms")
# As a registry of Confluent's writes them, over the years; and things that are not known here.
RECORDS = [
    ('{"keytype":"NOOP","magic":0}', None),
    ('{"keytype":"CONFIG","subject":null,"magic":0}', '{"compatibilityLevel":"FORWARD"}'),
    (
        '{"keytype":"SCHEMA","subject":"clicks-value","version":1,"magic":0}',
        json.dumps(
            {"subject": "clicks-value", "version": 1, "id": 21, "schema": json.dumps(CLICK)}
        ),
    ),
    (
        '{"keytype":"SCHEMA","subject":"old-value","version":3,"magic":1}',
        '{"subject":"old-value","version":3,"id":7,"md5":"x","schema":"\\"int\\"","deleted":false}',
    ),
    (
        '{"keytype":"DELETE_SUBJECT","subject":"old-value","magic":0}',
        '{"subject":"old-value","version":3}',
    ),
    ('{"keytype":"CONTEXT","tenant":"default","context":".x","magic":0}', '{"tenant":"default"}'),
    ("damaged", "also damaged"),
    (
        '{"keytype":"SCHEMA","subject":"broken-value","version":1,"magic":1}',
        '{"subject":"broken-value","version":1,"id":22,"schema":"no schema at all","deleted":false}',
    ),
]


def test_what_is_there_counts_and_goes_on(strom_server, topic):
    servers = strom_server.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    new = NewTopic(topic, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([new])[topic].result()
    producer = Producer({"bootstrap.servers": servers})
    for key, value in RECORDS:
        producer.produce(topic, value, key)
    assert producer.flush(20) == 0
    with RegistryServer(servers, topic=topic) as server:
        ask = Asker(server.url)
        assert ask("GET", "/subjects").body == ["broken-value", "clicks-value"]
        assert ask("GET", "/subjects", deletedOnly="true").body == ["old-value"]
        assert ask("GET", "/config").body == {"compatibilityLevel": "FORWARD"}
        # The same schema in other words is the same: strom writes less space into it.
        assert ask.register("clicks-value", CLICK).body == {"id": 21, "version": 1}
        newer = ask.register("clicks-value", record("ms", optional("user"))).body
        assert newer == {"id": 23, "version": 2}
        # What cannot be understood is shown as it is, and stands in nobody's way.
        assert ask("GET", "/schemas/ids/22").body == {"schema": "no schema at all"}
        assert ask("DELETE", "/subjects/broken-value").body == [1]
        ask.close()
