"""Stands in for spead2's build system while pip downloads its source: answers the name and the version, builds nothing."""

import pathlib

NAME = "spead2-4.5.1.dist-info"


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    directory = pathlib.Path(metadata_directory) / NAME
    directory.mkdir()
    (directory / "METADATA").write_text("Metadata-Version: 2.1\nName: spead2\nVersion: 4.5.1\n", encoding="ascii")
    (directory / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: none\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
                                     encoding="ascii")
    return NAME


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    raise RuntimeError("this stand-in builds nothing")
