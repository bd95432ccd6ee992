"""Failures are told by their reason and their number, the commonest first."""

from specbench.analysis.failures import failures, told
from specbench.model.load import Reason, RequestRecord


def failed(reason: Reason, status: int | None = None, detail: str = "") -> RequestRecord:
    return RequestRecord(
        rid="r", prompt_id="p", status="failed", reason=reason, http_status=status, detail=detail
    )


def test_each_reason_has_its_number_and_the_servers_words() -> None:
    rows = [failed("closed_early")] + [failed("http_4xx", 401, "no key")] * 6
    rows.append(RequestRecord(rid="r", prompt_id="p"))

    found = failures(rows)

    assert told(found) == "6 × 401 Unauthorized (no key), 1 × closed early"  # noqa: RUF001
    assert found[0].said == "no key"


def test_warm_up_is_not_counted() -> None:
    cold = failed("http_5xx", 503)
    cold.phase = "warmup"

    assert failures([cold, failed("timeout")]) == failures([failed("timeout")])
    assert told([]) == ""


def test_a_load_that_ended_in_its_warm_up_tells_of_that() -> None:
    cold = failed("no_first_byte")
    cold.phase = "warmup"

    assert [each.reason for each in failures([cold])] == ["no answer in time"]


def test_an_unknown_status_is_a_number() -> None:
    assert told(failures([failed("http_5xx", 599)])) == "1 × status 599"  # noqa: RUF001


def test_a_line_has_room_for_a_few_kinds() -> None:
    rows = [failed("http_4xx", status) for status in (400, 401, 403, 404, 409, 410)]

    assert told(failures(rows)).endswith("2 × other reasons")  # noqa: RUF001
