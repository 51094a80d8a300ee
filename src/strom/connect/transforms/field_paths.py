"""Paths to nested fields: names separated by dots; a name that contains a dot is quoted in backticks."""


def parse_path(text: str) -> tuple[str, ...]:
    r"""The names of a path such as ``a.`b.c`.d``; ValueError if a backtick is not closed.

    A closing backtick precedes a dot or the end; ``\``` before a dot is part of the name.
    """
    steps: list[str] = []
    position = 0
    while position < len(text):
        if text[position] == "`":
            step, position = _quoted(text, position)
        else:
            end = text.find(".", position)
            end = len(text) if end < 0 else end
            step, position = text[position:end], end + 1
        steps.append(step)
    if text.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted(text: str, opening: int) -> tuple[str, int]:
    step = ""
    start = position = opening + 1
    while True:
        position = text.find("`", position)
        last = position == len(text) - 1
        escaped = position > 0 and text[position - 1] == "\\"
        if position < 0 or (last and escaped):
            raise ValueError(f"The backtick at {opening} of {text} is not closed.")
        if last or (text[position + 1] == "." and not escaped):
            return step + text[start:position], position + 2
        if text[position + 1] == ".":
            step += text[start : position - 1] + "`"
            start = position + 1
        position += 1
