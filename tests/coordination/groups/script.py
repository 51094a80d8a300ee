"""Plays the scripts of `tests/golden/groups`: requests of named members, and what came of them.

A block is one request, a line `----`, and what happened. Members go by names of one letter or word; the
ids they are given are shown as those names. The words:

    join NAME [key=value ...]   a member joins (keys: those of `JoinGroup`, `old` for a client before v4)
    sync NAME [A=share ...]     member asks for its share; the leader brings the shares of all
    heartbeat NAME [generation=N]      leave NAME...      commit NAME OFFSET      wait MS      restart
"""

from typing import Any

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
from strom.coordination.groups.records import CommittedOffset
from strom.model.errors import ErrorCode
from strom.model.topics import TopicPartition
from tests.coordination.groups.world import GroupWorld

GROUP = "g"


class Script:
    """Runs one script, block by block."""

    def __init__(self) -> None:
        self.world = GroupWorld()
        self._ids: dict[str, str] = {}
        self._generations: dict[str, int] = {}
        self._instances: dict[str, str] = {}
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
        getattr(self, f"_{verb}")(*words)
        after = self._state()
        lines = [f"{before} -> {after}"] if before != after else []
        lines += self.world.events
        responses = [
            (*self._asked[ticket], self.world.responses[ticket])
            for ticket in sorted(set(self.world.responses) - told)
        ]
        for name, _, response in responses:
            self._learn(name, response)
        lines += [f"{name} {asked}: {self._told(response)}" for name, asked, response in responses]
        return lines or ["(nothing)"]

    def _state(self) -> str:
        group = self.world.coordinator.find_classic(GROUP)
        return "no group" if group is None else f"{group.state.value} {group.generation}"

    # --- requests ------------------------------------------------------------------------------

    def _ask(self, name: str, verb: str, command: GroupCommand) -> None:
        ticket = self.world.submit(command)
        self._asked[ticket] = (name, verb)

    def _join(self, name: str, *words: str) -> None:
        values = dict(word.split("=") for word in words if "=" in word)
        if "instance" in values:
            self._instances[name] = values["instance"]
        protocols = values.get("protocols", "range").split(",")
        self._ask(
            name,
            "join",
            JoinGroup(
                group=GROUP,
                member=self._ids.get(name, ""),
                fresh=f"{name}{len(self._asked)}",
                instance=self._instances.get(name),
                client_id="c",
                session_timeout_ms=int(values.get("session", 10_000)),
                rebalance_timeout_ms=int(values.get("rebalance", 60_000)),
                protocol_type="consumer",
                protocols=tuple((protocol, b"") for protocol in protocols),
                needs_known_id="old" not in words,
            ),
        )

    def _sync(self, name: str, *words: str) -> None:
        shares = [word.split("=") for word in words]
        command = SyncGroup(
            **self._who(name),
            assignments=tuple((self._ids[one], share.encode()) for one, share in shares),
        )
        self._ask(name, "sync", command)

    def _heartbeat(self, name: str, *words: str) -> None:
        self._ask(name, "heartbeat", Heartbeat(**(self._who(name) | _numbers(words))))

    def _leave(self, *names: str) -> None:
        leavers = [LeavingMember(self._ids.get(one, ""), self._instances.get(one)) for one in names]
        self._ask(" and ".join(names), "leave", LeaveGroup(group=GROUP, leavers=tuple(leavers)))

    def _commit(self, name: str, offset: str, *words: str) -> None:
        committed = CommittedOffset(offset=int(offset), committed_ms=self.world.now_ms)
        offsets = ((TopicPartition("t", 0), committed),)
        self._ask(
            name, "commit", CommitOffsets(**(self._who(name) | _numbers(words)), offsets=offsets)
        )

    def _wait(self, milliseconds: str) -> None:
        self.world.wait(int(milliseconds))

    def _restart(self) -> None:
        self.world.restart()

    def _who(self, name: str) -> dict[str, Any]:
        return {
            "group": GROUP,
            "member": self._ids.get(name, ""),
            "generation": self._generations.get(name, -1),
            "instance": self._instances.get(name),
        }

    # --- answers -------------------------------------------------------------------------------

    def _learn(self, name: str, response: GroupResponse) -> None:
        """What a client keeps of an answer."""
        known = (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)
        if isinstance(response, JoinResponse) and response.code in known:
            self._ids[name], self._generations[name] = response.member, response.generation

    def _told(self, response: GroupResponse) -> str:
        match response:
            case JoinResponse(code=ErrorCode.NONE):
                return self._told_of_generation(response)
            case SyncResponse(code=ErrorCode.NONE):
                return f"share {response.assignment.decode()!r}"
            case LeaveResponse(code=ErrorCode.NONE):
                return " ".join(code.name for code in response.members)
        return response.code.name

    def _told_of_generation(self, response: JoinResponse) -> str:
        names = {member_id: name for name, member_id in self._ids.items()}
        text = f"generation {response.generation} by {response.protocol}"
        if response.leader == response.member:
            members = [names.get(one.id, one.id) for one in response.members]
            return f"{text}, leads {', '.join(members)}{' as before' * response.skip_assignment}"
        return text


def _numbers(words: tuple[str, ...]) -> dict[str, int]:
    return {key: int(value) for key, value in (word.split("=") for word in words)}
