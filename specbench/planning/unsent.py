"""Settings of a matrix that a product's requests do not carry: a cell of them would be a lie."""

import msgspec

from specbench.backends.backend import Ask
from specbench.backends.products import backend_for
from specbench.errors import InputError
from specbench.model.load import Prompt, Sampling, SamplingOptions
from specbench.model.matrix import WorkloadOptions

_ANY = Prompt(prompt_id="any", text="any")


def unsent(engine: str, options: WorkloadOptions) -> str | None:
    """Say which sampling setting, not at its default, changes nothing in a request; else None."""
    backend = backend_for(engine)
    plain = Sampling()

    def body(sampling: Sampling) -> bytes:
        ask = Ask(prompt=_ANY, sampling=sampling, api=options.api, model="m")
        return backend.request(ask).body

    try:
        without = body(plain)
    except InputError:
        return None  # said where the API is checked
    for name in SamplingOptions.__struct_fields__:
        value = getattr(options, name)
        if value == getattr(plain, name):
            continue
        if body(msgspec.structs.replace(plain, **{name: value})) == without:
            return (
                f"requests of engine {backend.name} carry no {name}: {value!r} would change nothing"
            )
    return None
