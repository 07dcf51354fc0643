"""Settings of the server: the options of ``gattn serve``."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from gattn.apps.fitting.settings import Settings, SettingsError, Threads, document

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

SHORTEST_TOKEN = 16
"""Minimum number of characters of a token, so that it cannot be guessed."""


@document
@dataclass(frozen=True, kw_only=True)
class ServeSettings(Settings):
    """Settings of a server: its address, its limits and its processes.

    Attributes:
        {settings}

    Raises:
        SettingsError: a value is out of its range, or the token is too short.
        OSError: the file of the token cannot be read.
    """

    panel: ClassVar[str] = "Server"

    host: str = "127.0.0.1"
    """IP address of this machine on which the server listens, or localhost. If other machines can
    reach the address, every request must contain a token.
    """
    port: Annotated[int, Meta(ge=0, le=65535)] = 8000
    """TCP port on which the server listens. With 0, the system chooses a free port."""
    allowed_host: tuple[str, ...] = ()
    """Host name under which a proxy on this machine is reached, such as models.example.org.
    Requests through the proxy must contain a token. Repeat the option for several names.
    """
    token_file: str = ""
    """File with a secret of at least 16 characters that every request must contain. Without this
    option, a server that other machines can reach creates a token at each start and prints it once.
    """
    max_megabytes: Annotated[float, Meta(gt=0)] = 8.0
    """Maximum size of the body of a request, in megabytes (10^6 bytes). Raise it for larger CSV
    files.
    """
    max_rows: Annotated[int, Meta(ge=1)] = 10_000
    """Maximum number of molecules in a request. Raise it for larger CSV files."""
    max_atoms: Annotated[int, Meta(ge=1)] = 250
    """Maximum number of atoms of a molecule. The row of a larger molecule has an error instead of a
    prediction. Raise it for polymers.
    """
    max_characters: Annotated[int, Meta(ge=1)] = 4_000
    """Maximum number of characters of a SMILES or of the name of a node."""
    timeout: Annotated[float, Meta(gt=0)] = 60.0
    """Time in seconds after which a request is answered with an error. Raise it for large requests.
    """
    queue: Annotated[int, Meta(ge=1)] = 64
    """Maximum number of requests that are computed or waiting at the same time. If there are more,
    they are answered with the status 429.
    """
    workers: Annotated[int, Meta(ge=1)] = 2
    """Number of processes that predict molecules. With 1, the process of the server predicts, which
    needs the least memory.
    """
    threads: Threads = 0

    def check(self) -> None:
        """Check the address and the names of hosts, and read the token. Raises SettingsError for an
        address or a name that is not valid and for a token that is too short, and OSError if the
        file of the token cannot be read.
        """
        super().check()
        if self.host != "localhost" and self._ip is None:
            raise SettingsError(
                f"host must be an IP address of this machine, such as 0.0.0.0, or localhost; got "
                f"{self.host!r}"
            )
        for name in self.allowed_host:
            if not name or set(name) & set("/:@ "):
                raise SettingsError(
                    f"allowed_host must be a host name without a scheme or port; got {name!r}"
                )
        if self.token and len(self.token) < SHORTEST_TOKEN:
            raise SettingsError(
                f"the token in {self.token_file} must have at least {SHORTEST_TOKEN} characters; "
                f"got {len(self.token)}"
            )

    @cached_property
    def token(self) -> str:
        """Secret that every request must contain; "" if requests need none.

        It is not an option, because other users of this machine can read a command line. Without a
        file, a server that other machines can reach gets a random token. Raises SettingsError if
        the file is empty, and OSError if it cannot be read.
        """
        if self.token_file:
            token = Path(self.token_file).read_text("utf-8").strip()
            if not token:
                raise SettingsError(f"the file {self.token_file} of the token is empty")
            return token
        is_reachable = self.allowed_host or not self.is_local
        return secrets.token_urlsafe() if is_reachable else ""

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach the address."""
        return self.host == "localhost" or (self._ip is not None and self._ip.is_loopback)

    @property
    def is_every_address(self) -> bool:
        """True if the server listens on all addresses of this machine, as with 0.0.0.0."""
        return self._ip is not None and self._ip.is_unspecified

    @property
    def _ip(self) -> IPv4Address | IPv6Address | None:
        """The address as an object; None if it is no IP address."""
        # The import is inside the function, because every command imports this module.
        import ipaddress

        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def max_bytes(self) -> int:
        """Maximum size of a request body, in bytes."""
        return int(self.max_megabytes * 1e6)
