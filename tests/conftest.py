"""Settings that every test shares."""

from hypothesis import HealthCheck, settings

# Two shared cores: a deadline would measure the neighbours. Derandomised: the same run everywhere.
settings.register_profile(
    "ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci")
