"""The machine and the versions that a run's figures belong to."""

import os
import platform
import re
import subprocess
import tempfile
from pathlib import Path

import confluent_kafka
import psutil

import strom
from tools.kafka import VERSION, UnavailableError, locate


def describe() -> dict[str, str]:
    """What a reader needs to know to make sense of the figures."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{psutil.virtual_memory().total / 1e9:.0f} GB",
        "disk": f"{_file_system()}, where temporary files are",
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "strom": f"{strom.__version__} ({_commit()}), Python {platform.python_version()}",
        "Kafka": f"{VERSION}, {_java()}, 1 GB heap, Kafka's own start flags",
        "client": f"confluent-kafka {confluent_kafka.__version__}, "
        f"librdkafka {confluent_kafka.libversion()[0]}",
    }


def _processor() -> str:
    cpus = Path("/proc/cpuinfo")
    if cpus.exists():
        found = re.search(r"model name\s*:\s*(.+)", cpus.read_text())
        if found:
            return found[1]
    return platform.processor() or platform.machine()


def _file_system() -> str:
    folder = Path(tempfile.gettempdir()).resolve()
    mounts = {one.mountpoint: one.fstype for one in psutil.disk_partitions(all=True)}
    for parent in (folder, *folder.parents):
        if str(parent) in mounts:
            return mounts[str(parent)]
    return "unknown file system"


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or "no commit"


def _java() -> str:
    try:
        command = [locate().java, "-version"]
    except UnavailableError:
        return "no Java"
    found = re.search(
        r'version "([^"]+)"', subprocess.run(command, capture_output=True, text=True).stderr
    )
    return f"Java {found[1]}" if found else "Java"
