"""The frame around every started service: reach it, hand it out, stop it, see that it is gone."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from specbench.backends.client import ControlClient
from specbench.backends.products import backend_for
from specbench.errors import HostError
from specbench.hosts.command import Launch, address_of
from specbench.hosts.state import wait_until_free
from specbench.launchers.context import LaunchContext, Place
from specbench.launchers.server_process import OwnProcess
from specbench.launchers.service import RunningService
from specbench.model.host import Host
from specbench.model.plan import LaunchSpec
from specbench.recording.durable import private_folder, write_private


@contextlib.contextmanager
def serving(
    place: Place, spec: LaunchSpec, block_dir: Path, process: OwnProcess, context: LaunchContext
) -> Iterator[RunningService]:
    """Hand out a started process as a service; on leaving, stop it and wait for its port.

    A service that is to be kept is left running, unless an error ends it.

    Raises HostError when the port stays taken afterwards.
    """
    address = address_of(place.host)
    with contextlib.ExitStack() as stack:
        stack.callback(process.stop, place.host.stop_timeout_s)
        port = stack.enter_context(place.shell.forward(address.host, address.port))
        url = url_through(place.host, port)
        client = stack.enter_context(
            ControlClient(url, backend_for(spec.engine), api_key=place.host.api_key)
        )
        telemetry = stack.enter_context(context.sampled(process.pid))
        service = RunningService(
            spec=spec,
            url=url,
            process=process,
            client=client,
            block_dir=block_dir,
            mirror=True,
            tunnelled=place.tunnelled,
            patience=place.patience,
            history=place.history,
            context=context,
            telemetry=telemetry,
            secrets=place.secrets,
        )
        # An error on the way out must not hide the one that led here.
        guard: contextlib.AbstractContextManager[None] = contextlib.suppress(HostError)
        left = False
        try:
            yield service
            guard = contextlib.nullcontext()
            if service.kept:
                process.let_go()
                left = True
        finally:
            with guard:
                if not left:
                    client.abort()
                    process.stop(place.host.stop_timeout_s)
                service.close()
                if not left:
                    _require_gone(place)


def url_through(host: Host, port: int) -> str:
    """Give the service's URL as reached from here: its own, or that of the tunnel to it."""
    if host.is_local:
        return host.url.rstrip("/")
    return f"{host.url.partition('://')[0]}://127.0.0.1:{port}"


def write_launch(place: Place, block_dir: Path, launch: Launch) -> None:
    """Write down what is about to be started, without its secrets."""
    private_folder(block_dir)
    document = place.secrets.hide_in(launch.shown())
    write_private(block_dir / "launch.json", msgspec.json.format(msgspec.json.encode(document)))


def _require_gone(place: Place) -> None:
    address = address_of(place.host)
    if not wait_until_free(place.shell, place.host, address):
        raise HostError(
            f"port {address.port} is still in use after the server was stopped",
            where=place.shell.name,
            hint="another process took it meanwhile, or the server left one behind",
        )
