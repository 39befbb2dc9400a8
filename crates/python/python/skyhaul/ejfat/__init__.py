"""EJFAT: events from sources through a load balancer to workers.

| | |
|---|---|
| `Sender` | sends events to a balancer, or to a receiver directly |
| `Worker` | joins a balancer, and iterates the events that it is given |
| `Balancer` | reserves a balancer, and looks after it |
"""

from ._balancer import Balancer, Status, Token, WorkerStatus
from ._sender import Sender
from ._stats import BuildCounts, BuildStats, ReceiveStats, SendStats, Session
from ._worker import Built, Empty, Event, Stopped, Worker

__all__ = [
    "Balancer", "BuildCounts", "BuildStats", "Built", "Empty", "Event", "ReceiveStats", "SendStats", "Sender", "Session",
    "Status", "Stopped", "Token", "Worker", "WorkerStatus",
]  # fmt: skip
