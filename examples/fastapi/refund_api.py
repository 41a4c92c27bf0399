"""A web API that submits runs and answers with their results. Workers run them: README.md shows the commands.

`uvicorn refund_api:app` serves it. It holds one `Client` for as long as the application lives. The client claims no
process and sends no heartbeat, so any number of copies of this program may run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from seekpoint import Client, RunStatus
from seekpoint.errors import (
    AgentMismatch,
    Cancelled,
    GateNotOpen,
    InvalidName,
    LimitExceeded,
    ProcessFinished,
    ResultTimeout,
    Retryable,
    RunFailed,
    SeekpointError,
    UnknownProcess,
)

__all__ = ["app", "create_app"]

_ID = r"^[\w.-]{1,100}$"
"""What an id may consist of, so that it can stand in a path."""
_HTTP_CODES: dict[type[SeekpointError], int] = {
    UnknownProcess: 404,
    AgentMismatch: 409,  # the id is that of another request
    GateNotOpen: 409,
    ProcessFinished: 409,
    LimitExceeded: 413,
    InvalidName: 422,
    Retryable: 503,  # Kafka does not answer, for example
}
_RETRY_AFTER = {"Retry-After": "1"}


class RefundRequest(BaseModel):
    """The body of `POST /refunds`."""

    order: str = Field(pattern=_ID)


class Approval(BaseModel):
    """The body of `POST /refunds/{refund_id}/approve`."""

    by: str
    reason: str | None = None


class Refund(BaseModel):
    """A refund as the API shows it."""

    id: str
    stage: str
    waits_for: list[str] = []
    result: Any = None
    failure: str | None = None


def create_app(connect: Callable[[], Client] = Client.connect) -> FastAPI:
    """Return the application. `connect` makes its client when the application starts."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with connect() as client:
            app.state.client = client
            yield

    app = FastAPI(title="Refunds", lifespan=lifespan)
    app.add_api_route("/refunds", submit, methods=["POST"], status_code=202)
    app.add_api_route("/refunds/{refund_id}", read, methods=["GET"])
    app.add_api_route("/refunds/{refund_id}/approve", approve, methods=["POST"], status_code=202)
    app.add_exception_handler(SeekpointError, _refused)
    return app


def _client(request: Request) -> Client:
    client: Client = request.app.state.client
    return client


TheClient = Annotated[Client, Depends(_client)]


async def submit(
    body: RefundRequest,
    response: Response,
    client: TheClient,
    idempotency_key: Annotated[str | None, Header(pattern=_ID)] = None,
) -> Refund:
    """Submit a refund. The same `Idempotency-Key` is the same refund; without the header, the same order is."""
    refund_id = idempotency_key or body.order
    await client.submit("refund", _process_id(refund_id), body.model_dump())
    response.headers["Location"] = f"/refunds/{refund_id}"
    return Refund(id=refund_id, stage="submitted")


async def read(
    refund_id: str, response: Response, client: TheClient, wait: Annotated[float, Query(ge=1, le=60)] = 10.0
) -> Refund:
    """Wait at most `wait` seconds for the refund to end. Answer 200 if it did, else 202 and where it stands."""
    process_id = _process_id(refund_id)
    try:
        result = await client.result(process_id, timeout=wait)
        return Refund(id=refund_id, stage="finished", result=result)
    except (RunFailed, Cancelled):
        return _as_answer(refund_id, await client.status(process_id))
    except ResultTimeout as exc:
        status = await client.status(process_id)
        if status.stage == "unknown":  # nobody submitted it, or no worker has read the submission yet
            raise UnknownProcess("there is no such refund", process_id=process_id) from exc
        response.status_code = 202
        response.headers.update(_RETRY_AFTER)
        return _as_answer(refund_id, status)


async def approve(refund_id: str, body: Approval, client: TheClient) -> Refund:
    """Approve a refund that waits for a person."""
    process_id = _process_id(refund_id)
    await client.approve(process_id, "approve", actor=body.by, reason=body.reason)
    return Refund(id=refund_id, stage="approved")


def _process_id(refund_id: str) -> str:
    return f"refund-{refund_id}"


def _as_answer(refund_id: str, status: RunStatus) -> Refund:
    return Refund(id=refund_id, stage=status.stage, waits_for=list(status.waits_for), failure=status.failure)


async def _refused(request: Request, error: Exception) -> Response:
    """Answer an error of Seekpoint with the code of its class. An error that is not in the table is a 500."""
    assert isinstance(error, SeekpointError)
    code = next((code for kind, code in _HTTP_CODES.items() if isinstance(error, kind)), 500)
    headers = _RETRY_AFTER if code in (404, 503) else None
    return JSONResponse({"error": type(error).__name__, "detail": error.message}, code, headers)


app = create_app()
