"""The thread for what would hold up the loop."""

import asyncio
import threading

from artemis_py.transport.worker import Worker


async def test_job_runs_beside_the_loop_and_completes_on_it() -> None:
    """The core is touched by one thread only, and has been told the time by then."""
    order: list[tuple[str, int]] = []
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    worker = Worker(asyncio.get_running_loop(), lambda: order.append(("enter", threading.get_ident())))
    worker.submit(threading.get_ident, done.set_result)
    job_thread = await done
    worker.stop()

    assert job_thread != threading.get_ident()
    assert order == [("enter", threading.get_ident())]


async def test_stopped_worker_completes_nothing_and_leaves_no_thread() -> None:
    """P14: what is still computed when the broker ends has nobody to tell."""
    threads = threading.active_count()
    go_on = threading.Event()
    results: list[bool] = []
    worker = Worker(asyncio.get_running_loop(), lambda: None)
    worker.submit(go_on.wait, results.append)
    worker.submit(go_on.wait, results.append)
    go_on.set()
    worker.stop()
    await asyncio.sleep(0)

    assert results == []
    assert threading.active_count() == threads
