"""Witnesses of isolation anomalies, drawn: who did what where, and why one comes before the other, without a script."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import msgspec

from splitbrain.results.arrow import to_table
from splitbrain.results.history import Mop, Op
from splitbrain.results.report.witnesses import BOXES_MAX, draw, witness_pictures
from splitbrain.results.witness import Edge, Transaction, Witness, evidence_of, micro_operations, witnesses_of


def history(count: int) -> list[Op]:
    ops: list[Op] = []
    for place in range(count):
        mops = (Mop("w", f"k{place}", place),)
        for kind in ("invoke", "ok"):
            ops.append(
                Op(index=len(ops), time=len(ops) * 10**9, process=place, type=kind, f="txn", mops=mops, node="n<1>")
            )
    return ops


def ring(count: int) -> Witness:
    names = [f"T{place}" for place in range(count)]
    transactions = tuple(
        Transaction(
            name=name, index=2 * place, completed_index=2 * place + 1, process=place, ended="ok", ops=("w x 1",)
        )
        for place, name in enumerate(names)
    )
    edges = tuple(
        Edge(one, other, "rw", "x", f"{one} & {other}")
        for one, other in zip(names, [*names[1:], names[0]], strict=True)
    )
    return Witness("G2-item", "A cycle.", transactions, edges, premises=(Edge(names[0], names[-1], "process"),))


def texts(picture: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


def test_a_graph_has_a_box_for_each_transaction_and_an_arrow_for_each_edge() -> None:
    for count in (2, 3, 5, BOXES_MAX):
        [picture] = witness_pictures(evidence_of([ring(count)]), to_table(history(count)), [], "w")
        found = texts(picture)
        assert found.count("rw x") == count
        assert found.count("process") == 1
        assert [text for text in found if text.startswith("T")] == [
            f"T{place}: process {place} on n<1>, ok" for place in range(count)
        ]
        assert f"op {2 * count - 2}, {2 * count - 2}.000 s to {2 * count - 1}.000 s" in found
        assert picture.count("<title>T0 &amp; T1</title>") == 1


def test_each_box_leads_to_the_op_in_which_its_transaction_was_invoked() -> None:
    [picture] = witness_pictures(evidence_of([ring(3)]), to_table(history(3)), [], "w")
    links = [each.get("href") for each in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}a")]
    assert links == ["#op-0", "#op-2", "#op-4"]


def test_a_table_of_ops_has_what_a_transaction_asked_and_what_it_read() -> None:
    mops = (Mop("r", "x"), Mop("append", "x", 3))
    asked = Op(index=0, process=1, type="invoke", f="txn", mops=mops)
    answered = asked.complete("ok", mops=(Mop("r", "x", values=(1, 2)), mops[1]))
    plain = Op(index=2, process=1, type="invoke", f="read")
    table = to_table([asked, msgspec.structs.replace(answered, index=1), plain])
    assert micro_operations(table, 0, known=False) == "r x ?, append x 3"
    assert micro_operations(table, 1, known=True) == "r x [1 2], append x 3"
    assert micro_operations(table, 2, known=False) is None


def test_no_list_is_longer_than_its_box() -> None:
    """A letter of a font for code is 0.6 of its size wide."""
    read = "r 35 [" + " ".join(map(str, range(1, 40))) + "]"
    long = msgspec.structs.replace(
        ring(2), transactions=tuple(msgspec.structs.replace(each, ops=(read,)) for each in ring(2).transactions)
    )
    [picture] = witness_pictures(evidence_of([long]), to_table(history(2)), [], "w")
    [shown, _] = [text for text in texts(picture) if text.startswith("r 35")]
    assert shown.endswith("…")
    assert 20 < len(shown) <= 36, "36 letters of 11 units are 238 units wide, and the box 250"


def test_everything_is_inside_the_picture() -> None:
    for count in (2, 4, 7):
        picture = str(draw(ring(count), [], "w"))
        width, height = map(float, re.findall(r'viewBox="0 0 (\S+) (\S+)"', picture)[0])
        for x, y, w, h in re.findall(r'<rect class="txn" x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)"', picture):
            assert float(x) >= 0 <= float(y)
            assert float(x) + float(w) <= width
            assert float(y) + float(h) <= height


def test_what_has_no_edges_or_too_many_transactions_is_not_drawn() -> None:
    alone = Witness("G1a", "Read what was aborted.", ring(2).transactions)
    table = to_table(history(BOXES_MAX + 1))
    assert witness_pictures(evidence_of([alone, ring(BOXES_MAX + 1)]), table, [], "w") == []
    assert witness_pictures({"findings": [{"sentence": "of another form"}]}, table, [], "w") == []


def test_the_steps_of_a_cycle_under_its_name_are_edges() -> None:
    transactions = [
        {"name": "T1", "process": 0, "type": "ok", "invoked": 0, "completed": 1, "ops": [["r", "x", [1, 2]]]},
        {"name": "T2", "process": 1, "type": "info", "invoked": 2, "ops": [["append", "x", 3], ["r", "y", None]]},
    ]
    steps = [
        {"from": "T1", "to": "T2", "kind": "rw", "key": "x", "sentence": "T1 < T2, because ..."},
        {"from": "T2", "to": "T1", "kind": "realtime", "sentence": "T2 < T1, because ..."},
    ]
    cycle = {"anomaly": "G-single", "sentence": "So T1 ...", "transactions": transactions, "steps": steps}
    [witness] = witnesses_of({"anomalies": {"G-single": [cycle]}})
    assert [each.ops for each in witness.transactions] == [("r x [1 2]",), ("append x 3", "r y ?")]
    assert [(edge.source, edge.target, edge.kind, edge.key) for edge in witness.edges] == [
        ("T1", "T2", "rw", "x"),
        ("T2", "T1", "realtime", None),
    ]
    assert witnesses_of({"anomalies": {"G-single": [{**cycle, "transactions": [{"name": "T1"}]}]}}) == []
