"""The machine that figures were taken on."""

import pathlib
import platform
import re


def cpu():
    info = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii")
    found = [re.search(rf"^{name}\s*: (.*)", info, re.MULTILINE) for name in ("model name", "cpu family", "model")]
    return ", ".join(match[0].replace("\t", "") for match in found if match) + f", {platform.release()}"
