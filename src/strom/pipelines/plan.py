"""The plan of a project without running it, as text, Mermaid and SVG."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Literal

from strom.pipelines.project import Project
from strom.pipelines.views.versions import summary

Mode = Literal["lambda", "kappa"]
_COLUMN_WIDTH, _BOX_WIDTH, _ROW_HEIGHT, _BOX_HEIGHT, _MARGIN = 250, 210, 64, 44, 20


@dataclass(frozen=True)
class PlanNode:
    """A topic, store, job, view or connector."""

    id: str
    column: int
    """0 for logs, 1 for stores and jobs, 2 for outputs."""
    title: str
    text: str


@dataclass(frozen=True)
class Plan:
    """Nodes and the data flow between them."""

    engines: tuple[tuple[str, str], ...]
    nodes: tuple[PlanNode, ...]
    edges: tuple[tuple[str, str, str], ...]
    """Source, target and label."""


def make_plan(project: Project, mode: Mode = "lambda") -> Plan:
    """The plan of a project, from its definitions only."""
    settings = project.settings
    broker = settings.servers or f"embedded broker at {project.servers}, in {settings.data}/broker"
    engines: tuple[tuple[str, str], ...] = (
        ("mode", mode),
        ("log", broker),
        ("processing", f"Spark at {settings.master}, one session for all views"),
        (
            "views",
            f"{settings.data}/views, served by DuckDB at http://{settings.serving_host}:{settings.serving_port}",
        ),
    )
    if settings.connectors:
        worker = settings.connect_url or f"a worker at http://127.0.0.1:{settings.connect_port}"
        engines = (*engines, ("connectors", worker))
    nodes: list[PlanNode] = []
    edges: list[tuple[str, str, str]] = []
    for stream in project.read_streams:
        topic, dead = f"topic:{stream.topic}", f"topic:{stream.dead_letter_topic}"
        speed, master = f"speed:{stream.topic}", f"master:{stream.topic}"
        time = f"{stream.format}, time: {stream.event_time}"
        work = "reads and parses once, for all views"
        nodes += [
            PlanNode(topic, 0, f"topic {stream.topic}", time),
            PlanNode(
                dead, 2, f"topic {stream.dead_letter_topic}", "malformed records, with reasons"
            ),
            PlanNode(speed, 1, f"speed layer of {stream.topic}", work),
        ]
        edges += [(topic, speed, "micro-batches"), (speed, dead, "malformed")]
        if mode == "lambda":
            every = f"every {settings.archive_every_s:g} s"
            nodes.append(
                PlanNode(master, 1, f"master dataset of {stream.topic}", f"Delta table, {every}")
            )
            edges.append((topic, master, "all records, once"))
        for name, view in project.views.items():
            if view.stream.topic != stream.topic:
                continue
            nodes.append(PlanNode(f"view:{name}", 2, f"view {name}", summary(view)))
            edges.append((speed, f"view:{name}", "partial states"))
            if mode == "lambda":
                edges.append((master, f"view:{name}", f"batch every {settings.batch_every_s:g} s"))
    _add_connectors(settings.connectors, nodes, edges)
    return Plan(engines, tuple(nodes), tuple(edges))


def _add_connectors(
    connectors: Mapping[str, Mapping[str, str]],
    nodes: list[PlanNode],
    edges: list[tuple[str, str, str]],
) -> None:
    """Add connectors, linked to the topics in their settings: `topics` of a sink, `topic` of a source."""
    known = {node.id for node in nodes}
    for name, config in connectors.items():
        kind = config.get("connector.class", "no connector.class").rpartition(".")[2]
        read = [one.strip() for one in config.get("topics", "").split(",") if one.strip()]
        connector = f"connector:{name}"
        nodes.append(PlanNode(connector, 2 if read else 0, f"connector {name}", kind))
        edges += [
            (f"topic:{topic}", connector, "records") for topic in read if f"topic:{topic}" in known
        ]
        if f"topic:{config.get('topic')}" in known:
            edges.append((connector, f"topic:{config['topic']}", "records"))


def to_text(plan: Plan) -> str:
    lines = [f"{name:<12}{text}" for name, text in plan.engines]
    titles = {node.id: node.title for node in plan.nodes}
    for node in plan.nodes:
        lines += ["", node.title, f"    {node.text}"]
        lines += [
            f"    ← {titles[source]}: {what}"
            for source, target, what in plan.edges
            if target == node.id
        ]
    return "\n".join(lines)


def to_mermaid(plan: Plan) -> str:
    names = {node.id: f"n{number}" for number, node in enumerate(plan.nodes)}
    lines = ["flowchart LR"]
    for node in plan.nodes:
        label = f"{node.title}<br/>{node.text}".replace('"', "'")
        lines.append(f'    {names[node.id]}["{label}"]')
    lines += [f'    {names[a]} -- "{what}" --> {names[b]}' for a, b, what in plan.edges]
    return "\n".join(lines)


def to_svg(plan: Plan) -> str:
    """The plan as a diagram: logs on the left, stores and jobs in the middle, outputs on the right."""
    places: dict[str, tuple[int, int]] = {}
    heights = [0, 0, 0]
    for node in plan.nodes:
        x = _MARGIN + node.column * (_COLUMN_WIDTH + 60)
        places[node.id] = (x, _MARGIN + heights[node.column] * _ROW_HEIGHT)
        heights[node.column] += 1
    width = 2 * _MARGIN + 2 * (_COLUMN_WIDTH + 60) + _BOX_WIDTH + 200
    height = 2 * _MARGIN + max(heights) * _ROW_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">'
    ]
    parts += [_line(places[a], places[b]) for a, b, _ in plan.edges]
    parts += [_box(places[node.id], node) for node in plan.nodes]
    return "\n".join([*parts, "</svg>"])


def _line(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1 = start[0] + _BOX_WIDTH, start[1] + _BOX_HEIGHT // 2
    x2, y2 = end[0], end[1] + _BOX_HEIGHT // 2
    bend = (x1 + x2) // 2
    return f'<path d="M{x1},{y1} C{bend},{y1} {bend},{y2} {x2},{y2}" fill="none" stroke="#888"/>'


def _box(place: tuple[int, int], node: PlanNode) -> str:
    x, y = place
    text = node.text if len(node.text) < 60 else node.text[:57] + "…"
    return (
        f"<g><title>{escape(node.text)}</title>"
        f'<rect x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" '
        'rx="6" fill="#f4f6fb" stroke="#346"/>'
        f'<text x="{x + 8}" y="{y + 18}" font-weight="bold">{escape(node.title)}</text>'
        f'<text x="{x + 8}" y="{y + 35}" font-size="10">{escape(text)}</text></g>'
    )
