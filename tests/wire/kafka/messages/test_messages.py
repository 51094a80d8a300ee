from strom.wire.kafka.messages import REQUESTS, RESPONSES
from strom.wire.kafka.schema import Request, Response


def test_every_request_has_its_response_in_the_same_versions():
    assert REQUESTS.keys() == RESPONSES.keys()
    for api_key, request in REQUESTS.items():
        response = RESPONSES[api_key]
        assert issubclass(request, Request)
        assert issubclass(response, Response)
        assert request.__name__.removesuffix("Request") == response.__name__.removesuffix(
            "Response"
        )
        assert request.SCHEMA._replace(fields=()) == response.SCHEMA._replace(fields=())


def test_every_module_is_named_after_its_api_key():
    for api_key, request in REQUESTS.items():
        module = request.__module__.rpartition(".")[2]
        assert module.startswith(f"k{api_key:02}_")
        assert RESPONSES[api_key].__module__ == request.__module__
