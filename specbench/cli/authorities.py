"""Whom this command trusts over https: the system's authorities, or those of a file."""

import os
import ssl
from pathlib import Path

from specbench.errors import InputError


def trust(file: Path | None) -> None:
    """Trust the authorities of a PEM file, in this process and in the load workers that it starts.

    None leaves SSL_CERT_FILE and SSL_CERT_DIR as they are, else the system's. Raises InputError.
    """
    if file is None:
        return
    try:
        ssl.create_default_context(cafile=str(file))
    except (OSError, ValueError) as error:
        raise InputError(
            f"no certificates can be read there: {getattr(error, 'strerror', None) or error}",
            where=str(file),
            hint="--ca-file takes a PEM file: -----BEGIN CERTIFICATE-----",
        ) from None
    os.environ["SSL_CERT_FILE"] = str(file)
