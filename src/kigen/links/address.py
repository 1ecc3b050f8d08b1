"""Where a server listens and who may talk to it. Loopback needs nothing; any other address needs a token and TLS, on both sides.

Invariant: no byte leaves the machine in the clear, and no server that others can reach answers without the token.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path

from kigen.links.errors import LinkRefused

_SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Security:
    """`token`: shared by both sides. The server brings a certificate and its key (PEM), the client the roots it trusts (PEM)."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    roots: bytes = b""

    def __repr__(self) -> str:  # keys and tokens do not belong into logs
        given = [name for name in ("token", "certificate", "key", "roots") if getattr(self, name)]
        return f"Security({', '.join(given) or 'none'})"

    @staticmethod
    def from_files(
        token: Path | None = None, certificate: Path | None = None, key: Path | None = None, roots: Path | None = None
    ) -> Security:
        def data(path: Path | None) -> bytes:
            return b"" if path is None else path.read_bytes()

        return Security(data(token).decode().strip(), data(certificate), data(key), data(roots))


@dataclass(frozen=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @staticmethod
    def parse(text: str) -> Address:
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdigit() or int(port) > 65535:
            raise LinkRefused(f"address '{text}': host:port is required, for example 127.0.0.1:7070")
        return Address(host, int(port))

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            pass
        try:
            found = socket.getaddrinfo(self.host, None)
        except OSError as error:
            raise LinkRefused(f"address '{self}': the host is not known: {error}") from error
        return all(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in found)


def may_serve(address: Address, security: Security) -> bool:
    """Whether TLS is used; raises where it must be and cannot."""
    tls = bool(security.certificate and security.key)
    if bool(security.certificate) != bool(security.key):
        raise LinkRefused("TLS needs a certificate and its key: give both or neither")
    _check(address, security, tls, "a certificate with its key")
    return tls


def may_connect(address: Address, security: Security) -> bool:
    tls = bool(security.roots)
    _check(address, security, tls, "the root certificates that the server's is signed by")
    return tls


def _check(address: Address, security: Security, tls: bool, what: str) -> None:
    if security.token and len(security.token) < _SHORTEST_TOKEN:
        raise LinkRefused(f"the token has {len(security.token)} characters: at least {_SHORTEST_TOKEN} are required")
    if address.is_loopback or (tls and security.token):
        return
    missing = " and ".join(([] if security.token else ["a token"]) + ([] if tls else [f"TLS ({what})"]))
    raise LinkRefused(f"address {address} is not loopback: {missing} required; or use 127.0.0.1")
