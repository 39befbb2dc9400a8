"""What is sent on while it is recorded: the same datagrams, for a receiver that knows nothing of Skyhaul."""

import socket
import threading

import pytest
from backend import send, with_vtp, written_by_baseband


@pytest.mark.parametrize("order", [None, "little"], ids=["plain", "vtp-little"])
def test_datagrams_are_sent_on_as_they_came(record, order):
    datagrams = with_vtp(written_by_baseband(3), order)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as second:
        second.bind(("127.0.0.1", 0))
        second.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        second.settimeout(10)
        received = []

        def listen():
            try:
                while len(received) < len(datagrams):
                    received.append(second.recv(65536))
            except TimeoutError:
                pass

        recorder = record("--forward", f"udp://127.0.0.1:{second.getsockname()[1]}")
        listener = threading.Thread(target=listen)
        listener.start()
        send(datagrams, recorder.port, per_second=20e6)
        listener.join()
        report = recorder.finish()
    assert received == datagrams
    assert len(report["forward"]) == 1
