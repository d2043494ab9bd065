"""A job over TLS, as a user with no more permissions than it needs; and what it says when one is missing."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from artemis_py.cli import main
from artemis_py.spark.encoding import Encoded
from artemis_py.spark.errors import Refused
from artemis_py.spark.options import read_options, write_options
from artemis_py.spark.planning import Planner
from artemis_py.spark.sending import Sender
from tests.interop.broker_process import REPOSITORY, BrokerProcess, Instance, start_broker

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.types import StringType, StructField, StructType  # noqa: E402

from artemis_py.spark.sink import batch_writer, stream_writer  # noqa: E402

CERTIFICATES: Final = REPOSITORY / "tests" / "transport" / "certificates"
READS: Final = ("consume", "browse", "createNonDurableQueue", "createDurableQueue", "createAddress")
REPLIES: Final = ("createAddress", "createNonDurableQueue", "consume")
"""What docs/spark.md says that a writer of epochs needs on the names of temporary queues."""


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """`reader` and `committer` may do what docs/spark.md says of a reader and a writer; `writer` may send."""
    may_read = "".join(f'<permission type="{kind}" roles="readers"/>' for kind in READS)
    may_be_answered = "".join(f'<permission type="{kind}" roles="committers"/>' for kind in REPLIES)
    core = (
        "<security-settings>"
        f'<security-setting match="#">{may_read}<permission type="send" roles="writers"/></security-setting>'
        '<security-setting match="activemq.management"><permission type="send" roles="readers,committers"/>'
        "</security-setting>"
        '<security-setting match="orders"><permission type="send" roles="writers,committers"/>'
        f"{may_read}</security-setting>"
        f'<security-setting match="replies.#">{may_be_answered}{may_read}</security-setting>'
        "</security-settings>"
    )
    instance = Instance(
        persistence="true",
        core=f"<uuid-namespace>replies</uuid-namespace>{core}",
        parameters=f"protocols=AMQP;sslEnabled=true;keyStorePath={CERTIFICATES / 'broker.pem'}",
        users="reader = secret-1\nwriter = secret-2\ncommitter = secret-3\n",
        roles="readers = reader\nwriters = writer\ncommitters = committer\n",
    )
    process = start_broker(instance, tmp_path_factory.mktemp("secure"))
    yield process
    process.stop()


def connection(secure: BrokerProcess, user: str, password: str) -> dict[str, str]:
    url = f"amqps://localhost:{secure.port}"
    return {"url": url, "tls.ca": str(CERTIFICATES / "authority.pem"), "user": user, "password": password}


def run(secure: BrokerProcess, user: str, password: str, *arguments: object) -> Result:
    """In this process, so that the session of the tests is used."""
    where = ["--url", f"amqps://localhost:{secure.port}", "--ca", str(CERTIFICATES / "authority.pem"), "--user", user]
    environment = {"ARTEMIS_PY_PASSWORD": password}
    return CliRunner(env=environment).invoke(main, ["spark", *map(str, arguments), *where])


def test_an_archive_over_tls_needs_no_permission_but_a_readers(
    spark: Any, secure: BrokerProcess, tmp_path: Path
) -> None:
    options = {"address": "orders", "subscription": "lake"}
    Planner(read_options({**connection(secure, "reader", "secret-1"), **options})).heads()
    sender = Sender(
        write_options({**connection(secure, "writer", "secret-2"), "address": "orders", "idempotence": "none"})
    )
    sender.send([Encoded(None, b"\x00\x53\x70\xc0\x02\x01\x41", b"\x00\x53\x75\xa0\x01x")] * 3)
    sender.flush()
    sender.close()

    arguments = ("archive", "--address", "orders", "--subscription", "lake", "--out", tmp_path / "lake", "--json")
    done = run(secure, "reader", "secret-1", *arguments)

    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["messages"] == 3


BODY: Final = StructType([StructField("body", StringType())])


def test_an_epoch_needs_no_permission_but_a_writers(secure: BrokerProcess) -> None:
    """`send`, and what the answer to a request needs on the names of temporary queues."""
    Planner(
        read_options({**connection(secure, "reader", "secret-1"), "address": "orders", "subscription": "e"})
    ).heads()
    options = write_options({**connection(secure, "committer", "secret-3"), "address": "orders"})

    writer = batch_writer(options, BODY, False)
    sent = writer.write(iter([pa.RecordBatch.from_pydict({"body": ["x", "y"]})]))
    writer.commit([sent])

    assert (sent.accepted, list(sent.staged.values())) == (2, [2])


@pytest.mark.parametrize("job", ["batch", "stream"])
def test_a_writer_that_may_not_commit_learns_it_before_it_sends(secure: BrokerProcess, job: str) -> None:
    """Not with the commit, after hours of work."""
    options = write_options({**connection(secure, "writer", "secret-2"), "address": "orders"})

    with pytest.raises(Refused, match=r"nothing was sent.*it needs createAddress, createNonDurableQueue and consume"):
        batch_writer(options, BODY, False) if job == "batch" else stream_writer(options, BODY)
    assert batch_writer(evolve(options, idempotence="none"), BODY, False)


@pytest.mark.parametrize(
    ("user", "password", "reason"),
    [
        ("reader", "secret-2", "login failed"),
        ("writer", "secret-2", "orders: .*user 'writer' lacks permission '"),
    ],
)
def test_what_is_not_allowed_is_one_line(
    spark: Any, secure: BrokerProcess, tmp_path: Path, user: str, password: str, reason: str
) -> None:
    """Exit code 1, the broker's words, no stack and no secret."""
    arguments = ("archive", "--address", "orders", "--subscription", "other", "--out", tmp_path / "lake")
    failed = run(secure, user, password, *arguments)

    assert failed.exit_code == 1
    (line,) = failed.stderr.strip().splitlines()
    assert re.match(f"Error: .*{reason}", line)
    assert "secret" not in failed.output


def test_a_replay_that_may_not_commit_is_refused_before_it_reads(
    spark: Any, secure: BrokerProcess, tmp_path: Path
) -> None:
    """The archive is not there; a replay that read first would say so."""
    failed = run(secure, "writer", "secret-2", "replay", "--in", tmp_path / "none", "--job-id", "r")

    assert failed.exit_code == 1
    assert "nothing was sent, because no epoch could be committed" in failed.stderr
