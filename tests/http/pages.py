"""What a web page of another site can have a browser send to a server on this machine."""

import http.client
import json
from typing import NamedTuple
from urllib.parse import urlsplit

EVIL = "http://evil.example"


class Response(NamedTuple):
    status: int
    body: object


def send(url, method="GET", path="/", body=None, **headers):
    """Send exactly these headers, and Host as the URL has it unless it is among them."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        fields = {"Host": address.netloc} | {k.replace("_", "-"): v for k, v in headers.items()}
        if body is not None:
            fields["Content-Length"] = str(len(body))
        for name, value in fields.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        text = response.read()
        return Response(response.status, json.loads(text) if text else None)
    finally:
        connection.close()


def check_foreign_pages_are_refused(url, read, write, body, **headers):
    """The server at `url` refuses a page's requests to `read` (GET) and `write` (POST)."""
    port = urlsplit(url).port

    def status(method, path, body=None, **more):
        return send(url, method, path, body, **headers, **more).status

    simple = {"Content_Type": "text/plain;charset=UTF-8"}
    assert status("POST", write, body, Origin=EVIL, **simple) == 403
    assert status("POST", write, body, Origin="null", **simple) == 403
    assert status("POST", write, body, **simple) == 415
    assert status("POST", write, body) == 415
    as_json = {"Content_Type": "application/json"}
    assert status("POST", write, body, Origin=EVIL, **as_json) == 403
    assert status("OPTIONS", write, Origin=EVIL, Access_Control_Request_Method="POST") == 403
    assert status("GET", read, Sec_Fetch_Site="cross-site") == 403
    for host in (f"evil.example:{port}", "evil.example", f"evil.localhost:{port}"):
        assert status("GET", read, Host=host) == 403
        assert status("POST", write, body, Host=host, Origin=f"http://{host}", **as_json) == 403
    assert status("GET", read, Host="::1") == 400
    for host in (f"localhost:{port}", f"LOCALHOST.:{port}", "localhost", f"[::1]:{port}"):
        assert status("GET", read, Host=host) == 200
        assert status("GET", read, Host=host, Origin=f"http://{host}") == 200
