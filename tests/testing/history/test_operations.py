"""Histories written down while they happen."""

import threading

from strom.testing.history import (
    NEVER,
    Commit,
    OffsetFetch,
    Operation,
    Outcome,
    Owns,
    Read,
    Recorder,
    Send,
    read_lines,
)


def test_an_operation_has_the_times_and_steps_that_it_ended_with():
    recorder = Recorder()
    running = recorder.begin("p", Send("k", 1))
    recorder.note("c", Read("k", 0, 1), moved={"k"})
    running.end(Outcome.OK, [Send("k", 1, 0)])
    assert recorder.history() == [
        Operation("p", (Send("k", 1, 0),), Outcome.OK, 0, 3),
        Operation("c", (Read("k", 0, 1),), Outcome.OK, 1, 2, frozenset({"k"})),
    ]


def test_what_has_not_ended_is_unknown():
    recorder = Recorder()
    recorder.begin("p", Send("k", 1))
    recorder.begin("p", Send("k", 2)).end(Outcome.UNKNOWN)
    assert recorder.history() == [
        Operation("p", (Send("k", 1),), Outcome.UNKNOWN, 0, NEVER),
        Operation("p", (Send("k", 2),), Outcome.UNKNOWN, 1, NEVER),
    ]


def test_lines_hold_the_whole_history():
    lines: list[str] = []
    recorder = Recorder(write=lines.append)
    recorder.note("a", Send("k", 1), Read("k", 0, "x"), Commit("g", "k", 4), moved=["k"])
    recorder.note("a", OffsetFetch("g", "k", None), Owns("g", 3, "k"))
    recorder.note("b", Send("k", 2, 5), outcome=Outcome.FAILED)
    recorder.begin("c", Send("k", 3)).add(Send("k", 4, 7), Send("k", 5))
    assert recorder.history()[3].steps == (Send("k", 3), Send("k", 4, 7), Send("k", 5))
    assert read_lines(lines) == recorder.history()


def test_a_client_killed_while_it_wrote_leaves_an_unknown_outcome():
    lines: list[str] = []
    recorder = Recorder(write=lines.append)
    recorder.note("a", Send("k", 1, 0))
    torn = [lines[0], lines[1][:-5]]
    assert read_lines(torn) == [Operation("a", (Send("k", 1, 0),), Outcome.UNKNOWN, 0)]


def test_many_threads_may_write_at_once():
    recorder = Recorder()

    def work(name: str) -> None:
        for number in range(500):
            recorder.note(name, Send("k", f"{name}-{number}"))

    threads = [threading.Thread(target=work, args=(f"p{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history = recorder.history()
    times = [time for one in history for time in (one.began, one.ended)]
    assert sorted(times) == list(range(4000))
