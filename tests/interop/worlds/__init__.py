"""Worlds: streams with faults, drawn from a seed, and what every command must say of them.

    one seed ─▶ draw ─▶ a sender, its faults, the network ─▶ packets in a capture, each with the host's time
                              └─▶ ledger: what was sent, when, by which thread
    commands: record, receive, check, ls, cat, send, forward, Python ─▶ judge: sums, times and bytes against the ledger

Nothing here is Skyhaul's: frames are written and read by the standards alone, and baseband is a second reader.
"""
