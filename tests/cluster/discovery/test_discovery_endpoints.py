"""The URLs of services: power, redirects, secrets, sizes and certificates."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from splitbrain.cluster.__main__ import main
from splitbrain.cluster.discovery import http as http_module
from splitbrain.cluster.discovery.consul import Consul
from splitbrain.cluster.discovery.etcd import Etcd
from splitbrain.cluster.discovery.http import Answer, Endpoint, Endpoints
from splitbrain.cluster.errors import ArgumentError, DiscoveryError
from splitbrain.cluster.real import RealClock
from tests.cluster.discovery.ill import N1, of_consul, play
from tests.cluster.discovery.services import (
    ConsulAgent,
    served,
)


class Machine:
    """One machine of a service: on, or without power, where a connection takes as long as one waits for it."""

    def __init__(self, *, on: bool) -> None:
        self.on = on
        self.waited: list[float] = []

    async def ask(self, method: str, target: str, body: object = None, timeout_s: float = 5.0) -> Answer:
        self.waited.append(timeout_s)
        if not self.on:
            raise DiscoveryError("no answer")
        return Answer(200, b'{"ID": "1", "succeeded": true, "result": {"TTL": "30"}}')


def test_endpoints_without_power_together_take_no_longer_than_one_and_are_not_asked_again() -> None:
    async def story() -> None:
        dead = [Machine(on=False), Machine(on=False)]
        lives = Machine(on=True)
        node = Etcd(Endpoints((*dead, lives)), N1)
        await node.register()
        await node.post_registration()
        assert [len(each.waited) for each in (*dead, lives)] == [1, 1, 3], "the one that answered is the first now"
        assert sum(each.waited[0] for each in (*dead, lives)) <= http_module.TIMEOUT_S
        lives.on, dead[0].on = False, True
        await node.post_registration()
        assert len(dead[0].waited) == 2

    play(story)


@pytest.mark.parametrize(
    "url",
    [
        "http://a..b:1",
        "http://[fe80::1:1",
        "localhost:1",
        "ftp://a:1",
        "http://",
        "http://a:x",
        "http://a:1/path",
        "http://a:1?q=1",
    ],
)
def test_what_is_no_url_of_a_service_is_refused(url: str) -> None:
    with pytest.raises(ArgumentError, match="--discovery-endpoint takes"):
        Endpoint(url)


@pytest.mark.parametrize(
    "url", ["http://me:hush@a:1", "http://me:hush/1@a:1", "http://hush@a:1/path", "me:hush@a:1", "http://a:1#hush"]
)
def test_a_url_with_a_password_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ArgumentError, match="--discovery-endpoint takes") as refused:
        Endpoint(url)
    assert "hush" not in str(refused.value)


def test_an_answer_without_end_is_an_error_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "ANSWER_MAX_BYTES", 1 << 18)
    sent = 0

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b"1000\r\n" + b" " * 0x1000 + b"\r\n")
                sent += 0x1000
                await writer.drain()
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        with pytest.raises(DiscoveryError, match="longer than 262,144 bytes"):
            await Endpoint(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}").ask("GET", "/")
        assert sent > 1 << 18
        server.close()

    play(story)


@pytest.mark.parametrize("status", [301, 307, 308])
def test_a_redirect_is_an_error_and_not_followed(status: int) -> None:
    async def story() -> None:
        async with served(ConsulAgent()) as service:
            service.ills.status = status
            with pytest.raises(DiscoveryError, match=f"status {status}"):
                await of_consul(service, N1).list_nodes()
            with pytest.raises(DiscoveryError, match=f"status {status}"):
                await of_consul(service, N1).register()
            assert len(service.asked) == 2

    play(story)


def test_a_host_header_has_brackets_where_an_address_has_colons() -> None:
    assert Endpoint("http://[fd00::1]:2379").authority == "[fd00::1]:2379"
    assert Endpoint("https://a").authority == "a:443"


@pytest.mark.parametrize("content", ["", "\n", "hush\nhush", "h\0ush", "h\x1bush", "husch\u00e9"])
@pytest.mark.parametrize("backend", ["consul", "k8s-api"])
def test_a_file_that_holds_no_token_is_refused_and_not_shown(
    backend: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    argv = ["--node", "n1", "--listen", "127.0.0.1:1", "--data", str(tmp_path / "data"), "--discovery", backend]
    argv += ["--discovery-nodes", "1", "--discovery-token-file", str(path)]
    argv += ["--discovery-namespace", "n", "--discovery-label", "l"] if backend == "k8s-api" else []
    argv += ["--discovery-endpoint", "http://127.0.0.1:1", "--discovery-retries", "0"]
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert f"--discovery-token-file: {path} holds no token" in said
    assert "hus" not in said


def test_certificates_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(ArgumentError, match="--discovery-ca-file /nowhere"):
        Endpoint("https://a:1", ca_file="/nowhere")


def certificate(folder: Path) -> Path:
    """A file with a key and a certificate of 127.0.0.1, which signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    begins = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begins)
        .not_valid_after(begins + datetime.timedelta(days=36500))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "service.pem"
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(private + made.public_bytes(pem))
    return path


def test_a_service_with_a_certificate_is_asked_if_that_is_trusted(tmp_path: Path) -> None:
    pem = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)

    async def story() -> None:
        async with served(ConsulAgent(), tls) as service:
            trusts = Consul(Endpoint(service.url, ca_file=str(pem)), RealClock(asyncio.get_running_loop()), N1)
            await trusts.register()
            assert (await trusts.list_nodes()).peers == (N1,)
            with pytest.raises(DiscoveryError, match="certificate"):
                await Endpoint(service.url).ask("GET", "/v1/health/service/splitbrain")

    play(story)
