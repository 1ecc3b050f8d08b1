"""Address of a server, and the credentials of a link. Every server has a token; beyond loopback both sides need TLS,
too.

Invariant: no byte leaves the machine unencrypted, and no server answers without a token (`tokens` says which role may
do what).
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
    """Credentials of one side of a link.

    `token` is the secret that both sides share, or (`derived`) the token of one role. The server also has a certificate
    and its key (PEM), the client the root certificates that it trusts (PEM).
    """

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    roots: bytes = b""
    role: str = OPERATOR  # role that a client takes
    derived: bool = False

    def as_role(self, role: str) -> Security:
        """Returns the same credentials for calls as that role. The holder of the secret may take any role."""
        return replace(self, role=role) if not self.derived else self

    def only(self, role: str) -> Security:
        """Returns what is needed to call as that role, and nothing else: neither the secret nor the key."""
        return Security(self._role_token(role) if self.token else "", roots=self.roots, role=role, derived=True)

    @property
    def bearer(self) -> str:
        """Authorization header of a call; empty without a token."""
        return f"Bearer {self.role}:{self._role_token(self.role)}" if self.token else ""

    def _role_token(self, role: str) -> str:
        if not self.derived:
            return token_of(self.token, role)
        if role != self.role:
            raise LinkRefused(f"the token belongs to the role '{self.role}'; a token of '{role}' is required")
        return self.token

    def __repr__(self) -> str:  # keys and tokens must not appear in logs
        given = [name for name in ("token", "certificate", "key", "roots") if getattr(self, name)]
        return f"Security({', '.join(given) or 'none'})"

    @staticmethod
    def from_files(
        token: Path | None = None, certificate: Path | None = None, key: Path | None = None, roots: Path | None = None
    ) -> Security:
        """Reads the credentials from files. Secret files must not be readable by others."""

        def data(path: Path | None) -> bytes:
            return b"" if path is None else path.read_bytes()

        if key is not None:
            require_private(key)
        return Security("" if token is None else read_secret(token), data(certificate), data(key), data(roots))


@dataclass(frozen=True)
class Address:
    """Host and port of a server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @staticmethod
    def parse(text: str) -> Address:
        """Parses `host:port`, also with an IPv6 host in brackets."""
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdigit() or int(port) > 65535:
            raise LinkRefused(f"address '{text}': write host:port, for example 127.0.0.1:7070")
        return Address(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether all addresses of the host are loopback."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            pass
        try:
            found = socket.getaddrinfo(self.host, None)
        except OSError as error:
            raise LinkRefused(f"address '{self}': the host is unknown: {error}") from error
        return all(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in found)


def may_serve(address: Address, security: Security) -> bool:
    """Returns whether the server uses TLS. Raises LinkRefused if it must and cannot."""
    tls = bool(security.certificate and security.key)
    if bool(security.certificate) != bool(security.key):
        raise LinkRefused("TLS needs a certificate and its key: give both or neither")
    _check(address, security, tls, "a certificate with its key")
    return tls


def may_connect(address: Address, security: Security) -> bool:
    """Returns whether the client uses TLS. Raises LinkRefused if it must and cannot."""
    tls = bool(security.roots)
    _check(address, security, tls, "the root certificates that signed the server's certificate")
    return tls


def _check(address: Address, security: Security, tls: bool, what: str) -> None:
    if security.token and len(security.token) < SHORTEST_SECRET:
        raise LinkRefused(f"the token has {len(security.token)} characters: at least {SHORTEST_SECRET} are required")
    if address.is_loopback or (tls and security.token):
        return
    missing = " and ".join(([] if security.token else ["a token"]) + ([] if tls else [f"TLS ({what})"]))
    raise LinkRefused(f"address {address} is not loopback: {missing} required; or use 127.0.0.1")
