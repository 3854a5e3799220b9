"""The API against its own description: schemathesis asks what the description allows, and what it does not."""

from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("schemathesis") is None, reason="schemathesis is not installed")


def asked(client, examples):
    """Ask each operation so often; return the number of answers."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings

    schema = schemathesis.openapi.from_url(f"{client.server.url}api/openapi.json")
    answers = []
    quick = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    for operation in schema.get_all_operations():
        for mode in schemathesis.GenerationMode:
            if operation.ok().path in ("/healthz", "/readyz") and mode.is_negative:
                continue  # nothing is asked there that could be wrong

            @quick
            @given(case=operation.ok().as_strategy(generation_mode=mode))
            def ask(case):
                answers.append(case.call_and_validate(base_url=client.server.url.rstrip("/")).status_code)

            ask()
    return answers


@pytest.mark.full
def test_answers_are_what_the_description_says(serving):
    answers = asked(serving(), 8)
    assert {200, 404} <= set(answers)
    assert max(answers) < 500


@pytest.mark.slow
def test_answers_are_what_the_description_says_at_length(serving):
    assert max(asked(serving(), 300)) < 500


def test_the_description_is_whole(serving):
    found = serving().get("/api/openapi.json").json()
    assert set(found["paths"]) == {
        "/healthz",
        "/readyz",
        "/api/streams",
        "/api/streams/{key}",
        "/api/streams/{key}/records",
    }
    for path in found["paths"].values():
        assert set(path) == {"get"}
        assert path["get"]["description"]
