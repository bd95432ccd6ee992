from dataclasses import replace

from specbench.workflows.verify.battery import open_session
from specbench.workflows.verify.handshake import shake_hands
from specbench.workflows.verify.options import VerifyOptions
from specbench.workflows.verify.plan import Samples, stages
from tests.workflows.verify.fake_server import FakeServer


def test_on_vllm_everything_that_needs_no_top_k_comes_first() -> None:
    client = FakeServer()
    server = shake_hands(client)
    options = VerifyOptions()
    usual = open_session(client, server, options)
    vllm = open_session(client, replace(server, dialect="vllm"), options)

    order = [stage.top_k for stage in stages(vllm, Samples())]
    names = {stage.name for stage in stages(usual, Samples())}

    assert order == sorted(order)
    assert set(order) == {False, True}
    assert {stage.name for stage in stages(vllm, Samples())} == names
