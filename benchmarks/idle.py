"""What an idle connection costs a broker in memory.

python idle.py PORT PID open|link
"""

import os
import sys
import time
from pathlib import Path
from typing import Final

from load import Client

CONNECTIONS: Final = 1000
SETTLE_S: Final = 0.5
"""After the last connection the broker may still be writing; memory is read a moment later."""


def resident_kib(pid: int) -> int:
    """Memory of a process that is in RAM, in KiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise ProcessLookupError(pid)


def kib_per_connection(port: int, pid: int, with_link: bool) -> float:
    """Resident memory per connection that is logged in and open; `with_link`: with a session and a consumer too."""
    before = resident_kib(pid)
    clients = []
    for number in range(CONNECTIONS):
        client = Client(port)
        if with_link:
            client.attach(f"idle-{os.getpid()}-{number % 10}", False, False, False)
        clients.append(client)
    time.sleep(SETTLE_S)
    grown = resident_kib(pid) - before
    for client in clients:
        client.close()
    return grown / CONNECTIONS


def main() -> None:
    """Print KiB per connection."""
    print(kib_per_connection(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "link"))


if __name__ == "__main__":
    main()
