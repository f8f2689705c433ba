"""Whether a document is as `docs/load-schema.json` says: the part of JSON Schema that this one uses, and an error for any other."""

import json
from pathlib import Path

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "docs/load-schema.json").read_text())
KNOWN = {"$schema", "$id", "$defs", "$ref", "title", "description", "type", "properties", "required", "additionalProperties", "items",
         "enum", "const", "minimum", "maximum"}
TYPES = {"null": type(None), "boolean": bool, "integer": int, "number": (int, float), "string": str, "array": list, "object": dict}


def problems(document):
    """What is wrong with it, each with its place."""
    return list(check(SCHEMA, document, ""))


def check(schema, value, place):
    assert set(schema) <= KNOWN, f"unknown words in the schema: {set(schema) - KNOWN}"
    if "$ref" in schema:
        return (yield from check(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], value, place))
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_of(value, name) for name in types):
        yield f"{place}: {value!r} is none of {types}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{place}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is none of {schema['enum']}"
    if is_of(value, "number") and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{place}: {value} is out of bounds"
    for index, item in enumerate(value if isinstance(value, list) else ()):
        yield from check(schema.get("items", {}), item, f"{place}[{index}]")
    if isinstance(value, dict):
        yield from (f"{place}: {name} is missing" for name in schema.get("required", ()) if name not in value)
        for name, member in value.items():
            own = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            if own is False:
                yield f"{place}: {name} is not in the schema"
            elif own is not True:
                yield from check(own, member, f"{place}.{name}")


def is_of(value, name):
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))
