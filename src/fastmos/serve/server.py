"""The process: load runs, listen, serve until a signal, answer what waits, end."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from fastmos.errors import InputError
from fastmos.serve.app import create_app
from fastmos.serve.limits import Limits
from fastmos.serve.metrics import Metrics
from fastmos.serve.models import load_served

CONNECTIONS = 1000  # open at once; more get 503
HEAD_SECONDS = 10.0  # in which the head of a request has to arrive


class Patient(H11Protocol):
    """HTTP/1.1 that does not wait for ever for the head of a request."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(HEAD_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._in_time()
        elif self._late is None and self.conn.trailing_data[0]:  # a head has begun
            self._late = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class Server(uvicorn.Server):
    """Ends with exit code 0 when a signal has asked for it; a second Ctrl-C does not wait for answers."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def serve(runs: Sequence[Path], host: str, port: int, device: str | None, limits: Limits, examples: bool) -> None:
    """Serve runs until a signal ends it."""
    listening = listen(host, port)  # first, so that a port in use is said before the runs are loaded
    served = load_served(runs, device, examples)
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    metrics = Metrics()
    app = create_app(served, limits, metrics)
    names = ", ".join(one.name for one in served)
    shown = f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{listening.getsockname()[1]} serves {names}; Ctrl-C ends", flush=True)
    Server(configure(app, limits)).run([listening])
    print(f"answered {metrics.requests:,} requests", flush=True)


def configure(app: ASGIApp, limits: Limits) -> uvicorn.Config:
    """How the application is run."""
    return uvicorn.Config(
        app,
        http=Patient,
        ws="none",
        lifespan="on",
        log_level="error",  # what is wrong with a request is said to its client
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(limits.seconds) + 5,
    )


def listen(host: str, port: int) -> socket.socket:
    """A socket at this address."""
    if not 0 <= port <= 65535:
        raise InputError(f"port {port} does not exist; give one up to 65535")
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=1024)
    except UnicodeError:  # of names that no host can have
        raise InputError(f"'{host}' is no name or address of a host; give another --host") from None
    except OSError as error:
        said = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
        raise InputError(
            f"cannot listen at {host}, port {port} ({said.lower()}); give another --host or --port"
        ) from None
