"""A recording that was begun and ended within a frame set: baseband finds every thread in each set of it.

Of a set in which threads are missing, baseband 4.3 reads none, with a warning; of a file whose first sets are such, it may not
find all threads at all.
"""

import io
import warnings

import astropy.units as u
import pytest
from backend import FRAMES_PER_SECOND, send, with_vtp, written_by_baseband
from baseband import vdif

THREADS = 4


def opened(stream, edv):
    rate = {} if edv in (1, 3) else {"sample_rate": FRAMES_PER_SECOND * (1004 * 8 - 32) * 4 // 8 * u.Hz}
    return vdif.open(io.BytesIO(stream), "rs", **rate)


@pytest.mark.parametrize("order", [None, "little"], ids=["by time", "by sequence"])
@pytest.mark.parametrize("edv", [0, 3])
@pytest.mark.parametrize("lost", [(), (4, 9, 10)], ids=["whole", "loss at the start"])
def test_every_thread_is_found(record, edv, order, lost):
    frames = written_by_baseband(edv, seconds=2, nthread=THREADS)
    recorder = record("--frame-rate", FRAMES_PER_SECOND)
    # From the fourth frame of a set to the second of another.
    datagrams = with_vtp(frames, order)[3:-2]
    send([datagram for at, datagram in enumerate(datagrams) if at not in lost], recorder.port)
    report = recorder.finish()
    stream = report["streams"][0]
    assert stream["rejects"] == {"partial_set": 1 + 2}, stream
    assert stream["lost"] == len(lost), stream

    recorded = recorder.cat()
    with opened(recorded, edv) as reader, opened(b"".join(frames[THREADS:-THREADS]), edv) as sent:
        assert reader.sample_shape[0] == THREADS
        assert reader.start_time == sent.start_time
        assert reader.shape == sent.shape
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            samples = reader.read()
        assert lost or (samples == sent.read()).all()


def test_what_baseband_makes_of_a_set_that_is_not_whole(record):
    """What --keep-partial-sets is not the default for."""
    frames = written_by_baseband(3, seconds=2, nthread=THREADS)[3:-2]
    recorder = record("--keep-partial-sets")
    send(frames, recorder.port)
    assert not recorder.finish()["streams"][0]["rejects"]
    recorded = recorder.cat()
    assert recorded == b"".join(frames)
    with opened(recorded, 3) as reader, pytest.warns(UserWarning, match=r"Thread\(s\) \[0, 1, 2\] missing"):
        reader.read()
