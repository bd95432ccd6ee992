"""A plug-in of SGLang: lets a CPU without AMX use the attention of `sgl_kernel`.

SGLang 0.5.23 uses its attention with trees only where the processor has AMX; its other attention
for CPUs cannot verify drafts. The operators of our `sgl_kernel` need no AMX, so SGLang is told,
through its own override, that there is some.
"""


def activate() -> None:
    """Register the operators and the override (called by SGLang)."""
    import sgl_kernel.attention  # noqa: F401, PLC0415  the import registers its operators
    from sglang.srt.runtime_context import override_platform  # noqa: PLC0415

    override_platform(has_amx=True).install()
