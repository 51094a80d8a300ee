import contextlib
import os
import resource
import socket
import threading

import pytest

from strom.client import protocol_client
from strom.client.broker_connection import MAX_RESPONSE_BYTES, BrokerUnreachable
from strom.client.connection_settings import ConnectionSettings
from strom.client.protocol_client import CoordinatorType, ProtocolClient
from strom.client.sasl import MAX_ITERATIONS, AuthenticationFailed
from strom.model.errors import ApiError, ErrorCode, ProtocolError, UserError
from strom.model.retries import RetryPolicy
from strom.wire.kafka.messages.k03_metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from strom.wire.kafka.messages.k10_find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from strom.wire.kafka.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from strom.wire.kafka.schema import Versions
from tests.certificates import make_certificate
from tests.client.scripted_broker import ScriptedBroker, Users

SCRAM = ["SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def broker():
    with ScriptedBroker() as running:
        running.respond[HeartbeatRequest] = lambda _: HeartbeatResponse()
        yield running


def client_of(broker, **properties):
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return ProtocolClient(ConnectionSettings(broker.servers, named), "test")


def sasl(mechanism, password="lovelace", username="ada"):
    return {
        "security_protocol": "sasl_plaintext",
        "sasl_mechanism": mechanism,
        "sasl_username": username,
        "sasl_password": password,
    }


def beat(client, **options):
    return client.call(HeartbeatRequest(group_id="g", member_id="m"), HeartbeatResponse, **options)


def test_the_highest_version_that_both_sides_know_is_used(broker):
    broker.versions[12] = Versions(1, 3)
    with client_of(broker) as client:
        beat(client)
        assert broker.used_versions["HeartbeatRequest"] == 3
        beat(client, versions=Versions(0, 2))
        assert broker.used_versions["HeartbeatRequest"] == 2


def test_a_version_that_the_broker_does_not_offer_is_an_error_with_both_ranges(broker):
    broker.versions[12] = Versions(0, 1)
    with (
        client_of(broker) as client,
        pytest.raises(ApiError, match=r"0 to 1.*needs 2 to 4") as told,
    ):
        beat(client, versions=Versions(2, 4))
    assert told.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert broker.count(HeartbeatRequest) == 0


def test_a_request_that_the_broker_does_not_know_is_an_error(broker):
    del broker.versions[12]
    with client_of(broker) as client, pytest.raises(ApiError, match="does not support Heartbeat"):
        beat(client)


def test_a_broker_from_before_kafka_2_4_is_asked_for_its_versions_in_version_0(broker):
    broker.knows_api_versions_3 = False
    with client_of(broker) as client:
        beat(client)
    assert broker.used_versions["ApiVersionsRequest"] == 0


def test_connections_are_used_again_and_replaced_when_the_broker_has_closed_them(broker):
    with client_of(broker) as client:
        beat(client)
        beat(client)
        assert broker.connections == 1
        broker.hang_up()
        (kept,) = client._connections.values()
        while kept.is_reusable():
            pass
        beat(client)
        assert broker.connections == 2


def test_an_open_connection_is_used_when_no_descriptor_is_left(broker):
    with client_of(broker) as client, contextlib.ExitStack() as taken:
        beat(client)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        taken.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        highest = max(map(int, os.listdir("/dev/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, limits[1]))
        with contextlib.suppress(OSError):
            for _ in range(highest + 2):
                taken.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        assert beat(client).error_code == 0


def test_a_connection_is_replaced_before_its_sasl_session_expires():
    with ScriptedBroker(users=Users(lifetime_ms=1)) as broker:
        broker.respond[HeartbeatRequest] = lambda _: HeartbeatResponse()
        with client_of(broker, **sasl("PLAIN")) as client:
            beat(client)
            (kept,) = client._connections.values()
            while kept.is_reusable():
                pass
            beat(client)
        assert broker.connections == 2


def test_a_connection_that_breaks_before_the_response_is_reported_with_the_address(broker):
    broker.respond[HeartbeatRequest] = lambda _: None
    with client_of(broker) as client:
        with pytest.raises(BrokerUnreachable, match=f"Heartbeat to {broker.servers}.*closed"):
            beat(client)
        broker.respond[HeartbeatRequest] = lambda _: HeartbeatResponse()
        beat(client)


def test_a_response_that_does_not_come_in_time_ends_the_connection(broker):
    late = threading.Event()

    def respond(_):
        late.wait(10)
        return HeartbeatResponse(error_code=1)

    broker.respond[HeartbeatRequest] = respond
    with client_of(broker) as client:
        with pytest.raises(BrokerUnreachable, match="the broker timed out"):
            beat(client, timeout_s=0.05)
        broker.respond[HeartbeatRequest] = lambda _: HeartbeatResponse()
        late.set()
        assert beat(client).error_code == 0  # not the response that came late


def test_a_request_without_time_left_is_not_sent(broker):
    with client_of(broker) as client:
        beat(client)
        with pytest.raises(BrokerUnreachable, match="the broker timed out"):
            beat(client, timeout_s=0)
    assert broker.count(HeartbeatRequest) == 1


def test_the_response_to_another_request_is_not_taken_for_this_ones(broker):
    broker.respond[HeartbeatRequest] = lambda _: (8).to_bytes(4, "big") + bytes(8)
    with (
        client_of(broker) as client,
        pytest.raises(ProtocolError, match="does not match the request"),
    ):
        beat(client)


@pytest.mark.parametrize(
    "response",
    [b"HTTP/1.1 400 Bad Request\r\n", (MAX_RESPONSE_BYTES + 1).to_bytes(4, "big"), b"\0\0\0\1x"],
)
def test_what_is_no_kafka_broker_is_reported_as_such(response):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(1000)
                connection.sendall(response)
                connection.recv(1000)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        servers = f"127.0.0.1:{listener.getsockname()[1]}"
        with (
            ProtocolClient(ConnectionSettings(servers), "test") as client,
            pytest.raises(ProtocolError, match=f"{servers} does not respond as a Kafka broker"),
        ):
            client.nodes()
        thread.join(10)


def test_any_bootstrap_server_that_can_be_reached_will_do(broker):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nowhere = f"127.0.0.1:{unused.getsockname()[1]}"
    broker.respond[MetadataRequest] = lambda _: MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=7, host="h", port=1)]
    )
    with ProtocolClient(ConnectionSettings(f"{nowhere},{broker.servers}"), "test") as client:
        assert client.nodes() == [(7, "h", 1)]
    with (
        ProtocolClient(ConnectionSettings(f"{nowhere},{nowhere}"), "test") as client,
        pytest.raises(BrokerUnreachable, match=f"None of the bootstrap servers.*{nowhere}"),
    ):
        client.nodes()


def test_a_coordinator_that_gets_ready_is_retried(broker, monkeypatch):
    codes = [
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        0,
    ]
    monkeypatch.setattr(protocol_client, "RETRY", RetryPolicy(first_s=0.001))

    def found(request):
        assert (request.key, request.key_type) == ("t", CoordinatorType.TRANSACTION)
        return FindCoordinatorResponse(error_code=codes.pop(0), host="127.0.0.1", port=1)

    broker.respond[FindCoordinatorRequest] = found
    with client_of(broker) as client:
        node = client.call_coordinator("t", lambda one: one, CoordinatorType.TRANSACTION)
    assert node.host == "127.0.0.1"
    assert broker.count(FindCoordinatorRequest) == 4


def test_an_error_that_no_retry_mends_is_raised_at_once(broker):
    broker.respond[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(
        error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
    )
    with client_of(broker) as client, pytest.raises(ApiError) as told:
        client.call_coordinator("g", lambda node: node)
    assert told.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert broker.count(FindCoordinatorRequest) == 1


def test_retries_end_at_the_deadline(broker):
    broker.respond[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(
        error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    with client_of(broker) as client, pytest.raises(ApiError):
        client.call_coordinator("g", lambda node: node, timeout_s=0)


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_the_client_authenticates_over_tls(certificate, mechanism):
    with ScriptedBroker(users=Users(), certificate=certificate) as broker:
        broker.respond[HeartbeatRequest] = lambda _: HeartbeatResponse()
        settings = {**sasl(mechanism), "security_protocol": "SASL_SSL"}
        with client_of(broker, **settings, ssl_ca_location=str(certificate.certificate)) as client:
            beat(client)


def test_a_certificate_of_an_unknown_authority_is_rejected(certificate):
    with (
        ScriptedBroker(certificate=certificate) as broker,
        client_of(broker, security_protocol="ssl") as client,
        pytest.raises(BrokerUnreachable, match=r"TLS handshake.*self-signed certificate"),
    ):
        client.nodes()


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_a_wrong_password_is_reported_without_it(mechanism):
    with (
        ScriptedBroker(users=Users()) as broker,
        client_of(broker, **sasl(mechanism, password="byron")) as client,
        pytest.raises(AuthenticationFailed, match=r"rejects user 'ada'.*Invalid cred") as told,
    ):
        client.nodes()
    assert "byron" not in str(told.value)
    assert "byron" not in repr(told.value.__context__)


@pytest.mark.parametrize("password", ["ﬁne\u00a0day", "🐟", "a=b,c"])
def test_passwords_are_taken_as_they_are_like_kafka_does(password):
    with ScriptedBroker(users=Users("a=b,c", password)) as broker:
        broker.respond[HeartbeatRequest] = lambda _: HeartbeatResponse()
        with client_of(broker, **sasl("SCRAM-SHA-256", password, "a=b,c")) as client:
            beat(client)


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_server_that_does_not_know_the_password_is_not_trusted(mechanism):
    users = Users()
    users.forges_signature = True
    with (
        ScriptedBroker(users=users) as broker,
        client_of(broker, **sasl(mechanism)) as client,
        pytest.raises(AuthenticationFailed, match="signature does not match"),
    ):
        client.nodes()


def test_a_server_that_asks_for_too_many_iterations_is_refused_before_they_are_computed():
    with (
        ScriptedBroker(users=Users(iterations=MAX_ITERATIONS + 1)) as broker,
        client_of(broker, **sasl("SCRAM-SHA-256")) as client,
        pytest.raises(AuthenticationFailed, match="1000001 iterations exceed the limit of 1000000"),
    ):
        client.nodes()


def test_a_mechanism_that_the_broker_does_not_accept_is_reported_with_those_it_does():
    users = Users()
    users.mechanisms = ["SCRAM-SHA-512", "OAUTHBEARER"]
    with (
        ScriptedBroker(users=users) as broker,
        client_of(broker, **sasl("PLAIN")) as client,
        pytest.raises(AuthenticationFailed, match="offers SCRAM-SHA-512, OAUTHBEARER"),
    ):
        client.nodes()


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER"])
def test_a_mechanism_that_the_client_does_not_know_is_refused_before_it_connects(broker, mechanism):
    with pytest.raises(UserError, match=mechanism):
        client_of(broker, **sasl(mechanism))
    assert broker.connections == 0
