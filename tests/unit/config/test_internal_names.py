"""Names below `internal-naming-prefix` belong to the broker: a file that declares one gets a warning."""

from tests.unit.config.samples import read

RING = "$.artemis.internal.a.queue.anycast.retro"


def warnings(core: str) -> list[str]:
    return [str(warning) for warning in read(core).warnings]


def test_declared_names_below_the_prefix_are_pointed_out() -> None:
    found = warnings(f"""<diverts><divert name="$.artemis.internal.d">
<address>a</address><forwarding-address>$.artemis.internal.x</forwarding-address></divert></diverts>
<addresses><address name="$.artemis.internal.x"><anycast/></address>
<address name="a"><anycast><queue name="{RING}"/></anycast></address></addresses>""")

    assert [warning.partition("begins")[0] for warning in found] == [
        'broker.xml:4: divert: "$.artemis.internal.d" ',
        'broker.xml:5: forwarding-address: "$.artemis.internal.x" ',
        'broker.xml:6: address: "$.artemis.internal.x" ',
        f'broker.xml:7: queue: "{RING}" ',
    ]
    assert all('internal-naming-prefix "$.artemis.internal."' in warning for warning in found)


def test_the_prefix_of_the_file_decides() -> None:
    addresses = '<addresses><address name="own.a"><anycast/></address><address name="$.artemis.internal.a"><anycast/>'
    core = f"{addresses}</address></addresses>"

    assert len(warnings(f"<internal-naming-prefix>own.</internal-naming-prefix>{core}")) == 1
    assert "own.a" in warnings(f"<internal-naming-prefix>own.</internal-naming-prefix>{core}")[0]


def test_other_names_are_fine() -> None:
    assert (
        warnings('<addresses><address name="internal"><anycast><queue name="$.x"/></anycast></address></addresses>')
        == []
    )
