"""``seekpoint console``: serve the web console; ``seekpoint console token``: who may use it over a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from seekpoint.consumers.staging import MaskRules

from seekpoint.console.render.output import announce, emit, emit_json, emit_json_list, say
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.options import AsJson, PriceFile, Wide
from seekpoint.console.services.arguments.target import CommandTarget

_Tokens = Annotated[
    Path | None, typer.Option("--tokens", metavar="FILE", help="The file of tokens. Default: console-tokens.json in "
    "$SEEKPOINT_HOME, else in ./.seekpoint.")
]  # fmt: skip
_TokenName = Annotated[
    str, typer.Argument(metavar="NAME", help="Whose token it is: the actor of changes.", show_default=False)
]


def console(
    target: CommandTarget,
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="The port; 0: any free one.")
    ] = 8700,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Let everybody on this machine change processes, not only look.")
    ] = False,
    tokens: Annotated[
        Path | None, typer.Option("--tokens", metavar="FILE", help="Let only those in who have a token of this file.")
    ] = None,
    oidc: Annotated[
        Path | None,
        typer.Option("--oidc", metavar="FILE", help="Let people sign in with OpenID Connect, as this file says."),
    ] = None,
    allowed_hosts: Annotated[
        list[str] | None,
        typer.Option("--allowed-host", metavar="NAME", help="A further name that requests may use; may be repeated."),
    ] = None,
    https: Annotated[
        bool, typer.Option("--https", help="Browsers come over HTTPS, through a proxy: send cookies only so.")
    ] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option("--module", "-m", metavar="MODULE", help="A module whose agents reruns may run, in the console."),
    ] = None,
    prices: PriceFile = None,
    masks: Annotated[
        Path | None,
        typer.Option("--masks", metavar="FILE", help="Mask replays into staging with the rules in this file."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Serve pages that show the journal's processes, and a JSON API. Stops at SIGTERM or Ctrl-C.

    Without --tokens and --oidc it listens on this machine only, and changes nothing unless --allow-changes is given.
    """
    from seekpoint.schemas.config.extras import require_extra

    require_extra("console", "the web console", "starlette", "jinja2", "uvicorn", "joserfc")
    from seekpoint.console.services.arguments.chosen_agents import chosen_agents
    from seekpoint.console.services.arguments.price_file import prices_in
    from seekpoint.console.services.calls.send_and_confirm import user_name
    from seekpoint.console.web.console_options import ConsoleOptions
    from seekpoint.console.web.web_server import run_console

    options = ConsoleOptions(
        host=host, port=port, allow_changes=allow_changes, tokens=tokens, oidc=oidc,
        allowed_hosts=tuple(allowed_hosts or ()), is_https=https,
        agents=tuple(chosen_agents(None, modules).values()) if modules else (), prices=prices_in(prices),
        masks=None if masks is None else _mask_rules(masks),
    )  # fmt: skip
    options.check()
    target.reachable()

    def greet(address: str) -> None:
        what = "with sign-in" if options.has_sign_in else "changes allowed" if allow_changes else "read-only"
        name = target.settings.journal
        announce("ready", f"journal {name} at {address} ({what}); Ctrl-C stops it", journal=name, address=address)

    run_console(target, options, "" if options.has_sign_in else user_name("--tokens"), greet)


def add_token(
    name: _TokenName,
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="viewer, operator or admin.")],
    tokens: _Tokens = None,
    json: AsJson = False,
) -> None:
    """Make a token for somebody and print it once. The file has only its hash."""
    from seekpoint.console.web.auth.tokens import token_file
    from seekpoint.console.web.auth.user_identity import role_named
    from seekpoint.schemas.values.clock import iso_time, now_us

    found = role_named(role)
    if found is None:
        raise typer.BadParameter("viewer, operator or admin", param_hint="--role")
    file = token_file(tokens)
    token = file.add(name, found, iso_time(now_us()))
    if json:
        emit_json({"name": name, "role": role, "token": token, "file": str(file.path)})
    else:
        say(f"added to {file.path}; give {name} this token, it is not shown again:")
        emit(token)


def list_tokens(tokens: _Tokens = None, wide: Wide = False, json: AsJson = False) -> None:
    """List who has a token, with which role."""
    from seekpoint.console.web.auth.tokens import token_file

    found = token_file(tokens).tokens()
    if json:
        emit_json_list({}, "tokens", ({"name": o.name, "role": o.role, "created": o.created} for o in found))
    elif not emit_table(
        [Column("name"), Column("role"), Column("created")],
        [[o.name, o.role, o.created] for o in found],
        wide=wide,
    ):
        say("nobody has a token")


def remove_token(name: _TokenName, tokens: _Tokens = None, json: AsJson = False) -> None:
    """Remove a token. Who uses it is signed out at once."""
    from seekpoint.console.web.auth.tokens import token_file

    file = token_file(tokens)
    file.remove(name)
    if json:
        emit_json({"name": name, "file": str(file.path)})
    else:
        say(f"removed from {file.path}: {name}")


def _mask_rules(path: Path) -> MaskRules:
    from seekpoint.consumers.staging import MaskRules

    return MaskRules.load(path)
