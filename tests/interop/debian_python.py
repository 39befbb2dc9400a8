"""A Python that Debian has and this release of it has not: unpacked into a directory, not installed.

    apt's own archive, suite `unstable` ─▶ packages of Python and all that it needs, glibc too ─▶ DIRECTORY/root
    DIRECTORY/python3.N                    a script that starts it with the loader and the libraries from there

Where uv and pyenv reach no source, a machine often has a mirror of Debian. Apt is given directories of its own, so nothing of this host
changes, and it needs no root. Limits: x86-64 and AArch64; programs that Python starts run with this host's libraries.
"""

import os
import pathlib
import platform
import re
import shutil
import subprocess

KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SUITE = "unstable"
#: Of a machine: the name of its libraries, the loader.
MACHINES = {
    "x86_64": ("x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
    "aarch64": ("aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
}


def said(*words, **environment):
    """What a command prints; "" if it fails."""
    run = subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                         env=os.environ | environment, check=False)  # fmt: skip
    return run.stdout if run.returncode == 0 else ""


def archive():
    """The address of the archive from which apt installs, if it is Debian's; None without."""
    if not (KEYRING.is_file() and shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return None
    addresses = said("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages").split()
    return next((one for one in addresses if re.search(r"/debian/?$", one)), None)


def python(version, directory):
    """A command that is this Python, made in `directory` if it is not there; None if it cannot be had."""
    command, known = directory / f"python{version}", MACHINES.get(platform.machine())
    if command.is_file():
        return str(command)
    address = archive() if known else None
    if address is None:
        return None
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "lists/partial").mkdir(parents=True)
    (directory / "archives/partial").mkdir(parents=True)
    (directory / "status").touch()
    (directory / "sources.list").write_text(f"deb [signed-by={KEYRING}] {address} {SUITE} main\n")
    settings = {"Dir::Etc::sourcelist": directory / "sources.list", "Dir::Etc::sourceparts": "/dev/null", "Dir::State": directory,
                "Dir::Etc::preferencesparts": "/dev/null", "Dir::State::status": directory / "status", "Dir::Cache": directory,
                "Dir::Cache::archives": directory / "archives", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
                "Acquire::Languages": "none", "APT::Sandbox::User": ""}  # fmt: skip
    (directory / "apt.conf").write_text("".join(f'{name} "{value}";\n' for name, value in settings.items()))
    own = {"APT_CONFIG": str(directory / "apt.conf")}
    said("apt-get", "update", **own)
    # NumPy takes the C++ library from the system.
    wanted = (f"python{version}", f"python{version}-venv", "libstdc++6")
    said("apt-get", "install", "-y", "--no-install-recommends", "--download-only", *wanted, **own)
    root, (libraries, loader) = directory / "root", known
    for package in (directory / "archives").glob("*.deb"):
        said("dpkg-deb", "--extract", package, root)
    for done in ("lists", "archives"):
        shutil.rmtree(directory / done)
    found = next(iter(root.glob(f"usr/lib*/{loader}")), None) or next(iter(root.glob(f"usr/lib/{libraries}/{loader}")), None)
    if found is None or not (root / f"usr/bin/python{version}").is_file():
        return None
    command.write_text(
        f'#!/bin/sh\nexec env PYTHONHOME="{root}/usr" "{found}" --library-path "{root}/usr/lib/{libraries}" '
        f'--argv0 "$0" "{root}/usr/bin/python{version}" "$@"\n'
    )
    command.chmod(0o755)
    return str(command)
