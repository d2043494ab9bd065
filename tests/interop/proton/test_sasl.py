"""Ways to log in beside those the other modules use (AMQP 1.0 §5.3; RFC 5802, 7677, 4422).

The wheel of Proton has no SCRAM, so its client is written out here: hashes by the standard library, frames by Proton's
codec, and not a line shared with the broker.
"""

import base64
import hashlib
import hmac
import socket
from types import TracebackType
from typing import Any, Final

import pytest
from proton import ConnectionException, Data, Described, SSLDomain, symbol, ulong

from tests.interop.broker_process import REPOSITORY, BrokerProcess, Instance
from tests.interop.conftest import StartBroker
from tests.interop.proton.client import Client

CERTIFICATES: Final = REPOSITORY / "tests" / "transport" / "certificates"

# The example of RFC 7677: password "pencil", its salt and 4096 rounds; before it the argon2 hash of the same password.
USERS: Final = (
    "ann = ENC($argon2id$v=19$m=1024,t=1,p=1$ok/m8t6mLbSfo1yz8hhVmA$z+pV3iZr+IDQfByn3M9DIL9vIJJF6AAghB4myconYcE"
    "|SCRAM-SHA-256$4096$W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=$wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=)\n"
)
ROLES: Final = "app = ann, CN=client\\,OU=Tests\\,O=Example\\\\\\, Inc.\n"
SECURITY: Final = """
<security-settings>
  <security-setting match="#">
    <permission type="send" roles="app"/>
    <permission type="consume" roles="app"/>
  </security-setting>
</security-settings>
"""
ADDRESSES: Final = '<address name="q"><anycast><queue name="q"/></anycast></address>'

SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
OPEN: Final = 0x10
MECHANISMS, INIT, CHALLENGE, RESPONSE, OUTCOME = range(0x40, 0x45)
OK, AUTH = 0, 1
SCRAM: Final = "SCRAM-SHA-256"
NONCE: Final = "rOprNGfwEbeRWgbNEkqO"
TIMEOUT_S: Final = 60.0


@pytest.fixture(scope="module")
def secure(start: StartBroker) -> BrokerProcess:
    """A broker that offers what works without TLS."""
    parameters = "protocols=AMQP;saslMechanisms=PLAIN,SCRAM-SHA-256"
    return start(Instance(core=SECURITY, addresses=ADDRESSES, parameters=parameters, users=USERS, roles=ROLES))


@pytest.fixture(scope="module")
def encrypted(start: StartBroker) -> BrokerProcess:
    """A broker that knows its clients by their certificates."""
    parameters = (
        "protocols=AMQP;saslMechanisms=EXTERNAL;sslEnabled=true;needClientAuth=true"
        f";keyStorePath={CERTIFICATES / 'broker.pem'};trustStorePath={CERTIFICATES / 'authority.pem'}"
    )
    return start(Instance(core=SECURITY, addresses=ADDRESSES, parameters=parameters, users=USERS, roles=ROLES))


