"""The base URL that a user gives, before any path is put behind it."""

from urllib.parse import urlsplit

from specbench.errors import InputError


def base_url(url: str) -> str:
    """Return the URL that paths such as /v1/models are put behind; a final /v1 is theirs.

    Raises InputError for what would otherwise be dropped: a query, a fragment, or a user and a
    password.
    """
    try:
        split = urlsplit(url)
    except ValueError as error:
        raise InputError(f"not a URL: {url.rpartition('@')[2]!r:.80}: {error}") from None
    if "@" in split.netloc:
        raise InputError(
            "a URL of a server holds no user and no password",
            where=f"{split.scheme}://***@{split.netloc.rpartition('@')[2]}",
            hint="give the variable that holds the key: --api-key-env NAME, or api_key: ${NAME}",
        )
    if split.query or split.fragment:
        raise InputError(
            f"the base URL of a server has neither query nor fragment: {url!r:.200}",
            hint="give it up to the path before /v1",
        )
    return url.rstrip("/").removesuffix("/v1").rstrip("/")
