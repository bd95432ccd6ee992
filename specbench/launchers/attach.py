"""A server that already runs and belongs to someone else: measured, never touched."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from specbench.backends.client import ControlClient, recognise
from specbench.backends.products import ANYTHING, DEFAULT, backend_for
from specbench.errors import HostError
from specbench.hosts.command import address_of
from specbench.launchers.context import LaunchContext, Place
from specbench.launchers.service import RunningService
from specbench.launchers.serving import url_through
from specbench.model.plan import LaunchSpec
from specbench.model.service import END_UNKNOWN
from specbench.recording.durable import private_folder, write_private

ALIVE_S, SILENT_S, CANARY_S = 10.0, 20.0, 20.0
"""A server that runs already is not waited for as one that loads."""


class AttachLauncher:
    """Measure a running server. It is not started, stopped, or asked to end others' requests."""

    def __init__(self, place: Place) -> None:
        self.host = place.host
        self._shell = place.shell
        self._place = place

    @contextlib.contextmanager
    def running(
        self, spec: LaunchSpec, block_dir: Path, context: LaunchContext
    ) -> Iterator[RunningService]:
        """Hand out the running server; leave it as it is."""
        address = address_of(self.host)
        private_folder(block_dir)
        note = {"attached": self.host.url, "argv": None}
        content = msgspec.json.format(msgspec.json.encode(note))
        write_private(block_dir / "launch.json", content)
        with self._shell.forward(address.host, address.port) as port:
            url = url_through(self.host, port)
            backend = backend_for(spec.engine)
            with ControlClient(url, backend, api_key=self.host.api_key) as client:
                self._require_answer(client)
                self._refuse_another_product(spec, url)
                with context.sampled(None) as telemetry:
                    yield RunningService(
                        spec=spec,
                        url=url,
                        process=StrangerProcess(client),
                        client=client,
                        block_dir=block_dir,
                        mirror=False,
                        tunnelled=self._place.tunnelled,
                        patience=msgspec.structs.replace(
                            self._place.patience, silent_s=SILENT_S, canary_timeout_s=CANARY_S
                        ),
                        history=self._place.history,
                        context=context,
                        telemetry=telemetry,
                        secrets=self._place.secrets,
                    )

    def _require_answer(self, client: ControlClient) -> None:
        reply = client.alive(timeout_s=ALIVE_S)
        if not reply.status:
            raise HostError(
                f"no server answers at {self.host.url}: {reply.body.decode(errors='replace')}",
                where=self._shell.name,
                hint="launcher: attach measures a server that runs already: start it first",
            )

    def _refuse_another_product(self, spec: LaunchSpec, url: str) -> None:
        """Refuse a server of a known product where the matrix names none and so means another.

        Its counters would not be read, and one that speculates would pass for a plain one.
        """
        if spec.engine:
            return
        found = recognise(url, api_key=self.host.api_key).name
        if found not in (DEFAULT, ANYTHING):
            raise HostError(
                f"the server at {self.host.url} is {found}, and a matrix that names no engine means"
                f" {DEFAULT}",
                where=self._shell.name,
                hint=f"write server: {{engine: {found}}} in the matrix",
            )

    def restore(self) -> tuple[str, ...]:
        """Nothing was started, so nothing is put back."""
        return ()

    def python_path(self) -> str:
        """Return nothing: nothing is put into its environment."""
        return ""

    def close(self) -> None:
        """Give up the connection to the host."""
        self._shell.close()


class NoLog:
    """A log that cannot be read."""

    def read(self) -> bytes:
        """Return nothing."""
        return b""


class StrangerProcess:
    """A process of which only the port is known."""

    def __init__(self, client: ControlClient) -> None:
        self._client = client
        self.log = NoLog()

    @property
    def pid(self) -> int | None:
        """Unknown."""
        return None

    @property
    def started_at(self) -> str | None:
        """Unknown."""
        return None

    def ended(self) -> int | None:
        """Return END_UNKNOWN once nobody listens any more."""
        return END_UNKNOWN if self._client.alive(timeout_s=5.0).refused else None

    def work(self) -> float | None:
        """Unknown."""
        return None

    def listens(self) -> bool | None:
        """Unknown."""
        return None

    def sees(self, folders: Sequence[str]) -> bool | None:
        """Unknown: nothing is put into its environment."""
        del folders
        return None

    def environment(self) -> Mapping[str, str]:
        """Nothing is known of its environment."""
        return {}
