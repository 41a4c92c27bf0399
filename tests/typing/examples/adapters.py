"""Adapters fit the frameworks' own types."""

from __future__ import annotations

from typing import TypedDict, assert_type

from activegraph import Graph, Runtime
from agents import Agent, Runner
from agnt5 import WorkflowContext, workflow
from google.adk.agents import LlmAgent
from google.adk.runners import Runner as AdkRunner
from langgraph.graph import START, StateGraph
from mcp.server.mcpserver import MCPServer
from openai import AsyncOpenAI
from promptise.runtime import AgentProcess
from pydantic_ai import Agent as PydanticAgent

from seekpoint import Node, Process, SyncNode
from seekpoint.adapters.activegraph import SeekpointRuns
from seekpoint.adapters.adk import SeekpointSessionService
from seekpoint.adapters.agnt5 import DurableWorkflows
from seekpoint.adapters.langgraph import SeekpointSaver, SeekpointStore
from seekpoint.adapters.mcp import streamable_http_app
from seekpoint.adapters.models import wrap_openai
from seekpoint.adapters.openai_agents import SeekpointSession
from seekpoint.adapters.promptise import SeekpointJournal, use_journal
from seekpoint.adapters.pydantic_ai import SeekpointDurability, durable


class State(TypedDict):
    question: str


async def graph(node: Node) -> None:
    builder = StateGraph(State)
    builder.add_node("answer", lambda state: {"question": "x"})
    builder.add_edge(START, "answer")
    compiled = builder.compile(checkpointer=SeekpointSaver(node), store=SeekpointStore(node))
    builder.compile(checkpointer=node)  # wrong: a node is no checkpointer
    await compiled.ainvoke({"question": "where?"}, {"configurable": {"thread_id": "7"}})


async def openai(node: Node, agent: Agent) -> None:
    await Runner.run(agent, "hello", session=SeekpointSession("7", node))
    SeekpointSession("7")  # wrong: a session needs a node


async def pydantic(process: Process, agent: PydanticAgent[None, str]) -> None:
    with durable(process, agent):
        assert_type((await agent.run("x")).output, str)
    PydanticAgent("test", capabilities=[SeekpointDurability()])


def adk(node: Node, agent: LlmAgent) -> AdkRunner:
    return AdkRunner(app_name="shop", agent=agent, session_service=SeekpointSessionService(node))


def mcp(node: Node, server: MCPServer) -> object:
    return streamable_http_app(server, node, retry_interval=500)


def promptise(node: Node, process: AgentProcess) -> None:
    use_journal(process, SeekpointJournal(node))
    use_journal(process, node)  # wrong: a node is no journal


def activegraph(node: SyncNode) -> None:
    runs = SeekpointRuns(node)
    Runtime(Graph(), persist_to=runs.path)


@workflow
async def order(ctx: WorkflowContext, article: str) -> str:
    return article


async def agnt5(node: Node) -> None:
    async with DurableWorkflows(node, project_id="shop") as workflows:
        await workflows.run(order, "order-17", {"article": "shoes"})


async def models(process: Process, client: AsyncOpenAI) -> None:
    wrapped = wrap_openai(process, client)
    said = await wrapped.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    assert_type(said.choices[0].message.content, str | None)
