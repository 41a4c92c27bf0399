"""What adapters use of their frameworks though it is private: where a framework changes it, a test here says so.

Look at the adapter then, before the test. ``tests/adapters/mcp/test_sdk_internals.py`` has those of the MCP SDK.
"""

from __future__ import annotations

import ast
import inspect
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

import seekpoint.adapters as adapters

USED = {
    ("activegraph", "_embedding_cache"): "activegraph.runtime.runtime:Runtime",
    ("activegraph", "_llm_cache"): "activegraph.runtime.runtime:Runtime",
    ("activegraph", "_tool_cache"): "activegraph.runtime.runtime:Runtime",
    ("adk", "_invocation_context"): "google.adk.agents.readonly_context:ReadonlyContext.__init__",
    ("adk", "_storage_update_marker"): "google.adk.sessions.session:Session",
    ("langgraph", "_internal"): "langgraph._internal._serde:",
    ("langgraph", "_msgpack_default"): "langgraph.checkpoint.serde.jsonplus:",
    ("langgraph", "_option"): "langgraph.checkpoint.serde.jsonplus:",
    ("models", "_api_client"): "google.genai.client:Client.__init__",
    ("models", "_async_httpx_client"): "google.genai._api_client:BaseApiClient.__init__",
    ("models", "_client"): "openai._base_client:BaseClient anthropic._base_client:BaseClient",
    ("models", "_credentials"): "google.genai._api_client:BaseApiClient.__init__",
    ("models", "_http_options"): "google.genai._api_client:BaseApiClient.__init__",
    ("models", "_httpx_client"): "google.genai._api_client:BaseApiClient.__init__",
    ("models", "_platform"): "openai._base_client:BaseClient.__init__ anthropic._base_client:BaseClient.__init__",
    ("openai_agents", "_CompactionSnapshot"): "agents.memory.session:_CompactionSnapshot",
    ("openai_agents", "_agent_instance"): "agents.agent:Agent.as_tool",
    ("openai_agents", "_agent_ref"): "agents.handoffs:Handoff",
    ("openai_agents", "_is_agent_tool"): "agents.agent:Agent.as_tool",
    ("openai_agents", "_output_type_adapter"): "agents.tool:FunctionTool",
    ("openai_agents", "_use_default_failure_error_function"): "agents.tool:FunctionTool",
    ("promptise", "_inner"): "promptise.runtime.journal.redact:RedactingJournal.__init__",
    ("promptise", "_journal"): "promptise.runtime.process:AgentProcess.__init__",
    ("promptise", "_mission"): "promptise.runtime.process:AgentProcess.__init__",
    ("promptise", "_recover_from_journal"): "promptise.runtime.process:AgentProcess",
    ("promptise", "_recovery_attempted"): "promptise.runtime.process:AgentProcess.__init__",
    ("promptise", "_secrets"): "promptise.runtime.process:AgentProcess.__init__",
    ("pydantic_ai", "_utils"): "pydantic_ai.durable_exec._utils:",
}
"""By adapter and name: the module and the object whose source has the name."""
TUPLES = {"_asdict", "_fields", "_replace"}  # of named tuples they are public
OF_ADAPTERS = {("migration", "_append")}  # of another adapter's journal
ALSO_OWN = {("promptise", "_journal")}  # of the framework, and of the adapter's own classes
OWN = "self", "cls"


def names_in(path: Path) -> set[str]:
    """Return the private names that a module takes from something that is not its own object."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id in OWN):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("seekpoint"):
            found |= {*(node.module or "").split("."), *(name.name for name in node.names)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("attr"):
            found |= {str(one.value) for one in node.args[1:2] if isinstance(one, ast.Constant)}
    return {str(name) for name in found if str(name).startswith("_") and not str(name).startswith("__")} - TUPLES


def own_names(folder: Path) -> set[str]:
    """Return the private names that the classes of an adapter define."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in OWN:
                found.add(node.attr)
    return found


def folders() -> list[Path]:
    (root,) = map(Path, adapters.__path__)
    return [path for path in root.iterdir() if path.is_dir() and path.name not in ("__pycache__", "mcp")]


def test_each_private_name_of_a_framework_is_guarded() -> None:
    """A new use needs a row here; a row that nothing uses goes."""
    used = {
        (folder.name, name)
        for folder in folders()
        for name in {name for path in folder.rglob("*.py") for name in names_in(path)} - own_names(folder)
    }
    assert used - OF_ADAPTERS == USED.keys() - ALSO_OWN


@pytest.mark.parametrize(("adapter", "name"), USED)
def test_a_framework_has_what_its_adapter_uses(adapter: str, name: str) -> None:
    """At the place where the adapter takes it from."""
    for place in USED[adapter, name].split():
        module, _, path = place.partition(":")
        pytest.importorskip(module.partition(".")[0])
        found = reduce(getattr, path.split(".") if path else (), import_module(module))
        assert name in (module if path == "" and name in module.split(".") else inspect.getsource(found))


def test_the_clients_of_one_generator_have_what_is_called() -> None:
    """Their module has a private name, and so have what is called of it."""
    for client in ("openai", "anthropic"):
        base = import_module(f"{client}._base_client")
        assert isinstance(base.DEFAULT_MAX_RETRIES, int)
        assert isinstance(base.get_platform(), str)
