"""Strongly connected components of a directed graph."""

from collections.abc import Iterator, Sequence


def components(after: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The components by Tarjan's algorithm, without recursion because chains may be long."""
    unseen = -1
    order = [unseen] * len(after)
    low = [0] * len(after)
    on_stack = bytearray(len(after))
    stack: list[int] = []
    count = 0
    for root in range(len(after)):
        if order[root] != unseen:
            continue
        path = [(root, iter(after[root]))]
        order[root] = low[root] = count
        count += 1
        stack.append(root)
        on_stack[root] = True
        while path:
            node, following = path[-1]
            for other in following:
                if order[other] == unseen:
                    order[other] = low[other] = count
                    count += 1
                    stack.append(other)
                    on_stack[other] = True
                    path.append((other, iter(after[other])))
                    break
                if on_stack[other]:
                    low[node] = min(low[node], order[other])
            else:
                path.pop()
                if path:
                    parent = path[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == order[node]:
                    yield _unwind(stack, on_stack, node)


def _unwind(stack: list[int], on_stack: bytearray, root: int) -> list[int]:
    found = []
    while True:
        node = stack.pop()
        on_stack[node] = False
        found.append(node)
        if node == root:
            return found
