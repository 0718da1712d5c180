"""A server in a thread of this process, and what clients do."""

import http.client
import json
import socket
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import uvicorn

from fastmos.serve.app import create_app
from fastmos.serve.limits import Limits
from fastmos.serve.metrics import Metrics
from fastmos.serve.models import Served
from fastmos.serve.server import configure, listen


class Answered(NamedTuple):
    """A status, the message of a JSON body (or its text), and headers in lower case."""

    status: int
    message: Any
    headers: Mapping[str, str]


class Client:
    """Asks the server at a port of this machine, each time over a new connection."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> Answered:
        return self.send("GET", path, None, {})

    def post(self, path: str, message: Any) -> Answered:
        return self.send("POST", path, json.dumps(message).encode(), {"content-type": "application/json"})

    def send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answered:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            content = response.read()
            found = {name.lower(): value for name, value in response.getheaders()}
            is_json = found.get("content-type", "").startswith("application/json")
            return Answered(response.status, json.loads(content) if is_json else content.decode(), found)
        finally:
            connection.close()

    def upload(self, data: bytes, fields: Mapping[str, str] | None = None, name: str = "image") -> Answered:
        """A form with a file."""
        border = uuid.uuid4().hex
        parts = [
            f'--{border}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
            for key, value in (fields or {}).items()
        ]
        head = f'--{border}\r\nContent-Disposition: form-data; name="{name}"; filename="/secret/x.png"\r\n'
        parts += [head.encode(), b"Content-Type: image/png\r\n\r\n", data, f"\r\n--{border}--\r\n".encode()]
        return self.send(
            "POST", "/caption", b"".join(parts), {"content-type": f"multipart/form-data; boundary={border}"}
        )

    def raw(self, data: bytes, seconds: float = 20.0) -> bytes:
        """Whatever comes back to these bytes until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(data)
            found = b""
            while part := connection.recv(65536):
                found += part
            return found


class Running(Client):
    """A server in a thread, from entering to leaving."""

    def __init__(self, served: Sequence[Served], limits: Limits) -> None:
        self.metrics = Metrics()
        self._socket = listen("127.0.0.1", 0)
        super().__init__(self._socket.getsockname()[1])
        app = create_app(served, limits, self.metrics)
        self._server = uvicorn.Server(configure(app, limits))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))

    def __enter__(self) -> Self:
        self._thread.start()
        begin = time.monotonic()
        while not self._server.started:
            assert time.monotonic() - begin < 30
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
