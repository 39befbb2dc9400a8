"""skyhaul.rdma, as a program with types uses it."""

from typing import assert_type

import numpy as np
import numpy.typing as npt

from skyhaul import rdma


def serve(listen: str) -> int:
    lost = 0
    with rdma.Server(listen, "vis:64MiB:write", connections=1) as server:
        assert_type(server.regions["vis"].array, npt.NDArray[np.uint8])
        for message in server:
            assert_type(message, rdma.Written | rdma.Lost)
            if isinstance(message, rdma.Lost):
                lost += len(message.numbers)
            else:
                assert_type(message.mask(4), npt.NDArray[np.bool_])
                lost += not message.complete
        assert_type(server.report(), rdma.ServerReport)
    return lost


async def exchange(to: str, values: npt.NDArray[np.float32]) -> int:
    async with rdma.connect(to) as region:
        assert_type(await region.awrite(values, rate=8e9), rdma.WriteDone)
        part = await region.aread(0, values.nbytes, deadline=0.02)
        assert_type(part, rdma.ReadDone)
        return sum(span.stop - span.start for span in part.missing)
