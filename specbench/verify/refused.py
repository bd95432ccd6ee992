"""The refusal of a server: an ability that it does not have."""


class Refused(Exception):
    """The server answered and refused: a capability that it does not have. `status` is HTTP's."""

    def __init__(self, status: int, what: str) -> None:
        super().__init__(f"HTTP {status}: {what}")
        self.status = status
