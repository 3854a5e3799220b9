"""Records as the JSON that others read: the schema that is published holds for them."""

from jsonschema.validators import validator_for

from driftline.monitor import RECORD_SCHEMA

_KIND = validator_for(RECORD_SCHEMA)
_KIND.check_schema(RECORD_SCHEMA)
_VALIDATOR = _KIND(RECORD_SCHEMA)


def validate(record):
    """Raise an error unless a Record's JSON follows the schema; ``jsonschema.validate`` checks that one each time."""
    _VALIDATOR.validate(record)
