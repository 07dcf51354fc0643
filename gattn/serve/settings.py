"""Settings of the server: the options of ``gattn serve``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from gattn.training.settings import Settings, SettingsError, Threads, document

__all__ = ["ServeSettings"]

SHORTEST_TOKEN = 16
"""Minimum number of characters of a token, so that it cannot be guessed."""


@document
@dataclass(frozen=True, kw_only=True)
class ServeSettings(Settings):
    """Settings of a server: its address, its limits and its processes.

    Attributes:
        {settings}

    Raises:
        SettingsError: a value is out of its range, or the server would listen beyond this machine
            without a token.
    """

    panel: ClassVar[str] = "Server"

    host: Annotated[
        str,
        Meta(
            description="Address to listen on. An address beyond this machine needs --token, "
            "because the connection is not encrypted."
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="Port to listen on; 0 chooses a free one.")
    ] = 8000
    token: Annotated[
        str,
        Meta(
            description="Secret of at least 16 characters that every request must present. Set it "
            "if other people can reach the address."
        ),
    ] = ""
    max_megabytes: Annotated[
        float, Meta(gt=0, description="Largest body of a request, in MB of 10^6 bytes.")
    ] = 8.0
    max_rows: Annotated[
        int, Meta(ge=1, description="Largest number of molecules of a request.")
    ] = 10_000
    max_atoms: Annotated[
        int, Meta(ge=1, description="Molecules with more atoms than this are errors of their row.")
    ] = 250
    max_characters: Annotated[
        int, Meta(ge=1, description="Largest number of characters of a SMILES or a node's name.")
    ] = 4_000
    timeout: Annotated[
        float, Meta(gt=0, description="Seconds after which a request is answered by an error.")
    ] = 60.0
    queue: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of requests that are computed or wait; further ones are answered "
            "by the status 429.",
        ),
    ] = 64
    workers: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of processes that predict molecules. With 1, the process of the "
            "server predicts, which needs the least memory.",
        ),
    ] = 2
    threads: Threads = 0

    def check(self) -> None:
        """Check that a server beyond this machine has a token, and that a token is long enough."""
        super().check()
        if self.token and len(self.token) < SHORTEST_TOKEN:
            raise SettingsError(
                f"token must have at least {SHORTEST_TOKEN} characters; got {len(self.token)}"
            )
        if not self.is_local and not self.token:
            raise SettingsError(
                f"host {self.host} can be reached from other machines: set --token to a secret of "
                f"at least {SHORTEST_TOKEN} characters, or listen on 127.0.0.1"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        import ipaddress  # here, because every command imports this module

        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def max_bytes(self) -> int:
        """Largest body of a request in bytes."""
        return int(self.max_megabytes * 1e6)
