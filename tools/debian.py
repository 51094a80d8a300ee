"""Servers of others from Debian's packages, for tests."""

import os
import shutil
import subprocess
from pathlib import Path


def is_root() -> bool:
    """Whether we may install, and have to run servers as another user."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def install(title: str, package: str) -> None:
    """Install a server's package without starting it, where that is possible at all."""
    if not (shutil.which("apt-get") and is_root()):
        return
    print(f"Installing {title} with apt-get ...", flush=True)
    # Debian would start a server of its own; this file is how one says no to that.
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        for arguments in (["update"], ["install", "-y", "--no-install-recommends", package]):
            subprocess.run(["apt-get", "-qq", *arguments], capture_output=True)
    finally:
        if ours:
            policy.unlink()
