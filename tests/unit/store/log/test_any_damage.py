"""Whatever happens to the files, the log gives back a prefix of what was appended, and says so if it is not all."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artemis_py.store.log.options import SMALLEST_FILE_BYTES, LogOptions
from artemis_py.store.log.segment import HEADER_BYTES
from tests.unit.store.log.logs import batch, files, opened, overwrite, read

FOLDED = 30
"""Number of the last batch that LMDB has in the log that is damaged below."""
NEWEST = 52
SIZES = [40, 0, 3000, 9000, 20_000, 200, 70_000, 1]


# What was logged is cleared for each example.
BASE = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def payload(number: int) -> bytes:
    """Each batch has a size of its own; some have no room in a common file."""
    return batch(number, SIZES[number % len(SIZES)])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several writers, whose files were used several times."""
    folder = tmp_path_factory.mktemp("whole")
    last = 0
    for stop in (11, 19, 40, NEWEST):
        log = opened(folder)
        list(log.read(max(last - 5, 0)))
        for number in range(last + 1, stop + 1):
            log.append(number, [payload(number)])
            log.cut(min(number - 5, FOLDED))
        log.close()
        last = stop
    return folder


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For one example after the other: `restored` makes it whole again."""
    return tmp_path_factory.mktemp("damaged")


def restored(damaged: Path, whole: Path) -> list[Path]:
    """Put the files back; returns them."""
    shutil.rmtree(damaged / "log", ignore_errors=True)
    shutil.copytree(whole / "log", damaged / "log")
    return files(damaged)


def verify(folder: Path, after: int, caplog: pytest.LogCaptureFixture, may_be_silent: bool = False) -> int:
    """A prefix is there, what is missing is named, and the log goes on behind it; returns how many there are."""
    caplog.clear()
    log = opened(folder)
    found = dict(log.read(after))
    assert found == {number: payload(number) for number in range(after + 1, after + len(found) + 1)}
    is_named = bool(log.set_aside) or "not written whole" in caplog.text
    assert after + len(found) == NEWEST or is_named or may_be_silent

    for number in range(log.last + 1, log.last + 4):
        found[number] = b"newer %d" % number
        log.append(number, [found[number]])
    log.close()
    assert read(folder, after) == found
    return len(found) - 3


def test_the_log_that_is_damaged_is_whole_before(whole: Path, damaged: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And has what the tests below need: several segments, and one that is waiting to be used again."""
    restored(damaged, whole)

    assert len(files(whole)) > 5
    assert verify(damaged, FOLDED, caplog) == NEWEST - FOLDED


@settings(BASE, max_examples=60)
@given(data=st.data())
def test_any_flipped_byte(whole: Path, damaged: Path, caplog: pytest.LogCaptureFixture, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(restored(damaged, whole)))
    size = path.stat().st_size
    offset = data.draw(st.one_of(st.integers(0, 100), st.integers(HEADER_BYTES, size - 1)))
    old = path.read_bytes()[offset]
    overwrite(path, offset, bytes([data.draw(st.integers(0, 255).filter(lambda new: new != old))]))

    verify(damaged, data.draw(st.sampled_from([FOLDED, NEWEST - 1, NEWEST - 10])), caplog)


@settings(BASE, max_examples=40)
@given(data=st.data())
def test_any_truncation(whole: Path, damaged: Path, caplog: pytest.LogCaptureFixture, data: st.DataObject) -> None:
    """A file that ends right behind a record looks as if nothing had followed."""
    path = data.draw(st.sampled_from(restored(damaged, whole)))
    with path.open("r+b") as file:
        file.truncate(data.draw(st.integers(0, path.stat().st_size)))

    verify(damaged, FOLDED, caplog, may_be_silent=True)


@settings(BASE, max_examples=40)
@given(data=st.data())
def test_any_range_of_zeros_or_of_other_content(
    whole: Path, damaged: Path, caplog: pytest.LogCaptureFixture, data: st.DataObject
) -> None:
    """Lost sectors, and sectors of another place of the log."""
    paths = restored(damaged, whole)
    path = data.draw(st.sampled_from(paths))
    count = data.draw(st.integers(1, 40)) * 512
    offset = data.draw(st.integers(0, path.stat().st_size // 512)) * 512
    other = data.draw(st.sampled_from(paths)).read_bytes()
    start = data.draw(st.integers(0, len(other) // 512)) * 512
    content = other[start : start + count] if data.draw(st.booleans()) else bytes(count)
    overwrite(path, offset, content)

    verify(damaged, FOLDED, caplog, may_be_silent=True)


@settings(BASE, max_examples=30)
@given(data=st.data())
def test_any_missing_files(whole: Path, damaged: Path, caplog: pytest.LogCaptureFixture, data: st.DataObject) -> None:
    """The last one is not missed, unless a newer one is there."""
    for path in data.draw(st.lists(st.sampled_from(restored(damaged, whole)), min_size=1, max_size=3, unique=True)):
        path.unlink()

    verify(damaged, FOLDED, caplog, may_be_silent=True)


STEPS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from([0, 1, 40, 3000, 20_000, 60_000, 61_375, 61_376, 61_377, 100_000])),
    st.tuples(st.just("fold"), st.integers(0, 8)),
    st.tuples(st.just("cut"), st.integers(0, 8)),
    st.tuples(st.just("open"), st.just(0)),
    st.tuples(st.just("tear"), st.integers(1, 200)),
)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(STEPS, max_size=60),
    options=st.builds(
        LogOptions, file_bytes=st.just(SMALLEST_FILE_BYTES), min_files=st.integers(1, 3), pool_files=st.integers(-1, 4)
    ),
)
def test_any_order_of_appending_cutting_and_starting(steps: list[tuple[str, int]], options: LogOptions) -> None:
    """What a start finds is what was appended and LMDB does not have."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        batches: dict[int, bytes] = {}
        folded = cut = 0
        log = opened(folder, options)
        assert list(log.read(0)) == []
        for kind, value in steps:
            if kind == "append":
                number = log.last + 1
                batches[number] = batch(number, value)
                log.append(number, [batches[number][:7], batches[number][7:]])
            elif kind == "fold":
                folded = max(folded, log.last - value)
            elif kind == "cut":
                cut = max(cut, folded - value)
                log.cut(cut)
            else:
                end, path = log._end, log._path
                log.close()
                if kind == "tear" and path.suffix == ".log" and end < log._size:
                    overwrite(path, end, path.read_bytes()[HEADER_BYTES : HEADER_BYTES + min(value, log._size - end)])
                log = opened(folder, options)
                assert dict(log.read(folded)) == {number: batches[number] for number in batches if number > folded}
                assert log.last == max(folded, len(batches))
        log.close()
        assert read(folder, folded, options) == {number: batches[number] for number in batches if number > folded}
