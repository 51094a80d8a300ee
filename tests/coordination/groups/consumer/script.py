"""Plays the scripts of `tests/golden/consumer_groups`: heartbeats of named members, and their answers.

A block is one request, a line `----`, and what happened. Members go by names; partitions are shown as
`topic:index`. The words:

    topics NAME=PARTITIONS ...     these topics exist, and no others
    join NAME TOPIC... [instance=I] [pattern=P] [assignor=A] [rebalance=MS]
    beat NAME [TOPIC...]           the member does as it was told, says so, and may want other topics
    hold NAME                      the member sends a heartbeat, and still has all that it had
    lose NAME                      as `beat`, but the answer gets lost
    leave NAME      rest NAME (a static member goes for a while)
    commit NAME OFFSET [epoch=N]
    wait MS         restart
    classic-join NAME TOPIC...     classic-sync NAME    classic-beat NAME    classic-leave NAME
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

from strom.coordination.groups.classic.group import ClassicGroup
from strom.coordination.groups.commands import (
    CommitOffsets,
    GroupCommand,
    GroupResponse,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    LeaveResponse,
    LeavingMember,
    SyncGroup,
    SyncResponse,
)
from strom.coordination.groups.consumer.classic_members import as_classic
from strom.coordination.groups.consumer.commands import ConsumerHeartbeat, ConsumerHeartbeatResponse
from strom.coordination.groups.consumer.group import ConsumerGroup
from strom.coordination.groups.consumer.records import (
    LEAVE_EPOCH,
    NOTHING,
    STATIC_LEAVE_EPOCH,
    Partitions,
    TopicIdPartition,
)
from strom.coordination.groups.records import CommittedOffset
from strom.model.errors import ErrorCode
from strom.model.topics import TopicPartition
from strom.wire.kafka.codec import encode
from strom.wire.kafka.consumer_protocol import (
    ClassicSubscription,
    read_assignment,
    write_assignment,
)
from tests.coordination.groups.world import GroupWorld

GROUP = "g"
COOPERATIVE = 1


@dataclass
class Client:
    """What a member knows."""

    id: str
    epoch: int = 0
    instance: str | None = None
    owns: Partitions = NOTHING
    shall: Partitions = NOTHING


class Script:
    """Runs one script, block by block."""

    def __init__(self) -> None:
        self.world = GroupWorld(group_initial_rebalance_delay_ms=0)
        self._clients: dict[str, Client] = {}
        self._asked: dict[int, tuple[str, str]] = {}

    def play(self, text: str) -> str:
        """The script, with what really happened in place of what was expected."""
        blocks = []
        for block in text.strip().split("\n\n"):
            request = block.split("\n----")[0].strip()
            if request.startswith("#") and "\n" not in request:
                blocks.append(request)
                continue
            happened = self._run(request.splitlines()[-1])
            blocks.append("\n".join([request, "----", *happened]))
        return "\n\n".join(blocks) + "\n"

    def _run(self, line: str) -> list[str]:
        verb, *words = line.split()
        self.world.events.clear()
        before, told = self._state(), set(self.world.responses)
        getattr(self, f"_{verb.replace('-', '_')}")(*words)
        after = self._state()
        lines = [f"{before} -> {after}"] if before != after else []
        lines += self.world.events
        for ticket in sorted(set(self.world.responses) - told):
            name, asked = self._asked[ticket]
            response = self.world.responses[ticket]
            lines.append(f"{name} {asked}: {self._told(response)}")
            if asked != "lost":
                self._learn(self._clients[name], response)
        return lines or ["(nothing)"]

    def _state(self) -> str:
        group = self.world.coordinator.find(GROUP)
        if isinstance(group, ConsumerGroup):
            return f"{group.state.value} {group.epoch}/{group.target_epoch}"
        if isinstance(group, ClassicGroup):
            return f"classic {group.state.value} {group.generation}"
        return "no group"

    # --- requests ------------------------------------------------------------------------------

    def _ask(self, name: str, verb: str, command: GroupCommand) -> None:
        self._asked[self.world.submit(command)] = (name, verb)

    def _topics(self, *words: str) -> None:
        counts = dict(word.split("=") for word in words)
        self.world.change_topics(**{name: int(count) for name, count in counts.items()})

    def _join(self, name: str, *words: str) -> None:
        values = dict(word.split("=", 1) for word in words if "=" in word)
        client = Client(f"id-{name}", instance=values.get("instance"))
        self._clients[name] = client
        command = dataclasses.replace(
            self._heartbeat(client),
            topics=frozenset(word for word in words if "=" not in word),
            pattern=values.get("pattern"),
            assignor=values.get("assignor"),
            rebalance_timeout_ms=int(values.get("rebalance", 60_000)),
            owned=NOTHING,
        )
        self._ask(name, "join", command)

    def _heartbeat(self, client: Client, **changes: Any) -> ConsumerHeartbeat:
        fields: dict[str, Any] = {
            "group": GROUP,
            "member": client.id,
            "epoch": client.epoch,
            "fresh": "never",
            "instance": client.instance,
        }
        return ConsumerHeartbeat(**(fields | changes))

    def _beat(self, name: str, *topics: str, verb: str = "beat") -> None:
        client = self._clients[name]
        client.owns = client.shall
        wanted = frozenset(topics) or None
        self._ask(name, verb, self._heartbeat(client, owned=client.owns, topics=wanted))

    def _hold(self, name: str) -> None:
        client = self._clients[name]
        self._ask(name, "hold", self._heartbeat(client, owned=client.owns))

    def _lose(self, name: str) -> None:
        self._beat(name, verb="lost")

    def _leave(self, name: str) -> None:
        client = self._clients[name]
        self._ask(name, "leave", self._heartbeat(client, epoch=LEAVE_EPOCH))

    def _rest(self, name: str) -> None:
        client = self._clients[name]
        self._ask(name, "rest", self._heartbeat(client, epoch=STATIC_LEAVE_EPOCH))

    def _commit(self, name: str, offset: str, *words: str) -> None:
        client = self._clients[name]
        epoch = int(dict(word.split("=") for word in words).get("epoch", client.epoch))
        committed = CommittedOffset(offset=int(offset), committed_ms=self.world.now_ms)
        offsets = ((TopicPartition("t", 0), committed),)
        command = CommitOffsets(group=GROUP, generation=epoch, member=client.id, offsets=offsets)
        self._ask(name, "commit", command)

    def _wait(self, milliseconds: str) -> None:
        self.world.wait(int(milliseconds))

    def _restart(self) -> None:
        self.world.restart()

    # --- classic members -----------------------------------------------------------------------

    def _classic_join(self, name: str, *topics: str) -> None:
        client = self._clients.setdefault(name, Client(""))
        owned = as_classic(client.shall, self.world.topics)
        wants = ClassicSubscription(topics=[*topics], owned_partitions=owned.partitions)
        metadata = COOPERATIVE.to_bytes(2, "big") + encode(wants, COOPERATIVE)
        command = JoinGroup(
            group=GROUP,
            member=client.id,
            fresh=name,
            client_id="c",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=(("range", metadata),),
            needs_known_id=False,
        )
        self._ask(name, "classic-join", command)

    def _classic_sync(self, name: str) -> None:
        """As the leader of a classic group, it takes everything for itself."""
        client = self._clients[name]
        everything = frozenset(
            TopicIdPartition(topic.id, index)
            for topic in self.world.topics
            for index in range(topic.partitions)
        )
        share = write_assignment(as_classic(everything, self.world.topics), COOPERATIVE)
        command = SyncGroup(
            group=GROUP,
            generation=client.epoch,
            member=client.id,
            assignments=((client.id, share),),
        )
        self._ask(name, "classic-sync", command)

    def _classic_beat(self, name: str) -> None:
        client = self._clients[name]
        beat = Heartbeat(group=GROUP, generation=client.epoch, member=client.id)
        self._ask(name, "classic-beat", beat)

    def _classic_leave(self, name: str) -> None:
        leavers = (LeavingMember(self._clients[name].id),)
        self._ask(name, "classic-leave", LeaveGroup(group=GROUP, leavers=leavers))

    # --- answers -------------------------------------------------------------------------------

    def _learn(self, client: Client, response: GroupResponse) -> None:
        """What a client keeps of an answer; it goes on with what it has to give up until it beats."""
        if response.code is not ErrorCode.NONE:
            return
        match response:
            case ConsumerHeartbeatResponse():
                client.epoch = max(response.epoch, 0)
                if response.assignment is not None:
                    client.shall = response.assignment
                client.owns |= client.shall
            case JoinResponse():
                client.id, client.epoch = response.member, response.generation
            case SyncResponse():
                client.shall = client.owns = self._share(response)

    def _share(self, response: SyncResponse) -> Partitions:
        return frozenset(
            TopicIdPartition(facts.id, index)
            for topic in read_assignment(response.assignment).partitions
            if (facts := self.world.topics.find(topic.topic)) is not None
            for index in topic.partitions
        )

    def _told(self, response: GroupResponse) -> str:
        match response:
            case ConsumerHeartbeatResponse(code=ErrorCode.NONE):
                current = response.assignment
                return f"epoch {response.epoch}" + (
                    "" if current is None else f", has {self._names(current)}"
                )
            case JoinResponse(code=ErrorCode.NONE):
                leads = response.leader == response.member
                return f"generation {response.generation}" + ", leads" * leads
            case SyncResponse(code=ErrorCode.NONE):
                return f"has {self._names(self._share(response))}"
            case LeaveResponse(code=ErrorCode.NONE):
                return " ".join(code.name for code in response.members)
        return response.code.name

    def _names(self, partitions: Partitions) -> str:
        names = []
        for one in sorted(partitions):
            facts = self.world.topics.find_id(one.topic_id)
            names.append(f"{facts.name if facts else '?'}:{one.partition}")
        return " ".join(names) or "nothing"
