"""A pytest plugin with what katgpucbf's receiving tests take from the settings of all its tests, which import CUDA."""

import pytest


@pytest.fixture
def time_converter():
    from katgpucbf.utils import TimeConverter

    return TimeConverter(1.0, 1000.0)
