"""Where a server listens and who may talk to it. Every server has a token; any address but loopback needs TLS, too, on
both sides.

Invariant: no byte leaves the machine in the clear, and no server answers without a token (`tokens`: whose may do what).
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass, replace
from pathlib import Path

from kigen.links.errors import LinkRefused
from kigen.links.flight.tokens import OPERATOR, SHORTEST_SECRET, read_secret, require_private, token_of


@dataclass(frozen=True)
class Security:
    """`token`: the secret that both sides share, or (`derived`) the token of one role. The server brings a certificate
    and its key (PEM), the client the roots it trusts (PEM)."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    roots: bytes = b""
    role: str = OPERATOR  # that a client takes
    derived: bool = False

    def as_role(self, role: str) -> Security:
        """The same, calling as that role. Who holds the secret may be anybody."""
        return replace(self, role=role) if not self.derived else self

    def only(self, role: str) -> Security:
        """What is needed to call as that role, and nothing else: neither the secret nor the key."""
        return Security(self._role_token(role) if self.token else "", roots=self.roots, role=role, derived=True)

    @property
    def bearer(self) -> str:
        """What a call carries; empty without a token."""
        return f"Bearer {self.role}:{self._role_token(self.role)}" if self.token else ""

    def _role_token(self, role: str) -> str:
        if not self.derived:
            return token_of(self.token, role)
        if role != self.role:
            raise LinkRefused(f"a token of the role '{self.role}' is there; one of '{role}' is required")
        return self.token

    def __repr__(self) -> str:  # keys and tokens do not belong into logs
        given = [name for name in ("token", "certificate", "key", "roots") if getattr(self, name)]
        return f"Security({', '.join(given) or 'none'})"

    @staticmethod
    def from_files(
        token: Path | None = None, certificate: Path | None = None, key: Path | None = None, roots: Path | None = None
    ) -> Security:
        def data(path: Path | None) -> bytes:
            return b"" if path is None else path.read_bytes()

        if key is not None:
            require_private(key)
        return Security("" if token is None else read_secret(token), data(certificate), data(key), data(roots))


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
    if security.token and len(security.token) < SHORTEST_SECRET:
        raise LinkRefused(f"the token has {len(security.token)} characters: at least {SHORTEST_SECRET} are required")
    if address.is_loopback or (tls and security.token):
        return
    missing = " and ".join(([] if security.token else ["a token"]) + ([] if tls else [f"TLS ({what})"]))
    raise LinkRefused(f"address {address} is not loopback: {missing} required; or use 127.0.0.1")
