"""The Python source of a function that is generated from a declaration, line by line.

Both directions of the codec are generated this way: `decoding.py` and `encoding.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from strom.wire.kafka.schema import Struct


class FunctionSource(ABC):
    """The source of a function for one version of one message.

    Adjacent fields of fixed size are collected in `pending`, and handled by one statement at the next
    flush.
    """

    def __init__(
        self, cls: type[Struct], version: int, scope: dict[str, Any], *, in_steps: bool
    ) -> None:
        self.cls = cls
        self.version = version
        self.is_flexible = version in cls.SCHEMA.flexible
        self.scope = scope
        """What the function can use, by name."""
        self.lines: list[str] = []
        self.pending: list[tuple[str, str]] = []
        """Codes for `struct`, each with its variable."""
        self._in_steps = in_steps
        self._indent = 1
        self._names = 0

    @abstractmethod
    def text(self) -> str:
        """The source, which the generator emits when this is called."""

    @abstractmethod
    def flush(self) -> None:
        """Emit the statement for the pending fields."""

    def compile(self, function: str) -> Callable[..., Any]:
        name = f"<{function} {self.cls.__name__} v{self.version}>"
        exec(compile(self.text(), name, "exec"), self.scope)  # noqa: S102 - made of declarations only
        compiled: Callable[..., Any] = self.scope[function]
        return compiled

    def emit(self, line: str) -> None:
        self.lines.append("    " * self._indent + line)

    def step(self) -> None:
        """Where a function in steps may pause; a function with a `yield` is a generator."""
        if self._in_steps:
            self.emit("yield")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A branch or a loop; pending fields are flushed before and after it."""
        self.flush()
        self.emit(head)
        self._indent += 1
        yield
        self.flush()
        self._indent -= 1

    def reject_if(self, condition: str, problem: str) -> None:
        self.emit(f"if {condition}:")
        self.emit(f'    raise ProtocolError("{problem}")')

    def name(self, prefix: str) -> str:
        """A new name for a variable."""
        self._names += 1
        return f"{prefix}{self._names}"

    def fixed(self, code: str, variable: str) -> None:
        """Handle a field of fixed size, together with its neighbours, at the next flush."""
        self.pending.append((code, variable))

    def take_pending(self) -> tuple[str, str]:
        """The codes and the variables of the pending fields, which are no longer pending."""
        codes = "".join(code for code, _ in self.pending)
        variables = ", ".join(variable for _, variable in self.pending)
        self.pending.clear()
        return codes, variables
