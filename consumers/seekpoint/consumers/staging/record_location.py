"""The locations of records: ``CLUSTER/TOPIC``, or a capture file."""

from __future__ import annotations

from seekpoint.schemas.errors import InvalidName
from seekpoint.schemas.frozen_struct import FrozenStruct

CAPTURE_SUFFIX = ".spk"


class RecordLocation(FrozenStruct, frozen=True):
    """The source or the target of a replay: either ``cluster`` and ``topic`` are set, or ``file`` is.

    >>> RecordLocation.parse("prod/fleet.journal")
    RecordLocation(cluster='prod', topic='fleet.journal', file=None)
    >>> str(RecordLocation.parse("runs/incident.spk"))
    'runs/incident.spk'
    """

    cluster: str | None = None
    topic: str | None = None
    file: str | None = None

    @classmethod
    def parse(cls, text: str) -> RecordLocation:
        """Parse ``CLUSTER/TOPIC`` or ``FILE.spk``. Raises ``InvalidName`` for any other text."""
        if text.endswith(CAPTURE_SUFFIX):
            return cls(file=text)
        cluster, slash, topic = text.partition("/")
        if not (cluster and slash and topic) or "/" in topic:
            raise InvalidName(
                "neither CLUSTER/TOPIC nor a capture file",
                place=text[:200],
                hint=f"write prod/fleet.journal, with a cluster of seekpoint.toml, or a file: run{CAPTURE_SUFFIX}",
            )
        return cls(cluster=cluster, topic=topic)

    def __str__(self) -> str:
        return self.file if self.file is not None else f"{self.cluster}/{self.topic}"
