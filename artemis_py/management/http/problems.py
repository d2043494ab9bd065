"""What a refusal is in HTTP: a status, and a body of the kind `application/problem+json` (RFC 9457)."""

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import web

from artemis_py.errors import (
    AddressExists,
    AddressFull,
    ExchangeExists,
    HostExists,
    HostStopped,
    InUse,
    InvalidFilter,
    InvalidRequest,
    LimitExceeded,
    NoSuchAddress,
    NoSuchExchange,
    NoSuchHost,
    NoSuchQueue,
    NotAuthorized,
    QueueExists,
    Refusal,
    StoreError,
    UnknownTransaction,
)
from artemis_py.management.control import NoSuchResource

CONTENT_TYPE: Final = "application/problem+json"

STATUSES: Final[Mapping[type[Refusal], HTTPStatus]] = {
    InvalidRequest: HTTPStatus.BAD_REQUEST,
    InvalidFilter: HTTPStatus.BAD_REQUEST,
    NoSuchResource: HTTPStatus.NOT_FOUND,
    NotAuthorized: HTTPStatus.FORBIDDEN,
    NoSuchAddress: HTTPStatus.NOT_FOUND,
    NoSuchQueue: HTTPStatus.NOT_FOUND,
    NoSuchExchange: HTTPStatus.NOT_FOUND,
    NoSuchHost: HTTPStatus.NOT_FOUND,
    UnknownTransaction: HTTPStatus.NOT_FOUND,
    AddressExists: HTTPStatus.CONFLICT,
    QueueExists: HTTPStatus.CONFLICT,
    ExchangeExists: HTTPStatus.CONFLICT,
    HostExists: HTTPStatus.CONFLICT,
    InUse: HTTPStatus.CONFLICT,
    AddressFull: HTTPStatus.TOO_MANY_REQUESTS,
    LimitExceeded: HTTPStatus.TOO_MANY_REQUESTS,
    HostStopped: HTTPStatus.SERVICE_UNAVAILABLE,
    StoreError: HTTPStatus.SERVICE_UNAVAILABLE,
}
"""Statuses of refusals; of any other kind it is a conflict with what there is."""

RETRY_AFTER_S: Final = {HTTPStatus.TOO_MANY_REQUESTS: 5, HTTPStatus.SERVICE_UNAVAILABLE: 5}

_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Problem(Exception):
    """An answer that says why there is no other one."""

    def __init__(self, status: HTTPStatus, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status: Final = status
        self.code: Final = code
        self.detail: Final = detail
        self.headers: Final = dict(headers or {})

    def response(self) -> web.Response:
        """Return the answer."""
        body = {
            "type": f"/problems/{self.code}",
            "title": self.status.phrase,
            "status": self.status.value,
            "detail": self.detail,
            "code": self.code,
        }
        headers = dict(self.headers)
        if self.status in RETRY_AFTER_S:
            headers.setdefault("Retry-After", str(RETRY_AFTER_S[self.status]))
        return web.Response(status=self.status, text=json.dumps(body), content_type=CONTENT_TYPE, headers=headers)


def of_refusal(refusal: Refusal) -> Problem:
    """Return the problem that a refusal of the core is; its code is the name of its class, `no-such-queue`."""
    status = next((STATUSES[kind] for kind in type(refusal).__mro__ if kind in STATUSES), HTTPStatus.CONFLICT)
    return Problem(status, code_of(type(refusal)), str(refusal))


def code_of(kind: type[Refusal]) -> str:
    """Return the code of a kind of refusal."""
    return _WORD.sub("-", kind.__name__).lower()
