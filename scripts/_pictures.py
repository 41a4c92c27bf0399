"""Write what the commands of a page print: texts into the page, pictures as SVG beside it. ``scripts/pictures``."""

from __future__ import annotations

import tempfile
from pathlib import Path

from agent_programs import environment
from followed_page import FollowedPage, commands_of, files_of, with_outputs
from seekpoint.compose import LocalCluster, create_topics_sync
from terminal_picture import COLUMNS, picture_of

__all__ = ["PAGE", "write"]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "guides" / "why.md"


def write(page: Path) -> None:
    """Follow the page on a Kafka of its own, and write its outputs and pictures anew."""
    text = page.read_text()
    outputs = {}
    with tempfile.TemporaryDirectory() as folder, LocalCluster() as cluster:
        settings = cluster.settings(journal="shop")
        create_topics_sync(settings)
        for name, content in files_of(text).items():
            Path(folder, name).write_text(content)
        with FollowedPage(Path(folder), environment(settings)) as followed:
            for command in commands_of(text):
                if command.picture is None:
                    outputs[command.text] = followed.run(command)
                else:
                    target = (page.parent / command.picture).resolve()
                    target.parent.mkdir(exist_ok=True)
                    shown = followed.on_terminal(command, COLUMNS)
                    target.write_text(picture_of(command.text, shown, target.stem))
    page.write_text(with_outputs(text, outputs))


if __name__ == "__main__":
    write(PAGE)
