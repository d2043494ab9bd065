"""Management of prepared transaction branches (XA): operations of the resource `broker`, named as in Artemis.

An administrator ends a branch when its transaction manager does not come back. The outcome is then kept until a client,
or the administrator, forgets it: a transaction manager that does come back is told what was decided without it.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from artemis_py.core.services.branch import Branch
from artemis_py.core.services.xid import xid_of_text
from artemis_py.errors import LimitExceeded
from artemis_py.logs import named_logger
from artemis_py.management.control import MAX_NAMES, Kind, Operation, Parameter, Row, edit, view

if TYPE_CHECKING:
    from artemis_py.management.broker_control import BrokerControl


def _prepared(control: "BrokerControl") -> list[Branch]:
    """Return the prepared branches, the oldest first. Raises LimitExceeded if there are too many for one reply."""
    found = sorted(control.branches.prepared(), key=lambda branch: branch.prepared_ms)
    if len(found) > MAX_NAMES:
        raise LimitExceeded(f"{len(found)} prepared transactions are more than the {MAX_NAMES} of one reply")
    return found


def list_prepared(control: "BrokerControl") -> list[str]:
    """Return a line for each prepared branch: when it began, its id in base64, and its xid."""
    lines = []
    for branch in _prepared(control):
        began = datetime.fromtimestamp(branch.started_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        lines.append(f"{began} base64: {branch.xid.text} {branch.xid}")
    return lines


def describe_prepared(control: "BrokerControl") -> str:
    """Return an array of JSON objects, one for each prepared branch."""
    rows = []
    for branch in _prepared(control):
        content = branch.content
        assert content is not None, "it is prepared"
        rows.append(
            {
                "creation_time": branch.started_ms,
                "prepared_time": branch.prepared_ms,
                "xid_as_base64": branch.xid.text,
                "xid_format_id": branch.xid.format_id,
                "xid_global_txid": branch.xid.global_id.hex(),
                "xid_branch_qual": branch.xid.qualifier.hex(),
                "user": branch.user,
                "messages": content.messages.count,
                "acknowledgements": len(content.settlements),
                "addresses": sorted(content.addresses()),
            }
        )
    return json.dumps(rows, ensure_ascii=False)


def _list_outcomes(control: "BrokerControl", is_committed: bool) -> list[str]:
    return [each.xid.text for each in control.branches.outcomes() if each.is_committed is is_committed][:MAX_NAMES]


def _complete(control: "BrokerControl", text: str, is_committed: bool) -> bool:
    """End a prepared branch; False if there is none of this name. Raises InvalidRequest, LimitExceeded, StoreError."""
    xid = xid_of_text(text)
    is_done = control.branches.complete(xid, is_committed)
    if is_done:
        outcome = "committed" if is_committed else "rolled back"
        # Other participants of the transaction may end it in another way.
        LOGGER.warning(
            "prepared transaction ended: xid=%s outcome=%s user=%s", xid, outcome, control.session.subject.name
        )
    return is_done


def _forget(control: "BrokerControl", text: str) -> bool:
    """Forget the outcome of a branch; False if none is kept. Raises InvalidRequest."""
    return control.branches.forget_outcome(xid_of_text(text))


LOGGER: Final = named_logger(__name__)

_XID: Final = Parameter("transactionAsBase64", Kind.TEXT)

BRANCH_OPERATIONS: Final[Mapping[str, Row]] = {
    "listPreparedTransactions": view(Operation(list_prepared)),
    "listPreparedTransactionDetailsAsJSON": view(Operation(describe_prepared)),
    "listHeuristicCommittedTransactions": view(Operation(lambda control: _list_outcomes(control, True))),
    "listHeuristicRolledBackTransactions": view(Operation(lambda control: _list_outcomes(control, False))),
    "commitPreparedTransaction": edit(Operation(lambda control, text: _complete(control, text, True), _XID)),
    "rollbackPreparedTransaction": edit(Operation(lambda control, text: _complete(control, text, False), _XID)),
    "forgetHeuristicTransaction": edit(Operation(_forget, _XID)),
}
"""Operations of the resource `broker`. Forgetting is ours: in Artemis only a transaction manager can do it."""