class Login:
    """A socket during login, frame by frame."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._socket: Final = socket.create_connection((broker.host, broker.port), TIMEOUT_S)
        self.mechanisms: list[str] = []

    def __enter__(self) -> "Login":
        self._socket.sendall(SASL_HEADER)
        assert self._take(8) == SASL_HEADER
        self.mechanisms = [str(name) for name in self.receive(MECHANISMS)[0].elements]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, code: int, *fields: object) -> None:
        """A SASL frame, or the first AMQP frame."""
        data = Data()
        data.put_object(Described(ulong(code), list(fields)))
        body = bytes(data.encode())
        kind = 0 if code == OPEN else 1
        self._socket.sendall((8 + len(body)).to_bytes(4, "big") + bytes((2, kind, 0, 0)) + body)

    def receive(self, code: int) -> list[Any]:
        """The fields of the next frame, which must be of this kind."""
        size = int.from_bytes(self._take(4), "big")
        data = Data()
        data.decode(self._take(size - 4)[4:])
        data.rewind()
        data.next()
        performative: Any = data.get_object()
        assert performative.descriptor == code
        # Binary values are views of memory that goes with the decoder.
        return [bytes(value) if isinstance(value, memoryview) else value for value in performative.value]

    def _take(self, size: int) -> bytes:
        taken = b""
        while len(taken) < size:
            data = self._socket.recv(size - len(taken))
            assert data, "the broker closed the socket"
            taken += data
        return taken

    def open(self) -> list[Any]:
        """Open the connection after the login; returns the fields of the broker's open."""
        self._socket.sendall(AMQP_HEADER)
        self.send(OPEN, "scram-client")
        assert self._take(8) == AMQP_HEADER
        return self.receive(OPEN)

    def scram(self, user: str, password: str) -> tuple[int, bytes, bytes]:
        """Log in (RFC 5802 §3): outcome, the server's signature, and what it must be."""
        first = f"n={user},r={NONCE}"
        self.send(INIT, symbol(SCRAM), f"n,,{first}".encode())
        challenge = self.receive(CHALLENGE)[0].decode()
        nonce, salt, rounds = (part[2:] for part in challenge.split(","))
        assert nonce.startswith(NONCE)
        assert len(nonce) > len(NONCE)
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), int(rounds))
        final = f"c=biws,r={nonce}"
        message = f"{first},{challenge},{final}".encode()
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self.send(RESPONSE, f"{final},p={base64.b64encode(proof).decode()}".encode())
        code, *data = self.receive(OUTCOME)
        expected = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), message, "sha256")
        return int(code), data[0] if data else b"", b"v=" + base64.b64encode(expected)


def test_mechanisms_are_offered_strongest_first(secure: BrokerProcess) -> None:
    """AMQP 1.0 §5.3.3.1: in the order of the server's preference, whatever the order in the configuration."""
    with Login(secure) as login:
        assert login.mechanisms == [SCRAM, "PLAIN"]


def test_scram_proves_both_sides_to_each_other(secure: BrokerProcess) -> None:
    """RFC 5802 §3: the broker's signature shows that it knows the password's keys too. Then AMQP goes on."""
    with Login(secure) as login:
        code, signature, expected = login.scram("ann", "pencil")
        opened = login.open()

    assert code == OK
    assert signature == expected
    assert opened[0] == "interop"


@pytest.mark.parametrize(("user", "password"), [("ann", "pen"), ("nobody", "pencil")])
def test_scram_refuses_a_wrong_password_and_an_unknown_user_alike(
    secure: BrokerProcess, user: str, password: str
) -> None:
    """RFC 5802 §7: the exchange does not tell which users there are."""
    with Login(secure) as login:
        code, signature, _ = login.scram(user, password)

    assert (code, signature) == (AUTH, b"")


def test_plain_checks_the_hashed_password(secure: BrokerProcess) -> None:
    """The other half of the same line of the users' file."""
    with Client(secure.url, user="ann", password="pencil", allowed_mechs="PLAIN") as client:
        client.send("q", "m")

        assert client.bodies("q") == ["m"]
    with pytest.raises(ConnectionException):
        Client(secure.url, user="ann", password="pen", allowed_mechs="PLAIN")


def test_mechanism_that_is_not_offered_lets_nobody_in(secure: BrokerProcess) -> None:
    """AMQP 1.0 §5.3.3.2: a client that chooses it all the same fails."""
    with Login(secure) as login:
        login.send(INIT, symbol("ANONYMOUS"), b"")

        assert login.receive(OUTCOME)[0] == AUTH


def test_external_takes_the_name_of_the_certificate(encrypted: BrokerProcess) -> None:
    """RFC 4422 appendix A: the whole subject is the user, with the roles that the file gives it."""
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_credentials(str(CERTIFICATES / "client.pem"), str(CERTIFICATES / "client.pem"), None)
    domain.set_trusted_ca_db(str(CERTIFICATES / "authority.pem"))
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    url = f"amqps://localhost:{encrypted.port}"
    with Client(url, ssl_domain=domain, allowed_mechs="EXTERNAL") as client:
        client.send("q", "m")

        assert client.bodies("q") == ["m"]
