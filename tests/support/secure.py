"""A broker that wants TLS and a password: certificates, users and their rights, made here.

The second listener speaks SASL_SSL; on the first everybody is a super user, and a test rules
from there.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

MECHANISM = "SCRAM-SHA-512"
ITERATIONS = 4096
CALL_SECONDS = 30
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
"""A key of RSA takes a hundred times longer to find."""


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority in a directory."""

    directory: Path

    @property
    def certificate(self) -> Path:
        return self.directory / "ca.pem"

    @classmethod
    def made(cls, directory: Path) -> Authority:
        authority = cls(directory)
        key = directory / "ca.key"
        _openssl(
            "req", "-x509", *KEY, "-nodes", "-subj", "/CN=test authority",
            "-days", 2, "-keyout", key, "-out", authority.certificate,
        )  # fmt: skip
        return authority

    def issue(self, name: str, *, days: int = 2) -> Path:
        """Return a PEM file with a key and a certificate for loopback; expired if *days* < 0."""
        place = self.directory / name
        key, request, extensions = (place.with_suffix(each) for each in (".key", ".csr", ".ext"))
        extensions.write_text("subjectAltName=IP:127.0.0.1\n")
        # A running broker takes no certificate with another subject than its first.
        _openssl(
            "req", *KEY, "-nodes", "-subj", "/CN=broker",
            "-keyout", key, "-out", request,
        )  # fmt: skip
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.certificate, "-CAcreateserial",
            "-CAkey", self.directory / "ca.key", "-days", days, "-extfile", extensions,
            "-out", place.with_suffix(".crt"),
        )  # fmt: skip
        whole = place.with_suffix(".pem")
        whole.write_text(key.read_text() + place.with_suffix(".crt").read_text())
        return whole

    def issue_encrypted(self, name: str, password: str) -> tuple[Path, Path]:
        """Return a key that only *password* opens, and its certificate."""
        self.issue(name)
        place = self.directory / name
        encrypted = place.with_suffix(".encrypted")
        _openssl(
            "pkey", "-in", place.with_suffix(".key"), "-aes256", "-passout", f"pass:{password}",
            "-out", encrypted,
        )  # fmt: skip
        return encrypted, place.with_suffix(".crt")


def dresses(secret: bytes) -> set[bytes]:
    """Return how *secret* may look where it must not be: raw, in hexadecimal, in base64."""
    standard, safe = base64.b64encode(secret), base64.urlsafe_b64encode(secret)
    return {secret, secret.hex().encode(), standard.rstrip(b"="), safe.rstrip(b"=")}


def secure_properties(
    keystore: Path, authority: Path, *, certified: int, bearer: int
) -> dict[str, str]:
    """Return what makes a broker's second listener one of SASL_SSL, with ACLs.

    On the port *certified* it wants a certificate of the *authority* instead, and on *bearer* an
    unsecured token: super users, too.
    """
    name, module = "listener.name.", "org.apache.kafka.common.security"
    ports = {"PLAINTEXT": "$port", "PROXIED": "$proxied_port"}
    ports |= {"CERTIFIED": str(certified), "BEARER": str(bearer)}
    open_to = ",".join(f"{each}://127.0.0.1:{port}" for each, port in ports.items())
    return {
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,PROXIED:SASL_SSL,CONTROLLER:PLAINTEXT,CERTIFIED:SSL,"
            "BEARER:SASL_PLAINTEXT"
        ),
        "listeners": f"{open_to},CONTROLLER://127.0.0.1:$controller_port",
        "advertised.listeners": open_to,
        f"{name}proxied.sasl.enabled.mechanisms": MECHANISM,
        f"{name}proxied.{MECHANISM.lower()}.sasl.jaas.config": (
            f"{module}.scram.ScramLoginModule required;"
        ),
        f"{name}proxied.ssl.keystore.type": "PEM",
        f"{name}proxied.ssl.keystore.location": str(keystore),
        f"{name}certified.ssl.client.auth": "required",
        f"{name}certified.ssl.keystore.type": "PEM",
        f"{name}certified.ssl.keystore.location": str(keystore),
        f"{name}certified.ssl.truststore.type": "PEM",
        f"{name}certified.ssl.truststore.location": str(authority),
        f"{name}bearer.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{name}bearer.oauthbearer.sasl.jaas.config": (
            f"{module}.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker";'
        ),
        f"{name}bearer.connections.max.reauth.ms": "3000",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:CN=broker;User:filter",
    }


def set_password(bootstrap: str, user: str, password: str) -> None:
    """Create *user*, or give it another password."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    wanted = UserScramCredentialUpsertion(user, how, password.encode())
    for future in admin.alter_user_scram_credentials([wanted]).values():
        future.result(CALL_SECONDS)


@dataclass(frozen=True, slots=True)
class Right:
    """What a user may do."""

    kind: ResourceType
    name: str
    operation: AclOperation

    def __str__(self) -> str:
        return f"{self.operation.name} on {self.kind.name} {self.name}"

    def binding(self, user: str) -> AclBinding:
        return AclBinding(
            self.kind, self.name, ResourcePatternType.LITERAL, f"User:{user}", "*",
            self.operation, AclPermissionType.ALLOW,
        )  # fmt: skip


def grant(bootstrap: str, user: str, rights: Iterable[Right]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_acls([right.binding(user) for right in rights]).values():
        future.result(CALL_SECONDS)


def revoke(bootstrap: str, user: str, rights: Sequence[Right]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    filters = [
        AclBindingFilter(
            right.kind, right.name, ResourcePatternType.LITERAL, f"User:{user}", None,
            right.operation, AclPermissionType.ALLOW,
        )
        for right in rights
    ]  # fmt: skip
    for future in admin.delete_acls(filters).values():
        assert future.result(CALL_SECONDS), "nothing was revoked"
