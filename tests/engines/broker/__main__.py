"""`python -m engines.broker TOPIC:PARTITIONS ... [--without-transactions] [--end-delay=SECONDS]`."""

import asyncio
import os
import sys
import threading

from engines.broker.server import Broker


async def main(arguments):
    """Serve until the standard input ends."""
    options = dict(each.removeprefix("--").partition("=")[::2] for each in arguments if each.startswith("--"))
    topics = {name: int(count) for name, _, count in (each.partition(":") for each in arguments if ":" in each)}
    broker = Broker(
        topics, transactional="without-transactions" not in options, end_delay=float(options.get("end-delay", 0))
    )
    await broker.serve(int(options.get("port", 0)))
    sys.stdout.write(f"127.0.0.1:{broker.port}\n")
    sys.stdout.flush()
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
