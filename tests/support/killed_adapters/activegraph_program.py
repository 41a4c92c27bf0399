"""A program that runs an agent of ActiveGraph to its end, and goes on from where it was killed.

    python activegraph_program.py JOURNAL LEDGER CALLS

``JOURNAL`` is a file, or ``kafka`` for the journal of the environment. The agent answers one question after the other:
the scripted model asks for a tool, the tool looks something up, the model answers. Each of these calls is one line in
the outside file ``LEDGER``, before it does anything: the process, its number, and the seconds since the program could
have made its first call.
"""

from __future__ import annotations

import os
import re
import sys
import time
from decimal import Decimal
from typing import Any

from activegraph import Graph, Runtime, behavior, llm_behavior, tool
from activegraph.llm import LLMResponse, ToolCall
from pydantic import BaseModel

from seekpoint import SyncNode
from seekpoint.adapters.activegraph import SeekpointRuns

RUN = "run_case_7"
CALLS = int(sys.argv[3]) if __name__ == "__main__" else 0
began = 0.0
ledger = -1


class Question(BaseModel):
    """What the tool is asked."""

    number: int


class Found(BaseModel):
    """What the tool has found."""

    text: str


class Answer(BaseModel):
    """What the model answers."""

    text: str


def note(number: int) -> None:
    """Write a line that outlives this program."""
    os.write(ledger, f"{os.getpid()} {number} {time.monotonic() - began:.3f}\n".encode())
    time.sleep(0.005)


class Model:
    """A scripted model: it asks for the tool, then answers with what the tool has found."""

    default_model = "scripted"

    def recognizes_model(self, name: str) -> bool:
        """Every model is this one."""
        return True

    def complete(self, *, system: str, messages: list[Any], **_: Any) -> LLMResponse:
        """Answer the newest question."""
        text = system + "".join(message.content for message in messages)
        (number,) = set(re.findall(r"about case (\d+)", text))
        is_second = messages[-1].role == "tool"
        note(3 * int(number) + 2 * is_second)
        return LLMResponse(
            raw_text="" if not is_second else f'{{"text": "answer {number}"}}',
            parsed=Answer(text=f"answer {number}") if is_second else None,
            input_tokens=10, output_tokens=5, cost_usd=Decimal("0.001"), latency_seconds=0.0, model="scripted",
            finish_reason="end_turn" if is_second else "tool_use",
            tool_calls=None if is_second else [ToolCall(id=f"c{number}", name="look_up", args={"number": int(number)})],
        )  # fmt: skip

    def estimate_cost(self, **_: Any) -> Decimal:
        """Return what a call costs."""
        return Decimal("0.001")

    def count_tokens(self, **_: Any) -> int:
        """Count the tokens of a prompt."""
        return 10


def look_up(args: Question, ctx: Any) -> Found:
    """Look something up."""
    note(3 * args.number + 1)
    return Found(text=f"found {args.number}")


def begin(event: Any, graph: Any, ctx: Any) -> None:
    """Ask the first question."""
    graph.emit("question.asked", question(0))


def question(number: int) -> dict[str, Any]:
    """Return a question."""
    return {"text": f"Write about case {number}."}


def answerer(event: Any, graph: Any, ctx: Any, llm_output: Answer) -> None:
    """Keep the answer."""
    graph.add_object("answer", {"text": llm_output.text})


def go_on(event: Any, graph: Any, ctx: Any) -> None:
    """Ask the next question."""
    number = int(event.payload["object"]["data"]["text"].removeprefix("answer ")) + 1
    if 3 * number < CALLS:
        graph.emit("question.asked", question(number))


def registered() -> list[Any]:
    """Register the behaviors, which ActiveGraph keeps for the whole program, and return the tools.

    Not when this file is imported: pytest does so to find examples, and has other behaviors.
    """
    tools = [tool(name="look_up", input_schema=Question, output_schema=Found, deterministic=False)(look_up)]
    behavior(name="begin", on=["goal.created"])(begin)
    llm_behavior(
        name="answerer", on=["question.asked"], description="Answer the question.", output_schema=Answer, tools=tools,
        deterministic=True,
    )(answerer)  # fmt: skip
    behavior(name="go_on", on=["object.created"], where={"object.type": "answer"})(go_on)
    return tools


def run(journal: str) -> None:
    """Run the agent, from its beginning or from its newest event."""
    model: Any = Model()
    tools = registered()
    with SyncNode.connect() if journal == "kafka" else SyncNode.local(journal) as node:
        runs = SeekpointRuns(node)
        if runs.store(RUN).count() == 0:
            runtime = Runtime(Graph(run_id=RUN), persist_to=runs.path, llm_provider=model, tools=tools)
            runtime.run_goal("Answer the questions")
        else:
            runtime = runs.resume(RUN, llm_provider=model, tools=tools)
            runtime.run_until_idle()
        answers = [one.data["text"] for one in runtime.graph.objects(type="answer")]
        assert answers == [f"answer {number}" for number in range(CALLS // 3)], answers
    print("done", flush=True)


if __name__ == "__main__":
    began = time.monotonic()
    ledger = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    run(sys.argv[1])
