from dataclasses import replace

from specbench.backends.products import backend_for
from specbench.verify.battery import open_session
from specbench.verify.handshake import shake_hands
from specbench.verify.options import VerifyOptions
from specbench.verify.plan import Samples, stages
from tests.verify.fake_server import FakeServer


def test_on_vllm_everything_that_needs_no_top_k_comes_first() -> None:
    client = FakeServer()
    server = shake_hands(client)
    options = VerifyOptions()
    usual = open_session(client, server, options)
    vllm = open_session(client, replace(server, quirks=backend_for("vllm").quirks), options)

    order = [stage.top_k for stage in stages(vllm, Samples())]
    names = {stage.name for stage in stages(usual, Samples())}

    assert order == sorted(order)
    assert set(order) == {False, True}
    assert {stage.name for stage in stages(vllm, Samples())} == names
