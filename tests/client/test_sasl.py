"""The SCRAM exchange of all clients, of Kafka and of PostgreSQL: what a server may ask of it."""

import base64

import pytest

from strom.client.sasl import MAX_ITERATIONS, AuthenticationFailed, ScramExchange

SALT = base64.b64encode(b"salt" * 4).decode()


def respond(iterations):
    scram = ScramExchange(["SCRAM-SHA-256"], "ada", "lovelace")
    nonce = scram.first().decode().partition("r=")[2]
    return scram.respond(f"r={nonce}abc,s={SALT},i={iterations}".encode())


def test_a_usual_number_of_iterations_is_computed():
    assert b"p=" in respond(4096)


@pytest.mark.parametrize(
    "iterations", [MAX_ITERATIONS + 1, "9" * 30, "9" * 5000, "0", "-1", "1e3", "", "abc"]
)
def test_other_numbers_of_iterations_are_refused_before_they_are_computed(iterations):
    with pytest.raises(AuthenticationFailed, match="SCRAM authentication failed"):
        respond(iterations)
