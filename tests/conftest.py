"""Settings that every test shares."""

import signal

from hypothesis import HealthCheck, settings

# Two shared cores: a deadline would measure the neighbours. Derandomised: the same run everywhere.
settings.register_profile(
    "ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci")

# A shell's background job ignores Ctrl-C, and so would every program that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
