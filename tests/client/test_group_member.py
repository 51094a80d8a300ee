import pytest

from strom.client.broker_connection import BrokerUnreachable
from strom.client.connection_settings import ConnectionSettings
from strom.client.group_member import (
    ClassicGroupMember,
    GroupMemberSettings,
    MemberEvicted,
    RebalanceInProgress,
)
from strom.client.protocol_client import ProtocolClient
from strom.model.errors import ApiError, ErrorCode
from strom.testing import LocalBroker
from strom.wire.kafka.messages.k10_find_coordinator import FindCoordinatorRequest
from strom.wire.kafka.messages.k11_join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from strom.wire.kafka.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from strom.wire.kafka.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse
from strom.wire.kafka.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from tests.client.scripted_broker import ScriptedBroker

SETTINGS = GroupMemberSettings("g", "test", "words", 10_000)


class Clock:
    """The member's time, which a test moves."""

    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr("strom.client.group_member.time", found)
    return found


@pytest.fixture
def broker():
    with ScriptedBroker() as running:
        running.respond |= {
            JoinGroupRequest: lambda _: JoinGroupResponse(
                generation_id=3,
                protocol_name="words",
                leader="m-1",
                member_id="m-1",
                members=[JoinGroupResponseMember(member_id="m-1", metadata=b"mine")],
            ),
            SyncGroupRequest: lambda _: SyncGroupResponse(assignment=b"all"),
            HeartbeatRequest: lambda _: HeartbeatResponse(),
            LeaveGroupRequest: lambda _: LeaveGroupResponse(),
        }
        yield running


@pytest.fixture
def member(broker):
    with ProtocolClient(ConnectionSettings(broker.servers), "test") as client:
        yield ClassicGroupMember(client, SETTINGS)


def sent(broker, kind):
    return [one for one in broker.requests if isinstance(one, kind)]


def test_two_members_of_a_real_group_get_what_the_leader_assigns():
    with LocalBroker(settings={"group.initial.rebalance.delay.ms": "0"}) as broker:
        connection = ConnectionSettings(broker.bootstrap_servers)
        with ProtocolClient(connection, "one") as one, ProtocolClient(connection, "two") as two:
            first, second = ClassicGroupMember(one, SETTINGS), ClassicGroupMember(two, SETTINGS)
            joined = first.join(b"1")
            assert joined.is_leader
            assert joined.members == {joined.member_id: b"1"}
            assert first.sync({joined.member_id: b"everything"}) == b"everything"
            first.heartbeat()
            assert first.holds_lease()
            first.leave()
            again = second.join(b"2")
            assert again.members == {again.member_id: b"2"}
            assert again.generation > joined.generation
            with pytest.raises(MemberEvicted):
                first.heartbeat()
            assert not first.holds_lease()


def test_a_new_member_joins_again_with_the_id_that_it_was_given(broker, member):
    whole = broker.respond[JoinGroupRequest]
    broker.respond[JoinGroupRequest] = lambda request: (
        whole(request)
        if request.member_id
        else JoinGroupResponse(
            error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m-1", protocol_name=""
        )
    )
    assert member.join(b"mine").generation == 3
    assert [one.member_id for one in sent(broker, JoinGroupRequest)] == ["", "m-1"]


def test_the_lease_counts_from_when_a_request_was_sent(broker, member, clock):
    member.join(b"mine")
    member.sync({"m-1": b"all"})

    def slow(_):
        clock.now += 4
        return HeartbeatResponse()

    broker.respond[HeartbeatRequest] = slow
    member.heartbeat()
    clock.now += 5.9
    assert member.holds_lease()
    clock.now += 0.2
    assert not member.holds_lease()


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, RebalanceInProgress),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ApiError),
        (ErrorCode.NOT_COORDINATOR, ApiError),
    ],
)
def test_a_heartbeat_that_fails_leaves_the_lease_as_it_was(broker, member, clock, code, failure):
    member.join(b"mine")
    broker.respond[HeartbeatRequest] = lambda _: HeartbeatResponse(error_code=code)
    clock.now += 9
    with pytest.raises(failure):
        member.heartbeat()
    assert member.holds_lease()
    clock.now += 1
    assert not member.holds_lease()


@pytest.mark.parametrize(
    ("code", "next_id"),
    [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "m-1")],
)
def test_an_evicted_member_loses_its_lease_and_keeps_an_id_that_the_group_knows(
    broker, member, code, next_id
):
    member.join(b"mine")
    broker.respond[HeartbeatRequest] = lambda _: HeartbeatResponse(error_code=code)
    with pytest.raises(MemberEvicted):
        member.heartbeat()
    assert not member.holds_lease()
    member.join(b"mine")
    assert sent(broker, JoinGroupRequest)[-1].member_id == next_id


def test_requests_carry_the_generation_that_was_joined(broker, member):
    member.join(b"mine")
    member.sync({"m-1": b"all"})
    member.heartbeat()
    for request in (*sent(broker, SyncGroupRequest), *sent(broker, HeartbeatRequest)):
        assert (request.generation_id, request.member_id) == (3, "m-1")


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_the_coordinator_is_looked_up_again_when_it_has_moved(broker, member, code):
    member.join(b"mine")
    member.heartbeat()
    assert broker.count(FindCoordinatorRequest) == 1
    broker.respond[HeartbeatRequest] = lambda _: HeartbeatResponse(error_code=code)
    with pytest.raises(ApiError):
        member.heartbeat()
    member.join(b"mine")
    assert broker.count(FindCoordinatorRequest) == 2


def test_a_member_that_lost_its_connection_keeps_its_id_and_lease(broker, member):
    member.join(b"mine")
    broker.respond[HeartbeatRequest] = lambda _: None
    with pytest.raises(BrokerUnreachable):
        member.heartbeat()
    assert member.holds_lease()
    member.join(b"mine")
    assert sent(broker, JoinGroupRequest)[-1].member_id == "m-1"
    assert broker.count(FindCoordinatorRequest) == 2


def test_a_member_leaves_by_its_id_and_one_that_never_joined_sends_nothing(broker, member):
    member.leave()
    assert broker.requests == []
    member.join(b"mine")
    member.leave()
    assert [one.member_id for one in sent(broker, LeaveGroupRequest)] == ["m-1"]
