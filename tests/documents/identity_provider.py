"""A token endpoint in a process of its own; the client's id says how it answers.

``python -m tests.documents.identity_provider`` prints its port, and then a line for each request.
"""

import base64
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qs, unquote_plus

SECRET = "a client's secret: %/+ü"
NUMBERS = count(1)
SLOW_SECONDS = 0.2
BOMB = b"[" * 60_000


class Endpoint(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        kind, _, given = base64.b64decode(self.headers["Authorization"][6:]).decode().partition(":")
        id, secret = unquote_plus(kind), unquote_plus(given)
        print(f"{self.path} {id} {form.get('scope')}", flush=True)
        if form["grant_type"] != ["client_credentials"] or secret != SECRET:
            said = {"error": "invalid_client", "error_description": f"\x1b[31m{secret} is wrong"}
            return self.reply(401, said)
        answers: dict[str, tuple[int, Any]] = {
            "page": (200, b"<html>log in"), "list": (200, []), "bomb": (200, BOMB),
            "no token": (200, {"expires_in": 9}), "busy": (429, {}), "down": (503, b"<html>"),
            "two lines": (200, {"access_token": "a\r\nX-Evil: 1", "expires_in": 9}),
            "no number": (200, {"access_token": "a", "expires_in": "soon"}),
            "nan": (200, b'{"access_token": "a", "expires_in": NaN}'),
            "huge": (200, b'{"access_token": "' + b"a" * 1_000_000 + b'"}'),
            "moved": (302, b""), "elsewhere": (404, b"<html>"),
        }  # fmt: skip
        token = {"access_token": f"token-{next(NUMBERS)}", "token_type": "Bearer"}
        life = {} if id == "endless" else {"expires_in": 100 if id == "number" else "100"}
        self.reply(*answers.get(id, (200, token | life)), slow=id == "slow")

    def reply(self, status: int, body: Any, *, slow: bool = False) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        for at in range(len(data)):
            self.wfile.write(data[at : at + 1] if slow else data)
            if not slow:
                return
            time.sleep(SLOW_SECONDS)

    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        print(server.server_port, flush=True)
        server.serve_forever()
