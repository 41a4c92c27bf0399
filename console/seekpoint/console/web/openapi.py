"""The OpenAPI document of the API, made from the declarations of its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from seekpoint.console.web.failures import ErrorAnswer

if TYPE_CHECKING:
    from seekpoint.console.web.route_declarations import Operation

_TEMPLATE = "#/components/schemas/{name}"
_STATUSES = {
    400: "The query or the body is not valid.",
    401: "Nobody is signed in.",
    403: "The role does not allow it, or the CSRF token is missing.",
    404: "There is no such process, or no such moment in its past.",
    409: "The journal refuses it, or its state does not allow it.",
    410: "The requested entries were deleted from the log.",
    413: "The body is too large.",
    421: "The console does not answer for this host.",
    503: "Kafka or Redis does not answer.",
}
_OF_ALL = (400, 401, 403, 421, 503)


def openapi_document(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    """Return the document, as OpenAPI 3.1."""
    types: list[Any] = [ErrorAnswer]
    for one in operations:
        types += [one.answer, one.query, *([] if one.body is None else [one.body])]
    schemas, components = msgspec.json.schema_components(types, ref_template=_TEMPLATE)
    by_type = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, Any] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _described(one, by_type, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Seekpoint console", "version": version, "description": "Reads and controls a journal."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _described(one: Operation, by_type: dict[int, Any], components: dict[str, Any]) -> dict[str, Any]:
    statuses = sorted({*_OF_ALL, *one.raises, *((413,) if one.body is not None else ())})
    failure = {"application/json": {"schema": by_type[id(ErrorAnswer)]}}
    described: dict[str, Any] = {
        "operationId": one.call.__name__,
        "summary": one.summary,
        "x-role": one.role.title,
        "parameters": _parameters(by_type[id(one.query)], components),
        "responses": {
            "200": {"description": "Done.", "content": {"application/json": {"schema": by_type[id(one.answer)]}}},
            **{str(status): {"description": _STATUSES[status], "content": failure} for status in statuses},
        },
    }
    if one.body is not None:
        content = {"application/json": {"schema": by_type[id(one.body)]}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _parameters(query: dict[str, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    schema = components[query["$ref"].rpartition("/")[2]]
    required = set(schema.get("required", ()))
    return [
        {"name": name, "in": "query", "required": name in required, "schema": described}
        for name, described in schema["properties"].items()
    ]
