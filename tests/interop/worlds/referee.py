"""baseband as a second reader of what lies on disk: the frames, their times, and which are valid."""

import io
import warnings

import numpy

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import astropy.units as u
    from baseband import mark5b, vdif
    from baseband.base.base import HeaderNotFoundError

MOST_SAMPLES = 1 << 21


def frames(world, data):
    """Second and frame in it, thread, and validity of each frame, as baseband reads them."""
    file, size, found = io.BytesIO(data), world.format.unit, []
    for at in range(0, len(data), size):
        file.seek(at)
        if world.format.name == "vdif":
            header = vdif.VDIFHeader.fromfile(file)
            header.verify()
            assert header.frame_nbytes == size
            # Its own count of seconds: astropy's would take leap seconds into account once more.
            found.append((header["seconds"], header["frame_nr"], header["thread_id"], not header["invalid_data"]))
        else:
            frame = mark5b.Mark5BFrame.fromfile(file, kday=61000, bps=2)
            found.append((frame.header.seconds, frame.header["frame_nr"], 0, bool(frame.valid)))
    return found


def samples(world, data):
    """All samples, NaN where frames are invalid: times, threads."""
    rate = world.format.fps * world.format.payload * 4 * u.Hz
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if world.format.name == "vdif":
            with vdif.open(io.BytesIO(data), "rs", sample_rate=rate, squeeze=False, fill_value=numpy.nan) as reader:
                return reader.read()[..., 0]
        with mark5b.open(io.BytesIO(data), "rs", sample_rate=rate, kday=61000, nchan=1, bps=2, squeeze=False,
                         fill_value=numpy.nan) as reader:
            return reader.read()[:, 0]


def agrees(world, data, units, judge):
    """Whether it finds every frame where the judge does, and nothing valid that was not sent."""
    if world.form == "lofar" or not units or len(units) > 1200:
        return
    whole = units
    if world.form == "fila10g":
        if len(units) % 2:
            judge.must(False, "baseband", "half a frame at the end")
            return
        # A frame is what it should be if both halves are.
        whole = units[::2]
    try:
        found = frames(world, data)
    except Exception as error:  # noqa: BLE001: whatever it raises, it cannot read it
        judge.must(False, "baseband cannot read the frames", repr(error))
        return
    for number, (unit, (second, frame, thread, valid)) in enumerate(zip(whole, found, strict=True)):
        if unit.stamp is None:
            continue
        seconds = unit.stamp.second - EPOCH if world.format.name == "vdif" else unit.stamp.second % 86400
        wrong = (second, frame, thread) != (seconds, unit.stamp.frame, unit.stamp.thread)
        if wrong or world.form != "fila10g" and valid != (unit.sent is not None):
            judge.must(False, "baseband reads another frame", f"number {number}: {second, frame, thread, valid}, {unit}")
            return


def agrees_on_samples(world, data, units, judge):
    """Whether a reader of the whole stream finds as many frames missing as were filled."""
    rows = world.format.payload * 4
    if world.form in ("lofar", "fila10g") or not units or len(units) * rows > MOST_SAMPLES or any(u.why for u in units):
        return
    try:
        read = samples(world, data)
    except HeaderNotFoundError as error:
        # Without a checksum, its search for the first header fails, except at seconds whose checksum is zero.
        judge.must(getattr(world.format, "plain", False), "baseband cannot read the stream", repr(error))
        return
    except Exception as error:  # noqa: BLE001
        judge.must(False, "baseband cannot read the stream", repr(error))
        return
    judge.equal("baseband: samples of missing frames", fill=sum(unit.fill for unit in units) * rows,
                baseband=int(numpy.isnan(read).sum()))
    judge.equal("baseband: samples", units=len(units) * rows, baseband=read.size)


EPOCH = 1_767_225_600  # 2026-01-01, the reference epoch of the worlds' dates
