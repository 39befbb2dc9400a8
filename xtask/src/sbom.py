"""Takes the directory of the build out of the bills of materials in a wheel: `sbom.py WHEEL ROOT`.

maturin writes where each of our crates was built. Behind `file://.` the same places are below the root of the sources, so that
two builds of the same sources say the same, and none tells where it was made.
"""

import base64
import hashlib
import os
import sys
import urllib.parse
import zipfile


def main(wheel, root):
    with zipfile.ZipFile(wheel) as old:
        files = [(entry, old.read(entry)) for entry in old.infolist()]
    lines, changed = {}, []
    for entry, data in files:
        if ".dist-info/sboms/" in entry.filename:
            for written in {root, urllib.parse.quote(root), urllib.parse.quote(root, safe="")}:
                data = data.replace(f"file://{written}".encode(), b"file://.").replace(written.encode(), b".")
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines[entry.filename] = f"{entry.filename},sha256={digest},{len(data)}"
        changed.append((entry, data))
    temporary = f"{wheel}.part"
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as new:
        for entry, data in changed:
            if entry.filename.endswith(".dist-info/RECORD"):
                known = data.decode().splitlines()
                data = "".join(lines.get(line.split(",")[0], line) + "\n" for line in known).encode()
            new.writestr(entry, data)
    os.replace(temporary, wheel)


main(*sys.argv[1:])
